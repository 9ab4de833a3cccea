"""Completions (``POST /v1/completions``), OpenAI's older API, which editors use for completion at the cursor.

Channels of dialect openai get the request unchanged. If a channel lacks the API, a plain prompt becomes the one message
of a chat; what chats cannot express (``suffix``, ``echo``, ``logprobs``, several answers) is refused there. By OpenAI's
rule an answer has at most 16 tokens, unless ``max_tokens`` says otherwise. Some servers have other rules, so the limit
is always sent: it is what the hold pays for.
"""

import re

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.conversation import Conversation, TextPart, Turn
from gateway.domain.errors import BadRequest
from gateway.domain.order import Order
from gateway.domain.output_limit import MOST_TOKENS, STANDARD_FIELDS, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, bound_of, text_count
from gateway.domain.rawjson import Fields
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundRequest
from gateway.inbound.chat.api import (
    MAX_CHOICES,
    MAX_OUTPUT,
    ChatCompletions,
    missing_input,
    read_field,
    read_model,
    read_number,
    read_texts,
)
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.completions.answers import CompletionRenderer, CompletionsRelay, WholeCompletionRenderer
from gateway.inbound.json_body import BodyLimits, fields_of
from gateway.inbound.relay import edit_request
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import DialectAdapter
from gateway.upstream.dialects import chat_limit

USUAL_OUTPUT = 16
"""Output tokens by default."""
LIMITS = BodyLimits(structure=1_000_000, bare=8 << 20)
"""Prompts may be given as their tokens."""
NATIVE = frozenset({Dialect.OPENAI})

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


class Completions(ChatCompletions):
    """Completions as an ``InboundApi``. Errors and streams look like those of chat completions."""

    name = "completions"
    id_prefix = "cmpl-"
    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        return parse_completions_request(request.body)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        beyond = "" if channel.dialect in NATIVE else _beyond_chat(request.fields)
        return f"speaks {channel.dialect}: {_as_chat(beyond)}" if beyond else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        if channel.dialect in NATIVE and not lacking:
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
    stream = bool(read_field(fields, "stream", _FLAG, "true, false or null"))
    options = read_field(fields, "stream_options", _OPTIONS, "an object or null")
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
    if channel.dialect not in NATIVE:
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
