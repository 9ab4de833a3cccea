"""A client's chat request with types, as far as other dialects can express it.

Texts stay the bytes they came as: nobody but the model reads them, and their escapes survive. A request that a dialect
cannot express is refused before anything is sent.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Failure, Order, UpstreamText
from gateway.upstream.rawjson import NULL


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = NULL
    """JSON Schema of its arguments."""
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool; only functions have counterparts elsewhere."""

    type: str = "function"
    function: Function | None = None
    cache_control: msgspec.Raw = NULL


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What was called; ``arguments`` are JSON in a string."""

    name: str = ""
    arguments: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call the model made in an earlier turn."""

    id: str | None = None
    function: CalledFunction | None = None
    extra_content: msgspec.Raw = NULL
    """Google's place for the thought signature."""


class ImageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A ``data:`` or web URL."""

    url: str


class Audio(msgspec.Struct, frozen=True, kw_only=True):
    """Base64 text and its format: ``wav`` or ``mp3``."""

    data: str
    format: str


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A document: a ``data:`` URL, or an id that only its vendor knows."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class MessagePart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message's content."""

    type: str
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    image_url: ImageUrl | str | None = None
    input_audio: Audio | None = None
    file: File | None = None
    cache_control: msgspec.Raw = NULL
    """Anthropic's breakpoint of the prompt cache."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message; ``content`` is null, a string or an array of parts."""

    role: str
    content: msgspec.Raw = NULL
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    refusal: msgspec.Raw = NULL
    thinking_blocks: list[msgspec.Raw] | None = None
    """Anthropic's reasoning, as an answer brought it."""
    cache_control: msgspec.Raw = NULL
    is_error: msgspec.Raw = NULL
    """Of a tool's result; not OpenAI's, see ``conversation``."""
    status: msgspec.Raw = NULL
    """The same."""


class NamedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function meant by its name."""

    name: str


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the tools, and whether one must be called: ``auto`` or ``required``."""

    mode: str = "auto"
    tools: tuple[ToolCall, ...] = ()


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A tool choice that is more than a word."""

    type: str = "function"
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The form the answer must have."""

    schema: msgspec.Raw = NULL


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """``text``, ``json_object`` or ``json_schema``."""

    type: str = "text"
    json_schema: JsonSchema | None = None


class ChatFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that have a counterpart in some dialect; names and meanings are those of chat completions."""

    messages: tuple[Message, ...] = ()
    tools: list[Tool] | None = None
    functions: list[Function] | None = None
    tool_choice: ToolChoice | str | None = None
    function_call: NamedFunction | str | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] | str | None = None
    n: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    modalities: list[str] | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    thinking: msgspec.Raw = NULL
    output_config: msgspec.Raw = NULL
    cache_control: msgspec.Raw = NULL
    metadata: msgspec.Raw = NULL

    @property
    def output_cap(self) -> int | None:
        """The output limit; of two the newer name's counts."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def stops(self) -> list[str]:
        """The stop sequences, however they were given."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


_RESULTS = ("tool", "function")
"""Roles of messages whose content may be JSON that a dialect looks into."""


def open_order(order: Order) -> Order:
    """An order of a large request with those strings whole that a dialect looks into.

    These are calls with their arguments, their results, and what the assistant is to go on with.
    """
    if not order.long.mark:
        return order
    try:
        messages = rawjson.objects(order.fields.get("messages", rawjson.NULL))
    except ValueError:
        return order
    roles = [rawjson.maybe(message.get("role")) for message in messages]
    last = max((i for i, role in enumerate(roles) if role == "assistant"), default=-1)
    for i, message in enumerate(messages):
        names = ("tool_calls", "function_call", "tool_call_id")
        for name in (*names, "content") if i == last or roles[i] in _RESULTS else names:
            if order.long.hidden(message.get(name, rawjson.NULL)):
                message[name] = msgspec.Raw(order.long.full(message[name]))
    return msgspec.structs.replace(order, fields={**order.fields, "messages": rawjson.raw(messages)})


T = TypeVar("T")

_REQUEST = msgspec.json.Decoder(ChatFields)
_PARTS = msgspec.json.Decoder(list[MessagePart])


def read_request(fields: Mapping[str, msgspec.Raw]) -> ChatFields:
    """The request of these top-level values. Raises BadRequest naming the field that has another type."""
    return _decode(_REQUEST, rawjson.encode(fields), "")


class _Cap(msgspec.Struct):
    """The fields of a request that bound its output."""

    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n: int | None = None


def read_caps(fields: Mapping[str, msgspec.Raw]) -> tuple[int | None, int]:
    """Of a request's top-level values the output limit and the number of choices.

    Without a limit and one choice where ``read_request`` would raise BadRequest: then nothing goes out at all.
    """
    try:
        found = msgspec.convert({name: rawjson.value(fields.get(name)) for name in _Cap.__struct_fields__}, _Cap)
    except (msgspec.ValidationError, ValueError):
        return None, 1
    cap = found.max_tokens if found.max_completion_tokens is None else found.max_completion_tokens
    return cap, found.n or 1


def read_parts(content: msgspec.Raw, where: str) -> list[MessagePart]:
    """The parts of an array that is a message's content. Raises BadRequest."""
    return _decode(_PARTS, content, where)


