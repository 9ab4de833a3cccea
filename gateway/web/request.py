"""Checks the head of a request, finds its keys, and reads its body within limits."""

import asyncio

from aiohttp import hdrs, web

from gateway.core.memory import BodyShare
from gateway.domain.errors import BadRequest, InvalidToken, RequestRefused, TooLarge
from gateway.domain.text import bare_key
from gateway.domain.token import PREFIX
from gateway.web.connection import CONTINUE

MAX_BODY = 32 << 20
"""The maximum size of a request body, in bytes."""
BODY_S = 60.0
"""Seconds within which a body must be complete."""
MIN_RATE = 1024
"""The bytes a second that a body must bring on average, after its first five seconds."""

_API_KEY, _X_API_KEY = map(type(hdrs.HOST), ("api-key", "x-api-key"))
"""Names of aiohttp's own type are looked up in half the time."""


def check_head(request: web.BaseRequest) -> None:
    """Raises BadRequest or RequestRefused for a head that the parser accepts, but that RFC 9112 or safety forbids."""
    if request.version not in ((1, 0), (1, 1)):
        raise BadRequest("only HTTP/1.0 and HTTP/1.1 are supported", code="http_version")
    if request._message.url.absolute:  # noqa: SLF001 - the target as it came; the public URL is completed from Host
        raise RequestRefused("the request target must be a path, not a whole URL", code="wrong_host")
    headers = request.headers
    coding = headers.get(hdrs.TRANSFER_ENCODING)
    if coding is not None and coding.strip().lower() != "chunked":
        raise BadRequest("the only supported transfer coding is 'chunked'", code="transfer_encoding")
    if coding is not None and request.version < (1, 1):  # a proxy may see the end of an HTTP/1.0 body elsewhere
        raise BadRequest("HTTP/1.0 has no Transfer-Encoding: send a Content-Length", code="transfer_encoding")
    if len(headers.getall(hdrs.HOST, ())) > 1:
        raise BadRequest("the request has more than one Host header", code="wrong_host")


def keys_of(request: web.BaseRequest) -> list[str]:
    """Returns the client's keys, each once, from ``Authorization: Bearer``, ``api-key`` and ``x-api-key``.

    Programs may send several, and some may belong to another service. A key may have been copied with quotes or with
    its scheme, or come without that. Raises InvalidToken for several Authorization headers, and for a
    malformed one without another key.
    """
    headers = request.headers
    authorization = headers.getall(hdrs.AUTHORIZATION, [])
    if len(authorization) > 1:
        raise InvalidToken("the request has more than one Authorization header; send one")
    scheme, _, bearer = authorization[0].partition(" ") if authorization else ("bearer", "", "")
    if scheme.startswith(PREFIX):
        scheme, bearer = "bearer", scheme
    is_malformed = scheme.lower() != "bearer"
    bearer = "" if is_malformed else bearer.strip()
    if bearer.startswith(PREFIX) and _API_KEY not in headers and _X_API_KEY not in headers:
        return [bearer]
    candidates = (bearer, headers.get("api-key", ""), headers.get("x-api-key", ""))
    keys = list(dict.fromkeys(bare_key(key.strip()) for key in candidates if key.strip()))
    if is_malformed and not keys:
        raise InvalidToken("the Authorization header must be 'Bearer <token>'")
    return keys


def _check_json(request: web.BaseRequest) -> None:
    """Raises RequestRefused (``unsupported_media_type``) unless the body is plain JSON.

    Some tools omit the content type. But a browser lets any web page send a request without one, or with one that is
    not JSON's, and does not ask us first. Therefore a missing content type is accepted only without an Origin.
    """
    headers = request.headers
    if hdrs.CONTENT_ENCODING in headers and headers["Content-Encoding"].strip().lower() not in ("", "identity"):
        msg = f"a compressed body ({headers['Content-Encoding'][:20]!a}) is not accepted; send it uncompressed"
        if headers["Content-Encoding"] == "zstd":
            msg += "; with Codex: --disable enable_request_compression"
        raise RequestRefused(msg, code="unsupported_media_type")
    kind = headers.get(hdrs.CONTENT_TYPE)
    if kind == "application/json" or (kind is None and hdrs.ORIGIN not in headers):
        return
    values = [value.split(";") for value in (kind or "").lower().split(",")]  # some programs set it twice
    pairs = (parameter.partition("=") for _, *parameters in values for parameter in parameters)
    media = {value[0].strip() for value in values}
    charsets = {value.strip().strip('"') for name, _, value in pairs if name.strip() == "charset"}
    if media != {"application/json"} or not charsets <= {"", "utf-8", "utf8"}:
        msg = "send the body as 'Content-Type: application/json' in UTF-8"
        if media == {"application/x-www-form-urlencoded"}:
            msg += "; with curl: -H 'Content-Type: application/json'"
        raise RequestRefused(msg, code="unsupported_media_type")


async def read_body(request: web.BaseRequest, share: BodyShare, call_began: float | None = None) -> bytes:
    """Returns the whole body, which must be JSON. It counts towards the memory of all bodies while it arrives.

    ``call_began``, in monotonic seconds, is set for requests that are refused while the process is too large.

    Raises RequestRefused for another content type; TooLarge, before reading if the declared length is too large;
    BadRequest (408) if the body comes too slowly; Unavailable if the process or all bodies together are too large.
    """
    _check_json(request)
    if call_began is not None:
        share.pressure.check(call_began)
    declared = request.content_length
    if declared is not None and declared > MAX_BODY:
        raise _too_large()
    expected = request.headers.get(hdrs.EXPECT)
    if expected is not None and expected.strip().lower() != "100-continue":
        raise BadRequest("the only supported expectation is '100-continue'", code="expectation_failed")
    if request.content.is_eof():  # the body came with the head, as most do
        body = request.content.read_nowait()
        if len(body) > MAX_BODY:
            raise _too_large()
        share.grow(len(body))
        return body
    if expected is not None:
        await request.writer.write(CONTINUE)
        request.writer.output_size = 0  # this does not begin the answer itself
    try:
        return await _gather(request, share)
    except TimeoutError as error:
        msg = f"the body came too slowly: it must be complete within {BODY_S:.0f} s, at {MIN_RATE} bytes a second"
        raise BadRequest(msg, code="request_timeout") from error
    except ConnectionError as error:  # the request keeps it, and its traceback would keep all that was read
        raise ConnectionResetError(str(error)) from error.with_traceback(None)


async def _gather(request: web.BaseRequest, share: BodyShare) -> bytes:
    """Returns the body, read in parts. One timer is extended: a timer for each would cost more than reading."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout_at(_deadline(began, size)) as timeout:
        while part := await request.content.readany():
            parts.append(part)
            size += len(part)
            if size > MAX_BODY:
                raise _too_large()
            share.grow(len(part))
            deadline = _deadline(began, size)
            if deadline - (timeout.when() or 0) > 1.0:
                timeout.reschedule(deadline)
    return b"".join(parts)


def _deadline(began: float, size: int) -> float:
    """Returns when the body is too slow: when its average rate falls below the least, or after ``BODY_S``."""
    return began + min(BODY_S, 5.0 + size / MIN_RATE)


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {MAX_BODY >> 20} MiB")
