"""The turns of a conversation in one form, whichever spelling a client used, with their images, audio and documents.

``developer`` is ``system``; legacy ``function_call`` and role ``function`` are tool calls and results; a result knows
which call it answers, and whether the tool failed. Chat completions have no field for that, and no word that is only
used for it: a result that merely begins with "Error" may be a log that was read. So a result counts as failed only if
the client marks it by one of the fields that servers and frameworks have added, or in a sentence of its own.
"""

import re

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.rawjson import NULL
from gateway.upstream.translate.request import (
    Audio,
    CalledFunction,
    File,
    ImageUrl,
    Message,
    MessagePart,
    ToolCall,
    read_parts,
)

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mp3"}
_SAME = {"image/jpg": "image/jpeg"}


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """One medium: base64 text of a type, or the web address where it lies."""

    type: str = ""
    """Media type in lower case; empty with an address."""
    data: str = ""
    url: str = ""
    where: str
    """Its place in the request, for errors."""
    cache: msgspec.Raw = NULL


def image_of(image: ImageUrl | str, cache: msgspec.Raw, where: str) -> Media:
    """An image. Raises BadRequest if its URL is neither data nor https."""
    url = image if isinstance(image, str) else image.url
    where = f"{where}.image_url"
    if match := _DATA.match(url):
        return _embedded_media(match, url, where, cache)
    if url.startswith("https://"):
        return Media(url=url, where=where, cache=cache)
    raise BadRequest(f"{where}: must be a base64 data: URL or an https: URL", param=where)


def audio_of(audio: Audio, where: str) -> Media:
    """A sound. Raises BadRequest if its format is unknown."""
    where = f"{where}.input_audio"
    if audio.format not in _AUDIO:
        raise BadRequest(f"{where}.format: must be wav or mp3", param=f"{where}.format")
    return Media(type=_AUDIO[audio.format], data=audio.data, where=where)


def file_of(file: File, cache: msgspec.Raw, where: str) -> Media:
    """A document. Raises BadRequest if it is not there: an id means something to its vendor only."""
    where = f"{where}.file"
    data = file.file_data or ""
    if match := _DATA.match(data):
        return _embedded_media(match, data, where, cache)
    if data and (file.filename or "").lower().endswith(".pdf"):
        return Media(type="application/pdf", data=data, where=where, cache=cache)
    raise BadRequest(
        f"{where}: only documents sent as a base64 data: URL in file_data can be translated",
        code="unsupported_parameter",
        param=where,
    )


def _embedded_media(match: "re.Match[str]", url: str, where: str, cache: msgspec.Raw) -> Media:
    kind = match[1].lower()
    return Media(type=_SAME.get(kind, kind), data=url[match.end() :], where=where, cache=cache)


_BLANK = re.compile(rb'"(?:[ ]|\\[nrt])*"')
BLANK_LIMIT = 64 << 10
"""Bytes of a text that is looked through for anything but blanks; a longer one is taken for a text."""


class TextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A text as the JSON string it came as."""

    raw: msgspec.Raw
    cache: msgspec.Raw = NULL
    """Anthropic's cache breakpoint, or null."""

    @property
    def blank(self) -> bool:
        """Whether it has nothing but blanks, which some vendors refuse."""
        return len(memoryview(self.raw)) <= BLANK_LIMIT and _BLANK.fullmatch(bytes(self.raw)) is not None

    @property
    def value(self) -> str:
        """The text itself."""
        return rawjson.text(self.raw)


class TurnToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the assistant."""

    id: str
    name: str
    arguments: msgspec.Raw
    """A JSON object."""
    signature: str = ""
    """The thought signature the client sent back with it."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message. ``tool`` answers the call ``answers``; only ``assistant`` has calls and thoughts."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""
    parts: tuple[TextPart | Media, ...] = ()
    calls: tuple[TurnToolCall, ...] = ()
    thoughts: tuple[msgspec.Raw, ...] = ()
    """Anthropic's thinking blocks as the client sent them back."""
    answers: str = ""
    """Id of the call that this is the result of."""
    name: str = ""
    """Name of the function that was called."""
    failed: bool = False
    """The client marked the tool as failed."""


def read_turns(messages: tuple[Message, ...]) -> list[Turn]:
    """The turns in their order. Raises BadRequest naming the place of what has no counterpart anywhere."""
    reader = _Reader()
    return [reader.turn(message, f"messages[{i}]") for i, message in enumerate(messages)]


