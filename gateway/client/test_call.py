"""Test call: tiny real calls through /v1, as any client makes them, for the doctor's last check."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from gateway import __version__
from gateway.client.http import Address, ClientRequest, HttpAnswer, Stream, exchange, request
from gateway.client.request import error_of
from gateway.domain.advice import WAIT_AND_START
from gateway.domain.call import CHAT_API
from gateway.domain.errors import GatewayError, Unavailable, UpstreamError
from gateway.domain.human_values import count_text
from gateway.domain.patterns import is_embedding_model
from gateway.domain.views import Status

Value = TypeVar("Value")

QUESTION = "Reply with the single word: ok"
INPUT_BOUND = 16
"""An upper bound of its input tokens, as the gateway computes it."""
OUTPUT_CAP = 64
"""Output tokens of one call, enough for models that think before they answer."""


class TestedApi(msgspec.Struct, frozen=True, kw_only=True):
    """How one of the APIs of /v1 is called, and what its answers look like."""

    path: str
    request: dict[str, Any]
    """Without model and stream."""
    answer: str
    """The field of a whole answer with its content."""
    ends: frozenset[str] = frozenset()
    """What the last event of a complete stream contains; empty: it does not stream."""


EMBEDDINGS = "embeddings"
_MESSAGES = [{"role": "user", "content": QUESTION}]

TESTED = {
    "chat": TestedApi(
        path="/chat/completions",
        request={"messages": _MESSAGES, "max_tokens": OUTPUT_CAP},
        answer="choices",
        ends=frozenset({"[DONE]"}),
    ),
    "messages": TestedApi(
        path="/messages",
        request={"messages": _MESSAGES, "max_tokens": OUTPUT_CAP},
        answer="content",
        ends=frozenset({"message_stop"}),
    ),
    "responses": TestedApi(
        path="/responses",
        request={"input": QUESTION, "max_output_tokens": OUTPUT_CAP, "store": False},
        answer="output",
        ends=frozenset({"response.completed", "response.incomplete"}),
    ),
    EMBEDDINGS: TestedApi(path="/embeddings", request={"input": QUESTION}, answer="data"),
}
"""The tested APIs by name."""


def api_for(*names: str) -> str:
    """Returns the API to test a model with these names here and at its upstreams."""
    return EMBEDDINGS if any(map(is_embedding_model, names)) else CHAT_API


class PublicApi(msgspec.Struct, frozen=True, kw_only=True):
    """/v1 as clients see it: its address and a key. Every method raises /v1's error, or Unavailable."""

    place: Address
    base: str
    key: str = ""
    app: str = "tollkeeper-test"
    """The calling program's name in lists and sums of calls."""

    async def ask(self, method: str, path: str, body: bytes = b"", *, timeout_s: float = 180.0) -> HttpAnswer:
        """Make one whole exchange. A local model may have to be loaded first."""
        answer = await request(self.place, self._ask(method, path, body), timeout_s=timeout_s)
        if answer.status != 200:
            raise _refusal(answer.status, answer.headers, answer.body)
        return answer

    @asynccontextmanager
    async def stream(self, path: str, body: bytes, *, timeout_s: float = 180.0) -> AsyncIterator[Stream]:
        """Make a call and yield its streamed answer."""
        async with exchange(self.place, self._ask("POST", path, body), timeout_s=timeout_s) as stream:
            if stream.status != 200:
                raise _refusal(stream.status, stream.headers, await stream.read())
            yield stream

    async def models(self) -> list[str]:
        """Returns the names that the key sees."""
        answer = await self.ask("GET", "/models")
        return [model.id for model in _read(answer.body, _ModelList).data]

    async def usual_call(self, model: str) -> str:
        """Call a model by its API, as a stream if the API has streams. Returns the call's id."""
        api = api_for(model)
        return await (self.streamed_call(model, api) if TESTED[api].ends else self.plain_call(model, api))

    async def plain_call(self, model: str, api: str = CHAT_API) -> str:
        """Make a plain call. Returns its id."""
        tested = TESTED[api]
        answer = await self.ask("POST", tested.path, _question(tested, model, stream=False))
        if not _read(answer.body, dict[str, Any]).get(tested.answer):
            msg = f"the plain answer has an empty field '{tested.answer}'"
            raise UpstreamError(msg, code="upstream_bad_response")
        return answer.headers.get("x-request-id", "")

    async def streamed_call(self, model: str, api: str = CHAT_API) -> str:
        """Make a streamed call and read it to its end. Returns its id."""
        tested = TESTED[api]
        last = b""
        async with self.stream(tested.path, _question(tested, model, stream=True)) as stream:
            async for line in stream.lines():
                last = line.strip() or last
        if (failed := _failure(last)) is not None:
            raise failed
        if not any(end.encode() in last for end in tested.ends):
            raise UpstreamError("the streamed answer was cut off", code="upstream_cut")
        return stream.headers.get("x-request-id", "")

    def _ask(self, method: str, path: str, body: bytes) -> ClientRequest:
        headers = {"User-Agent": f"{self.app}/{__version__}"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if body:
            headers["Content-Type"] = "application/json"
        return ClientRequest(method=method, path=self.base + path, headers=headers, body=body)


def demand_serving(status: Status) -> Status:
    """Returns the status. Raises Unavailable if the server is finishing its last calls."""
    if status.state == "draining":
        verb = "is" if status.in_flight == 1 else "are"
        rest = f"; {count_text(status.in_flight, 'call')} {verb} finishing" if status.in_flight else ""
        raise Unavailable(f"the gateway is stopping{rest}; {WAIT_AND_START}", code="gateway_stopping")
    return status


def public_api(address: str, key: str = "", *, app: str = "tollkeeper-test") -> PublicApi:
    """Returns /v1 at the base URL in a server's status."""
    parts = urlsplit(address)
    place = Address(host=parts.hostname or "127.0.0.1", port=parts.port or 80)
    return PublicApi(place=place, base=parts.path, key=key, app=app)


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
    """Returns /v1's error, which says when to try again if waiting helps."""
    error, wait = error_of(status, body), headers.get("retry-after", "")
    if wait.isdecimal() and "again in" not in error.message:
        error.message += f"; try again in {wait} s"
    return error


def _question(tested: TestedApi, model: str, *, stream: bool) -> bytes:
    return msgspec.json.encode({"model": model, **tested.request} | ({"stream": stream} if tested.ends else {}))


def _failure(line: bytes) -> GatewayError | None:
    """Returns the error of a stream's last event, if it is one."""
    try:
        event = msgspec.json.decode(line.removeprefix(b"data: "), type=_Event)
    except msgspec.DecodeError:
        return None
    error = event.error if event.response is None else event.response.error
    return None if error is None else error_of(502, msgspec.json.encode({"error": error}))


def _read(body: bytes, wanted: type[Value]) -> Value:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Unavailable(f"the server that answers there is not Tollkeeper ({exc})", code="server_strange") from exc


class _Model(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Model]


class _ErrorReply(msgspec.Struct):
    error: dict[str, Any] | None = None


class _Event(msgspec.Struct):
    error: dict[str, Any] | None = None
    response: _ErrorReply | None = None
    """The response object of the Responses API, which has its failures."""
