"""Media size: the most input tokens that the pictures, documents and sounds of a request may count.

A picture's tokens do not depend on its bytes: a vendor scales it and cuts it into tiles or patches. So the hold is the
most that the vendor's documentation gives for one picture of the model's family. If the family is unknown, the bytes
count as text: some servers do count them so.
"""

import base64
import binascii
import re
import zlib
from contextlib import suppress

import msgspec

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
"""Tokens of one picture by the model's name; the first matching row counts."""
TEXT_BYTES = 3
"""Bytes per token of what counts as text."""
PAGE_BYTES = 2_000
"""The bytes of a page, for a document whose pages cannot be counted: hardly any page has fewer."""
_PAGE = re.compile(rb"/Type\s*/Page\b")
_PACKED = b"/ObjStm"
_NEAR = 400
"""Bytes after the name of a packed part within which it begins."""


class PromptMedia(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a request that are not text. Bytes are those of base64 text."""

    pictures: int = 0
    picture_bytes: int = 0
    pages: int = 0
    sound_bytes: int = 0
    film_bytes: int = 0
    fetched: int = 0
    """How many documents are not in the request."""

    def bound(self, model: str) -> int:
        """Returns the most tokens that it may count at a model of this name, as its vendor calls it."""
        name = model.lower()
        known = next((tokens for pattern, tokens in _PICTURES if pattern.search(name)), 0)
        # the address or the few bytes of a picture say little
        picture = known or 5_000
        pictures = self.pictures * picture
        # 32 tokens of sound a second, at 8 kbit/s as base64
        sound, film = self.sound_bytes // 32, self.film_bytes // 16
        if not known:
            pictures = max(pictures, self.picture_bytes // TEXT_BYTES)
            sound, film = self.sound_bytes // TEXT_BYTES, self.film_bytes // TEXT_BYTES
        # a page has its text beside its picture
        pages = self.pages * (3_000 + picture)
        # a document that the vendor has or fetches may have a hundred pages
        return pictures + pages + sound + film + self.fetched * 100_000


NO_MEDIA = PromptMedia()


def count_pages(text: bytes) -> int:
    """Returns how many pages a PDF in base64 has, at least one; estimated by size if they cannot be counted."""
    try:
        document = base64.b64decode(text[text.find(b",") + 1 :])
    except (binascii.Error, ValueError):
        return 1 + len(text) // PAGE_BYTES
    pages = _pages_in(document)
    # bytes of packed parts that are looked through
    left, at = 8 << 20, document.find(_PACKED)
    while at >= 0 and left > 0:
        part = _inflate(document, at, left)
        left -= max(_NEAR, len(part))
        pages += _pages_in(part)
        at = document.find(_PACKED, at + 1)
    return pages if pages and left > 0 else max(pages, 1 + len(document) // PAGE_BYTES)


def _pages_in(text: bytes) -> int:
    return len(_PAGE.findall(text))


def _inflate(document: bytes, at: int, most: int) -> bytes:
    """Returns the packed part whose name is here; empty if it cannot be unpacked."""
    begin = document.find(b"stream", at + len(_PACKED), at + _NEAR)
    if begin < 0:
        return b""
    start = document.find(b"\n", begin, begin + 10) + 1
    with suppress(zlib.error):
        return zlib.decompressobj().decompress(memoryview(document)[start:], most)
    return b""
