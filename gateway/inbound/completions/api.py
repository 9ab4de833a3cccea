"""Completions (``POST /v1/completions``), OpenAI's older API, which editors use for completion at the cursor.

Channels of dialect openai get the request unchanged. If a channel lacks the API, a plain prompt becomes the one message
of a chat, and what chats cannot express (``suffix``, ``echo``, ``logprobs``, several answers) is refused. By OpenAI's
rule an answer has at most 16 tokens, unless ``max_tokens`` says otherwise. Some servers have other rules, so the limit
is always sent: it is what the hold pays for.

Only the text of a chat's answer is rendered. In a completion, the model's name is the requested one, ids and usage are
completed, and the chunk with the usage and ``[DONE]`` wait for the record.
"""

import re
from functools import partial

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Citation, Medium, Piece
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.conversation import Conversation, TextPart, Turn
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import as_utf8, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.output_limit import MOST_CHOICES, MOST_TOKENS, STANDARD_FIELDS, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, InputBound, bound_of, text_count
from gateway.domain.rawjson import Fields
from gateway.domain.screen import Screen
from gateway.domain.sse import BOM, SSEEvent, stream_in
from gateway.domain.usage import Usage, as_object
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundRequest
from gateway.inbound.chat.api import (
    ChatCompletions,
    StreamOptions,
    check_model,
    check_range,
    count_sent_tokens,
    missing_input,
    wants_usage,
)
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.chat.edits import edit_head, identity
from gateway.inbound.chat.render import DONE
from gateway.inbound.json_body import TOKEN_LIMITS, Body, check_text, read_body
from gateway.inbound.relay import NativeTap, RenderableStream, edit_request, failing_attempt
from gateway.inbound.rendering import Renderer, RenderingAdapter, WholeRenderer
from gateway.upstream.adapter import DialectAdapter, WholeAnswer, not_an_answer, whole_answer
from gateway.upstream.dialects import chat_limit
from gateway.upstream.openai.completions import DEFAULT_OUTPUT, CompletionsDialect, with_limit
from gateway.upstream.openai.reader import ChatReader, ParsedChoice, upstream_id

_CHAT_FIELDS = frozenset(
    {
        *("model", "max_tokens", "temperature", "top_p", "stop", "seed", "stream", "stream_options", "user"),
        *("presence_penalty", "frequency_penalty", "logit_bias"),
    }
)
"""Fields that mean the same in a chat."""
_PARAMETER_NAMES: dict[str, str | None] = {
    **dict.fromkeys(STANDARD_FIELDS - _CHAT_FIELDS - {"n", "safety_identifier", "top_k"}),
    "max_completion_tokens": "max_tokens",
}
"""The names of the owner's parameters in this API, see ``relay.ChatWords``. ``logprobs`` is a number here."""
_REQUIRED_FIELDS = frozenset({"model", "prompt", "suffix", "stream"})
_CHECKED_FOR_CHAT = frozenset({"n", "best_of", "echo", "logprobs", "suffix", "prompt"})
"""Fields that ``_field_beyond_chat`` checks. A request that may become a chat loses nothing without them."""

_CONTENT_FIELDS = frozenset({"model", "prompt", "suffix"})
_CHECKED = _CONTENT_FIELDS | {"stream", "n", "best_of", "max_tokens"}
"""Fields that are checked, or counted in another way."""


