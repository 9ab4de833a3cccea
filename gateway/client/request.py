"""Caller: one typed request to the control surface. Answers become views, errors become our exceptions again."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from gateway.client.http import Address, ClientRequest, HttpAnswer, request
from gateway.domain.errors import BadRequest, Conflict, GatewayError, InternalError, error_class
from gateway.domain.history import ACCEPT_HEADER, NOTHING_CHANGED, REVIVES_KEY, SOURCE_HEADER, ChangeSource
from gateway.domain.text import plain
from gateway.runfile import Endpoint

Value = TypeVar("Value")
Body = msgspec.Struct | dict[str, Any]
Confirm = Callable[[Sequence[str]], Awaitable[bool]]


class Caller:
    """Sends requests. It knows the server's address and secret."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = 30.0, source: ChangeSource | None = None) -> None:
        """``source`` is who makes the changes, for the history."""
        self.endpoint = endpoint
        self.source = source
        self.place = Address(socket=endpoint.socket, host=endpoint.host, port=endpoint.port)
        self._timeout_s = timeout_s
        self.confirm: Confirm | None = None
        """Asks the owner whether a key or token may work again, given the reasons; None: the request fails."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Does nothing: no connection stays open between requests."""

    async def get(self, path: str, wanted: type[Value], timeout_s: float = 0, /, **parameters: object) -> Value:
        """GET; parameters that are None are left out."""
        return self.read(await self.send("GET", path + query_text(parameters), timeout_s=timeout_s), wanted)

    async def change(
        self, method: str, path: str, wanted: type[Value], body: Body | None = None, *, timeout_s: float = 0
    ) -> Value:
        """POST, PATCH, PUT or DELETE."""
        return self.read(await self.send(method, path, body, timeout_s=timeout_s), wanted)

    async def send(self, method: str, path: str, body: Body | None = None, *, timeout_s: float = 0) -> HttpAnswer:
        """Send one request, within ``timeout_s`` seconds (0: the client's own timeout).

        Raises the server's error, or Unavailable.
        """
        try:
            return await self.send_once(method, path, body, timeout_s=timeout_s)
        except Conflict as error:
            if error.code != REVIVES_KEY or self.confirm is None:
                raise
            if not await self.confirm(msgspec.convert(error.details["reasons"], list[str])):
                raise Conflict(NOTHING_CHANGED, code="declined") from error
        return await self.send_once(method, path, body, timeout_s=timeout_s, accepts=REVIVES_KEY)

    async def send_once(
        self, method: str, path: str, body: Body | None = None, *, timeout_s: float = 0, accepts: str = ""
    ) -> HttpAnswer:
        """Send one request and ask nothing. ``accepts`` is the code of the conflict that the owner has confirmed."""
        asked = self.ask(method, path, body, accepts=accepts)
        answer = await request(self.place, asked, timeout_s=timeout_s or self._timeout_s)
        if not 200 <= answer.status < 300:
            raise error_of(answer.status, answer.body)
        return answer

    def ask(self, method: str, path: str, body: Body | None = None, *, accepts: str = "") -> ClientRequest:
        """Returns the request to send, with the secret and, for changes, their source."""
        headers = {"Authorization": f"Bearer {self.endpoint.secret}", "Content-Type": "application/json"}
        headers |= {ACCEPT_HEADER: accepts} if accepts else {}
        if self.source is not None:
            headers[SOURCE_HEADER] = self.source.header()
        return ClientRequest(
            method=method, path="/control" + path, headers=headers, body=b"" if body is None else encode_body(body)
        )

    @staticmethod
    def read(answer: HttpAnswer, wanted: type[Value]) -> Value:
        """Returns the decoded answer. Raises InternalError if the server's version does not match."""
        try:
            return msgspec.json.decode(answer.body, type=wanted)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise InternalError(
                f"the server's answer is not understood ({exc}); if its version differs, stop and start it again",
                code="version_mismatch",
            ) from exc


def fetch(
    path: str, wanted: type[Value], *, method: str = "GET", timeout_s: float = 0
) -> Callable[[Caller], Coroutine[Any, Any, Value]]:
    """Returns the method of a path that takes nothing."""

    async def ask(self: Caller) -> Value:
        return await self.change(method, path, wanted, timeout_s=timeout_s)

    return ask


def fetch_one(
    path: str, wanted: type[Value], *, method: str = "GET", timeout_s: float = 0
) -> Callable[[Caller, str], Coroutine[Any, Any, Value]]:
    """Returns the method of a path that contains a name or id."""

    async def ask(self: Caller, ref: str) -> Value:
        return await self.change(method, path.format(segment(ref)), wanted, timeout_s=timeout_s)

    return ask


def change(
    method: str, path: str, wanted: type[Value], *, timeout_s: float = 0
) -> Callable[[Caller, Body], Coroutine[Any, Any, Value]]:
    """Returns the method of a path that takes a body."""

    async def ask(self: Caller, body: Body) -> Value:
        return await self.change(method, path, wanted, body, timeout_s=timeout_s)

    return ask


def change_one(
    path: str, wanted: type[Value], *, timeout_s: float = 0
) -> Callable[[Caller, str, Body], Coroutine[Any, Any, Value]]:
    """Returns the method that edits what has a name or id."""

    async def ask(self: Caller, ref: str, patch: Body) -> Value:
        return await self.change("PATCH", path.format(segment(ref)), wanted, patch, timeout_s=timeout_s)

    return ask


def terminal_name() -> str:
    """Returns the terminal that this process reads from, such as ``pts/3``; empty if there is none."""
    try:
        return os.ttyname(0).removeprefix("/dev/")
    except (OSError, AttributeError):  # Windows has no names
        return ""


class _Refusal(msgspec.Struct):
    message: str = ""
    code: str | None = None
    param: str | None = None
    gateway: dict[str, Any] = {}


class _ErrorReply(msgspec.Struct):
    error: _Refusal


def error_of(status: int, body: bytes) -> GatewayError:
    """Returns the exception for an error; its class is found by code, else by status."""
    try:
        refusal = msgspec.json.decode(body, type=_ErrorReply).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        refusal = _Refusal(message=f"the server answered with status {status}")
    kind = error_class(status, refusal.code or "")
    return kind(refusal.message, code=refusal.code or "", param=refusal.param, details=refusal.gateway)


def encode_body(body: Body) -> bytes:
    """Returns the body as JSON. Raises BadRequest for a text with half a surrogate pair."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as exc:
        raise _no_text(exc) from exc


def segment(text: str) -> str:
    """Returns a name as one segment of a path. Raises BadRequest if it is empty or not text."""
    if not text:
        raise BadRequest("the name is empty")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as exc:
        raise _no_text(exc) from exc


def query_text(parameters: Mapping[str, object]) -> str:
    """Returns the query of a URL, without parameters that are None or empty; several values are repeated.

    Raises BadRequest for what is not text.
    """
    several = {name: value if isinstance(value, tuple) else (value,) for name, value in parameters.items()}
    given = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, values in several.items()
        for value in values
        if value not in (None, "")
    ]
    try:
        return "?" + urlencode(given) if given else ""
    except UnicodeEncodeError as exc:
        raise _no_text(exc) from exc


def _no_text(exc: UnicodeEncodeError) -> BadRequest:
    return BadRequest(f"'{plain(str(exc.object), 60)}' is not UTF-8 text")
