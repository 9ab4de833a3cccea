"""Turns: who said what in a conversation, in one form, whichever of its spellings a client used.

``developer`` is ``system``; legacy ``function_call`` and role ``function`` are tool calls and results; a result knows
which call it answers.
"""

import re

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.chat.media import Media, audio_of, file_of, image_of
from gateway.upstream.chat.request import CalledFunction, Message, Part, ToolCall, read_parts
from gateway.upstream.rawjson import NULL

_BLANK = re.compile(rb'"(?:[ ]|\\[nrt])*"')
BLANK_LIMIT = 64 << 10
"""Bytes of a text that is looked through for anything but blanks; a longer one is taken for a text."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
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


class Call(msgspec.Struct, frozen=True, kw_only=True):
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
    parts: tuple[Text | Media, ...] = ()
    calls: tuple[Call, ...] = ()
    thoughts: tuple[msgspec.Raw, ...] = ()
    """Anthropic's thinking blocks as the client sent them back."""
    answers: str = ""
    """Id of the call that this is the result of."""
    name: str = ""
    """Name of the function that was called."""


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
        return Turn(role="tool", parts=_parts(message, where), answers=answers, name=name)


def _call(function: CalledFunction, call: ToolCall, where: str) -> Call:
    if not function.name or not call.id:
        raise BadRequest(f"{where}: only calls of functions, with an id and a name, can be translated", param=where)
    return Call(
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


def _parts(message: Message, where: str) -> tuple[Text | Media, ...]:
    if bytes(message.content)[:1] == b'"':
        return (Text(raw=message.content, cache=message.cache_control),)
    if rawjson.is_null(message.content):
        return ()
    where = f"{where}.content"
    return tuple(_part(part, f"{where}[{i}]") for i, part in enumerate(read_parts(message.content, where)))


def _text(raw: msgspec.Raw, cache: msgspec.Raw, where: str) -> Text:
    if bytes(raw)[:1] != b'"':
        raise BadRequest(f"{where}: must be a string", code="invalid_type", param=where)
    return Text(raw=raw, cache=cache)


def _part(part: Part, where: str) -> Text | Media:
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
