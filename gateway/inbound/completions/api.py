"""Completions (``POST /v1/completions``), OpenAI's older API, which editors use for completion at the cursor.

Channels of dialect openai get the request unchanged. If a channel lacks the API, a plain prompt becomes the one message
of a chat; what chats cannot express (``suffix``, ``echo``, ``logprobs``, several answers) is refused there. By OpenAI's
rule an answer has at most 16 tokens, unless ``max_tokens`` says otherwise. Some servers have other rules, so the limit
is always sent: it is what the hold pays for.

Of a chat only text is shown. At channels that have completions the answer passes nearly unchanged: the model's name is
the requested one, ids and usage are complete, and the chunk with the usage and ``[DONE]`` wait for the record.
``text``, ``logprobs`` and everything else pass unchanged.
"""

import re
from functools import partial

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Medium, RefusalPiece, TextPiece
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.conversation import Conversation, TextPart, Turn
from gateway.domain.errors import BadRequest
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import TooManyElements, read_typed, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.output_limit import MOST_TOKENS, STANDARD_FIELDS, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, bound_of, text_count
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent, stream_in
from gateway.domain.usage import Usage, as_object
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundRequest
from gateway.inbound.chat.api import (
    MAX_CHOICES,
    MAX_OUTPUT,
    ChatCompletions,
    missing_input,
    read_model,
    read_number,
    read_texts,
)
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.chat.edits import identity, mend_head
from gateway.inbound.chat.render import DONE
from gateway.inbound.json_body import BodyLimits, fields_of
from gateway.inbound.relay import RenderableStream, edit_request
from gateway.inbound.renderer import Renderer, WholeRenderer
from gateway.inbound.rendering import NativeTap, RenderingAdapter
from gateway.upstream.adapter import DialectAdapter, WholeAnswer, whole_answer
from gateway.upstream.dialects import chat_limit
from gateway.upstream.error_body import excerpt
from gateway.upstream.failures import bad_response, truncation
from gateway.upstream.openai.completions import CompletionsDialect
from gateway.upstream.openai.reader import ChatReader, upstream_id

USUAL_OUTPUT = 16
"""Output tokens by default."""
LIMITS = BodyLimits(structure=1_000_000, bare=8 << 20)
"""Prompts may be given as their tokens."""

_TO_CHAT = frozenset(
    {
        *("model", "max_tokens", "temperature", "top_p", "stop", "seed", "stream", "stream_options", "user"),
        *("presence_penalty", "frequency_penalty", "logit_bias"),
    }
)
"""Fields that mean the same in a chat."""
_WORDS: dict[str, str | None] = {
    **dict.fromkeys(STANDARD_FIELDS - _TO_CHAT - {"n", "safety_identifier", "top_k"}),
    "max_completion_tokens": "max_tokens",
}
"""The owner's parameters, which have the names of chats. ``logprobs`` is a flag there, and a number here."""
_REQUIRED = frozenset({"model", "prompt", "suffix", "stream"})
_MEANINGLESS = frozenset({"n", "best_of", "echo", "logprobs", "suffix", "prompt"})
"""Fields that a chat can omit if they say nothing; see ``_beyond_chat``."""

_CONTENT = frozenset({"model", "prompt", "suffix"})
_CHECKED = _CONTENT | {"stream", "n", "best_of", "max_tokens"}
"""Fields that are checked, or counted separately."""

_FLAG = msgspec.json.Decoder(bool | None)
_OPTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ONE_TEXT = re.compile(rb'\s*(?:"|\[\s*"(?:[^"\\]|\\.)*"\s*\]\s*\Z)', re.DOTALL)


