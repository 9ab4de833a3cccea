"""Completions (``POST /v1/completions``), OpenAI's older API, which editors use for completion at the cursor.

Channels of dialect openai get the request unchanged. If a channel lacks the API, a plain prompt becomes the one message
of a chat, and what chats cannot express (``suffix``, ``echo``, ``logprobs``, several answers) is refused. By OpenAI's
rule an answer has at most 16 tokens, unless ``max_tokens`` says otherwise. Some servers have other rules, so the limit
is always sent: it is what the hold pays for.

Only the text of a chat's answer is rendered. In a completion, the model's name is the requested one, ids and usage are
completed, and the chunk with the usage and ``[DONE]`` wait for the record.
"""

import re
from collections.abc import Iterator

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Citation, Medium, Piece
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.conversation import Conversation, TextPart, Turn
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import pieces, text_count
from gateway.domain.order import Order
from gateway.domain.output_limit import MAX_CHOICES, MAX_TOKEN_COUNT, STANDARD_FIELDS, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, InputBound, bound_of
from gateway.domain.rawjson import Fields, JsonObject
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
from gateway.inbound.chat.edits import ChunkEditor, ReadCalls
from gateway.inbound.chat.native import NativeChat
from gateway.inbound.chat.render import DONE, identity
from gateway.inbound.json_body import MAX_TOKENS, Body, check_text, read_body
from gateway.inbound.rendering import RenderingAdapter, WholeRenderer
from gateway.upstream.adapter import DialectAdapter
from gateway.upstream.dialects import chat_limit
from gateway.upstream.finish_words import finish_reason
from gateway.upstream.openai.completions import DEFAULT_OUTPUT, CompletionsDialect, with_limit
from gateway.upstream.openai.reader import ParsedChoice
from gateway.upstream.overrides import with_parameters

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
"""The names of the owner's parameters in this API, see ``overrides.ParameterNames``. ``logprobs`` is a number here."""
_REQUIRED_FIELDS = frozenset({"model", "prompt", "suffix", "stream"})
_DEFAULTS = {"suffix": (None, ""), "echo": (None, False), "logprobs": (None,), "n": (None, 1), "best_of": (None, 1)}
"""Fields that a chat cannot express, and their values that mean the same as no value."""

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
        body = read_body(request.body, MAX_TOKENS)
        fields, completion = body.fields, body.read_as(_CompletionFields)
        model = check_model(completion.model)
        if rawjson.is_null(fields.get("prompt")) and not rawjson.is_null(fields.get("messages")):
            raise missing_input(fields, "prompt")
        choices = check_range("n", completion.n, MAX_CHOICES) or 1
        drafts = check_range("best_of", completion.best_of, MAX_CHOICES) or 1
        return InboundRequest(
            body=request.body,
            fields=fields,
            model=model,
            stream=bool(completion.stream),
            include_usage=wants_usage(completion.stream_options, stream=bool(completion.stream)),
            choices=max(choices, drafts) * text_count(fields.get("prompt")),
            output_cap=check_range("max_tokens", completion.max_tokens or None, MAX_TOKEN_COUNT) or DEFAULT_OUTPUT,
            bound=_input_bound(body),
            content=_CONTENT_FIELDS - {"prompt"},  # each of several prompts gets an answer
            output_rule=completions_limit,
        )

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        field = "" if channel.dialect is Dialect.OPENAI else _field_beyond_chat(request.fields)
        return f"speaks {channel.dialect}: {_explain_obstacle(field)}" if field else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        if channel.dialect is Dialect.OPENAI and not lacks_api:
            order = with_parameters(order, channel.overrides, _PARAMETER_NAMES, _REQUIRED_FIELDS)
            relay = NativeChat(CompletionsDialect(), CompletionEditor, WholeCompletionRenderer)
            return AttemptPlan(relay, order, native=True)
        if field := _field_beyond_chat(order.fields):
            msg = f"it has no completions: {_explain_obstacle(field)}"
            raise BadRequest(msg, code="unsupported_parameter", param=field)
        adapter = RenderingAdapter(chat, CompletionRenderer, WholeCompletionRenderer)
        return AttemptPlan(adapter, finish_translation(_chat_order(order), channel, chat), native=False)


COMPLETIONS = Completions()


