"""Trial: real calls through /v1 as any client makes them, tiny ones: what the doctor's last question is about."""

from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from gateway.client.http import Address, HttpAnswer, HttpRequest, exchange, request
from gateway.client.request import error_of
from gateway.domain.errors import Unavailable, UpstreamError

Value = TypeVar("Value")

CALL_S = 180.0
"""A local model may have to be loaded first."""

QUESTION = "Reply with the single word: ok"
INPUT_BOUND = 16
"""Upper estimate of its input tokens, as the gateway makes it."""
OUTPUT_CAP = 64
"""Output tokens of one call, for models that think before they speak."""


class PublicApi(msgspec.Struct, frozen=True, kw_only=True):
    """/v1 from outside: where it is, and the key to present. Every method raises what /v1 answers, or Unavailable."""

    place: Address
    base: str
    key: str = ""

    async def ask(self, method: str, path: str, body: bytes = b"") -> HttpAnswer:
        """One whole exchange."""
        answer = await request(self.place, self._ask(method, path, body), timeout_s=CALL_S)
        if answer.status != 200:
            raise error_of(answer.status, answer.body)
        return answer

    async def models(self) -> list[str]:
        """The names that the key sees."""
        answer = await self.ask("GET", "/models")
        return [model.id for model in _read(answer.body, _Listed).data]

    async def plain_call(self, model: str) -> str:
        """Call for a whole answer; the call's id."""
        answer = await self.ask("POST", "/chat/completions", _question(model, stream=False))
        if not _read(answer.body, _Completion).choices:
            raise UpstreamError("the plain answer holds no choices", code="upstream_bad_response")
        return answer.headers.get("x-request-id", "")

    async def streamed_call(self, model: str) -> str:
        """Call for a stream and read it to its proper end; the call's id."""
        ask = self._ask("POST", "/chat/completions", _question(model, stream=True))
        last = b""
        async with exchange(self.place, ask, timeout_s=CALL_S) as stream:
            if stream.status != 200:
                raise error_of(stream.status, await stream.read())
            async for line in stream.lines():
                last = line.strip() or last
        if last.startswith(b'data: {"error"'):
            raise error_of(502, last.removeprefix(b"data: "))
        if last != b"data: [DONE]":
            raise UpstreamError("the streamed answer was cut off", code="upstream_cut")
        return stream.headers.get("x-request-id", "")

    def _ask(self, method: str, path: str, body: bytes) -> HttpRequest:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body:
            headers["Content-Type"] = "application/json"
        return HttpRequest(method=method, path=self.base + path, headers=headers, body=body)


def public_api(address: str, key: str = "") -> PublicApi:
    """The way to the base URL that a server's status tells."""
    parts = urlsplit(address)
    return PublicApi(place=Address(host=parts.hostname or "127.0.0.1", port=parts.port or 80), base=parts.path, key=key)


def _question(model: str, *, stream: bool) -> bytes:
    message = {"role": "user", "content": QUESTION}
    return msgspec.json.encode({"model": model, "messages": [message], "max_tokens": OUTPUT_CAP, "stream": stream})


def _read(body: bytes, wanted: type[Value]) -> Value:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Unavailable(f"the server that answers there is not Tollkeeper ({exc})", code="server_strange") from exc


class _Model(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    data: list[_Model]


class _Completion(msgspec.Struct):
    choices: list[msgspec.Raw]
