"""Mock: an upstream within this process, for trying everything without an account. It has OpenAI's API.

It answers chat completions, and embeddings with vectors that are equal for equal texts and similar for texts with words
in common. The model's name, the channel's options, and words that begin with ``!`` in the last user message (see
``HELP``) control what it does, so that a client can be tested against every way an upstream can fail.
"""

import asyncio
import math
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Annotated, Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.estimate import estimate
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import PreparedRequest
from gateway.domain.prompt_size import prompt_tokens
from gateway.domain.text import plain
from gateway.upstream.adapter import AnswerStream, Memory, Reply
from gateway.upstream.failures import bad_response, too_slow
from gateway.upstream.openai.embeddings import pack_vector

Sleep = Callable[[float], Awaitable[object]]

MODELS = ("demo-echo", "demo-story", "demo-flaky")
CONTEXT = 8192
LONGEST = 4 * CONTEXT
"""The maximum length of an answer, in characters. A longer echo is cut, as by a model at the end of its context."""

STORY = (
    "At the mouth of the valley stood a toll house, and in it lived a keeper who counted. She counted carts and sheep,"
    " clouds in the morning and lamps at night, and wrote every number down. Travellers laughed at her ledgers until"
    " the winter the bridge fell. Then the village asked what stone, what timber and how many days it would take, and"
    " the keeper opened her oldest book and read it to them, line by line. By spring there was a new bridge. Nobody"
    " laughed at the ledgers any more, though the children still tried to cross uncounted, and she still let them,"
    " and wrote that down as well."
)

HELP = (
    "I misbehave when asked. Put one of these into your message: !429 (with retry-after=2), !500 or any other status,"
    " !auth, !cut=3 (end the stream after 3 events), !silence (say nothing until the deadline), !silence=3 (fall silent"
    " after 3 events), !no-usage, !bad-json, !html, !latency=200 (milliseconds before the answer), !speed=50 (words a"
    ' second), !tool NAME {"a":1} (call that tool, if the request has tools).'
)

_DIRECTIVE = re.compile(r"!([a-z][a-z-]*|[3-5]\d\d)\b(?:=(\d+(?:\.\d+)?))?")
_RETRY_AFTER = re.compile(r"\bretry-after=(\S+)")
NO_TOOLS = "(!tool calls a tool of the request, and this request has none: send it with tools)"
_TOOL = re.compile(r"!tool\s+([\w-]{1,64})(?:\s+(\{.*\}))?", re.DOTALL)
_WORD = re.compile(r"\S+\s*|\s+")
_SHAPES = {
    400: ("invalid_request_error", "invalid_value"),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}

_PAGE = b"<html><head><title>Demo page</title></head><body>This is not JSON.</body></html>"

Option = str | int | float | bool
_DAY_MS, _MAX_COUNT = 86_400_000, 1_000_000
_Number = Annotated[float, msgspec.Meta(ge=0, le=_MAX_COUNT)]
_Millis = Annotated[float, msgspec.Meta(ge=0, le=_DAY_MS)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=_DAY_MS)]
_Words = Annotated[str, msgspec.Meta(min_length=1)]


class MockPlan(msgspec.Struct, kw_only=True):
    """What one answer does. The fields are a channel's options (``MEANINGS``). By default, nothing goes wrong."""

    latency: _Millis = 0.0
    speed: _Number = 0.0
    status: int = 200
    auth: bool = False
    retry_after: _Words | _Seconds | _Millis = ""
    cut: _Count | None = None
    """After how many events a stream is cut off, always before its end. With any number, a plain answer is cut off."""
    silence: _Count | None = None
    no_usage: bool = False
    bad_json: bool = False
    html: bool = False

    def __post_init__(self) -> None:
        if self.status != 200 and not 300 <= self.status <= 599:
            raise ValueError("not the status of an answer")
        self.status = 401 if self.auth else self.status


