"""Media size: the maximum input tokens that the pictures, documents and audio of a request may count.

The tokens of a picture do not depend on its bytes: the vendor scales it and cuts it into tiles or patches. So the most
is held that the vendor's documentation names for a picture of the model's family. If the family is unknown, the bytes
count as text, because some servers count them like that.
"""

import base64
import re
import zlib
from contextlib import suppress
from typing import Any

import msgspec

from gateway.domain import rawjson

_PICTURES = (
    (re.compile(r"gpt-4o-mini"), 48_169),  # 2,833 and 5,667 for each of eight tiles
    (re.compile(r"gpt-(4\.1|5[\d.]*)-(mini|nano)|o4-mini"), 3_779),  # 1,536 patches, 2.46 tokens each at most
    (re.compile(r"gpt-5\.([4-9]|\d\d)|gpt-[6-9]"), 12_000),  # 10,000 patches at detail "original"
    (re.compile(r"gpt-|chatgpt|\bo[134]\b|computer-use|codex"), 1_500),  # 85 and 170 for each of eight tiles
    (re.compile(r"claude"), 5_000),  # 4,784 where the long edge has 2,576 pixels
    (re.compile(r"gemini|gemma"), 6_500),  # 258 for each tile of 768 pixels, or 2,240 for one at the highest resolution
    (re.compile(r"pixtral|mistral|ministral|magistral|devstral"), 4_200),  # 64 by 64 patches with their line ends
    (re.compile(r"qwen|qvq|glm|kimi|llama|nova|grok|phi|internvl|minicpm|command-a|aya|ernie|doubao"), 16_384),
)
"""The maximum number of tokens of a picture, by the name of the model. The first matching row counts."""
GENERATED = ("image_generation_call", "result")
"""The type of the object with a picture that OpenAI generated, and the field with its base64 text."""
TEXT_BYTES = 3
"""The bytes per token of what counts as text."""
PAGE_BYTES = 2_000
"""The bytes per page of a document whose pages cannot be counted. Hardly any page has fewer."""
_PAGE = re.compile(rb"/Type\s*/Page\b")
_COMPRESSED_PART = b"/ObjStm"
_HEADER_BYTES = 400
"""The maximum distance from the name of a compressed part to its content, in bytes."""


class PromptMedia(msgspec.Struct, kw_only=True, gc=False):
    """The parts of a request that are not text. Sizes are of base64 text."""

    pictures: int = 0
    picture_bytes: int = 0
    pages: int = 0
    audio_bytes: int = 0
    video_bytes: int = 0
    fetched: int = 0
    """How many documents are not in the request, or may be compressed, so that their size says nothing."""

    def bound(self, model: str) -> int:
        """Returns the maximum tokens that these parts may count at a model. ``model`` is its upstream name."""
        name = model.lower()
        family_tokens = next((tokens for pattern, tokens in _PICTURES if pattern.search(name)), 0)
        picture_tokens = family_tokens or 5_000
        pictures = self.pictures * picture_tokens
        # 32 tokens of audio a second, at 8 kbit/s as base64
        audio, video = self.audio_bytes // 32, self.video_bytes // 16
        if not family_tokens:
            pictures = max(pictures, self.picture_bytes // TEXT_BYTES)
            audio, video = self.audio_bytes // TEXT_BYTES, self.video_bytes // TEXT_BYTES
        pages = self.pages * (3_000 + picture_tokens)  # a page counts as text and as a picture
        return pictures + pages + audio + video + self.fetched * 100_000  # a fetched document may have a hundred pages


NO_MEDIA = PromptMedia()


def count_pages(text: bytes) -> int:
    """Returns how many pages a PDF in base64 has, at least one. If they cannot be counted, its size is used."""
    content = text[text.find(b",") + 1 :].replace(b"=", b"A")  # decoders differ on padding in the middle
    try:
        document = base64.b64decode(content)
    except ValueError:
        return 1 + len(text) // PAGE_BYTES
    pages = len(_PAGE.findall(document))
    bytes_left, start = min(8 << 20, 32 * len(document)), document.find(_COMPRESSED_PART)  # pages grow 16 times
    while start >= 0 and bytes_left > 0:
        part, examined = _inflate(document, start, bytes_left)
        bytes_left -= max(_HEADER_BYTES, len(part), examined)
        pages += len(_PAGE.findall(part))
        start = document.find(_COMPRESSED_PART, start + 1)
    return pages if pages and bytes_left > 0 else max(pages, 1 + 3 * len(content) // 4 // PAGE_BYTES)


def _inflate(document: bytes, start: int, limit: int) -> tuple[bytes, int]:
    """Returns the part whose name is at ``start``, if it can be decompressed, and how many bytes were examined.

    Neither is more than ``limit``: a part may be long and contain nothing.
    """
    keyword = document.find(b"stream", start + len(_COMPRESSED_PART), start + _HEADER_BYTES)
    if keyword < 0:
        return b"", 0
    begin = document.find(b"\n", keyword, keyword + 10) + 1
    end = document.find(b"endstream", begin, begin + limit)
    part = document[begin : begin + limit if end < 0 else end]
    with suppress(zlib.error):
        return zlib.decompressobj().decompress(part, limit), len(part)
    return b"", len(part)


def type_in_url(text: str) -> str | None:
    """Returns the media type in a base64 ``data:`` URL, which may be in capitals; None for any other text."""
    if text[:5].lower() != "data:":
        return None
    head = text[5 : text.find(",") + 1].lower()
    return head.partition(";")[0] if head.endswith(";base64,") else None


def media_type_of(text: str, item: dict[str, Any], key: str) -> str:
    """Returns the media type of base64 text in an object; empty if it is unknown."""
    if item.get("type") == GENERATED[0]:
        return "image/"
    if (embedded_type := type_in_url(text)) is not None:
        return embedded_type
    if isinstance(media_type := item.get("media_type"), str):
        return media_type.lower()
    if rawjson.text_at(item, "filename").lower().endswith(".pdf"):
        return "application/pdf"
    return "audio/" if key == "input_audio" or isinstance(item.get("format"), str) else ""
