"""Estimate: about how many tokens a text has, for calls whose upstream reports none. No tokenizer, linear, sampled.

The weights are fitted to o200k on English, code and some thirty other languages: mean error 6 %, worst case about 20 %.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.long_strings import NOTHING_LONG, STEP, LongStrings, holds, text_within

_PIECE = re.compile(
    r"([A-Za-z\u00C0-\u024F\u1E00-\u1EFF]+)"  # 1 word
    r"|([0-9]+)"  # 2 digits
    r"|(\s*\n\s*)"  # 3 line break with its indentation
    r"|([ \t]{2,})"  # 4 run of blanks
    r"|([!-/:-@\[-`{-~]+)"  # 5 punctuation
    r"|([\u3400-\u9FFF\u3040-\u30FF\uAC00-\uD7AF]+)"  # 6 Chinese, Japanese, Korean
    r"|([\u0370-\u052F]+)"  # 7 Greek, Cyrillic
    r"|([\u0590-\u08FF]+)"  # 8 Hebrew, Arabic
    r"|([\u0900-\u0EFF\u1780-\u17FF]+)"  # 9 Indic, Thai, Khmer
    r"|(\S)"  # 10 the rest: emoji and the like
)

_LINES = (
    (0.0, 0.0),  # groups count from 1
    (0.2, 0.27),  # words with accents; plain ones below
    (1.68, 0.0),  # digits come in threes, below
    (1.84, 0.0),
    (2.2, 0.0),
    (0.44, 0.13),
    (0.0, 0.61),
    (1.41, 0.08),
    (0.53, 0.21),
    (0.0, 0.33),
    (0.0, 1.37),
)
"""Tokens of a piece by group: a start value and so much per character."""

WINDOW = 2048
"""Characters of one sample of a long text."""
SAMPLES = 16
"""At least 2."""

IMAGE_TOKENS = 800
MEDIA_BYTES_PER_TOKEN = 100
"""Of the base64 text of audio and documents."""
MESSAGE_TOKENS = 4
"""What every message costs beside its text; a call costs three more."""
CALL_TOKENS = 3

BOUND_BYTES_PER_TOKEN = 3
BOUND_FETCHED_TOKENS = 100_000  # of a document that the vendor fetches itself: a hundred pages, as far as is known here
BOUND_MEDIA_TOKENS = 1500
BOUND_MEDIA_BYTES_PER_TOKEN = 64
"""Of the base64 text of audio and documents: speech at 16 kbit/s, scanned pages of 150 kB."""
BOUND_TOOLS_TOKENS = 600
"""What vendors add to the prompt about tools as such; Anthropic up to 530, and also where it has to be given a form."""
BOUND_TOOL_TOKENS = 60
"""Of a tool that is made up: a name, and a schema without arguments."""
BOUND_NAME_TOKENS = 22
"""Of a function's name where a dialect puts it beside a result: 64 characters, at three a token."""
BOUND_LEAST = 16

_MEDIA_KEYS = frozenset({"data", "file_data", "b64_json"})
"""Where parts of a message carry base64 text without a ``data:`` in front."""
_MEDIA_SIGNS = (b'"image_url"', b'"input_audio"', b'"file"', b"data:")
"""Parts without any of these have no media."""
_NO_TEXT = ("data:audio/", "data:video/", "data:application/pdf")
"""Documents of other kinds may be texts."""
_SCHEMAS = ("tools", "functions", "response_format")
"""Fields that the model reads beside the messages."""
_INPUTS = ("input", "prompt", "suffix")
"""Fields that it reads instead of messages, in requests of other kinds."""
_CALLS = (b'"tool_calls"', b'"function_call"', b'"tool_use"')
_RESULTS = (b'"tool_call_id"', b'"tool_use_id"', b'"call_id"')
_PARTS = re.compile(rb'"content"\s*:\s*\[')
_BACKSLASH = ord("\\")
_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_CUT_ESCAPE = re.compile(rb"\\(?:u(?:0(?:0.?)?)?)?\Z", re.DOTALL)
_LABELS = frozenset({"role", "type", "id", "tool_call_id", "detail", "format"})
"""What no model reads as text."""
OPENED_AT_ONCE = 256 << 10
"""Bytes of JSON that are decoded by one call."""
_SHORT = 256
"""A text under a media key that is no longer than this, or is not base64, is counted as text."""