class _CompletionFields(msgspec.Struct, gc=False):
    """The fields of a request that the gateway itself reads, without the prompt."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None


_ONE_TEXT = re.compile(rb'\s*(?:"|\[\s*"(?:[^"\\]|\\.)*"\s*\]\s*\Z)', re.DOTALL)


class Completions(ChatCompletions):
    """Completions as an ``InboundApi``. Errors and streams look like those of chat completions."""

    name = "completions"
    id_prefix = "cmpl-"
    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        body = read_body(request.body, TOKEN_LIMITS)
        fields, completion = body.fields, body.read_as(_CompletionFields)
        model = check_model(completion.model)
        if rawjson.is_null(fields.get("prompt")) and not rawjson.is_null(fields.get("messages")):
            raise missing_input(fields, "prompt")
        bound = _input_bound(body)
        choices = check_range("n", completion.n, MOST_CHOICES) or 1
        drafts = check_range("best_of", completion.best_of, MOST_CHOICES) or 1
        return InboundRequest(
            body=request.body,
            fields=fields,
            model=model,
            stream=bool(completion.stream),
            include_usage=wants_usage(completion.stream_options, stream=bool(completion.stream)),
            choices=max(choices, drafts) * text_count(fields.get("prompt")),
            output_cap=check_range("max_tokens", completion.max_tokens or None, MOST_TOKENS) or DEFAULT_OUTPUT,
            input_bound=bound.tokens + MESSAGE_TOKENS,
            media=bound.media,
            output_rule=completions_limit,
        )

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        field = "" if channel.dialect is Dialect.OPENAI else _field_beyond_chat(request.fields)
        return f"speaks {channel.dialect}: {_explain_obstacle(field)}" if field else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        if channel.dialect is Dialect.OPENAI and not lacks_api:
            order = edit_request(order, channel.overrides, _PARAMETER_NAMES, _REQUIRED_FIELDS)
            return AttemptPlan(CompletionsRelay(), order, native=True)
        if field := _field_beyond_chat(order.fields):
            msg = f"it has no completions: {_explain_obstacle(field)}"
            raise BadRequest(msg, code="unsupported_parameter", param=field)
        adapter = RenderingAdapter(chat, CompletionRenderer, WholeCompletionRenderer)
        return AttemptPlan(adapter, finish_translation(_chat_order(order), channel), native=False)


COMPLETIONS = Completions()


def _input_bound(body: Body) -> InputBound:
    """Returns an upper bound of the input. Raises BadRequest."""
    fields = body.fields
    if not rawjson.is_null(fields.get("suffix")):
        check_text(fields["suffix"], "suffix")  # as numbers it could have more tokens
    tokens = count_sent_tokens(fields, "prompt")
    prompts = text_count(fields.get("prompt"))
    names = ("suffix",) if tokens else ("prompt", "suffix")
    texts = {name: fields[name] for name in names if name in fields}
    if prompts > 1 and "suffix" in fields:  # the suffix goes with each prompt
        tokens += -(-(prompts - 1) * len(memoryview(fields["suffix"])) // BOUND_BYTES_PER_TOKEN)
    others = {name: fields[name] for name in fields.keys() - _CHECKED}
    bound = bound_of(texts, (), others, values=body.values)
    return msgspec.structs.replace(bound, tokens=tokens + bound.tokens)


def completions_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the most output that a request allows, natively or as a chat, because the channel may lack the API."""
    chat = chat_limit(_chat_fields(fields), channel, served)
    if channel.dialect is not Dialect.OPENAI:
        return chat
    order = edit_request(Order(fields=fields, model=""), channel.overrides, _PARAMETER_NAMES, _REQUIRED_FIELDS)
    sent = with_limit(order.fields)
    native = read_limit(sent, content=_CONTENT_FIELDS, caps=("max_tokens",))
    choices = min(native.choices * text_count(sent.get("prompt")), MOST_TOKENS)
    return larger(chat, msgspec.structs.replace(native, choices=choices))


def _field_beyond_chat(fields: Fields) -> str:
    """Returns the first field that a chat cannot express; empty if it can express all of them."""
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


def _explain_obstacle(field: str) -> str:
    """Returns why a request with this field cannot become a chat, and what to do."""
    why = f"the prompt would become a chat, which has no '{field}'"
    if field == "prompt":
        why = "only a prompt that is one text can become a chat"
    return f"{why}; use POST /v1/chat/completions, or an OpenAI channel"


def _chat_fields(completion: Fields) -> Fields:
    """Returns the fields of the chat, without its messages."""
    fields = with_limit({name: value for name, value in completion.items() if name in _CHAT_FIELDS})
    has_answer = rawjson.maybe(fields["max_tokens"]) != 0
    return fields if has_answer else {**fields, "max_tokens": rawjson.raw(1)}  # as every chat has one


def _chat_order(order: Order) -> Order:
    """Returns the order with the prompt as the one message of a chat."""
    prompt = order.fields["prompt"]
    if rawjson.is_list(prompt):
        (prompt,) = rawjson.items(prompt)
    turn = Turn(role="user", blocks=(TextPart(raw=prompt),))
    dropped = tuple(name for name in order.fields if name not in _CHAT_FIELDS and name not in _CHECKED_FOR_CHAT)
    return msgspec.structs.replace(
        order,
        fields=_chat_fields(order.fields),
        body=b"",
        conversation=Conversation(turns=(turn,)),
        removed=(*order.removed, *dropped),
    )


