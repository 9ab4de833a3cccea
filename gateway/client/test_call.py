"""Test call: makes small real calls through /v1, as any client does, for the last check of the doctor."""

from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from gateway import __version__
from gateway.client.connect_card import SAMPLES
from gateway.client.http import ClientRequest, HttpAnswer, Stream, error_of, exchange, request
from gateway.domain import rawjson
from gateway.domain.advice import WAIT_AND_START
from gateway.domain.call import CHAT_API
from gateway.domain.errors import Unavailable, UpstreamError
from gateway.domain.human_values import count_text
from gateway.domain.patterns import is_embedding_model
from gateway.domain.views import Status
from gateway.runfile import Address

Value = TypeVar("Value")

QUESTION = "Reply with the single word: ok"
INPUT_BOUND = 16
"""An upper bound of the question's input tokens, as the gateway computes it."""
OUTPUT_CAP = 64
"""The limit of output tokens of one call, which suffices for models that think before they answer."""

EMBEDDINGS = "embeddings"
_MESSAGES = [{"role": "user", "content": QUESTION}]

TESTED: dict[str, dict[str, Any]] = {
    "chat": {"messages": _MESSAGES, "max_tokens": OUTPUT_CAP},
    "messages": {"messages": _MESSAGES, "max_tokens": OUTPUT_CAP},
    "responses": {"input": QUESTION, "max_output_tokens": OUTPUT_CAP, "store": False},
    EMBEDDINGS: {"input": QUESTION},
}
"""The fields of the body of a test call, without ``model`` and ``stream``, by API."""


def api_for(*names: str) -> str:
    """Returns the name of the API to test a model with. ``names`` are its names here and at upstreams."""
    return EMBEDDINGS if any(map(is_embedding_model, names)) else CHAT_API


def call_facts(api: str) -> dict[str, Any]:
    """Returns what a dry run of a test call must know: its size and API, and whether it is streamed."""
    can_stream = bool(SAMPLES[api].end_marks)
    limit = {"max_tokens": OUTPUT_CAP} if can_stream else {}
    return {"prompt_tokens": INPUT_BOUND, "stream": can_stream, "api": api if api != CHAT_API else None, **limit}


class PublicApi(msgspec.Struct, frozen=True):
    """/v1 as clients use it, with a key. Every method raises the error of /v1, or Unavailable."""

    base_url: str
    """The address in a server's status."""
    key: str = ""
    app: str = "tollkeeper-test"
    """The name of the calling program, as lists and sums of calls show it."""

    @property
    def address(self) -> Address:
        parts = urlsplit(self.base_url)
        return Address(host=parts.hostname or "127.0.0.1", port=parts.port or 80)

    async def send(self, method: str, path: str, body: bytes = b"", *, timeout_s: float = 180.0) -> HttpAnswer:
        """Returns the complete answer to a request. It can take minutes if a local model must be loaded first."""
        return await request(self.address, self._build_request(method, path, body), timeout_s=timeout_s)

    def stream(self, path: str, body: bytes, *, timeout_s: float = 180.0) -> AbstractAsyncContextManager[Stream]:
        return exchange(self.address, self._build_request("POST", path, body), timeout_s=timeout_s)

    async def models(self) -> list[str]:
        answer = await self.send("GET", "/models")
        return [model.id for model in _decode(answer.body, _ModelList).data]

    async def test_call(self, model: str) -> str:
        """Call a model by the API that suits it, streamed if the API has streams. Returns the call's id."""
        api = api_for(model)
        if SAMPLES[api].end_marks:
            return await self.streamed_call(model, api)
        return await self.plain_call(model, api)

    async def plain_call(self, model: str, api: str = CHAT_API) -> str:
        """Make a call that is not streamed. Returns its id."""
        sample = SAMPLES[api]
        answer = await self.send("POST", sample.path, _test_body(api, model, stream=False))
        if not _decode(answer.body, dict[str, Any]).get(sample.content_field):
            msg = f"the plain answer has an empty field '{sample.content_field}'"
            raise UpstreamError(msg, code="upstream_bad_response")
        return answer.headers.get("x-request-id", "")

    async def streamed_call(self, model: str, api: str = CHAT_API) -> str:
        """Make a streamed call, and read it to its end. Returns its id."""
        sample = SAMPLES[api]
        last_line = b""
        async with self.stream(sample.path, _test_body(api, model, stream=True)) as stream:
            async for line in stream.lines():
                last_line = line.strip() or last_line
        event = rawjson.maybe(last_line.removeprefix(b"data: "))
        error = rawjson.at(event, "response", "error") or rawjson.at(event, "error")  # Responses has it in the response
        if isinstance(error, dict):
            raise error_of(502, rawjson.encode({"error": error}))
        if not any(mark.encode() in last_line for mark in sample.end_marks):
            raise UpstreamError("the streamed answer was cut off", code="upstream_cut")
        return stream.headers.get("x-request-id", "")

    def _build_request(self, method: str, path: str, body: bytes) -> ClientRequest:
        headers = {"User-Agent": f"{self.app}/{__version__}"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if body:
            headers["Content-Type"] = "application/json"
        return ClientRequest(method=method, path=urlsplit(self.base_url).path + path, headers=headers, body=body)


def require_serving(status: Status) -> Status:
    """Returns the status. Raises Unavailable if the server is finishing its last calls."""
    if status.state == "draining":
        verb = "is" if status.in_flight == 1 else "are"
        finishing = f"; {count_text(status.in_flight, 'call')} {verb} finishing" if status.in_flight else ""
        raise Unavailable(f"the gateway is stopping{finishing}; {WAIT_AND_START}", code="gateway_stopping")
    return status


def version_text(status: Status) -> str:
    """Returns the version of the server, and what to do after an upgrade of the program."""
    if status.version == __version__:
        return status.version
    return f"{status.version}; this program is {__version__}: stop and start the server to use it"


def _test_body(api: str, model: str, *, stream: bool) -> bytes:
    fields = {"model": model, **TESTED[api]}
    if SAMPLES[api].end_marks:
        fields["stream"] = stream
    return msgspec.json.encode(fields)


def _decode(body: bytes, kind: type[Value]) -> Value:
    """Returns the decoded body. Raises Unavailable if Tollkeeper cannot have sent it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Unavailable(f"the server that answers there is not Tollkeeper ({exc})", code="server_strange") from exc


class _Model(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Model]
