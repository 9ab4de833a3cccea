"""How many input tokens a request has, whatever its API: a bound for the hold, and an estimate.

Every string counts as text, whatever its field is called, except in the objects that APIs have for media and for sealed
reasoning. The bound of text is a third of its bytes; media count by ``media_size``. Sealed reasoning (a signature,
encrypted content) counts an eighth of a token a byte: vendors bill the reasoning that they find in it. The arguments of
tool calls are always text.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.domain import estimate, rawjson
from gateway.domain.json_text import plain_escapes, refuse_repeated
from gateway.domain.media_size import NO_MEDIA, PromptMedia, count_pages

MESSAGE_TOKENS = 4
"""Tokens of a message beside its text; a call costs three more."""
CALL_TOKENS = 3
SEAL_BYTES_PER_TOKEN = 8

BOUND_BYTES_PER_TOKEN = 3
BOUND_TOOLS_TOKENS = 600
"""Tokens that vendors add to the prompt about tools in general; Anthropic up to 530, also for a structured answer."""

SCHEMAS = ("tools", "functions", "response_format")
"""Fields of a chat that the model reads beside the messages."""
_INPUTS = ("input", "prompt", "suffix")
"""Fields that the model reads instead of messages, in other kinds of requests."""
CHAT_MARKERS = (b"data:", b'"image_url"', b'"images"', b'"video_url"', b'"input_audio"', b'"file"', b"\\u00")
MESSAGES_MARKERS = (b"data:", b'"source"', b'"signature"', b'"redacted_thinking"', b"\\u00")
RESPONSES_MARKERS = (
    b"data:",
    b'"input_image"',
    b'"input_file"',
    b'"input_audio"',
    b'_url"',
    b'"encrypted_content"',
    b"\\u00",
)
"""Texts in a conversation of each API that contains media or seals. Long words are found fastest."""
_MARKERS = tuple({*CHAT_MARKERS, *MESSAGES_MARKERS, *RESPONSES_MARKERS, b'"data"', b'"file_'})
_SEALS = {
    "thinking": "signature",
    "redacted_thinking": "data",
    "reasoning": "encrypted_content",
    "compaction": "encrypted_content",
}
"""Types of objects with a seal, and its field."""
_DATA = frozenset({"data", "file_data"})
"""Fields with base64 text without a ``data:`` prefix."""
_PICTURES = frozenset({"image", "image_url", "input_image", "video_url"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_LABELS = frozenset(
    {"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "media_type", "status", "detail", "format"}
)
"""Fields that no model reads as text."""
_SHORT = 256
"""Text in a field for data counts as text if it is at most this long, or is not base64."""
_NUMBERS = re.compile(rb"\[\s*-?[0-9]")
_TOOL_CALLS = (b'"tool_calls"', b'"function_call"', b'"tool_use"')
_TOOL_RESULTS = (b'"tool_call_id"', b'"tool_use_id"', b'"call_id"')


class InputBound(msgspec.Struct, frozen=True, gc=False):
    """The most input of a request."""

    tokens: int
    """Tokens of its texts."""
    media: PromptMedia = NO_MEDIA


def bound_of(
    read: Iterable[msgspec.Raw],
    schemas: Iterable[msgspec.Raw] = (),
    others: Iterable[msgspec.Raw] = (),
    signs: Iterable[bytes] = _MARKERS,
    *,
    least: int = 16,
) -> InputBound:
    """Returns what to hold for the input of a request with these fields: at least 16 tokens by default.

    ``schemas``: tools and forms of the answer, which vendors explain in words of their own. ``others``: fields that an
    upstream may show to the model; arrays of numbers in them may be texts. ``signs``: texts in ``read`` if it has
    media. Raises BadRequest if it may have media and a key comes twice in an object: upstreams may read either one.
    """
    given, shown, forms = [*read], [*others], [*schemas]
    size = sum([len(memoryview(value)) for value in given + shown + forms])
    tokens = BOUND_TOOLS_TOKENS if forms else 0
    together = b"".join(shown)
    if together and _NUMBERS.search(together):
        numbers = [value for value in shown if _NUMBERS.search(bytes(value))]
        # a digit and a comma
        tokens += sum(len(memoryview(value)) // 2 for value in numbers)
    media = NO_MEDIA
    special = [value for value in given if _has_marker(bytes(value), signs)]
    if together and _has_marker(together, _MARKERS):
        special += [value for value in shown if _has_marker(bytes(value), _MARKERS)]
    if special:
        parts = read_prompt(special)
        refuse_repeated(parts.keys, *special)
        size -= parts.skipped_bytes
        tokens -= -parts.sealed_bytes // SEAL_BYTES_PER_TOKEN
        media = parts.media
    return InputBound(max(least, -(-size // BOUND_BYTES_PER_TOKEN) + tokens), media)


def _has_marker(text: bytes, signs: Iterable[bytes]) -> bool:
    if text[:9] == b'[{"role":' and text.find(b"[", 1) < 0:  # messages whose contents are all texts
        return False
    for sign in signs:  # noqa: SIM110 - a generator would cost more than all this
        if sign in text:
            return True
    return False


def prompt_tokens(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns about how many tokens a chat, or a request with other texts, has: messages, tools and form of the answer.

    ``fields`` are the request's top-level values. Images count a flat 800, audio and documents by size.
    """
    messages = rawjson.maybe(fields["messages"]) if "messages" in fields else None
    schemas = [fields[name] for name in SCHEMAS if name in fields]
    if isinstance(messages, list):
        return _estimate([messages], schemas, len(messages)) + CALL_TOKENS
    given = [rawjson.maybe(fields[name]) for name in _INPUTS if name in fields]
    called = CALL_TOKENS if "messages" in fields else 0
    return _estimate(given, schemas, 0) + sum(map(count_tokens, given)) + called


