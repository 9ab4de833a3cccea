"""Ollama's requests: what they ask for in the words of chat completions, and their messages as a ``Conversation``.

What only a model server can use (``num_ctx``, ``keep_alive``) is left out and named. Clients need no ids for tool
calls, and get some here: a result belongs to the call that it names, else to the first call of its tool that has no
result, else to the first call of any.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SealKind
from gateway.domain.conversation import CallPart, Conversation, MediaPart, ResultPart, TextPart, ThoughtPart
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import read_typed
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.inbound.api import InboundRequest
from gateway.inbound.chat.api import read_chat
from gateway.inbound.chat.conversation import ChatFunction, ChatTool, call_arguments, read_tools
from gateway.inbound.media import image_part

LIMIT = "num_predict"
"""The option that limits the output."""
OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty"),
    "repeat_penalty",
)
"""Options with the same name elsewhere."""
_READ = frozenset({"model", "stream", "options", "format", "think", "logprobs", "top_logprobs"})
_IN_CHATS = _READ | {"messages", "tools"}
_IN_PROMPTS = _READ | {"prompt", "system", "images", "suffix", "raw"}
_WORDS = {
    "max_tokens": f"options.{LIMIT}",
    "reasoning_effort": "think",
    "response_format": "format",
    **{name: f"options.{name}" for name in OPTIONS},
}
"""The client's names of parameters."""
_IMAGE_SIGNS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
)
"""The first bytes of image formats."""
_EFFORTS = frozenset({"low", "medium", "high"})


_TRUE, _EMPTY = msgspec.Raw(b"true"), msgspec.Raw(b'""')


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str = ""
    content: msgspec.Raw = NULL
    images: list[str] | None = None
    thinking: msgspec.Raw = NULL
    tool_calls: list[ChatTool] | None = None
    tool_call_id: str | int | None = None
    tool_name: str | None = None


_MESSAGES = msgspec.json.Decoder(list[_Message])
_OPTIONS = msgspec.json.Decoder(Fields | None)


def read_chat_request(given: Fields, mask: bytes) -> InboundRequest:
    """Reads a request to ``POST /api/chat``. Raises BadRequest."""
    fields = _parameters(given)
    fields |= {name: given[name] for name in ("messages", "tools") if name in given}
    return _as_chat(given, mask, fields, _IN_CHATS)


def read_generate_request(given: Fields, mask: bytes) -> InboundRequest:
    """Reads a request to ``POST /api/generate`` as a chat. Raises BadRequest."""
    system, images = _text(given, "system"), given.get("images", NULL)
    turns: list[dict[str, Any]] = [{"role": "user", "content": _text(given, "prompt"), "images": images}]
    if not is_nothing(system):
        turns.insert(0, {"role": "system", "content": system})
    return _as_chat(given, mask, _parameters(given) | {"messages": rawjson.raw(turns)}, _IN_PROMPTS)


def completion_fields(given: Fields) -> Fields:
    """Returns the completion of ``POST /api/generate`` with ``suffix`` or ``raw``. Raises BadRequest."""
    fields = _parameters(given)
    for name in ("reasoning_effort", "response_format", "top_logprobs"):
        fields.pop(name, None)
    fields["prompt"] = _text(given, "prompt")
    if not is_nothing(suffix := _text(given, "suffix")):
        fields["suffix"] = suffix
    return fields


def embedding_fields(given: Fields, *, single: bool) -> Fields:
    """Returns the request for embeddings of ``POST /api/embed``, or with ``single`` of ``POST /api/embeddings``."""
    name = "prompt" if single else "input"
    text = given.get(name, NULL)
    if rawjson.is_null(text) or (single and bytes(memoryview(text)[:1]) != b'"'):
        raise BadRequest(f"{name} must be a text{'' if single else ' or an array of texts'}", param=name)
    fields = {"model": given.get("model", NULL), "input": text, "encoding_format": rawjson.raw("float")}
    return fields | {name: given[name] for name in ("dimensions",) if rawjson.maybe(given.get(name))}


def translate_ollama(order: Order) -> Order:
    """Returns the order with its messages and tools as a conversation. Raises BadRequest."""
    fields = {name: raw for name, raw in order.fields.items() if name not in ("messages", "tools")}
    transcript = _transcript(order.fields["messages"])
    tools, _ = read_tools({"tools": order.fields.get("tools", NULL)})
    conversation = Conversation(turns=transcript.turns, tools=tools, param_names=_WORDS, marks=transcript.marks)
    fields["model"] = rawjson.raw(order.model)
    return msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation)


def _as_chat(given: Fields, mask: bytes, fields: Fields, known: frozenset[str]) -> InboundRequest:
    """Returns the request with these fields; ``known`` are the given ones that were read."""
    if "messages" in fields:
        _transcript(fields["messages"])
    lost = [f"options.{name}" for name in _options(given) if name not in OPTIONS and name != LIMIT]
    unread = [name for name, raw in given.items() if name not in known and not is_nothing(raw)]
    parsed = read_chat(b"", fields, mask)
    return msgspec.structs.replace(parsed, removed=(*unread, *lost))