def _input_bound(body: Body) -> InputBound:
    """Returns an upper bound of the input. Raises BadRequest."""
    fields = body.fields
    if not rawjson.is_null(fields.get("suffix")):
        check_text(fields["suffix"], "suffix")  # as numbers it could have more tokens
    tokens = count_sent_tokens(fields, "prompt")
    added = tokens + MESSAGE_TOKENS
    prompts = text_count(fields.get("prompt"))
    names = ("suffix",) if tokens else ("prompt", "suffix")
    texts = {name: fields[name] for name in names if name in fields}
    if prompts > 1 and "suffix" in fields:  # the suffix goes with each prompt
        added += -(-(prompts - 1) * len(memoryview(fields["suffix"])) // BOUND_BYTES_PER_TOKEN)
    others = {name: fields[name] for name in fields.keys() - _CHECKED}
    return bound_of(texts, (), others, elements=body.elements).plus(added)


def completions_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the maximum output that a request allows, natively or as a chat, because the channel may lack the API."""
    chat = chat_limit(_chat_fields(fields), channel, served)
    if channel.dialect is not Dialect.OPENAI:
        return chat
    order = with_parameters(Order(fields=fields, model=""), channel.overrides, _PARAMETER_NAMES, _REQUIRED_FIELDS)
    sent = with_limit(order.fields)
    native = read_limit(sent, content=_CONTENT_FIELDS, caps=("max_tokens",))
    choices = min(native.choices * text_count(sent.get("prompt")), MAX_TOKEN_COUNT)
    return larger(chat, msgspec.structs.replace(native, choices=choices))


def _field_beyond_chat(fields: Fields) -> str:
    """Returns the first field that a chat cannot express; empty if it can express all of them."""
    prompt = fields.get("prompt")
    if prompt is None or not _ONE_TEXT.match(bytes(prompt)):
        return "prompt"
    return next((name for name, same in _DEFAULTS.items() if rawjson.maybe(fields.get(name)) not in same), "")


def _explain_obstacle(field: str) -> str:
    """Returns why a request with this field cannot become a chat, and what to do."""
    reason = f"the prompt would become a chat, which has no '{field}'"
    if field == "prompt":
        reason = "only a prompt that is one text can become a chat"
    return f"{reason}; use POST /v1/chat/completions, or an OpenAI channel"


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
    dropped = tuple(name for name in order.fields if name not in _CHAT_FIELDS and name not in ("prompt", *_DEFAULTS))
    return msgspec.structs.replace(
        order,
        fields=_chat_fields(order.fields),
        body=b"",
        conversation=Conversation(turns=(turn,)),
        removed=(*order.removed, *dropped),
    )


_OBJECT = msgspec.Raw(b'"text_completion"')
_CONTENT = frozenset({"logprobs"})
"""The field with the model's words, next to the text."""


def _choice_of(number: int, text: msgspec.Raw = rawjson.EMPTY_TEXT, reason: str = "") -> Fields:
    word = rawjson.raw(finish_reason(reason, has_calls=False)) if reason else rawjson.NULL
    return {"index": rawjson.raw(number), "text": text, "logprobs": rawjson.NULL, "finish_reason": word}


def _chunk(head: Fields, *choices: Fields, **more: msgspec.Raw) -> bytes:
    return b"data: " + rawjson.encode({**head, "choices": rawjson.raw(choices), **more}) + b"\n\n"


class WholeCompletionRenderer(WholeRenderer):
    """Writes a whole completion."""

    all_choices = True

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._head = identity({}, "", order, _OBJECT)

    def shows(self, event: Medium | Citation) -> bool:
        return False

    def tail(self, usage: Usage) -> bytes:
        choices = [self._choice(self.finishes[index]) for index in sorted(self.finishes)]
        return rawjson.encode({**self._head, "choices": choices, "usage": as_object(usage)})

    def _choice(self, finish: AnswerFinished) -> Fields:
        text = self.text(BlockKind.TEXT, BlockKind.REFUSAL, choice=finish.choice)
        return _choice_of(finish.choice, rawjson.EMPTY_TEXT if text is None else text, finish.reason)


class CompletionRenderer(WholeCompletionRenderer):
    """Writes the chunks of a stream."""

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, Piece) and event.kind in (BlockKind.TEXT, BlockKind.REFUSAL):
            return _chunk(self._head, _choice_of(event.choice, msgspec.Raw(event.piece)))
        if isinstance(event, AnswerFinished):
            return _chunk(self._head, _choice_of(event.choice, reason=event.reason))
        return b""

    def tail(self, usage: Usage) -> bytes:
        return (_chunk(self._head, usage=rawjson.raw(as_object(usage))) if self._order.include_usage else b"") + DONE


class CompletionEditor(ChunkEditor):
    """Edits a native completion. A chat, which some relays send instead, becomes one."""

    chunk_object = whole_object = _OBJECT

    def last_fields(self, index: int, reason: str) -> JsonObject:
        return {"text": "", "finish_reason": finish_reason(reason, has_calls=False)}

    def edit(self, choice: ParsedChoice, calls: ReadCalls, *, has_content: bool) -> bool:
        reason, is_over = self.state.reason(choice.index), choice.index in self._ended
        if reason and not is_over:
            self._ended[choice.index] = reason
            self.changed = True
        self._write_text(choice, "" if is_over else reason)
        return has_content or not is_over

    def edit_whole(self, choice: ParsedChoice, calls: ReadCalls) -> None:
        self._write_text(choice, self.state.reason(choice.index))

    def split_choices(self, choices: list[JsonObject]) -> Iterator[JsonObject]:
        for choice in choices:
            for piece in pieces(choice["text"]):
                yield {**_choice_of(choice["index"], msgspec.Raw(piece))}
            yield {**choice, "text": ""}

    def _write_text(self, choice: ParsedChoice, reason: str) -> None:
        """Write a choice with its text, without secrets. What a chat has next to its text is left out."""
        is_chat = not choice.fields.keys().isdisjoint(("message", "delta"))
        fields = {"logprobs": rawjson.NULL} if is_chat else self._order.screen.without_secrets(choice.fields, _CONTENT)
        text = choice.message.get("content", rawjson.NULL)
        own = _choice_of(choice.index, rawjson.EMPTY_TEXT if rawjson.is_null(text) else text, reason)
        choice.fields = {"index": own["index"], **fields, "text": own["text"], "finish_reason": own["finish_reason"]}
