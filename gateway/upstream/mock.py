"""Mock: an upstream inside this process, for trying everything without an account. Its words are OpenAI's.

It answers chat completions, and embeddings with vectors that are the same for the same text and alike for texts with
words in common.

What it does is chosen by the model's name, by the channel's options, and by words beginning with ``!`` in the last
user message (see ``HELP``), so that clients can be tested against every way an upstream can fail.
"""

import asyncio
import base64
import math
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.estimate import estimate
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import PreparedRequest
from gateway.domain.prompt_size import prompt_tokens
from gateway.upstream.adapter import Memory, SignsOfLife
from gateway.upstream.failures import bad_response, too_slow

Sleep = Callable[[float], Awaitable[object]]

MODELS = ("demo-echo", "demo-story", "demo-flaky")
CONTEXT = 8192
LONGEST = 4 * CONTEXT
"""Characters of an answer: what is echoed beyond them is left out, as by a model that has reached its context."""

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


class MockPlan(msgspec.Struct, kw_only=True):
    """What one answer does. The defaults are a good upstream."""

    latency: float = 0.0
    """Milliseconds before the head."""
    speed: float = 0.0
    """Words a second of a stream; 0: all at once."""
    status: int = 200
    retry_after: str = ""
    cut: int | None = None
    """The answer is cut off: a stream after so many events, and always before its end."""
    silence: int | None = None
    """The stream falls silent after so many events."""
    no_usage: bool = False
    bad_json: bool = False
    html: bool = False


class MockRequest(msgspec.Struct):
    """The request, as far as it is read."""

    model: str = ""
    messages: list[dict[str, Any]] = []
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    input: str | list[Any] | None = None
    dimensions: int | None = None
    encoding_format: str | None = None

    @property
    def text(self) -> str:
        """The last user message's text, or the first of the texts for embeddings."""
        if self.input is not None:
            return self.inputs[0] if self.inputs else ""
        content = next((m.get("content") for m in reversed(self.messages) if m.get("role") == "user"), "")
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        text = content if isinstance(content, str) else ""
        return text.encode("utf-8", "replace").decode()  # half of an emoji cannot be said again

    @property
    def inputs(self) -> list[str]:
        """The texts for embeddings; those given as tokens as numbers with blanks between them."""
        given = self.input
        items = [given] if isinstance(given, str) or not given or type(given[0]) is int else given
        return [one if isinstance(one, str) else " ".join(map(str, one or ())) for one in items]


class Mock:
    """Answers requests. ``sleep`` passes time."""

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._count = 0

    def models(self) -> list[ServedModel]:
        """What it offers."""
        return [ServedModel(name=name, context=CONTEXT, max_output=CONTEXT) for name in MODELS]

    async def answer(self, channel: Channel, prepared: PreparedRequest) -> "MockReply":
        """The answer to a prepared request."""
        self._count += 1
        await asyncio.sleep(0)  # like every upstream it never answers within the same turn of the loop
        try:
            request = msgspec.convert(rawjson.value(prepared.body), MockRequest)
            plan = plan_of(channel.options, request)
        except msgspec.ValidationError:
            request, plan = MockRequest(), MockPlan(status=400)
        if plan.latency:
            await self._sleep(plan.latency / 1000)
        prompt = prompt_tokens(rawjson.fields(prepared.body))
        if request.input is not None:
            return MockReply(channel, plan, MockVectors(request, plan, prompt), self._sleep)
        body = MockBody(f"chatcmpl-demo{self._count:08d}", request, plan, prompt)
        return MockReply(channel, plan, body, self._sleep)


def plan_of(options: Mapping[str, str | int | float | bool], request: MockRequest) -> MockPlan:
    """The channel's options (see ``mock_options``), then the message's directives; unknown directives are ignored."""
    plan = MockPlan(speed=25.0 if request.model == "demo-story" else 0.0)  # as fast as one reads
    for name, value in options.items():
        _set(plan, name.replace("-", "_"), float(value) if isinstance(value, int | float) else None)
    for name, number in _DIRECTIVE.findall(request.text):
        _set(plan, name.replace("-", "_"), float(number) if number else None)
    wait = _RETRY_AFTER.search(request.text)
    plan.retry_after = wait[1] if wait else str(options.get("retry_after", options.get("retry-after", "")))
    return plan


def _set(plan: MockPlan, name: str, number: float | None) -> None:
    if name.isdigit():
        plan.status = int(name)
    elif name == "auth":
        plan.status = 401 if number is None or number else plan.status
    elif name == "status" and number is not None:
        plan.status = int(number)
    elif name in {"latency", "speed"} and number is not None:
        setattr(plan, name, number)
    elif name in {"cut", "silence"}:
        setattr(plan, name, int(number or 0))
    elif name in {"no_usage", "bad_json", "html"}:
        setattr(plan, name, number is None or bool(number))