_EMPTY = msgspec.Raw(b'""')
_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reasons; all others become the end of the text."""


def _head_of(answer: Fields, order: Order) -> Fields:
    """Returns the head of an answer or a chunk: the upstream's id and time if they are valid, and the
    requested model.
    """
    return identity(answer, upstream_id(answer, order.screen), order, msgspec.Raw(b'"text_completion"'))


def _choice_of(number: int, text: msgspec.Raw = _EMPTY, reason: str | None = None) -> Fields:
    """Returns one choice of an answer or a chunk."""
    return {
        "index": rawjson.raw(number),
        "text": text,
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


def _event_of(chunk: Fields) -> bytes:
    """Returns one event."""
    return b"data: " + rawjson.encode(chunk) + b"\n\n"


class CompletionRenderer(Renderer):
    """A stream as that of a completion."""

    all_choices = True

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = _head_of({}, order)

    def shows(self, medium: Medium) -> bool:
        return False

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, TextPiece | RefusalPiece):
            return self._event(_choice_of(event.choice, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return self._event(_choice_of(event.choice, reason=_REASONS.get(event.reason, "stop")))
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return (self._event(usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE

    def _event(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        return _event_of({**self._head, "choices": rawjson.raw(choices), **more})


class WholeCompletionRenderer(WholeRenderer):
    """A whole answer as a completion."""

    all_choices = True

    def shows(self, medium: Medium) -> bool:
        return False

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        choices = [self._choice(self.finishes[index]) for index in sorted(self.finishes)]
        return rawjson.encode({**_head_of({}, self._order), "choices": choices, "usage": as_object(usage)})

    def _choice(self, finish: AnswerFinished) -> Fields:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL, choice=finish.choice)
        return _choice_of(finish.choice, _EMPTY if text is None else text, _REASONS.get(finish.reason, "stop"))


class CompletionsRelay(RenderingAdapter):
    """How such a channel is called. An answer in the other form than requested is rendered."""

    def __init__(self) -> None:
        super().__init__(CompletionsDialect(), CompletionRenderer, WholeCompletionRenderer)

    def stream(self, order: Order, channel: Channel) -> RenderableStream:
        return RenderableStream(channel, CompletionTap(order, channel), partial(self.rendered, order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        body = body.strip().removeprefix(b"\xef\xbb\xbf")
        if stream_in(body):
            return super().whole(body, order, channel)
        return CompletionTap(order, channel).read_whole(body)


class CompletionTap(NativeTap):
    """Implements ``relay.NativeReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(order, channel, ChatReader(order, channel))
        self._head: Fields = {}
        """The head of every chunk, as the first one had it."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """Returns none: a chunk may belong to any choice, and end it, so all are decoded."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        self.see(self.reader.read(event))
        if self.reader.done:
            self.complete = True
            if not self.ended:
                self.failure = truncation(self._channel, "no finish_reason came")
        if self.complete or self.failure is not None:
            return b""  # ``closing`` writes the end, with the usage before it
        chunk = rawjson.fields(event.data)
        self._head = self._head or _head_of(chunk, self._order)
        if not rawjson.items(chunk["choices"]):
            return b""
        changed = self._head | chunk
        changed["model"] = self._head["model"]
        changed.pop("usage", None)
        cleaned = self._order.screen.clean(changed)
        return None if changed == chunk and not cleaned else _event_of(changed)

    def cut_short(self) -> bytes:
        return b"".join(self._own(_choice_of(number, reason="length")) for number in self.end_all("length"))

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        if not self._order.include_usage:
            return DONE
        sent = None if estimated else self.reports.as_sent()
        return self._own(usage=rawjson.raw(as_object(usage)) if sent is None else sent) + DONE

    def _own(self, *choices: Fields, **more: msgspec.Raw) -> bytes:
        head = self._head or _head_of({}, self._order)
        return _event_of({**head, "choices": rawjson.raw(choices), **more})

    def read_whole(self, body: bytes) -> WholeAnswer:
        """Reads a plain answer. Raises AttemptFailed if it is an error, or has no texts."""
        try:
            refuse_many_elements(body, opens_logprobs=False)
            self.see(self.reader.read_whole(body))
            answer = rawjson.fields(body)
        except TooManyElements as error:
            raise AttemptFailed(bad_response(self._channel, str(error))) from error
        except ValueError as error:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}")) from error
        if not self.began:
            raise AttemptFailed(bad_response(self._channel, f"it is not a completion: {excerpt(body)}"))
        changed = dict(answer)
        mend_head(changed, self.reports, self.reported, _head_of(answer, self._order), self._order)
        return whole_answer(self, body if changed == answer else rawjson.encode(changed))


class Completions(ChatCompletions):
    """Completions as an ``InboundApi``. Errors and streams look like those of chat completions."""

    name = "completions"
    id_prefix = "cmpl-"
    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        return parse_completions_request(request.body)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        beyond = "" if channel.dialect is Dialect.OPENAI else _beyond_chat(request.fields)
        return f"speaks {channel.dialect}: {_as_chat(beyond)}" if beyond else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        if channel.dialect is Dialect.OPENAI and not lacking:
            order = edit_request(order, channel.overrides, _WORDS, _REQUIRED)
            return AttemptPlan(CompletionsRelay(), order, native=True)
        if beyond := _beyond_chat(order.fields):
            raise BadRequest(f"it has no completions: {_as_chat(beyond)}", code="unsupported_parameter", param=beyond)
        order = finish_translation(_chat_order(order), channel)
        return AttemptPlan(RenderingAdapter(chat, CompletionRenderer, WholeCompletionRenderer), order, native=False)