def tokens_of(values: Iterable[msgspec.Raw], schemas: Iterable[msgspec.Raw], messages: int) -> int:
    """Returns about how many tokens the input has. ``schemas`` (tools, the form of the answer) are read as written."""
    return _estimate(map(rawjson.maybe, values), schemas, messages) + CALL_TOKENS


def _estimate(values: Iterable[Any], schemas: Iterable[msgspec.Raw], messages: int) -> int:
    parts = PromptParts()
    _read(values, parts)
    parts.texts += [bytes(schema).decode("utf-8", "replace") for schema in schemas]
    return (
        estimate.estimate("\n".join(parts.texts))
        + 800 * parts.pictures
        + (parts.document_bytes + parts.sound_bytes + parts.film_bytes) // 100
        + parts.sealed_bytes // SEAL_BYTES_PER_TOKEN
        + MESSAGE_TOKENS * messages
    )


def count_tokens(given: Any) -> int:
    """Returns how many numbers an array or its inner arrays have: a text may be given as tokens."""
    if not isinstance(given, list):
        return 0
    return sum(len(item) if isinstance(item, list) else type(item) is int for item in given)


def text_count(raw: msgspec.Raw | None) -> int:
    """Returns how many texts such a value has."""
    try:
        items = rawjson.items(rawjson.NULL if raw is None else raw)
    except ValueError:  # one text, or none
        return 1
    return len(items) if items and bytes(memoryview(items[0])[:1]) in (b'"', b"[") else 1


class PromptParts(msgspec.Struct):
    """What the values of a request contain. Bytes are those of base64 text."""

    texts: list[str] = []
    pictures: int = 0
    picture_bytes: int = 0
    pages: int = 0
    """Pages of all documents."""
    document_bytes: int = 0
    sound_bytes: int = 0
    film_bytes: int = 0
    fetched: int = 0
    """How many documents are not in the request."""
    sealed_bytes: int = 0
    skipped_bytes: int = 0
    """Bytes of JSON that are not text: media and seals."""
    keys: int = 0
    """How many keys all objects have."""

    @property
    def media(self) -> PromptMedia:
        """Returns what is not text."""
        return PromptMedia(**{name: getattr(self, name) for name in PromptMedia.__struct_fields__})


def read_prompt(values: Iterable[msgspec.Raw]) -> PromptParts:
    """Returns the texts in these values, and what else they contain."""
    parts = PromptParts()
    _read(map(rawjson.maybe, values), parts)
    return parts