class _Reader:
    """Remembers the calls so far, so that results find theirs."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Function names by call id."""

    def turn(self, message: Message, where: str) -> Turn:
        match message.role:
            case "system" | "developer":
                return Turn(role="system", parts=_parts(message, where))
            case "user":
                return Turn(role="user", parts=_parts(message, where))
            case "assistant":
                return self._assistant(message, where)
            case "tool" | "function":
                return self._result(message, where)
        raise BadRequest(f"{where}.role: '{message.role}' is not a role", param=f"{where}.role")

    def _assistant(self, message: Message, where: str) -> Turn:
        calls = [
            _call(call.function or CalledFunction(), call, f"{where}.tool_calls[{i}]")
            for i, call in enumerate(message.tool_calls or ())
        ]
        if message.function_call is not None:
            spare = ToolCall(id=f"call_legacy_{len(self._names)}")
            calls.append(_call(message.function_call, spare, f"{where}.function_call"))
        self._names |= {call.id: call.name for call in calls}
        parts = _parts(message, where)
        if not parts and not rawjson.is_null(message.refusal):
            parts = (_text(message.refusal, NULL, f"{where}.refusal"),)
        return Turn(role="assistant", parts=parts, calls=tuple(calls), thoughts=tuple(message.thinking_blocks or ()))

    def _result(self, message: Message, where: str) -> Turn:
        answers = message.tool_call_id or ""
        if message.role == "function":
            answers = next((id for id, name in reversed(self._names.items()) if name == message.name), "")
        if not answers:
            field = "tool_call_id" if message.role == "tool" else "name"
            raise BadRequest(f"{where}.{field}: names no earlier call", param=f"{where}.{field}")
        name = self._names.get(answers, message.name or "")
        parts = _parts(message, where)
        return Turn(role="tool", parts=parts, answers=answers, name=name, failed=_failed(message, parts, name))


_BEGINNINGS = (
    "The tool call returned the following error:\n",  # goose
    "The tool execution failed with the following error:\n<error>",  # Cline and its relatives
    "An error occurred while running the tool. Please try again.",  # OpenAI Agents SDK
    "An error occurred while parsing tool arguments. Please try again with valid JSON.",  # the same
    "Error executing tool '{name}' with kwargs ",  # LangGraph
    "Error executing tool {name}: ",  # Continue
)
"""Sentences with which clients begin the result of a tool that failed; from their sources."""
_MISTAKES = re.compile(r"Error: .*\n ?[Pp]lease fix your mistakes\.", re.DOTALL)
"""LangGraph."""
_DENIED = "Tool execution denied."
"""All of the result; AI SDK."""
_SENTENCES = (b'"The tool ', b'"An error ', b'"Error', b'"Tool ')
_MCP = b'\\"isError\\"'


def _failed(message: Message, parts: tuple[TextPart | Media, ...], name: str) -> bool:
    """Whether the client marks a result as that of a tool that failed.

    ``is_error`` is the field of SGLang and Bifrost, after Anthropic's; ``status`` is LangChain's.
    """
    if rawjson.maybe(message.is_error) is True or rawjson.maybe(message.status) == "error":
        return True
    first = parts[0] if parts else None
    if not isinstance(first, TextPart):
        return False
    raw = bytes(first.raw)
    if raw.startswith(b'"{') and _MCP in raw:
        return _is_mcp_error(first.value)
    if not raw.startswith(_SENTENCES):
        return False
    text = first.value
    if any(text.startswith(beginning.replace("{name}", name)) for beginning in _BEGINNINGS):
        return True
    return text == _DENIED or _MISTAKES.fullmatch(text) is not None


def _is_mcp_error(text: str) -> bool:
    """Whether a text is the whole result of a call in the Model Context Protocol, and reports an error."""
    found = rawjson.maybe(text.encode("utf-8", "surrogatepass"))
    return isinstance(found, dict) and found.get("isError") is True and isinstance(found.get("content"), list)


def _call(function: CalledFunction, call: ToolCall, where: str) -> TurnToolCall:
    if not function.name or not call.id:
        raise BadRequest(f"{where}: only calls of functions, with an id and a name, can be translated", param=where)
    return TurnToolCall(
        id=call.id,
        name=function.name,
        arguments=_arguments(function.arguments or "{}", f"{where}.function.arguments"),
        signature=_signature(call.extra_content),
    )


def _arguments(text: str, where: str) -> msgspec.Raw:
    data = text.strip().encode() or b"{}"
    try:
        rawjson.fields(data)
    except ValueError as error:
        raise BadRequest(f"{where}: not a JSON object", param=where) from error
    return msgspec.Raw(data)


def _signature(extra: msgspec.Raw) -> str:
    """Google's place for it: ``{"google": {"thought_signature": …}}``."""
    found = rawjson.maybe(extra)
    google = found.get("google") if isinstance(found, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return signature if isinstance(signature, str) else ""


def _parts(message: Message, where: str) -> tuple[TextPart | Media, ...]:
    if bytes(message.content)[:1] == b'"':
        return (TextPart(raw=message.content, cache=message.cache_control),)
    if rawjson.is_null(message.content):
        return ()
    where = f"{where}.content"
    return tuple(_part(part, f"{where}[{i}]") for i, part in enumerate(read_parts(message.content, where)))


def _text(raw: msgspec.Raw, cache: msgspec.Raw, where: str) -> TextPart:
    if bytes(raw)[:1] != b'"':
        raise BadRequest(f"{where}: must be a string", code="invalid_type", param=where)
    return TextPart(raw=raw, cache=cache)


def _part(part: MessagePart, where: str) -> TextPart | Media:
    match part.type:
        case "text":
            return _text(part.text, part.cache_control, f"{where}.text")
        case "refusal":
            return _text(part.refusal, NULL, f"{where}.refusal")
        case "image_url" if part.image_url is not None:
            return image_of(part.image_url, part.cache_control, where)
        case "input_audio" if part.input_audio is not None:
            return audio_of(part.input_audio, where)
        case "file" if part.file is not None:
            return file_of(part.file, part.cache_control, where)
    raise BadRequest(f"{where}: a part of type '{part.type}' cannot be translated", param=where)
