"""Reads the contents of messages as blocks of a conversation, in chats and in the Responses API.

Blocks of Anthropic's API are read as well: Cursor sends those in chats for models of Claude.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import Block, MediaPart, ResultPart, TextPart, ThoughtPart
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.json_text import read_typed
from gateway.domain.rawjson import NULL
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.inbound.json_body import check_text
from gateway.inbound.media import AUDIO, VIDEO, audio_part, document_part, image_part
from gateway.inbound.messages.conversation import read_block


class _Part(msgspec.Struct, frozen=True):
    """A part of a content. Those of the Responses API have the fields of an image or a file next to the type."""

    type: str
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    image_url: msgspec.Raw = NULL
    video_url: msgspec.Raw = NULL
    audio_url: msgspec.Raw = NULL
    document_url: msgspec.Raw = NULL
    file_url: msgspec.Raw = NULL
    input_audio: msgspec.Raw = NULL
    file: dict[str, Any] | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None
    document_name: str | None = None
    file_name: str | None = None
    cache_control: msgspec.Raw = NULL
    prompt_cache_breakpoint: msgspec.Raw = NULL

    @property
    def cache(self) -> msgspec.Raw:
        """Returns the cache mark. OpenAI's becomes Anthropic's usual one, because longer ones cost more."""
        return self.cache_control if rawjson.is_null(self.prompt_cache_breakpoint) else _CACHE_MARK

    @property
    def link(self) -> tuple[str, str] | None:
        """Returns the address or data of an image, a film, a sound or a document, and an image's detail, or None."""
        links = (self.image_url, self.video_url, self.audio_url, self.document_url, self.file_url)
        link = next((rawjson.maybe(link) for link in links if not rawjson.is_null(link)), None)
        if isinstance(link, str):
            return link, "high" if self.detail == "original" else self.detail or ""
        return None if link is None else (rawjson.text_at(link, "url"), rawjson.text_at(link, "detail"))

    @property
    def sound(self) -> tuple[str, str] | None:
        """Returns a sound's data or address, which clients of Mistral send alone, and its format; None without it."""
        sound = rawjson.maybe(self.input_audio)
        data = sound if isinstance(sound, str) else rawjson.text_at(sound, "data")
        return (data, rawjson.text_at(sound, "format")) if data else None

    @property
    def document(self) -> tuple[str, str] | None:
        """Returns the document's data or address, empty for an uploaded file, and its name; None for another part.

        Clients of Mistral and Perplexity link to it, and LiteLLM's put an address in the place of the id.
        """
        name = self.filename or self.document_name or self.file_name or ""
        if self.file_data is not None:
            return self.file_data, name
        if self.link is not None:
            return self.link[0], name
        if self.file is None:
            return None
        data, id, name = (rawjson.text_at(self.file, field) for field in ("file_data", "file_id", "filename"))
        return data or (id if ":" in id else ""), name


_IMAGE_IN_TEXT = re.compile(rb'\A"\s*\[.*?\\"image_url\\":\s*\\"data:image/', re.DOTALL)
_LINKED = {"image_url": "", "input_image": "", "video_url": VIDEO, "audio_url": AUDIO, "input_audio": AUDIO}
"""The types of what parts link to. Clients of vLLM and Codex link to sounds."""
_CACHE_MARK = rawjson.raw({"type": "ephemeral"})
_MESSAGE_BLOCKS = frozenset({"image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})
"""The types of the blocks of Anthropic's API."""


def read_content(content: msgspec.Raw, param: str, transcript: Transcript, cache: msgspec.Raw = NULL) -> list[Block]:
    """Returns the blocks of a content, which may be one text. Raises BadRequest. ``transcript`` repairs arguments."""
    if rawjson.is_text(content):
        return [TextPart(raw=content, cache=cache)]
    if rawjson.is_null(content):
        return []
    if not rawjson.is_list(content):
        raise BadRequest(f"{param}: must be a string or an array", code="invalid_type", param=param)
    blocks: list[Block] = []
    parts = zip(read_typed(list[_Part], content, param), rawjson.items(content), strict=True)
    for i, (part, raw) in enumerate(parts):
        place = f"{param}[{i}]"
        blocks += read_block(raw, place, transcript) if part.type in _MESSAGE_BLOCKS else [_read_part(part, place)]
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


def _read_part(part: _Part, param: str) -> TextPart | MediaPart | ThoughtPart:
    match part.type:
        case "reasoning":
            return ThoughtPart(name="messages[].content[].reasoning")
        case "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" | "refusal":
            is_refusal = part.type == "refusal"
            raw, name = (part.refusal, "refusal") if is_refusal else (part.text, "text")
            return TextPart(raw=check_text(raw, f"{param}.{name}"), cache=part.cache, is_refusal=is_refusal)
        case kind if kind in _LINKED and (image := part.link) is not None:
            name = kind.removeprefix("input_").removesuffix("_url")
            return image_part(
                image[0],
                f"{param}.{name}_url",
                detail=image[1],
                cache=part.cache,
                linked_type=_LINKED[kind],
            )
        case "input_audio" if (audio := part.sound) is not None:
            return audio_part(*audio, f"{param}.input_audio")
        case "file" | "document_url" | "file_url" | "input_file" if (file := part.document) is not None:
            own_field = "file_url" if part.file_data is None else "file_data"
            field = own_field if part.type == "input_file" else part.type
            return document_part(*file, f"{param}.{field}", part.cache)
    place, reason = param, f"a part of type '{plain(part.type, 40)}' cannot be translated"
    if part.file_id:
        place, reason = f"{param}.file_id", "files are not kept here; send the data"
    raise unsupported_param(place, reason)
