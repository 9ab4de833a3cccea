"""Reads the contents of messages as blocks of a conversation, in chats and in the Responses API.

Blocks of Anthropic's API are read as well: Cursor sends those in chats for models of Claude.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import Block, MediaPart, ResultPart, TextPart, ThoughtPart
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.domain.typed_json import read_typed
from gateway.inbound.json_body import check_text
from gateway.inbound.media import AUDIO, VIDEO, audio_part, document_part, image_part
from gateway.inbound.messages.conversation import read_block

_IMAGE_IN_TEXT = re.compile(rb'\A"\s*\[.*?\\"image_url\\":\s*\\"data:image/', re.DOTALL)
_LINKED = {"image_url": "", "input_image": "", "video_url": VIDEO, "audio_url": AUDIO, "input_audio": AUDIO}
"""The types of what parts link to. Clients of vLLM and Codex link to audio."""
_CACHE_MARK = rawjson.raw({"type": "ephemeral"})
_MESSAGE_BLOCKS = frozenset({"image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})
"""The types of the blocks of Anthropic's API."""
_LINKS = ("image_url", "video_url", "audio_url", "document_url", "file_url")
"""Fields of a part with an address, or with an object that has it. In the Responses API its details are next to it."""


def read_content(content: msgspec.Raw, param: str, transcript: Transcript, cache: msgspec.Raw = NULL) -> list[Block]:
    """Returns the blocks of a content, which may be one text. Raises BadRequest. ``transcript`` repairs arguments."""
    if rawjson.is_text(content):
        return [TextPart(raw=content, cache=cache)]
    if rawjson.is_null(content):
        return []
    if not rawjson.is_list(content):
        raise BadRequest(f"{param}: must be a string or an array", code="invalid_type", param=param)
    blocks: list[Block] = []
    for i, part in enumerate(read_typed(list[Fields], content, param)):
        place = f"{param}[{i}]"
        kind = rawjson.text(check_text(part.get("type", NULL), f"{place}.type"))
        is_block = kind in _MESSAGE_BLOCKS
        blocks += read_block(rawjson.raw(part), place, transcript) if is_block else [_read_part(kind, part, place)]
    return blocks


def read_result(content: msgspec.Raw, param: str, transcript: Transcript, cache: msgspec.Raw = NULL) -> list[Block]:
    """Returns the blocks of a tool's result. Codex writes images as JSON in a text; other such JSON stays a text."""
    if rawjson.is_text(content) and _IMAGE_IN_TEXT.search(bytes(content)):
        with suppress(BadRequest):
            parts = rawjson.text(content).encode("utf-8", "surrogatepass")
            return read_content(msgspec.Raw(parts), param, transcript, cache)
    return read_content(content, param, transcript, cache)


def call_arguments(raw: bytes) -> bytes:
    """Returns the arguments of a call as JSON. They come in a string, or from some clients as the object itself."""
    if raw[:1] == b'"':
        return rawjson.text(raw).encode("utf-8", "surrogatepass")
    return b"" if raw == b"null" else raw


def result_parts(blocks: Iterable[Block]) -> tuple[TextPart | MediaPart, ...]:
    """Returns the texts and media of a tool's result, also from a result within it."""
    parts: list[TextPart | MediaPart] = []
    for block in blocks:
        if isinstance(block, ResultPart):
            parts += block.parts
        elif isinstance(block, TextPart | MediaPart):
            parts.append(block)
    return tuple(parts)


def _cache_of(part: Fields) -> msgspec.Raw:
    """Returns the cache mark. OpenAI's becomes Anthropic's usual one, because longer ones cost more."""
    has_openai_mark = not rawjson.is_null(part.get("prompt_cache_breakpoint"))
    return _CACHE_MARK if has_openai_mark else part.get("cache_control", NULL)


def _link_of(part: Fields) -> tuple[str, str] | None:
    """Returns the address or data of an image, video, audio or document, and an image's detail; None without a link."""
    link = next((rawjson.maybe(part[name]) for name in _LINKS if not rawjson.is_null(part.get(name))), None)
    if isinstance(link, str):
        detail = rawjson.text_at(part.get("detail"))
        return link, "high" if detail == "original" else detail
    return None if link is None else (rawjson.text_at(link, "url"), rawjson.text_at(link, "detail"))


def _audio_of(part: Fields) -> tuple[str, str] | None:
    """Returns the data or address of audio, which Mistral's clients send alone, and its format; None without either."""
    audio = rawjson.maybe(part.get("input_audio"))
    data = audio if isinstance(audio, str) else rawjson.text_at(audio, "data")
    return (data, rawjson.text_at(audio, "format")) if data else None


def _document_of(part: Fields) -> tuple[str, str] | None:
    """Returns the document's data or address, empty for an uploaded file, and its name; None for another part.

    Clients of Mistral and Perplexity link to it, and LiteLLM's put an address in the place of the id.
    """
    names = (rawjson.text_at(part.get(field)) for field in ("filename", "document_name", "file_name"))
    name = next(filter(None, names), "")
    link = _link_of(part)
    file = rawjson.maybe(part.get("file"))
    if not rawjson.is_null(part.get("file_data")):
        return rawjson.text_at(part["file_data"]), name
    if link is not None:
        return link[0], name
    if file is None:
        return None
    data, id, name = (rawjson.text_at(file, field) for field in ("file_data", "file_id", "filename"))
    return data or (id if ":" in id else ""), name


def _read_part(kind: str, part: Fields, param: str) -> TextPart | MediaPart | ThoughtPart:
    match kind:
        case "reasoning":
            return ThoughtPart(name="messages[].content[].reasoning")
        case "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" | "refusal":
            name = "refusal" if kind == "refusal" else "text"
            text = check_text(part.get(name, NULL), f"{param}.{name}")
            return TextPart(raw=text, cache=_cache_of(part), is_refusal=kind == "refusal")
        case _ if kind in _LINKED and (link := _link_of(part)) is not None:
            name = kind.removeprefix("input_").removesuffix("_url")
            return image_part(
                link[0],
                f"{param}.{name}_url",
                detail=link[1],
                cache=_cache_of(part),
                linked_type=_LINKED[kind],
            )
        case "input_audio" if (audio := _audio_of(part)) is not None:
            return audio_part(*audio, f"{param}.input_audio")
        case "file" | "document_url" | "file_url" | "input_file" if (file := _document_of(part)) is not None:
            own_field = "file_url" if rawjson.is_null(part.get("file_data")) else "file_data"
            field = own_field if kind == "input_file" else kind
            return document_part(*file, f"{param}.{field}", _cache_of(part))
    place, reason = param, f"a part of type '{plain(kind, 40)}' cannot be translated"
    if not rawjson.is_nothing(part.get("file_id")):
        place, reason = f"{param}.file_id", "files are not kept here; send the data"
    raise unsupported_param(place, reason)