def _read(values: Iterable[Any], parts: PromptParts) -> None:
    """Read the values. Iterative, because requests may be nested deeply."""
    stack: list[tuple[str, Any, bool]] = [("", value, False) for value in values][::-1]
    while stack:
        key, item, called = stack.pop()
        if isinstance(item, str):
            parts.texts.append(item)
        elif isinstance(item, list):
            stack.extend([(key, element, called) for element in reversed(item)])
        elif isinstance(item, dict):
            parts.keys += len(item)
            skipped_bytes = () if called else _add_special_fields(item, key, parts)
            kind = item.get("type")
            kind = kind if isinstance(kind, str) else ""
            for name in reversed(item):
                if name not in skipped_bytes and (called or name not in _LABELS):
                    place = kind if name == "source" else name
                    stack.append((place, item[name], called or (name == "input" and kind in _CALLS)))


def _add_special_fields(item: dict[str, Any], key: str, parts: PromptParts) -> list[str]:
    """Counts the fields of an object that are media, their addresses, or seals.

    ``key`` is the object's own name; for a source, the type of its holder.
    """
    kind = item.get("type")
    kind = kind if isinstance(kind, str) else ""
    sealed, names = _SEALS.get(kind), []
    for name, text in item.items():
        if name == "images" and isinstance(text, list) and _add_images(text, parts):
            names.append(name)
        if not isinstance(text, str):
            continue
        if name == sealed:
            parts.sealed_bytes += len(text)
            parts.skipped_bytes += len(text)
            names.append(name)
        elif _is_data(name, text, kind):
            if _add_medium(text, _media_type(text, item, key), parts):
                names.append(name)
        elif _add_address(name, text, (key, kind), parts):
            names.append(name)
    return names


def _add_address(name: str, text: str, places: tuple[str, str], parts: PromptParts) -> bool:
    """Returns whether a field is the address of a picture or document. ``places``: the object's name and type."""
    key, kind = places
    picture = name in _PICTURES or not _PICTURES.isdisjoint(places)
    if name in ("file_id", "file_url"):
        is_address = True
    else:
        is_address = text.startswith(("http://", "https://")) and (picture or (name == "url" and kind == "url"))
    if is_address and (picture or (name == "url" and key != "document")):
        parts.pictures += 1
    elif is_address:
        parts.fetched += 1
    return is_address


def _is_data(name: str, text: str, kind: str) -> bool:
    if text.startswith("data:") and ";base64," in text[:_SHORT]:
        return True
    return name in _DATA and (kind == "base64" or (len(text) > _SHORT and " " not in text and text.isascii()))


def _media_type(text: str, item: dict[str, Any], key: str) -> str:
    """Returns the media type of base64 text; empty if it does not name one."""
    if text.startswith("data:"):
        return text[len("data:") : _SHORT].partition(";")[0].lower()
    given, name = item.get("media_type"), item.get("filename")
    if isinstance(given, str):
        return given.lower()
    if isinstance(name, str) and name.lower().endswith(".pdf"):
        return "application/pdf"
    return "audio/" if key == "input_audio" or isinstance(item.get("format"), str) else ""


def _add_medium(text: str, media_type: str, parts: PromptParts) -> bool:
    """Returns whether it is a medium: what is unknown may be a document of nothing but text."""
    size = len(text)
    if media_type.startswith("image/"):
        parts.pictures += 1
        parts.picture_bytes += size
    elif media_type.startswith("audio/"):
        parts.sound_bytes += size
    elif media_type.startswith("video/"):
        parts.film_bytes += size
    elif media_type == "application/pdf":
        parts.document_bytes += size
        parts.pages += count_pages(text.encode("utf-8", "replace"))
    else:
        return False
    parts.skipped_bytes += size
    return True


def _add_images(images: list[Any], parts: PromptParts) -> bool:
    """Returns whether these are images as Ollama's clients send them: base64 text and nothing else."""
    if not all(isinstance(text, str) and " " not in text and text.isascii() for text in images):
        return False
    for image in images:
        _add_medium(image, "image/", parts)
    return True


def tool_calls_bound(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns the tokens to hold for tools invented for the calls in the messages. Texts that mention calls
    count too.
    """
    messages = plain_escapes(fields.get("messages", b""))
    if not any(name in messages for name in _TOOL_CALLS):
        return 0
    # an invented tool has a name, and a schema without arguments
    return BOUND_TOOLS_TOKENS + 60 * messages.count(b'"name"')


def result_names_bound(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns the tokens to hold for function names that are sent with the results of their calls."""
    messages = plain_escapes(fields.get("messages", b""))
    # a name of 64 characters, three a token
    return 22 * sum(messages.count(name) for name in _TOOL_RESULTS)
