"""Ollama's API (``POST /api/chat|generate|embed|embeddings``), for programs that offer nothing else.

Chats are translated for every channel. A prompt with a suffix becomes a request for completions, and a request for
vectors one for embeddings. Answers are streams of JSON lines unless the request says otherwise, without
keep-alives, because every line must be JSON. Names may end with ``:latest``, as Ollama's own clients write them.

Parameters get their names in chat completions. Those that only a model server can use (``num_ctx``, ``keep_alive``) are
left out, and named in ``removed``. Clients may omit the ids of tool calls. A result belongs to the call that it names,
else to the first call of its tool without a result, else to the first call of any tool without one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm, SealKind
from gateway.domain.channel import Channel
from gateway.domain.conversation import Conversation, MediaPart, ResultPart, TextPart, ThoughtPart
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.domain.typed_json import read_optional, read_typed
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.api import read_chat
from gateway.inbound.chat.conversation import ChatTool, call_part, finish_translation, read_tools
from gateway.inbound.completions.api import COMPLETIONS
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.json_body import body_of, check_text, read_body, unread_members
from gateway.inbound.media import image_part, image_type_of
from gateway.inbound.ollama.render import EmbeddingLines, LineRenderer, WholeLineRenderer
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import AnswerStream, DialectAdapter
from gateway.upstream.openai.completions import CompletionsDialect

LATEST = ":latest"
"""The tag that Ollama adds to a name without one."""
OUTPUT_LIMIT = "num_predict"
"""The option that limits the output."""
OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty"),
    "repeat_penalty",
)
"""Options with the same name in chat completions."""
_READ_FIELDS = frozenset({"model", "stream", "options", "format", "think", "logprobs", "top_logprobs"})
_READ_CHAT_FIELDS = _READ_FIELDS | {"messages", "tools"}
_READ_PROMPT_FIELDS = _READ_FIELDS | {"prompt", "system", "images", "suffix", "raw"}
_COMPLETION_FIELDS = frozenset({"model", "stream", "options", "prompt", "suffix", "raw"})
_EMBED_FIELDS = frozenset({"model", "input", "prompt", "dimensions", "truncate", "options"})
_PARAM_NAMES = {
    "max_tokens": f"options.{OUTPUT_LIMIT}",
    "reasoning_effort": "think",
    "response_format": "format",
    **{name: f"options.{name}" for name in OPTIONS},
}
"""The client's names of parameters, by their names in chat completions."""
_TRUE = msgspec.Raw(b"true")


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str = ""
    content: msgspec.Raw = NULL
    images: list[str] | None = None
    thinking: msgspec.Raw = NULL
    tool_calls: list[ChatTool] | None = None
    tool_call_id: str | int | None = None
    tool_name: str | None = None