MEANINGS = {
    "latency": f"milliseconds before the answer, from 0 to {_DAY_MS}",
    "speed": f"words a second of a stream, from 0 (all at once) to {_MAX_COUNT}",
    "status": "a status to answer with: 200, or 300 to 599",
    "auth": "true or false: whether the key is refused",
    "retry_after": "the Retry-After header: seconds, or a text",
    "cut": f"after how many events a stream is cut off, from 0 to {_MAX_COUNT}",
    "silence": f"after how many events a stream falls silent, from 0 to {_MAX_COUNT}",
    "no_usage": "true or false: whether usage is left out",
    "bad_json": "true or false: whether the answer is broken JSON",
    "html": "true or false: whether the answer is a page",
}


def check_options(options: Mapping[str, Option]) -> None:
    """Raises BadRequest for an unknown option and for an invalid value."""
    for name, value in options.items():
        meaning = MEANINGS.get(stored_name(name))
        if meaning is None:
            names = ", ".join(MEANINGS)
            msg = f"options: '{plain(name, 64)}' is not an option of the mock; the options are: {names}"
            raise BadRequest(msg, param="options")
        try:
            msgspec.convert({stored_name(name): value}, MockPlan)
        except msgspec.ValidationError as error:
            raise BadRequest(f"options: {name} is {meaning}, not '{plain(str(value), 64)}'", param="options") from error


def stored_name(name: str) -> str:
    """Returns the name of an option as it is stored: ``no_usage`` for ``no-usage``, which messages have."""
    return name.replace("-", "_")


def with_stored_names(options: Mapping[str, Option]) -> dict[str, Option]:
    """Returns the options under the names as they are stored. If one has both spellings, the last value counts."""
    return {stored_name(name): value for name, value in options.items()}


class MockRequest(msgspec.Struct):
    """The fields of the request that are read."""

    model: str = ""
    messages: list[dict[str, Any]] = []
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None
    """The legacy spelling of tools."""
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    input: str | list[Any] | None = None
    dimensions: int | None = None
    encoding_format: str | None = None

    @property
    def text(self) -> str:
        """Returns the last user message's text, or the first text for embeddings."""
        if self.input is not None:
            return self.inputs[0] if self.inputs else ""
        content = next((m.get("content") for m in reversed(self.messages) if m.get("role") == "user"), "")
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        text = content if isinstance(content, str) else ""
        return text.encode("utf-8", "replace").decode()  # half of an emoji cannot be sent back

    @property
    def inputs(self) -> list[str]:
        """Returns the texts for embeddings. Tokens become their numbers with spaces between them."""
        is_single = isinstance(self.input, str) or not self.input or type(self.input[0]) is int
        items: list[Any] = [self.input] if is_single or self.input is None else list(self.input)
        lists = [item.values() if isinstance(item, dict) else item for item in items]
        return [item if isinstance(item, str) else " ".join(map(str, item or ())) for item in lists]


class Mock:
    """Answers requests. ``sleep`` is a parameter for tests."""

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._count = 0

    def models(self) -> list[ServedModel]:
        return [ServedModel(name=name, context=CONTEXT, max_output=CONTEXT) for name in MODELS]

    async def answer(self, channel: Channel, prepared: PreparedRequest) -> "MockReply":
        self._count += 1
        await asyncio.sleep(0)  # no upstream answers within the same turn of the loop
        try:
            request = msgspec.convert(rawjson.value(prepared.body), MockRequest)
            plan = plan_of(channel.options, request)
        except msgspec.ValidationError:
            request, plan = MockRequest(), MockPlan(status=400)
        if plan.latency:
            await self._sleep(plan.latency / 1000)
        prompt = prompt_tokens(rawjson.fields(prepared.body))
        return MockReply(channel, plan, self._content(request, plan, prompt), self._sleep)

    def _content(self, request: MockRequest, plan: MockPlan, prompt: int) -> list[bytes]:
        """Returns the body, or the events of a stream, before any of it is cut off."""
        if plan.status != 200:
            return [_error(plan.status, request.model)]
        if plan.html:
            return [_PAGE]
        if request.input is not None:
            return [_body(_vectors(request), {"prompt_tokens": prompt, "total_tokens": prompt}, plan)]
        return _chat(f"chatcmpl-demo{self._count:08d}", request, plan, prompt)


