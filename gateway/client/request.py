"""Request: typed requests to the control surface. Answers are decoded to views, and errors to our exceptions."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from gateway.client.http import ClientRequest, request
from gateway.domain.errors import BadRequest, Conflict, InternalError
from gateway.domain.history import ACCEPT_HEADER, NOTHING_CHANGED, SOURCE_HEADER, ChangeSource, Question
from gateway.domain.text import plain
from gateway.runfile import Endpoint

Value = TypeVar("Value")
Body = msgspec.Struct | dict[str, Any]


class Caller:
    """Sends requests to one server. No connection stays open between them."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = 30.0, source: ChangeSource | None = None) -> None:
        """``source`` says in the history who makes the changes."""
        self.endpoint = endpoint
        self.source = source
        self._timeout_s = timeout_s
        self.confirm: Callable[[Question], Awaitable[bool]] | None = None
        """Asks the owner to confirm a change. If it is None, the request fails."""

    async def request(
        self, method: str, path: str, kind: type[Value], body: Body | None = None, *, timeout_s: float = 0
    ) -> Value:
        """Send a request, and again if the owner confirms what the server asks. Returns its answer as this type.

        ``timeout_s`` is the time for the whole answer in seconds; 0 means the client's own timeout. Raises the server's
        error, Conflict ``declined``, Unavailable, or InternalError for a server of another version.
        """
        message = self.build_request(method, path, body)
        try:
            answer = await self.send(message, timeout_s)
        except Conflict as error:
            if error.code != "needs_confirmation" or self.confirm is None:
                raise
            question = _decode(encode_body(error.details), Question)
            if not await self.confirm(question):
                raise Conflict(NOTHING_CHANGED, code="declined") from error
            headers = {**message.headers, ACCEPT_HEADER: question.answer}
            answer = await self.send(msgspec.structs.replace(message, headers=headers), timeout_s)
        return _decode(answer, kind)

    async def send(self, message: ClientRequest, timeout_s: float = 0) -> bytes:
        """Send one request. Returns the body of its answer. Raises the server's error, or Unavailable."""
        return (await request(self.endpoint, message, timeout_s=timeout_s or self._timeout_s)).body

    def build_request(self, method: str, path: str, body: Body | None = None) -> ClientRequest:
        headers = {"Authorization": f"Bearer {self.endpoint.secret}", "Content-Type": "application/json"}
        if self.source is not None:
            headers[SOURCE_HEADER] = self.source.header()
        content = b"" if body is None else encode_body(body)
        return ClientRequest(method=method, path="/control" + path, headers=headers, body=content)


def _decode(answer: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        text = f"the server's answer cannot be decoded ({exc}); if the server has another version, restart it"
        raise InternalError(text, code="version_mismatch") from exc


def ask(
    method: str, path: str, kind: type[Value], *names: str, timeout_s: float = 0
) -> Callable[..., Coroutine[Any, Any, Value]]:
    """Returns a method that sends a request.

    Its arguments are the names, ids and numbers to put into the path, then values with these ``names``; its keywords
    are further values. The values are parameters of the URL, or of POST, PUT and PATCH the fields of the body, unless
    an argument without a name is the whole body.
    """
    count, has_body = path.count("{}"), method in ("POST", "PUT", "PATCH")

    async def send(self: Caller, *arguments: Any, **values: object) -> Value:
        place = path.format(*(segment(str(ref)) for ref in arguments[:count]))
        if has_body and not names and arguments[count:]:
            (body,) = arguments[count:]
            return await self.request(method, place, kind, body, timeout_s=timeout_s)
        values = {**dict(zip(names[: len(arguments) - count], arguments[count:], strict=True)), **values}
        if has_body:
            return await self.request(method, place, kind, values or None, timeout_s=timeout_s)
        return await self.request(method, place + query_text(values), kind, timeout_s=timeout_s)

    return send


def terminal_name() -> str:
    """Returns the terminal that this process reads from, such as ``pts/3``, or an empty string."""
    try:
        return os.ttyname(0).removeprefix("/dev/")
    except (OSError, AttributeError):  # Windows has no names of terminals
        return ""


def encode_body(body: Body) -> bytes:
    """Returns the body as JSON. Raises BadRequest for a text with a lone surrogate."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as exc:
        raise _encoding_error(exc) from exc


def segment(text: str) -> str:
    """Returns a name as one segment of a path. Raises BadRequest if it is empty or has a lone surrogate."""
    if not text:
        raise BadRequest("the name is empty")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as exc:
        raise _encoding_error(exc) from exc


def query_text(parameters: Mapping[str, object]) -> str:
    """Returns the query of a URL, without what is None or empty; a tuple repeats its parameter. Raises BadRequest."""
    pairs = [
        (name, str(item).lower() if isinstance(item, bool) else str(item))
        for name, value in parameters.items()
        for item in (value if isinstance(value, tuple) else (value,))
        if item not in (None, "")
    ]
    try:
        return "?" + urlencode(pairs) if pairs else ""
    except UnicodeEncodeError as exc:
        raise _encoding_error(exc) from exc


def _encoding_error(exc: UnicodeEncodeError) -> BadRequest:
    return BadRequest(f"'{plain(str(exc.object), 60)}' is not UTF-8 text")
