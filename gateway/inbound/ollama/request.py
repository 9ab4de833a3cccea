"""Ollama's requests as those of OpenAI's APIs. What only a model server can use (``num_ctx``, ``keep_alive``) is left
out and named.

Its clients need no ids for tool calls. They get some here: a result belongs to the call that it names, else to the
first call of its tool that has no result, else to the first call of any.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest

Doc = dict[str, Any]


class GivenDoc(Doc):
    """A request that knows which of its fields were read."""

    def __init__(self, given: Doc) -> None:
        super().__init__(given)
        self._read = {"options"}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field."""
        self._read.add(name)
        return super().get(name, default)

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the fields and options that have no counterpart."""
        options = self["options"] if isinstance(self.get("options"), dict) else {}
        names = [f"options.{name}" for name in options if name not in OPTIONS and name != LIMIT]
        return (*(name for name, value in self.items() if name not in self._read and value not in _NOTHING), *names)


_NOTHING: tuple[Any, ...] = (None, False, "", [])
LIMIT = "num_predict"
"""The option that limits the output."""
OPTIONS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty"),
    "repeat_penalty",
)
"""Options that have the same name elsewhere."""
_IMAGE_SIGNS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
)
"""First bytes of the formats of images."""
_EFFORTS = frozenset({"low", "medium", "high"})


def chat_request(doc: Doc) -> Doc:
    """The chat completion of ``POST /api/chat``. Raises BadRequest."""
    messages = doc.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadRequest("messages must be an array of objects", code="invalid_type", param="messages")
    out = _common(doc)
    out["messages"] = list(_messages(messages))
    if tools := doc.get("tools"):
        out["tools"] = tools
    return out


def generate_request(doc: Doc) -> Doc:
    """The chat completion of ``POST /api/generate``. Raises BadRequest."""
    system = _text(doc, "system")
    turn: Doc = {"role": "user", "content": _text(doc, "prompt")}
    if images := doc.get("images"):
        turn["content"] = _with_images(turn["content"], images)
    out = _common(doc)
    out["messages"] = [*([{"role": "system", "content": system}] if system else ()), turn]
    return out


def completion_request(doc: Doc) -> Doc:
    """The completion of ``POST /api/generate`` with ``suffix`` or ``raw``. Raises BadRequest."""
    out = _common(doc)
    for name in ("reasoning_effort", "response_format", "top_logprobs"):
        out.pop(name, None)
    out["prompt"] = _text(doc, "prompt")
    if suffix := _text(doc, "suffix"):
        out["suffix"] = suffix
    return out


def embedding_request(doc: Doc, *, single: bool) -> Doc:
    """The request for embeddings of ``POST /api/embed``, or with ``single`` of ``POST /api/embeddings``."""
    name = "prompt" if single else "input"
    given = doc.get(name)
    if given is None or (single and not isinstance(given, str)):
        raise BadRequest(f"{name} must be a text{'' if single else ' or an array of texts'}", param=name)
    out: Doc = {"model": doc.get("model"), "input": given, "encoding_format": "float"}
    if doc.get("dimensions"):
        out["dimensions"] = doc["dimensions"]
    return out


def _common(doc: Doc) -> Doc:
    """What requests for text have in common."""
    stream = doc.get("stream")
    out: Doc = {"model": doc.get("model"), "stream": True if stream is None else stream}
    options = doc.get("options")
    if options is not None and not isinstance(options, dict):
        raise BadRequest("options must be an object", code="invalid_type", param="options")
    options = options or {}
    out |= {name: options[name] for name in OPTIONS if options.get(name) is not None}
    limit = options.get(LIMIT)
    if type(limit) is int and limit > 0:  # -1 and -2: no limit
        out["max_tokens"] = limit
    if (form := _form(doc.get("format"))) is not None:
        out["response_format"] = form
    if (effort := _effort(doc.get("think"))) is not None:
        out["reasoning_effort"] = effort
    out |= {name: doc[name] for name in ("logprobs", "top_logprobs") if doc.get(name)}
    return out


def _form(given: object) -> Doc | None:
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


def _text(doc: Doc, name: str) -> str:
    found = doc.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadRequest(f"{name} must be a string", code="invalid_type", param=name)
    return found


class _OpenCalls:
    """Tool calls of the conversation that have no result yet."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []
        """Id and name of each."""

    def add(self, given: object, name: str) -> str:
        """The id of one more call."""
        self._count += 1
        call_id = given if isinstance(given, str) and given else f"call_{self._count}"
        self._open.append((call_id, name))
        return call_id

    def answer(self, given: object, name: object) -> str:
        """The id of the call that a result belongs to."""
        found = (
            next((one for one in self._open if one[0] == given), None)
            or next((one for one in self._open if one[1] == name), None)
            or next(iter(self._open), None)
        )
        if found is None:
            return given if isinstance(given, str) and given else "call_0"
        self._open.remove(found)
        return found[0]


def _messages(messages: list[Doc]) -> Iterator[Doc]:
    calls = _OpenCalls()
    for number, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str):
            where = f"messages[{number}].role"
            raise BadRequest(f"{where} must be a string", code="invalid_type", param=where)
        content = _text(message, "content")
        out: Doc = {"role": role, "content": content}
        if images := message.get("images"):
            out["content"] = _with_images(content, images)
        if thinking := _text(message, "thinking"):
            out["reasoning_content"] = thinking
        if role == "tool":
            out["tool_call_id"] = calls.answer(message.get("tool_call_id"), message.get("tool_name"))
        elif given := message.get("tool_calls"):
            out["tool_calls"] = [_tool_call(call, calls) for call in given if isinstance(call, dict)]
        yield out


def _tool_call(call: Doc, calls: _OpenCalls) -> Doc:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    name, arguments = function.get("name"), function.get("arguments")
    name = name if isinstance(name, str) else ""
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    inner = {"name": name, "arguments": written}
    return {"id": calls.add(call.get("id"), name), "type": "function", "function": inner}


def _with_images(text: str, images: object) -> list[Doc]:
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise BadRequest("images must be an array of base64 texts", code="invalid_type", param="images")
    parts: list[Doc] = [{"type": "text", "text": text}] if text else []
    return parts + [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images]


def _data_url(image: str) -> str:
    """Of an image in base64, whose format its first bytes tell."""
    if image.startswith(("data:", "http://", "https://")):
        return image
    try:
        head = base64.b64decode(image[:64], validate=True)
    except binascii.Error as error:
        raise BadRequest("images must be base64 texts", param="images") from error
    kind = next((kind for sign, kind in _IMAGE_SIGNS if head.startswith(sign)), "image/png")
    return f"data:{kind};base64,{image}"