def plan_of(options: Mapping[str, Option], request: MockRequest) -> MockPlan:
    """Returns the plan: the channel's options, then the message's directives. Unknown directives are ignored."""
    chosen: dict[str, Option] = {"speed": 25.0} if request.model == "demo-story" else {}  # as fast as one reads
    chosen |= with_stored_names(options)
    for name, number in _DIRECTIVE.findall(request.text):
        chosen |= _directive(stored_name(name), number)
    if retry_after := _RETRY_AFTER.search(request.text):
        chosen["retry_after"] = retry_after[1]
    return msgspec.convert(chosen, MockPlan)


def _directive(name: str, number: str) -> dict[str, Option]:
    """Returns the option that a directive sets; none if it is unknown, or its number is missing."""
    if name.isdigit():
        return {"status": int(name)}
    if name in ("latency", "speed") and number:
        return {name: float(number)}
    if name in ("cut", "silence") or (name == "status" and number):
        return {name: int(float(number or 0))}
    is_switch = name in ("auth", "no_usage", "bad_json", "html")
    return {name: not number or float(number) > 0} if is_switch else {}


def _error(status: int, model: str) -> bytes:
    kind, code = _SHAPES.get(status, ("server_error", None))
    text = f"The demo upstream was asked to answer {status}."
    if status in {401, 403}:
        text += f" Its key has no access to model '{model}'."
    return msgspec.json.encode({"error": {"message": text, "type": kind, "param": None, "code": code}})


