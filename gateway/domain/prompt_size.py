"""Prompt size: how many input tokens a request of any API has: an upper bound for the hold, and an estimate.

Every string counts as text, whatever the name of its field, except in the objects that APIs have for media and for
sealed reasoning. The bound of a text is a third of its bytes; ``media_size`` has the bound of media. Sealed reasoning
(a signature, encrypted content) counts an eighth of its bytes, as it is billed. Arguments of calls are always text.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from gateway.domain import estimate, rawjson
from gateway.domain.answer import SEAL_PREFIX, SealKind
from gateway.domain.errors import BadRequest
from gateway.domain.json_elements import Elements, elements_of
from gateway.domain.json_text import may_have_more_objects, plain_escapes
from gateway.domain.media_size import GENERATED, NO_MEDIA, PromptMedia, count_pages, media_type_of, type_in_url
from gateway.domain.rawjson import Fields

MESSAGE_TOKENS = 4
"""The tokens of a message in addition to its text."""
CALL_TOKENS = 3
"""The tokens of a call in addition to its messages."""
SEAL_BYTES_PER_TOKEN = 8

BOUND_BYTES_PER_TOKEN = 3
BOUND_TOOLS_TOKENS = 600
"""The maximum number of tokens that vendors add about tools: up to 530 at Anthropic, also for structured answers."""
BOUND_TOOL = 30
"""The maximum number of tokens that a translation adds to a tool: a longer name, an empty schema, and its place."""
BOUND_DATED_TOOL = 1_300
"""The maximum number of tokens that Anthropic adds for its own tool that clients run, a screen with a system prompt."""
DATED_TYPE = b"_202"
"""What the types of these tools contain, as in ``bash_20250124``."""
_TYPE_KEY = re.compile(rb'(?<!\\)"type"\s*:')
_STRICT = re.compile(rb'"strict"\s*:\s*true')

SCHEMAS = ("tools", "functions", "response_format")
"""Fields of a chat that the model reads in addition to the messages."""
_FORMS = (*SCHEMAS, "text", "output_config", "output_format")
"""Fields with tools and the form of the answer, in requests of any API."""
_TEXTS = ("system", "instructions", "messages", "input", "prompt", "suffix")
"""Other fields that the model reads, in requests of any API."""
_SEALS = {
    "thinking": "signature",
    "redacted_thinking": "data",
    "reasoning": "encrypted_content",
    "compaction": "encrypted_content",
}
"""The fields with a seal, by the types of their objects."""
_SUMMARY = SEAL_PREFIX + SealKind.COMPACTION
"""How a seal begins that is the text of a summary, which other models read."""
_PICTURES = frozenset({"image", "image_url", "input_image", "image_generation_call"})
_FETCHED = frozenset(
    {
        *("document", "document_url", "file", "file_data", "file_url", "input_file"),
        *("video", "video_url", "input_video", "audio", "audio_url", "input_audio"),
    }
)
"""Names and types of media other than pictures, which may have an address."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,15}://", re.IGNORECASE)
_MEDIA_TEXTS = frozenset({"title", "context", "content", "filename", "name", "text"})
"""Fields of a medium that are text, even if they begin like an address."""
_MEDIA = _PICTURES | _FETCHED
_MEDIA_URLS = _MEDIA | {"url", "file_id"}
"""Names of fields that may have a ``data:`` URL. In any other field it is text, which the model reads."""
_MEDIA_NAMES = _MEDIA_URLS | {"images", "data"}
"""Each object that has media has one of these names, unless its own type is in ``_MEDIA``."""
_SPECIAL_NAMES = _MEDIA_NAMES | {*_SEALS.values()}
"""Each object that has media or seals has one of these names, unless its own name or type is in ``_MEDIA``."""
_QUOTED_NAMES = tuple(b'"%b"' % name.encode() for name in _SPECIAL_NAMES)
_ARGUMENTS = frozenset({"input", "arguments", "action", "operation"})
"""Fields with what a tool is called with, which is text, whatever it looks like."""
_LABELS = frozenset(
    {"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "media_type", "status", "detail", "format"}
)
"""Fields that no model reads as text."""
_IDS = frozenset(name for name in _LABELS if name.endswith("id"))
_NUMBERS = re.compile(rb"[\[,]\s*-?[0-9]")
_CALLS = frozenset({"tool_calls", "function_call"})
"""Fields with calls of chats. Those of Messages and Responses have a type."""
_Place = tuple[str, Any, bool]
"""The name of a value, the value, and whether it is in the arguments of a call."""


class InputBound(msgspec.Struct, frozen=True, gc=False):
    """The maximum input that a request may count."""

    tokens: int
    """The tokens of everything except media."""
    media: PromptMedia
    calls: int = 0
    results: int = 0
    """The tool results of chats."""
    long_id_bytes: int = 0
    """The bytes of ids beyond the first 40 of each. A result that is added repeats the id."""

    def call_tokens(self, tokens_per_call: int) -> int:
        """Returns the tokens that a translation adds to calls and results: ids, names, and missing results."""
        id_bytes = self.long_id_bytes if self.calls else 0
        return self.calls * tokens_per_call + 5 * self.results - (-id_bytes // BOUND_BYTES_PER_TOKEN)

    def plus(self, tokens: int) -> "InputBound":
        """Returns the bound with more tokens."""
        return msgspec.structs.replace(self, tokens=self.tokens + tokens)


def bound_of(
    contents: Fields,
    schemas: Iterable[msgspec.Raw] = (),
    others: Fields | None = None,
    *,
    elements: Mapping[str, Elements] | None = None,
    minimum: int = 16,
) -> InputBound:
    """Returns what to hold for the input of a request with these fields, by default at least 16 tokens.

    ``contents`` are what the model reads. ``schemas`` are tools and forms of the answer, about which vendors add texts.
    ``others`` are fields that an upstream may show to the model; arrays of numbers in them may be texts. ``elements``:
    how many the fields have, as far as that is known. Raises BadRequest if an object that may have media or seals has a
    key twice, because an upstream may read the other value.
    """
    others, elements = others or {}, elements or {}
    schemas = [schema for schema in schemas if not rawjson.is_nothing(schema)]  # some clients always send a list
    fields = {**contents, **others}
    size = sum([len(memoryview(raw)) for raw in (*fields.values(), *schemas)])
    tokens = BOUND_TOOLS_TOKENS if schemas else 0
    for schema in map(plain_escapes, schemas):
        tokens += BOUND_DATED_TOOL * schema.count(DATED_TYPE) + BOUND_TOOL * schema.count(b'"name"')
        if b'"$ref"' in schema:  # a translation may write a definition a second time where it is used
            size += len(schema)
        # after a refusal, ``tool_schemas`` adds ``items`` to lists, types to enums, and both to alternatives
        tokens += 4 * schema.lower().count(b'"array"') + 6 * schema.count(b'"enum"')
        if b'"anyOf"' in schema:
            tokens += 10 * max(0, schema.count(b"{") - len(_TYPE_KEY.findall(schema)))
        if _STRICT.search(schema):  # Claude gets closed objects, and descriptions that quote what it does not compile
            tokens += 10 * schema.count(b"{") + schema.count(b'"') // 3
    for text in map(bytes, others.values()):
        if _NUMBERS.search(text):
            tokens += text.count(b"[") + text.count(b",")  # one is before each number
    parts, media = PromptParts(), NO_MEDIA
    for name, raw in fields.items():
        if not rawjson.is_text(raw) and b"{" in bytes(raw):
            inner = elements.get(name) or elements_of(rawjson.maybe(raw))
            if not parts.add_without_media(raw, inner):
                parts.add_checked(raw, inner.value)
                media = parts.media
    size -= parts.skipped_bytes
    tokens -= -parts.sealed_bytes // SEAL_BYTES_PER_TOKEN
    tokens = max(minimum, -(-size // BOUND_BYTES_PER_TOKEN) + tokens)
    return InputBound(tokens, media, parts.calls, parts.results, parts.long_id_bytes)


def prompt_tokens(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns about how many tokens a request of any API has, with its tools and the form of its answer.

    ``fields`` are the top-level values of the request. An image counts 800 tokens, audio and documents by size.
    """
    values = [rawjson.maybe(fields[name]) for name in _TEXTS if name in fields]
    parts = PromptParts()
    parts.add(values)
    parts.texts += [bytes(fields[name]).decode("utf-8", "replace") for name in _FORMS if name in fields]
    items = [item for value in values if isinstance(value, list) for item in value]
    messages = sum(isinstance(item, dict) and "role" in item for item in items)
    return (
        estimate.estimate("\n".join(parts.texts))
        + 800 * parts.media.pictures
        + (parts.document_bytes + parts.media.audio_bytes + parts.media.video_bytes) // 100
        + parts.sealed_bytes // SEAL_BYTES_PER_TOKEN
        + MESSAGE_TOKENS * messages
        + CALL_TOKENS * ("messages" in fields or messages > 0)
        + sum(map(count_tokens, values))
    )


def count_tokens(value: Any) -> int:
    """Returns how many numbers an array or its inner arrays have, because a text may be given as tokens."""
    if not isinstance(value, list):
        return 0
    return sum(len(item) if isinstance(item, list) else type(item) is int for item in value)


class PromptParts(msgspec.Struct):
    """Collects what values of a request contain. Sizes are of base64 text."""

    texts: list[str] = []
    media: PromptMedia = msgspec.field(default_factory=PromptMedia)
    document_bytes: int = 0
    sealed_bytes: int = 0
    skipped_bytes: int = 0
    """The bytes of JSON that are media and seals."""
    calls: int = 0
    results: int = 0
    long_id_bytes: int = 0

    def add_without_media(self, raw: msgspec.Raw, elements: Elements) -> bool:
        """Add all but the texts of a value, in a third of the time of ``add``, if it certainly has no media.

        Returns False if it may have media, an object that was not decoded because its key comes twice, or so many
        arguments within arguments that each would be examined too often.
        """
        own = elements.objects
        if may_have_more_objects(bytes(raw), len(own), elements.texts):
            return False
        names = set().union(*own)
        if names == {"role", "content"}:
            self.results += _values_of(own, {"role"}).count("tool")
            return True
        if arguments := _values_of(own, names & _ARGUMENTS):
            inner = elements_of(arguments, elements.size)
            if inner.size > elements.size:
                return False
            in_arguments = set(map(id, inner.objects))
            own = [item for item in own if id(item) not in in_arguments]
            names = set().union(*own)
        kinds = [kind for kind in _values_of(own, names & {"type"}) if isinstance(kind, str)]
        if not (_MEDIA_NAMES.isdisjoint(names) and _MEDIA.isdisjoint(kinds)):
            return False
        self.calls += sum(map(_is_call, kinds)) + sum(map(_call_count, _values_of(own, names & _CALLS)))
        self.results += _values_of(own, names & {"role"}).count("tool")
        self.long_id_bytes += sum(map(_long_id_bytes, _values_of(own, names & _IDS)))
        if not _SEALS.keys().isdisjoint(kinds):
            for item in own:
                if (kind := rawjson.text_at(item, "type")) in _SEALS:
                    self._add_special_fields(item, "", kind)
        return True

    def add_checked(self, raw: msgspec.Raw, value: Any) -> None:
        """Add a value. Raises BadRequest if it may have media or seals, and an object in it has a key twice."""
        self.add([value])
        if rawjson.repeats_a_key(raw, value):
            text = plain_escapes(raw)
            if b"data:" in text or any(name in text for name in _QUOTED_NAMES):
                raise BadRequest("an object of the body has a key twice; send each field once", code="duplicate_key")

    def add(self, values: Iterable[Any]) -> None:
        """Add the contents of these values, without recursion, because requests may be nested deeply."""
        stack: list[_Place] = [("", value, False) for value in values][::-1]
        while stack:
            key, item, in_arguments = stack.pop()
            if isinstance(item, str):
                self.texts.append(item)
            elif isinstance(item, list):
                stack.extend([(key, element, in_arguments) for element in reversed(item)])
            elif isinstance(item, dict):
                stack.extend(self._add_object(item, key, in_arguments=in_arguments))

    def _add_object(self, item: dict[str, Any], key: str, *, in_arguments: bool) -> list[_Place]:
        """Add an object. Returns the values in it that are not texts."""
        kind = item.get("type")
        kind = kind if isinstance(kind, str) else ""
        self.calls += not in_arguments and _is_call(kind)
        special: Collection[str] = ()
        if not (in_arguments or (_SPECIAL_NAMES.isdisjoint(item) and _MEDIA.isdisjoint((key, kind)))):
            special = self._add_special_fields(item, key, kind)
        inner: list[_Place] = []
        for name, value in item.items():
            if name in special:
                continue
            if name in _LABELS and not in_arguments:
                if name == "role":
                    self.results += value == "tool"
                elif name in _IDS:
                    self.long_id_bytes += _long_id_bytes(value)
            elif isinstance(value, str):
                self.texts.append(value)
            else:
                inner.append((kind if name == "source" else name, value, in_arguments or name in _ARGUMENTS))
                if name in _CALLS and not in_arguments:
                    self.calls += _call_count(value)
        return inner

    def _add_special_fields(self, item: dict[str, Any], key: str, kind: str) -> list[str]:
        """Add the fields of an object that are media, their addresses, or seals. Returns the names of these fields.

        ``key`` is the object's name; for a source, the type of the object around it. ``kind`` is its own type.
        """
        seal_name, names = _SEALS.get(kind), []
        for name, value in item.items():
            if name == "images" and isinstance(value, list) and self._add_images(value):
                names.append(name)
            if not isinstance(value, str):
                continue
            if name == seal_name and not value.startswith(_SUMMARY):
                self.sealed_bytes += len(value)
                self.skipped_bytes += len(value)
                names.append(name)
            elif _is_data(name, value, key, kind):
                if self._add_medium(value, media_type_of(value, item, key)):
                    names.append(name)
            elif self._add_address(name, value, key, kind):
                names.append(name)
        return names

    def _add_address(self, name: str, text: str, key: str, kind: str) -> bool:
        """Count the address of a medium in an object ``key`` of type ``kind``. Returns whether it is one."""
        if name in _MEDIA_TEXTS or (kind, name) == ("text", "data"):
            return False
        words = (name, key, kind)
        is_picture = not _PICTURES.isdisjoint(words)
        if name not in ("file_id", "file_url"):
            is_medium = is_picture or not _FETCHED.isdisjoint(words)
            if not is_medium or _ADDRESS.match(text) is None:
                return False
        if is_picture:
            self.media.pictures += 1
        else:
            self.media.fetched += 1
        return True

    def _add_medium(self, text: str, media_type: str) -> bool:
        """Count a medium. Returns False for a document that counts as text: of another type, it may be compressed."""
        size = len(text)
        if media_type.startswith("image/"):
            self.media.pictures += 1
            self.media.picture_bytes += size
        elif media_type.startswith("audio/"):
            self.media.audio_bytes += size
        elif media_type.startswith("video/"):
            self.media.video_bytes += size
        elif media_type == "application/pdf":
            self.document_bytes += size
            self.media.pages += count_pages(text.encode("utf-8", "replace"))
        else:
            self.media.fetched += not media_type.startswith("text/")
            return False
        self.skipped_bytes += size
        return True

    def _add_images(self, images: list[Any]) -> bool:
        """Count images as Ollama's clients send them, as nothing but base64 texts. Returns whether they are that."""
        if not all(isinstance(text, str) and " " not in text and text.isascii() for text in images):
            return False
        for image in images:
            if not self._add_medium(image, media_type_of(image, {}, "") or "image/"):
                self.texts.append(image)
        return True


def _values_of(objects: list[dict[str, Any]], names: Collection[str]) -> list[Any]:
    """Returns the values that objects have under these names."""
    return [item[name] for name in names for item in objects if name in item]


def _is_call(kind: str) -> bool:
    """Returns whether an object of this type is a tool call."""
    return kind == "tool_use" or kind.endswith("_call")


def _call_count(value: Any) -> int:
    """Returns how many calls the value of a field with calls has."""
    return len(value) if isinstance(value, list) else int(isinstance(value, dict))


def _long_id_bytes(value: Any) -> int:
    """Returns the bytes of an id beyond its first 40; 0 for another value."""
    if not isinstance(value, str) or (len(value) <= 40 and value.isascii()):
        return 0
    return max(0, len(rawjson.encode(value)) - 42)


def _is_data(name: str, text: str, key: str, kind: str) -> bool:
    """Returns whether a field has the content of a medium, in an object ``key`` of type ``kind``."""
    if (kind, name) == GENERATED:
        return True
    may_be_base64 = name == "file_data" or (name == "data" and (kind == "base64" or key == "input_audio"))
    if type_in_url(text) is not None:
        return may_be_base64 or name in _MEDIA_URLS
    if not may_be_base64 or _ADDRESS.match(text) is not None:
        return False
    is_certain = name == "file_data" or kind == "base64"
    return is_certain or (len(text) > 256 and " " not in text and text.isascii())  # a shorter one counts as text
