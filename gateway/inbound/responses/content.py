"""Contents of messages and of results: texts, images, files and sounds."""

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import MediaPart, TextPart
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import read_typed
from gateway.domain.rawjson import NULL
from gateway.domain.text import plain
from gateway.inbound.media import file_of, image_of, sound_of


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


class _Sound(msgspec.Struct, frozen=True, gc=False):
    data: str
    format: str = "wav"


_SOUND = msgspec.json.Decoder(_Sound)
_PART = msgspec.json.Decoder(InputPart)


def read_content(content: msgspec.Raw, where: str) -> list[TextPart | MediaPart]:
    """Returns the parts of a message's content. Raises BadRequest."""
    first = bytes(memoryview(content)[:1])
    if first == b'"':
        return [TextPart(raw=content)]
    if rawjson.is_null(content):
        return []
    if first != b"[":
        raise BadRequest(f"{where}: must be a string or an array", code="invalid_type", param=where)
    places = ((raw, f"{where}[{number}]") for number, raw in enumerate(rawjson.items(content)))
    return [_part(read_typed(_PART, raw, place), place) for raw, place in places]


def _part(part: InputPart, where: str) -> TextPart | MediaPart:
    match part.type:
        case "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text":
            return TextPart(raw=_string(part.text, f"{where}.text"))
        case "refusal":
            return TextPart(raw=_string(part.refusal, f"{where}.refusal"), refusal=True)
        case "input_image" if not rawjson.is_null(part.image_url):
            place = f"{where}.image_url"
            detail = "high" if part.detail == "original" else part.detail or ""
            return image_of(rawjson.text(_string(part.image_url, place)), place, detail=detail)
        case "input_file" if not rawjson.is_null(part.file_data):
            place, name = f"{where}.file_data", rawjson.maybe(part.filename)
            data = rawjson.text(_string(part.file_data, place))
            return file_of(data, name if isinstance(name, str) else "", place)
        case "input_audio" if not rawjson.is_null(part.input_audio):
            sound = read_typed(_SOUND, part.input_audio, f"{where}.input_audio")
            return sound_of(sound.data, sound.format, f"{where}.input_audio")
    name = "file_id" if part.file_id else "file_url" if not rawjson.is_null(part.file_url) else ""
    place = f"{where}.{name}" if name else where
    why = "files are not kept here; send the data" if name else f"a part of type '{plain(part.type, 40)}' is unknown"
    raise BadRequest(f"{place}: {why}", code="unsupported_parameter", param=place)


def _string(raw: msgspec.Raw, where: str) -> msgspec.Raw:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise BadRequest(f"{where}: must be a string", code="invalid_type", param=where)
    return raw