COMPLETIONS = Completions()


def parse_completions_request(body: bytes) -> InboundRequest:
    """Check and read a request. Raises BadRequest with ``param`` naming the field at fault."""
    fields, mask = fields_of(body, LIMITS)
    model = read_model(fields)
    if rawjson.is_null(fields.get("prompt")) and not rawjson.is_null(fields.get("messages")):
        raise missing_input(fields, "prompt")
    tokens = read_texts(fields, "prompt")
    stream = bool(read_typed(_FLAG, fields.get("stream", rawjson.NULL), "stream"))
    options = read_typed(_OPTIONS, fields.get("stream_options", rawjson.NULL), "stream_options")
    if options is not None and not stream:
        raise BadRequest("stream_options is only allowed when stream is true", param="stream_options")
    choices = max(read_number(fields, name, MAX_CHOICES) or 1 for name in ("n", "best_of"))
    cap = read_number(fields, "max_tokens", MAX_OUTPUT)
    prompts = text_count(fields.get("prompt"))
    texts = [fields[name] for name in ("prompt", "suffix") if name in fields and not (tokens and name == "prompt")]
    if prompts > 1 and "suffix" in fields:  # which goes with each of them
        tokens += -(-(prompts - 1) * len(memoryview(fields["suffix"])) // BOUND_BYTES_PER_TOKEN)
    others = [fields[name] for name in fields.keys() - _CHECKED]
    bound = bound_of(texts, (), others, ())
    return InboundRequest(
        body=b"" if mask else body,
        fields=fields,
        mask=mask,
        model=model,
        stream=stream,
        include_usage=options is not None and rawjson.maybe(options.get("include_usage")) is True,
        choices=choices * prompts,
        output_cap=cap or USUAL_OUTPUT,
        input_bound=tokens + bound.tokens + MESSAGE_TOKENS,
        media=bound.media,
        output_rule=completions_limit,
    )


def completions_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the most output that a request allows, natively and as a chat: some channels turn out to lack the API."""
    order = Order(fields=fields, model="")
    chat = chat_limit(_to_chat(fields), channel, served)
    if channel.dialect is not Dialect.OPENAI:
        return chat
    sent = edit_request(order, channel.overrides, _WORDS, _REQUIRED).fields
    if rawjson.is_null(sent.get("max_tokens")):
        sent = {**sent, "max_tokens": rawjson.raw(USUAL_OUTPUT)}
    native = read_limit(sent, content=_CONTENT, caps=("max_tokens",))
    return larger(
        chat, msgspec.structs.replace(native, choices=min(native.choices * text_count(sent.get("prompt")), MOST_TOKENS))
    )


def _beyond_chat(fields: Fields) -> str:
    """Returns the first field that a chat cannot express; empty if it can express them all."""
    prompt = fields.get("prompt")
    if prompt is None or not _ONE_TEXT.match(bytes(prompt)):
        return "prompt"
    if not rawjson.is_null(fields.get("suffix")) and rawjson.maybe(fields["suffix"]) != "":
        return "suffix"
    if rawjson.maybe(fields.get("echo")):
        return "echo"
    if not rawjson.is_null(fields.get("logprobs")):
        return "logprobs"
    return next((name for name in ("n", "best_of") if rawjson.maybe(fields.get(name)) not in (None, 1)), "")


def _as_chat(beyond: str) -> str:
    what = "a prompt that is not one text" if beyond == "prompt" else f"'{beyond}'"
    return f"the prompt would become a chat, which has no {what}; use POST /v1/chat/completions, or an OpenAI channel"


def _to_chat(given: Fields) -> Fields:
    """Returns the other fields of the chat."""
    fields = {name: value for name, value in given.items() if name in _TO_CHAT}
    if rawjson.is_null(fields.get("max_tokens")):
        fields["max_tokens"] = rawjson.raw(USUAL_OUTPUT)
    return fields


def _chat_order(order: Order) -> Order:
    """Returns the prompt as the one message of a chat."""
    prompt = order.fields["prompt"]
    if bytes(memoryview(prompt)[:1]) == b"[":
        (prompt,) = rawjson.items(prompt)
    turn = Turn(role="user", blocks=(TextPart(raw=prompt),))
    left_out = tuple(name for name in order.fields if name not in _TO_CHAT and name not in _MEANINGLESS)
    return msgspec.structs.replace(
        order,
        fields=_to_chat(order.fields),
        body=b"",
        conversation=Conversation(turns=(turn,)),
        removed=(*order.removed, *left_out),
    )
