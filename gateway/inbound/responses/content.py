"""Contents of messages and of results, as chat completions have them: parts, or one text.

Texts stay the JSON strings that they came as, also where several become one.
"""

from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.inbound.json_body import read_typed
from gateway.upstream import rawjson
from gateway.upstream.rawjson import NULL, Fields


class InputPart(msgspec.Struct, frozen=True, gc=False):
    """One part of a content or of a result."""

    type: str
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    image_url: msgspec.Raw = NULL
    detail: str | None = None
    file_id: str | None = None
    file_data: msgspec.Raw = NULL
    file_url: msgspec.Raw = NULL
    filename: msgspec.Raw = NULL
    input_audio: msgspec.Raw = NULL


_PART = msgspec.json.Decoder(InputPart)


def read_content(content: msgspec.Raw, where: str) -> list[dict[str, Any]]:
    """The parts of a message's content. Raises BadRequest."""
    first = bytes(memoryview(content)[:1])
    if first == b'"':
        return [{"type": "text", "text": content}]
    if rawjson.is_null(content):
        return []
    if first != b"[":
        raise BadRequest(f"{where}: must be a string or an array", code="invalid_type", param=where)
    places = ((raw, f"{where}[{number}]") for number, raw in enumerate(rawjson.items(content)))
    return [_part(read_typed(_PART, raw, place), place) for raw, place in places]


def _part(part: InputPart, where: str) -> dict[str, Any]:
    match part.type:
        case "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text":
            return {"type": "text", "text": _string(part.text, f"{where}.text")}
        case "refusal":
            return {"type": "refusal", "refusal": _string(part.refusal, f"{where}.refusal")}
        case "input_image" if not rawjson.is_null(part.image_url):
            image: dict[str, Any] = {"url": _string(part.image_url, f"{where}.image_url")}
            if part.detail is not None:
                image["detail"] = "high" if part.detail == "original" else part.detail
            return {"type": "image_url", "image_url": image}
        case "input_file" if not rawjson.is_null(part.file_data):
            file: Fields = {"file_data": _string(part.file_data, f"{where}.file_data")}
            if not rawjson.is_null(part.filename):
                file["filename"] = part.filename
            return {"type": "file", "file": file}
        case "input_audio" if not rawjson.is_null(part.input_audio):
            return {"type": "input_audio", "input_audio": part.input_audio}
    name = "file_id" if part.file_id else "file_url" if not rawjson.is_null(part.file_url) else ""
    place = f"{where}.{name}" if name else where
    why = "files are not kept here; send the data" if name else f"a part of type '{plain(part.type, 40)}' is unknown"
    raise BadRequest(f"{place}: {why}", code="unsupported_parameter", param=place)


def _string(raw: msgspec.Raw, where: str) -> msgspec.Raw:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise BadRequest(f"{where}: must be a string", code="invalid_type", param=where)
    return raw


def texts_only(parts: list[dict[str, Any]]) -> bool:
    """Whether all parts are texts."""
    return all(part["type"] == "text" for part in parts)


def joined_text(parts: list[dict[str, Any]]) -> msgspec.Raw:
    """Parts that are texts as one text."""
    return glue_texts([part["text"] for part in parts], b"")


def glue_texts(texts: list[msgspec.Raw], between: bytes) -> msgspec.Raw:
    """JSON strings as one, without decoding them."""
    if len(texts) == 1:
        return texts[0]
    return msgspec.Raw(b'"' + between.join(bytes(text)[1:-1] for text in texts) + b'"')


def chain_contents(first: msgspec.Raw, second: msgspec.Raw) -> msgspec.Raw:
    """Two contents of one message as one."""
    both = [bytes(memoryview(one)[:1]) for one in (first, second)]
    if both == [b'"', b'"']:
        return glue_texts([first, second], rb"\n\n")
    parts = [
        rawjson.items(raw) if kind == b"[" else [rawjson.raw({"type": "text", "text": raw})]
        for kind, raw in zip(both, (first, second), strict=True)
    ]
    return rawjson.raw([*parts[0], *parts[1]])