def _body(answer: dict[str, Any], usage: dict[str, int], plan: MockPlan) -> bytes:
    body = msgspec.json.encode(answer if plan.no_usage else {**answer, "usage": usage})
    return body[: len(body) // 2] if plan.bad_json else body


def _text(request: MockRequest) -> str:
    if request.model == "demo-story":
        return STORY
    if request.model == "demo-flaky" and not _DIRECTIVE.search(request.text):
        return HELP
    if _TOOL.search(request.text) and not (request.tools or request.functions):
        return NO_TOOLS
    return request.text or "(nothing to echo)"


def _tool_call(request: MockRequest, **place: int) -> dict[str, Any]:
    """Returns the field of a message that calls a tool, with the call's place in a stream; nothing if it calls none."""
    match = _TOOL.search(request.text)
    if not match or not (request.tools or request.functions):
        return {}
    function = {"name": match[1], "arguments": match[2] or "{}"}
    if not request.tools:
        return {"function_call": function}
    return {"tool_calls": [{**place, "id": "call_demo1", "type": "function", "function": function}]}


def _chat(answer_id: str, request: MockRequest, plan: MockPlan, prompt: int) -> list[bytes]:
    call, text = _tool_call(request), _text(request)
    words = [] if call else _WORD.findall(text[:LONGEST])
    limit = request.max_completion_tokens or request.max_tokens or LONGEST
    truncated, words = len(words) > limit or len(text) > LONGEST, words[:limit]
    finish = next(iter(call), "length" if truncated else "stop")
    choices = range(max(1, min(request.n or 1, 8)))
    output = len(choices) * min(limit, estimate("".join(words)) or estimate(str(call)))
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    head = {"id": answer_id, "created": 0, "model": request.model}
    if request.stream:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
        deltas += [_tool_call(request, index=0)] if call else []
        events = [*(_event(head, i, delta) for delta in deltas for i in choices)]
        events += [_event(head, i, {}, finish) for i in choices]
        with_usage = (request.stream_options or {}).get("include_usage") and not plan.no_usage
        return _stream(events, plan, _chunk(head, [], usage=usage) if with_usage else b"")
    message: dict[str, Any] = {"role": "assistant", "content": "".join(words) or None, "refusal": None, **call}
    answers = [{"index": i, "message": message, "logprobs": None, "finish_reason": finish} for i in choices]
    return [_body({**head, "object": "chat.completion", "choices": answers}, usage, plan)]


def _stream(events: list[bytes], plan: MockPlan, usage: bytes) -> list[bytes]:
    """Returns the events of a stream, including its usage, and broken ones if the plan has them."""
    middle = len(events) // 2
    broken = 2 * [b'data: {"id": \n\n'] if plan.bad_json else []  # a single one would be skipped
    ends = [usage, b"data: [DONE]\n\n"] if usage else [b"data: [DONE]\n\n"]
    return [*events[:middle], *broken, *events[middle:], *ends]


def _event(head: dict[str, Any], index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _chunk(head, [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}])


def _chunk(head: dict[str, Any], choices: list[dict[str, Any]], **more: object) -> bytes:
    chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def _vectors(request: MockRequest) -> dict[str, Any]:
    """Returns embeddings. Each word of a text has a direction by its hash; the vector is their sum, with length 1."""
    size = max(1, min(request.dimensions or 256, 4096))
    vectors = [_vector(text, size) for text in request.inputs[:2048]]
    is_packed = request.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": i, "embedding": pack_vector(vector) if is_packed else vector}
        for i, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": request.model}


def _vector(text: str, size: int) -> tuple[float, ...]:
    """Returns the vector of a text, in the precision of 32-bit floats."""
    values = [0.0] * size
    for word in re.findall(r"\w+", text.lower()) or [text]:
        digest = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")
        values[digest % size] += 1.0 if digest >> 63 else -1.0
    length = math.sqrt(sum(value * value for value in values))
    if not length:  # its words cancel each other out
        return (1.0, *values[1:])
    return struct.unpack(f"<{size}f", struct.pack(f"<{size}f", *(value / length for value in values)))


class MockReply(Reply):
    """One answer, with the failures that its plan has."""

    def __init__(self, channel: Channel, plan: MockPlan, content: list[bytes], sleep: Sleep) -> None:
        self._channel = channel
        self._plan = plan
        self._content = content
        self._sleep = sleep
        self.status = plan.status
        is_stream = content[0].startswith(b"data:")
        kind = "text/html" if plan.html else "text/event-stream" if is_stream else "application/json"
        self.headers: Mapping[str, str] = {"content-type": kind}
        if plan.retry_after:
            self.headers = {**self.headers, "retry-after": str(plan.retry_after)}

    async def read(self, limit: int, memory: Memory) -> bytes:
        body = b"".join(self._content)
        if self.status != 200:
            return body[:limit]
        if self._plan.silence is not None:
            await self._fall_silent("total", self._channel.timeouts.total)
        if self._plan.cut is not None:
            raise AttemptFailed(bad_response(self._channel, "it was cut off, as requested"))
        if not memory.take(len(body)):
            await memory.wait(len(body))
        return body

    async def chunks(self, stream: AnswerStream) -> AsyncIterator[bytes]:
        events, plan = self._content, self._plan
        stop = len(events)
        if plan.cut is not None:
            stop = min(plan.cut, sum(b'"finish_reason":null' in event for event in events))
        if plan.silence is not None:
            stop = min(plan.silence, stop)
        if plan.speed > 0:
            for event in events[:stop]:
                yield event
                await self._sleep(1 / plan.speed)
        elif stop:
            yield b"".join(events[:stop])
        if plan.silence is not None and plan.silence <= stop:
            timeouts = self._channel.timeouts
            await self._fall_silent(*(("idle", timeouts.idle) if stop else ("first event", timeouts.head)))

    async def _fall_silent(self, deadline: str, seconds: float) -> None:
        await self._sleep(seconds)
        raise AttemptFailed(too_slow(self._channel, deadline, seconds, sent=True))

    def release(self) -> None:
        """Nothing is held."""

    def abort(self) -> None:
        """Nothing is held."""