class MockBody:
    """The words of one answer, whole or in events."""

    def __init__(self, answer_id: str, request: MockRequest, plan: MockPlan, prompt: int) -> None:
        self._head = {"id": answer_id, "created": 0, "model": request.model}
        self._asked = request
        self._plan = plan
        self._call = self._tool_call()
        words = [] if self._call else _WORD.findall(self._text()[:LONGEST])
        limit = request.max_completion_tokens or request.max_tokens or len(words)
        self._words = words[:limit]
        cut = len(words) > limit or len(self._text()) > LONGEST
        self._finish = "tool_calls" if self._call else "length" if cut else "stop"
        choices = max(1, min(request.n or 1, 8))
        self._choices = range(choices)
        said = estimate("".join(self._words)) or estimate(str(self._call))
        output = choices * said
        self._usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}

    def _text(self) -> str:
        if self._asked.model == "demo-story":
            return STORY
        if self._asked.model == "demo-flaky" and not _DIRECTIVE.search(self._asked.text):
            return HELP
        if _TOOL.search(self._asked.text) and not self._asked.tools:
            return NO_TOOLS
        return self._asked.text or "(nothing to echo)"

    def _tool_call(self) -> dict[str, Any] | None:
        match = _TOOL.search(self._asked.text)
        if not match or not self._asked.tools:
            return None
        return {"id": "call_demo1", "type": "function", "function": {"name": match[1], "arguments": match[2] or "{}"}}

    def error(self) -> bytes:
        """The body of a failed answer."""
        status = self._plan.status
        kind, code = _SHAPES.get(status, ("server_error", None))
        text = f"The demo upstream was asked to answer {status}."
        if status in {401, 403}:
            text += f" Its key has no access to model '{self._asked.model}'."
        return msgspec.json.encode({"error": {"message": text, "type": kind, "param": None, "code": code}})

    def whole(self) -> bytes:
        """The body of a plain answer."""
        if self._plan.html:
            return _PAGE
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._words) or None, "refusal": None}
        if self._call:
            message["tool_calls"] = [self._call]
        choices = [
            {"index": i, "message": message, "logprobs": None, "finish_reason": self._finish} for i in self._choices
        ]
        out: dict[str, Any] = {**self._head, "object": "chat.completion", "choices": choices}
        if not self._plan.no_usage:
            out["usage"] = self._usage
        body = msgspec.json.encode(out)
        return body[: len(body) // 2] if self._plan.bad_json else body

    def events(self) -> list[bytes]:
        """The events of a stream."""
        if self._plan.html:
            return [_PAGE]
        out = [self._event(i, {"role": "assistant", "content": ""}) for i in self._choices]
        out += [self._event(i, {"content": word}) for word in self._words for i in self._choices]
        if self._call:
            out += [self._event(i, {"tool_calls": [{"index": 0, **self._call}]}) for i in self._choices]
        out += [self._event(i, {}, self._finish) for i in self._choices]
        if self._plan.bad_json:
            out[len(out) // 2 : len(out) // 2] = 2 * [b'data: {"id": \n\n']  # a single one would be forgiven
        options = self._asked.stream_options or {}
        if options.get("include_usage") and not self._plan.no_usage:
            chunk = {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}
            out.append(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
        return [*out, b"data: [DONE]\n\n"]

    def _event(self, index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

    @property
    def said(self) -> int:
        """How many events there are before the first that says why it ended."""
        return len(self._choices) * (1 + (1 if self._call else len(self._words)))

    @property
    def streamed(self) -> bool:
        """Whether a stream was requested."""
        return bool(self._asked.stream)


class MockVectors(MockBody):
    """Embeddings: each word of a text is a direction, found by its hash; a vector of length 1 is their sum."""

    def __init__(self, request: MockRequest, plan: MockPlan, prompt: int) -> None:
        super().__init__("", MockRequest(model=request.model), plan, prompt)
        self._vectors = request
        self._usage = {"prompt_tokens": prompt, "total_tokens": prompt}

    def whole(self) -> bytes:
        """The body of the answer."""
        if self._plan.html:
            return _PAGE
        size = max(1, min(self._vectors.dimensions or 256, 4096))
        vectors = [_vector(text, size) for text in self._vectors.inputs[:2048]]
        base64_wanted = self._vectors.encoding_format == "base64"
        written: list[Any] = [_pack(one) for one in vectors] if base64_wanted else [list(one) for one in vectors]
        data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(written)]
        out: dict[str, Any] = {"object": "list", "data": data, "model": self._vectors.model}
        if not self._plan.no_usage:
            out["usage"] = self._usage
        body = msgspec.json.encode(out)
        return body[: len(body) // 2] if self._plan.bad_json else body


def _vector(text: str, size: int) -> tuple[float, ...]:
    values = [0.0] * size
    for word in re.findall(r"\w+", text.lower()) or [text]:
        found = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")
        values[found % size] += 1.0 if found >> 63 else -1.0
    length = math.sqrt(sum(value * value for value in values))
    if not length:  # its words cancel each other out
        return (1.0, *values[1:])
    return struct.unpack(f"<{size}f", struct.pack(f"<{size}f", *(value / length for value in values)))


def _pack(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class MockReply:
    """Implements ``adapter.Reply``."""

    def __init__(self, channel: Channel, plan: MockPlan, body: MockBody, sleep: Sleep) -> None:
        self._channel = channel
        self._plan = plan
        self._body = body
        self._sleep = sleep
        self.status = plan.status
        streamed = body.streamed and plan.status == 200
        kind = "text/html" if plan.html else "text/event-stream" if streamed else "application/json"
        self.headers: Mapping[str, str] = {"content-type": kind}
        if plan.retry_after:
            self.headers = {**self.headers, "retry-after": plan.retry_after}

    async def read(self, limit: int, memory: Memory) -> bytes:
        if self.status != 200:
            return self._body.error()[:limit]
        if self._plan.silence is not None:
            await self._fall_silent("total", self._channel.timeouts.total)
        if self._plan.cut is not None:
            raise AttemptFailed(bad_response(self._channel, "it was cut off, as requested"))
        body = self._body.whole()
        if not memory.take(len(body)):
            await memory.wait(len(body))
        return body

    async def chunks(self, signs: SignsOfLife | None = None) -> AsyncIterator[bytes]:
        events = self._body.events()
        plan = self._plan
        stop = len(events)
        if plan.cut is not None:
            stop = min(plan.cut, self._body.said)
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