def _decode(decoder: "msgspec.json.Decoder[T]", data: bytes | msgspec.Raw, where: str) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        place = (where + path.rstrip("`")).lstrip(".")
        raise BadRequest(f"{place}: {what}", code="invalid_type", param=place) from error
    except msgspec.DecodeError as error:
        place = where or "body"
        raise BadRequest(f"{place} is not valid JSON: {error}", code="invalid_json", param=place) from error


def left_out(fields: Mapping[str, msgspec.Raw], understood: frozenset[str]) -> list[str]:
    """The fields that a dialect has no words for. Null and false ask for nothing, so nothing of them is lost."""
    return [name for name, value in fields.items() if name not in understood and bytes(value) not in _NOTHING]


_NOTHING = (b"null", b"false")


def refusal_of(channel: Channel, fault: BadRequest) -> AttemptFailed:
    """The fault as a failure of the attempt: status 400, the channel named, nothing sent."""
    text = f"channel '{channel.name}' cannot take this request: {plain(fault.message, 500)}"
    return AttemptFailed(
        Failure(
            kind=FailureKind.CLIENT,
            code=fault.code,
            text=UpstreamText(text),
            status=400,
            param=fault.param,
            sent=False,
        )
    )


def unsupported_param(param: str, why: str) -> BadRequest:
    """A parameter that the upstream has no counterpart of and that may not be left out silently."""
    return BadRequest(f"{param}: {why}", code="unsupported_parameter", param=param)


_WORDS = ("auto", "none", "required")


class OfferedTools(msgspec.Struct, frozen=True, kw_only=True):
    """One function on offer."""

    function: Function
    cache: msgspec.Raw = NULL
    """Anthropic's cache breakpoint."""


class Toolbox(msgspec.Struct, frozen=True, kw_only=True):
    """The functions on offer and the choice among them."""

    offers: tuple[OfferedTools, ...] = ()
    mode: str = ""
    """``auto``, ``none``, ``required`` or ``named``; empty: not given."""
    name: str = ""
    """The function that must be called, if ``named``."""
    param: str = "tool_choice"
    """Where the client asked for it."""

    @property
    def forced(self) -> bool:
        """Whether the model must call something."""
        return self.mode in {"required", "named"}


def read_tools(request: ChatFields) -> Toolbox:
    """The toolbox; the legacy spelling counts where the new one is not used. Raises BadRequest."""
    offers = [_offer(request, i) for i in range(len(request.tools or ()))]
    offers += [OfferedTools(function=function) for function in request.functions or ()]
    if request.tool_choice is None and request.function_call is not None:
        return _legacy(tuple(offers), request.function_call)
    return _choose_tools(tuple(offers), request.tool_choice)


def _offer(request: ChatFields, i: int) -> OfferedTools:
    tool = (request.tools or [])[i]
    if tool.type != "function" or tool.function is None:
        raise unsupported_param(
            f"tools[{i}]", f"a tool of type '{tool.type}' has no counterpart there; only functions have"
        )
    return OfferedTools(function=tool.function, cache=tool.cache_control)


def _legacy(offers: tuple[OfferedTools, ...], choice: NamedFunction | str) -> Toolbox:
    if isinstance(choice, NamedFunction):
        return Toolbox(offers=offers, mode="named", name=choice.name, param="function_call")
    return Toolbox(offers=offers, mode=_word(choice, "function_call"), param="function_call")


def _choose_tools(offers: tuple[OfferedTools, ...], choice: ToolChoice | str | None) -> Toolbox:
    if choice is None or isinstance(choice, str):
        return Toolbox(offers=offers, mode="" if choice is None else _word(choice, "tool_choice"))
    if choice.type == "function" and choice.function is not None:
        return Toolbox(offers=offers, mode="named", name=choice.function.name)
    if choice.type == "allowed_tools" and (allowed := choice.allowed_tools) is not None:
        names = {call.function.name for call in allowed.tools if call.function is not None}
        kept = tuple(offer for offer in offers if offer.function.name in names)
        return Toolbox(offers=kept, mode=_word(allowed.mode, "tool_choice.allowed_tools.mode"))
    raise unsupported_param("tool_choice", f"a choice of type '{choice.type}' has no counterpart there")


def _word(word: str, param: str) -> str:
    if word not in _WORDS:
        raise BadRequest(f"{param}: must be one of {', '.join(_WORDS)}", param=param)
    return word