def estimate(text: str, *, samples: int = SAMPLES) -> int:
    """About how many tokens the text has; at least 1 unless it is empty. Long texts are sampled, so 6 ms at worst."""
    size = len(text)
    if not size:
        return 0
    if size <= 2 * WINDOW * samples:
        return max(1, round(_weigh(text)))
    step = (size - WINDOW) / (samples - 1)
    starts = (int(i * step) for i in range(samples))
    return round(sum(_weigh(text[s : s + WINDOW]) for s in starts) * size / (WINDOW * samples))


def _weigh(text: str) -> float:
    total = 0.0
    for match in _PIECE.finditer(text):
        group = match.lastindex or 0
        length = match.end() - match.start()
        if group == 1 and match.group().isascii():
            total += 0.93 + (0.19 * (length - 6) if length > 6 else 0.0)
        elif group == 2:
            total += 1.68 + 0.3 * ((length - 1) // 3)
        else:
            start, each = _LINES[group]
            total += start + each * length
    return total


class PromptHeap(msgspec.Struct):
    """The texts and media of a prompt, gathered."""

    long: LongStrings
    """What is missing in the texts."""
    texts: list[str] = []
    images: int = 0
    image_bytes: int = 0
    """Of their base64 text."""
    media_bytes: int = 0
    """Of base64 text that is not an image."""
    media: int = 0
    """Parts that carried ``media_bytes``."""
    embedded_text: int = 0
    """Bytes of documents that are nothing but text, decoded; they are counted in ``media_bytes`` as well."""
    messages: int = 0
    keys: int = 0
    """Of all the objects in the messages."""
    tokens: int = 0
    """What is given as tokens instead of texts."""


def prompt_tokens(fields: Mapping[str, msgspec.Raw], long: LongStrings = NOTHING_LONG) -> int:
    """About how many tokens a request has: messages, tools and schema of ``response_format``, or other texts.

    ``fields`` are the request's top-level values. Images count a flat 800, audio and documents by their size.
    """
    heap = _gather(fields, long)
    return (
        estimate_all(heap.texts, long)
        + IMAGE_TOKENS * heap.images
        + heap.media_bytes // MEDIA_BYTES_PER_TOKEN
        + MESSAGE_TOKENS * heap.messages
        + (CALL_TOKENS if "messages" in fields else 0)
        + heap.tokens
    )


def estimate_all(texts: list[str], long: LongStrings) -> int:
    """Of all texts together. Missing parts are sampled as they came: their bytes are what is counted there."""
    parts: list[str | memoryview] = []
    for text in texts:
        parts += long.parts(text)
    sizes = list(accumulate(map(len, parts), initial=0))
    total = sizes[-1]
    if len(parts) == len(texts) or total <= 2 * WINDOW * SAMPLES:
        return estimate("\n".join(texts))
    tokens, seen = 0.0, 0
    for number in range(SAMPLES):
        start = int(number * (total - WINDOW) / (SAMPLES - 1))
        which = bisect_right(sizes, start) - 1
        part = parts[which][start - sizes[which] : start - sizes[which] + WINDOW]
        tokens += _weigh(part if isinstance(part, str) else text_within(bytes(part)))
        seen += len(part)
    return round(tokens * total / seen)


def prompt_bound(
    fields: Mapping[str, msgspec.Raw], others: Iterable[str] = (), long: LongStrings = NOTHING_LONG
) -> int:
    """Tokens to hold for the input of a chat request before it is sent: a third of its bytes, at least 16.

    The messages are bounded by their JSON text as it came, less the base64 text of media. Images count a flat 1500
    each, audio and documents at least that, texts in base64 what they are decoded. ``others`` are fields that are not
    OpenAI's: an upstream may show them to the model. Tools and forms of the answer also cost a flat amount, because
    vendors explain them to the model in words of their own.

    Raises BadRequest if there are media and a name comes twice in an object: upstreams may read the one or the other.
    """
    messages = bytes(fields["messages"]) if "messages" in fields else b""
    read = tuple(filter(fields.__contains__, _SCHEMAS))
    size, media = len(messages), 0
    for name in (*read, *others):
        size += len(memoryview(fields[name]))
    if long.mark:
        size += long.hidden(messages) + sum(long.hidden(fields[name]) for name in (*read, *others))
    if messages.find(b"[", 1) >= 0 and _has_media(messages):  # without an array all are texts
        heap = _gather({"messages": fields["messages"]}, long)
        refuse_repeated(heap.keys, messages)
        size += heap.embedded_text - heap.media_bytes - heap.image_bytes
        media = max(BOUND_MEDIA_TOKENS * heap.media, heap.media_bytes // BOUND_MEDIA_BYTES_PER_TOKEN)
        media += BOUND_FETCHED_TOKENS * plain_escapes(messages).count(b'"file_id"')
        media += BOUND_MEDIA_TOKENS * heap.images + MESSAGE_TOKENS * heap.messages + CALL_TOKENS
    tools = BOUND_TOOLS_TOKENS if read else 0
    return max(BOUND_LEAST, -(-size // BOUND_BYTES_PER_TOKEN) + media + tools)


def count_tokens(given: Any) -> int:
    """How many numbers there are in an array, or in arrays in it: a text may be given as its tokens."""
    if not isinstance(given, list):
        return 0
    return sum(len(item) if isinstance(item, list) else type(item) is int for item in given)


def tool_calls_bound(fields: Mapping[str, msgspec.Raw]) -> int:
    """Tokens to hold for tools that are made up for the calls in the messages; texts that speak of such count too."""
    messages = plain_escapes(fields.get("messages", b""))
    if not any(holds(messages, name) for name in _CALLS):
        return 0
    return BOUND_TOOLS_TOKENS + BOUND_TOOL_TOKENS * messages.count(b'"name"')


def result_names_bound(fields: Mapping[str, msgspec.Raw]) -> int:
    """Tokens to hold for the names of functions that are sent with the results of their calls."""
    messages = plain_escapes(fields.get("messages", b""))
    return BOUND_NAME_TOKENS * sum(messages.count(name) for name in _RESULTS)


def plain_escapes(data: bytes | msgspec.Raw) -> bytes:
    """JSON text for searching: letters, digits and marks that were written as escapes stand for themselves."""
    text = bytes(data)
    if not holds(text, b"\\u00"):
        return text
    parts, start = [], 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and _CUT_ESCAPE.search(text, end - 5, end):
            end += 1
        parts.append(_ASCII_ESCAPE.sub(_unescape, text[start:end]))
        start = end
    return b"".join(parts)


def _unescape(found: "re.Match[bytes]") -> bytes:
    char = bytes((int(found[1], 16),))
    return found[0] if char in b'"\\' else char


def refuse_repeated(keys: int, *texts: bytes | msgspec.Raw) -> None:
    """Raises BadRequest unless these JSON texts have as many keys as were read in all their objects."""
    if keys != sum(map(_written_keys, texts)):
        msg = "an object of the body has a key twice; send each field once"
        raise BadRequest(msg, code="duplicate_key")


def _written_keys(data: bytes | msgspec.Raw) -> int:
    """Step by step: of a large text it takes a while."""
    text = bytes(data)
    if b"{" not in text:
        return 0
    keys = inside = start = 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and text[end - 1] == _BACKSLASH:  # no escape is cut
            end += 1
        part = text[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        keys += b"".join(pieces[inside::2]).count(b":")
        inside ^= len(pieces) + 1 & 1
        start = end
    return keys


def _has_media(messages: bytes) -> bool:
    """Whether a message may have a part that is not text."""
    if len(messages) > STEP:  # a pattern would take a while; whoever speaks of media is taken to have some
        return any(holds(messages, sign) for sign in (*_MEDIA_SIGNS, b"\\u00"))
    text = plain_escapes(messages)
    return _PARTS.search(text) is not None and any(sign in text for sign in _MEDIA_SIGNS)


def _gather(fields: Mapping[str, msgspec.Raw], long: LongStrings) -> PromptHeap:
    heap = PromptHeap(long, texts=[])
    messages = opened_json(fields["messages"]) if "messages" in fields else None
    if isinstance(messages, list):
        heap.messages = len(messages)
        for text in _strings(messages, heap):
            heap.texts.append(text)
    for name in _INPUTS if messages is None else ():
        if name in fields:
            given = opened_json(fields[name])
            heap.texts.extend(_strings(given, heap))
            heap.tokens += count_tokens(given)
    heap.texts.extend(bytes(fields[name]).decode("utf-8", "replace") for name in _SCHEMAS if name in fields)
    return heap


_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def opened_json(raw: msgspec.Raw) -> Any:
    """The value; a large one level by level: the decoder runs to its end, and whoever else wants to run waits."""
    if len(memoryview(raw)) <= OPENED_AT_ONCE:
        return _decode(raw)
    try:
        match bytes(memoryview(raw)[:1]):
            case b"[":
                return [opened_json(item) for item in _ITEMS.decode(raw)]
            case b"{":
                return {name: opened_json(value) for name, value in _FIELDS.decode(raw).items()}
    except (msgspec.DecodeError, RecursionError):
        pass
    return _decode(raw)


def _decode(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # a lone surrogate: only the standard library reads it
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return None


def _strings(value: Any, heap: PromptHeap) -> Iterator[str]:
    """Every text below a value; media are counted and left out. Iterative: requests may be nested deeply."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        key, item = stack.pop()
        if isinstance(item, str):
            if not _is_media(key, item, heap) and key not in _LABELS:
                yield item
        elif isinstance(item, dict):
            heap.keys += len(item)
            stack.extend(reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((key, element) for element in reversed(item))


def _is_media(key: str, text: str, heap: PromptHeap) -> bool:
    embedded = text.startswith("data:") and ";base64," in text[:128]
    if key == "url" and (embedded or text.startswith(("http://", "https://"))):
        heap.images += 1
        heap.image_bytes += len(text) + heap.long.hidden(text) if embedded else 0
        return True
    if embedded and text.startswith("data:image/"):
        heap.images += 1
        heap.image_bytes += len(text) + heap.long.hidden(text)
        return True
    if embedded or (key in _MEDIA_KEYS and len(text) > _SHORT and _may_be_base64(heap.long.parts(text))):
        heap.media += 1
        size = len(text) + heap.long.hidden(text)
        heap.media_bytes += size
        if embedded and not text.startswith(_NO_TEXT):
            heap.embedded_text += 3 * size // 4
        return True
    return False


def _may_be_base64(parts: list[str | memoryview]) -> bool:
    """Of a text in pieces. Of missing ones it is enough that an escape may stand for something else."""
    for part in parts:
        for start in range(0, len(part), STEP):
            piece = part[start : start + STEP + 1]
            if not isinstance(piece, str):
                piece = bytes(piece).decode("ascii", "replace").replace("\\u", " ")
            if " " in piece or not piece.isascii():
                return False
    return True


class Calibration:
    """How far the estimates of each channel and model are off, learned from calls that did report. Clock-free."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, str], float] = {}

    def learn(self, channel: str, model: str, *, reported: int, estimated: int) -> None:
        """A call whose tokens are known; what is too small to tell anything is ignored."""
        if reported < 16 or estimated < 16:
            return
        ratio = self._ratios.get((channel, model), 1.0)
        ratio = 0.9 * ratio + 0.1 * (reported / estimated)
        self._ratios[channel, model] = min(2.0, max(0.5, ratio))

    def apply(self, channel: str, model: str, estimated: int) -> int:
        """The estimate corrected by what was learned."""
        return math.ceil(estimated * self._ratios.get((channel, model), 1.0))

    def forget(self, channel: str) -> None:
        """The channel was changed or removed."""
        for key in [key for key in self._ratios if key[0] == channel]:
            del self._ratios[key]