def _parameters(given: Fields) -> Fields:
    """Returns what requests for text have in common."""
    stream, options = given.get("stream", NULL), _options(given)
    fields: Fields = {"model": given.get("model", NULL), "stream": _TRUE if rawjson.is_null(stream) else stream}
    fields |= {name: options[name] for name in OPTIONS if not rawjson.is_null(options.get(name))}
    limit = rawjson.maybe(options.get(LIMIT))
    if type(limit) is int and limit > 0:  # -1 and -2: no limit
        fields["max_tokens"] = rawjson.raw(limit)
    if (form := _form(rawjson.maybe(given.get("format")))) is not None:
        fields["response_format"] = rawjson.raw(form)
    if (effort := _effort(rawjson.maybe(given.get("think")))) is not None:
        fields["reasoning_effort"] = rawjson.raw(effort)
    return fields | {name: given[name] for name in ("logprobs", "top_logprobs") if rawjson.maybe(given.get(name))}


def _options(given: Fields) -> Fields:
    return read_typed(_OPTIONS, given.get("options", NULL), "options") or {}


def _form(given: object) -> dict[str, Any] | None:
    if given == "json":
        return {"type": "json_object"}
    if isinstance(given, dict):
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": given}}
    if given in (None, ""):
        return None
    raise BadRequest("format must be 'json' or a JSON schema", param="format")


def _effort(think: object) -> str | None:
    if think is None:
        return None
    if isinstance(think, bool):
        return "medium" if think else "none"
    if isinstance(think, str) and think in _EFFORTS:
        return think
    raise BadRequest("think must be true, false, low, medium or high", param="think")


def _text(holder: Fields, name: str) -> msgspec.Raw:
    """Returns a JSON string; an empty one if there is none. Raises BadRequest."""
    return _checked_text(holder.get(name, NULL), name)


def _checked_text(raw: msgspec.Raw, name: str) -> msgspec.Raw:
    if rawjson.is_null(raw):
        return _EMPTY
    if bytes(memoryview(raw)[:1]) != b'"':
        raise BadRequest(f"{name} must be a string", code="invalid_type", param=name)
    return raw


def _transcript(messages: msgspec.Raw) -> Transcript:
    """Returns the turns of a conversation. Raises BadRequest."""
    transcript = Transcript()
    calls: dict[str, str] = {}
    given = read_typed(_MESSAGES, messages, "messages")
    for number, message in enumerate(given):
        parts = _parts(message)
        match message.role:
            case "system" | "user":
                transcript.add(message.role, parts)
            case "assistant":
                transcript.add("assistant", [*_thoughts(message), *parts, *_calls(message, calls, transcript)])
            case "tool":
                id, name = str(message.tool_call_id or ""), message.tool_name or ""
                call_id, name = id if id in calls else "", name if name in calls.values() else ""
                transcript.add("tool", [ResultPart(call_id=call_id, name=name, parts=tuple(parts))])
            case _:
                where = f"messages[{number}].role"
                raise BadRequest(f"{where}: '{plain(message.role, 40)}' is not a role", param=where)
    return transcript


def _thoughts(message: _Message) -> list[ThoughtPart]:
    text = _checked_text(message.thinking, "thinking")
    return [] if is_nothing(text) else [ThoughtPart(text=text, maker=SealKind.PLAIN, name="messages[].thinking")]


def _calls(message: _Message, known: dict[str, str], transcript: Transcript) -> Iterator[CallPart]:
    """Returns the calls in a message. ``known`` are the names of all so far, by their ids."""
    for call in message.tool_calls or ():
        function = call.function or ChatFunction()
        id = call.id or f"call_{len(known) + 1}"
        known[id] = function.name
        arguments = transcript.arguments(call_arguments(bytes(function.arguments)))
        yield CallPart(id=id, name=function.name, arguments=arguments)


def _parts(message: _Message) -> list[TextPart | MediaPart]:
    text = _checked_text(message.content, "content")
    images = [_image(image) for image in message.images or ()]
    return [*images] if images and is_nothing(text) else [TextPart(raw=text), *images]


def _image(image: str) -> MediaPart:
    """Returns an image in base64, whose first bytes show the format, or at an address."""
    if image.startswith(("data:", "http://", "https://")):
        return image_part(image, "images")
    try:
        head = base64.b64decode(image[:64], validate=True)
    except binascii.Error as error:
        raise BadRequest("images must be base64 texts", param="images") from error
    kind = next((kind for sign, kind in _IMAGE_SIGNS if head.startswith(sign)), "image/png")
    return MediaPart(type=kind, data=image, where="images")