class _OllamaApi(InboundApi):
    name = "ollama"
    stream_type = "application/x-ndjson"
    keep_alive = b""

    def other_names(self, model: str) -> tuple[str, ...]:
        """Returns the name without its tag ``:latest``, or with that tag if it has none."""
        return (model.removesuffix(LATEST) if model.endswith(LATEST) else model + LATEST,)

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """Returns nothing: lines of JSON have no comments."""
        return b""

    def error_body(self, error: GatewayError, call: str) -> bytes:
        return msgspec.json.encode({"error": error.message + (f" [call {call}]" if call else "")})

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns the line that ends a stream with this error."""
        return self.error_body(error, call) + b"\n"


class OllamaChat(_OllamaApi):
    """``POST /api/chat`` as an ``InboundApi``."""

    caps = CAPS

    def parse(self, request: HttpRequest) -> InboundRequest:
        fields = read_body(request.body).fields
        chat = _parameters(fields) | {name: fields[name] for name in ("messages", "tools") if name in fields}
        parsed = _read_as_chat(fields, chat, _READ_CHAT_FIELDS)
        if not request.headers.get("user-agent", "").startswith("ollama-python/"):
            return parsed
        return msgspec.structs.replace(parsed, form=AnswerForm(image_objects=True))

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        """Returns the plan. The request is always translated."""
        order = finish_translation(translate_ollama(order), channel, chat)
        return AttemptPlan(RenderingAdapter(chat, LineRenderer, WholeLineRenderer), order, native=False)


class OllamaGenerate(OllamaChat):
    """``POST /api/generate`` as an ``InboundApi``. A prompt becomes a chat; with ``suffix`` or ``raw`` a completion."""

    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        fields = read_body(request.body).fields
        if rawjson.maybe(fields.get("suffix")) or rawjson.maybe(fields.get("raw")):
            completion = _parameters(fields)
            for name in ("reasoning_effort", "response_format", "logprobs", "top_logprobs"):
                completion.pop(name, None)
            completion.setdefault("max_tokens", rawjson.raw(DEFAULT_OUTPUT))  # here it is not 16, as in completions
            completion["prompt"] = _text(fields.get("prompt"), "prompt")
            if not is_nothing(suffix := _text(fields.get("suffix"), "suffix")):
                completion["suffix"] = suffix
            parsed = COMPLETIONS.parse(msgspec.structs.replace(request, body=rawjson.encode(completion)))
            removed = _unread(fields, _COMPLETION_FIELDS)
            return msgspec.structs.replace(parsed, removed=removed, form=AnswerForm(has_response=True))
        system, prompt = (_text(fields.get(name), name) for name in ("system", "prompt"))
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt, "images": fields.get("images", NULL)}]
        if not is_nothing(system):
            messages.insert(0, {"role": "system", "content": system})
        chat = _parameters(fields) | {"messages": rawjson.raw(messages)}
        parsed = _read_as_chat(fields, chat, _READ_PROMPT_FIELDS)
        return msgspec.structs.replace(parsed, form=AnswerForm(has_response=True))

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        return COMPLETIONS.obstacle(request, channel) if "prompt" in request.fields else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        """Returns the plan of the chat, or of the completion, which is the only request with a ``prompt``."""
        if "prompt" not in order.fields:
            return super().plan(order, channel, chat, lacks_api=lacks_api)
        plan = COMPLETIONS.plan(order, channel, chat, lacks_api=lacks_api)
        dialect = CompletionsDialect() if plan.native else chat
        return AttemptPlan(RenderingAdapter(dialect, LineRenderer, WholeLineRenderer), plan.order, native=False)


class OllamaEmbed(_OllamaApi):
    """``POST /api/embed`` as an ``InboundApi``, or ``POST /api/embeddings``, which takes one text."""

    selective = True
    falls_back = False
    answer_limit = EMBEDDINGS.answer_limit

    def __init__(self, *, one_text: bool) -> None:
        self._one_text = one_text

    def parse(self, request: HttpRequest) -> InboundRequest:
        sent = read_body(request.body).fields
        name = "prompt" if self._one_text else "input"
        text = sent.get(name, NULL)
        if rawjson.is_null(text) or (self._one_text and not rawjson.is_text(text)):
            raise BadRequest(f"{name} must be a text{'' if self._one_text else ' or an array of texts'}", param=name)
        fields = {"model": sent.get("model", NULL), "input": text, "encoding_format": rawjson.raw("float")}
        if rawjson.maybe(sent.get("dimensions")):
            fields["dimensions"] = sent["dimensions"]
        parsed = EMBEDDINGS.parse(msgspec.structs.replace(request, body=rawjson.encode(fields)))
        return msgspec.structs.replace(parsed, removed=_unread(sent, _EMBED_FIELDS))

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        return EMBEDDINGS.obstacle(request, channel)

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        plan = EMBEDDINGS.plan(order, channel, chat, lacks_api=lacks_api)
        return AttemptPlan(EmbeddingLines(plan.adapter, one_vector=self._one_text), plan.order, native=False)


OLLAMA_CHAT = OllamaChat()
OLLAMA_GENERATE = OllamaGenerate()
OLLAMA_EMBED = OllamaEmbed(one_text=False)
OLLAMA_EMBEDDINGS = OllamaEmbed(one_text=True)


def translate_ollama(order: Order) -> Order:
    """Returns the order with its messages and tools as a ``Conversation``. Raises BadRequest."""
    fields = {name: raw for name, raw in order.fields.items() if name not in ("messages", "tools")}
    transcript = _transcript_of(order.fields["messages"])
    tools, _ = read_tools({"tools": order.fields.get("tools", NULL)})
    conversation = Conversation(turns=transcript.turns, tools=tools, param_names=_PARAM_NAMES)
    fields["model"] = rawjson.raw(order.model)
    return msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation, marks=transcript.marks)


def _read_as_chat(request: Fields, chat: Fields, read_names: frozenset[str]) -> InboundRequest:
    """Returns the checked chat. Fields of the request that are not in ``read_names`` are reported as removed."""
    if "messages" in chat:
        _transcript_of(chat["messages"])  # raises BadRequest
    parsed = read_chat(b"", body_of(chat))
    bound = parsed.bound.plus(parsed.bound.call_tokens(25))
    return msgspec.structs.replace(parsed, bound=bound, removed=_unread(request, read_names))


def _unread(request: Fields, read_names: frozenset[str]) -> tuple[str, ...]:
    """Returns the names of what is left out of a request."""
    options = [f"options.{name}" for name in _options(request) if name not in OPTIONS and name != OUTPUT_LIMIT]
    messages = rawjson.maybe_objects(request.get("messages")) or ()
    options += unread_members(messages, "messages[].", _Message.__struct_fields__)
    return (*(name for name, raw in request.items() if name not in read_names and not is_nothing(raw)), *options)


def _parameters(request: Fields) -> Fields:
    """Returns the model, the stream flag (Ollama streams by default) and parameters as in chats. Raises BadRequest."""
    stream, options = request.get("stream", NULL), _options(request)
    fields: Fields = {"model": request.get("model", NULL), "stream": _TRUE if rawjson.is_null(stream) else stream}
    fields |= {name: options[name] for name in OPTIONS if not rawjson.is_null(options.get(name))}
    limit = read_optional(float, options.get(OUTPUT_LIMIT, NULL), f"options.{OUTPUT_LIMIT}")
    if limit is not None and limit >= 1:  # -1 and -2 mean no limit
        fields["max_tokens"] = rawjson.raw(int(limit))
    response_format = _response_format(rawjson.maybe(request.get("format")))
    if response_format is not None:
        fields["response_format"] = rawjson.raw(response_format)
    effort = _effort(rawjson.maybe(request.get("think")))
    if effort is not None:
        fields["reasoning_effort"] = rawjson.raw(effort)
    return fields | {name: request[name] for name in ("logprobs", "top_logprobs") if rawjson.maybe(request.get(name))}


def _options(request: Fields) -> Fields:
    return read_optional(Fields, request.get("options", NULL), "options") or {}


def _response_format(ollama_format: object) -> dict[str, Any] | None:
    """Returns the ``response_format`` of chat completions; None for plain text. Raises BadRequest."""
    if ollama_format == "json":
        return {"type": "json_object"}
    if isinstance(ollama_format, dict):
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": ollama_format}}
    if ollama_format in (None, ""):
        return None
    raise BadRequest("format must be 'json' or a JSON schema", param="format")


def _effort(think: object) -> str | None:
    """Returns the ``reasoning_effort`` of chat completions; None if the request does not say. Raises BadRequest."""
    if think is None:
        return None
    if isinstance(think, bool):
        return "medium" if think else "none"
    if isinstance(think, str):  # a word of the model
        return think or None
    raise BadRequest("think must be true, false or a text", param="think")


def _text(raw: msgspec.Raw | None, name: str) -> msgspec.Raw:
    """Returns a text of the request; an empty one if it is missing. Raises BadRequest."""
    return rawjson.EMPTY_TEXT if raw is None or rawjson.is_null(raw) else check_text(raw, name)


def _transcript_of(raw_messages: msgspec.Raw) -> Transcript:
    """Returns the turns of the messages. Raises BadRequest."""
    transcript = Transcript()
    ids, names = set[str](), set[str]()  # of all calls
    messages = read_typed(list[_Message], raw_messages, "messages")
    for number, message in enumerate(messages):
        contents = _content_parts(message)
        match message.role.lower():
            case "system" | "user" as role:
                transcript.add(role, contents)
            case "assistant":
                calls = [call_part(transcript, call, "messages[].tool_calls") for call in message.tool_calls or ()]
                ids.update(call.id for call in calls)
                names.update(call.name for call in calls)
                text = _text(message.thinking, "thinking")
                thought = ThoughtPart(text=text, maker=SealKind.PLAIN, name="messages[].thinking")
                transcript.add("assistant", [*([] if is_nothing(text) else [thought]), *contents, *calls])
            case "tool":
                call_id, name = str(message.tool_call_id or ""), message.tool_name or ""
                call_id = call_id if call_id in ids else ""
                name = name if name in names else ""
                transcript.add("tool", [ResultPart(call_id=call_id, name=name, parts=tuple(contents))])
            case _:
                param = f"messages[{number}].role"
                raise BadRequest(f"{param}: '{plain(message.role, 40)}' is not a role", param=param)
    return transcript


def _content_parts(message: _Message) -> list[TextPart | MediaPart]:
    """Returns the text and the images of a message. The text is left out if it is empty and there are images."""
    text = _text(message.content, "content")
    images = [_image(image) for image in message.images or ()]
    return [*images] if images and is_nothing(text) else [TextPart(raw=text), *images]


def _image(image: str) -> MediaPart:
    """Returns an image from its address, or from base64, whose first bytes show the format. Raises BadRequest."""
    if image.startswith(("data:", "http://", "https://")):
        return image_part(image, "images")
    try:
        media_type = image_type_of(image)
    except ValueError as error:
        raise BadRequest("images must be base64 texts", param="images") from error
    return MediaPart(type=media_type or "image/png", data=image, param="images")