_CHOICE_CONTENT = frozenset({"text", "logprobs", "message", "delta"})
"""Fields of a choice with the model's words."""
_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reasons. All others become ``stop``."""


def _head_of(answer: Fields, order: Order) -> Fields:
    """Returns the fields with which an answer or a chunk begins, see ``identity``."""
    return identity(answer, upstream_id(answer, order.screen), order, msgspec.Raw(b'"text_completion"'))


def _choice_of(number: int, text: msgspec.Raw = rawjson.EMPTY_TEXT, reason: str | None = None) -> Fields:
    return {
        "index": rawjson.raw(number),
        "text": text,
        "logprobs": rawjson.NULL,
        "finish_reason": rawjson.raw(reason),
    }


def _chunk(head: Fields, *choices: Fields, **more: msgspec.Raw) -> bytes:
    return b"data: " + rawjson.encode({**head, "choices": rawjson.raw(choices), **more}) + b"\n\n"


class CompletionRenderer(Renderer):
    """Writes the chunks of a stream."""

    all_choices = True

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head = _head_of({}, order)

    def shows(self, event: Medium | Citation) -> bool:
        return False

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, Piece) and event.kind in (BlockKind.TEXT, BlockKind.REFUSAL):
            return _chunk(self._head, _choice_of(event.choice, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return _chunk(self._head, _choice_of(event.choice, reason=_REASONS.get(event.reason, "stop")))
        return b""

    def tail(self, usage: Usage) -> bytes:
        return (_chunk(self._head, usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE


class WholeCompletionRenderer(WholeRenderer):
    """Writes a whole completion."""

    all_choices = True

    def shows(self, event: Medium | Citation) -> bool:
        return False

    def tail(self, usage: Usage) -> bytes:
        choices = [self._choice(self.finishes[index]) for index in sorted(self.finishes)]
        return rawjson.encode({**_head_of({}, self._order), "choices": choices, "usage": as_object(usage)})

    def _choice(self, finish: AnswerFinished) -> Fields:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL, choice=finish.choice)
        return _choice_of(
            finish.choice, rawjson.EMPTY_TEXT if text is None else text, _REASONS.get(finish.reason, "stop")
        )


class CompletionsRelay(RenderingAdapter):
    """Calls a channel that has completions. An answer in the other form than requested is rendered."""

    def __init__(self) -> None:
        super().__init__(CompletionsDialect(), CompletionRenderer, WholeCompletionRenderer)

    def stream(self, order: Order, channel: Channel) -> RenderableStream:
        return RenderableStream(channel, CompletionTap(order, channel), partial(self.rendered_stream, order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        body = as_utf8(body.strip().removeprefix(BOM))
        may_be_chat = b'"text"' not in body and (b'"message"' in body or b'"delta"' in body)
        if stream_in(body) or may_be_chat:
            return super().whole(body, order, channel)
        return CompletionTap(order, channel).read_whole(body)


class CompletionTap(NativeTap):
    """Reads a native completion. All chunks are decoded: each may be of any choice, and may end it."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._chat = ChatReader(order, channel)
        super().__init__(order, channel)
        self._head: Fields = {}
        """The head of every chunk, as the first one had it."""

    def take(self, event: SSEEvent) -> bytes | None:
        self.take_parts(self._chat.read(event), self._chat)
        if self.failure is not None:
            return None
        chunk = rawjson.fields(event.data)
        self._head = self._head or _head_of(chunk, self.order)
        choices = rawjson.maybe_objects(chunk.get("choices"))
        if not choices:
            return b""
        edited = self._head | self.order.screen.without_secrets(chunk, ("choices",))
        edited["choices"] = _clean_choices(chunk["choices"], self.order.screen)
        if all("text" not in choice and ("message" in choice or "delta" in choice) for choice in choices):
            texts = rawjson.raw(list(map(self._text_of, self._chat.choices)))
            edited |= {"object": self._head["object"], "choices": texts}
        edited["model"] = self._head["model"]
        edited.pop("usage", None)
        if edited == chunk:
            return None
        return b"data: " + rawjson.encode(edited) + b"\n\n"

    def _text_of(self, choice: ParsedChoice) -> Fields:
        """Returns the choice of a chunk of chat completions, which some relays send, as completions have it."""
        text, reason = choice.message.get("content", rawjson.NULL), self.reason(choice.index)
        text = rawjson.EMPTY_TEXT if rawjson.is_null(text) else text
        return _choice_of(choice.index, text, _REASONS.get(reason, "stop") if reason else None)

    def take_done(self) -> bytes:
        """See ``NativeTap``. Like a chat, an answer whose usage came is complete without a finish reason."""
        return b"" if self.reported is None else self._end_choices("stop")

    def cut_short(self) -> bytes:
        return self._end_choices("length")

    def _end_choices(self, reason: str) -> bytes:
        """Returns the ends of the choices that have none yet."""
        unfinished = self.unfinished
        self.conclude(reason)
        head = self._head or _head_of({}, self.order)
        return b"".join(_chunk(head, _choice_of(number, reason=reason)) for number in unfinished)

    def terminal_event(self, usage: Usage) -> bytes:
        if not self.order.include_usage:
            return DONE
        report = self.reports.for_client(usage, self.order.screen)
        return _chunk(self._head or _head_of({}, self.order), usage=report) + DONE

    def read_whole(self, body: bytes) -> WholeAnswer:
        """Reads a plain answer. Raises AttemptFailed if it is an error, or has no texts."""
        with failing_attempt(body, self._channel):
            refuse_many_elements(body, opens_logprobs=False)
            self.take_parts(self._chat.read_whole(body), self._chat)
            answer = rawjson.fields(body)
        if not self.began:
            raise not_an_answer(body, self._channel)
        edited = dict(answer)
        edit_head(edited, self.reports, self.reported, _head_of(answer, self.order), self.order)
        if "choices" in answer:
            edited["choices"] = _clean_choices(answer["choices"], self.order.screen)
        return whole_answer(self, body if edited == answer else rawjson.encode(edited))


def _clean_choices(raw: msgspec.Raw, screen: Screen) -> msgspec.Raw:
    """Returns the choices without the secrets around their content; as they came if they have none."""
    choices = rawjson.objects(raw)
    cleaned = [screen.without_secrets(choice, _CHOICE_CONTENT) for choice in choices]
    return raw if cleaned == choices else rawjson.raw(cleaned)
