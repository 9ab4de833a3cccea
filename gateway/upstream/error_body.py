"""Error body: what an upstream says about an error, in any known shape, as one value."""

import html
import re
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.text import plain

BODY_LIMIT = 4 << 20
"""How many bytes of a body are examined."""

_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,400})", re.IGNORECASE)
_SCRIPT = re.compile(r"<(script|style)\b.*?(</\1\s*>|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,1000}>?")
_QUERY = re.compile(r"(https?://[^\s?\"']{1,500})\?[^\s\"']*")
_KEY = re.compile(r"\b(?:sk|gsk|pk|xai|rk|AIza|Bearer)[-_ ][\w*.-]{6,}|\bAIza[\w-]{10,}")
_QUOTED = re.compile(r"['\"]input['\"]: .*?(?=, ['\"](?:ctx|url|type)['\"]: |\}, \{['\"]type|$)", re.DOTALL)
"""The refused value that pydantic repeats."""
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s?")

_MESSAGES = ("message", "detail", "msg", "error_msg", "error_message", "status_msg", "Message", "title", "reason")
_CODES = ("code", "Code", "error_code", "status_code", "errcode")
_STATUSES = ("http_code", "statusCode", "status_code", "status")
_DELAYS = ("retryDelay", "retry_after", "retryAfter", "retry_after_seconds", "estimated_time")
_MINIMAX = {
    **dict.fromkeys((1002, 1039, 1041), 429),
    **dict.fromkeys((1004, 2049), 401),
    **dict.fromkeys((1008, 2056), 402),
    **dict.fromkeys((1026, 1027, 1042, 2013), 400),
    1001: 504,
}
"""The statuses of MiniMax's own numbers, which come without one."""
_EXTRA = frozenset({"extra_forbidden", "value_error.extra", "unexpected_keyword_argument"})


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the upstream reports it; empty strings for what is missing."""

    message: str = ""
    type: str = ""
    code: str = ""
    """Its identifier. A code that is an HTTP status is the ``status``."""
    param: str = ""
    status: int = 0
    """The HTTP status the body names."""
    request_id: str = ""
    delay_s: float | None = None
    """Seconds that the body asks to wait."""
    headers: Mapping[str, str] = {}
    """Headers of the upstream behind this one, which it repeats."""
    refused: tuple[str, ...] = ()
    """Paths of fields that it does not know."""
    hints: str = ""
    """The details as they came, shortened: Google names the exhausted quota there."""
    json: bool = True
    """False if the body was text, HTML or empty."""

    @property
    def words(self) -> str:
        """Returns the whole text in lower case to search for words, without what it quotes of the request."""
        return _QUOTED.sub("", f"{self.code} {self.type} {self.message} {self.hints}").lower()


def read_error(body: bytes) -> ErrorBody:
    """Returns what the body of a failed answer says."""
    body = _unpack(body[:BODY_LIMIT]).strip()
    decoded = rawjson.maybe(body)
    if decoded is None:
        decoded = _event_in(body)
    decoded = _first(decoded) if isinstance(decoded, list) else decoded  # Gemini's compatible surface
    if isinstance(decoded, dict):
        return read_object(decoded)
    if isinstance(decoded, str):
        return ErrorBody(message=tidy(decoded))
    return ErrorBody(message=excerpt(body), json=False)


def _unpack(body: bytes) -> bytes:
    """Unpacks a body that was packed without a header saying so."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, BODY_LIMIT)
    except zlib.error:
        return body


def _event_in(body: bytes) -> Any:
    """Returns the first JSON value among the events of a stream, or the lines of one."""
    for line in body[:65536].splitlines()[:20]:
        if (decoded := rawjson.maybe(line.removeprefix(b"data:").strip())) is not None:
            return decoded
    return None


def read_object(body: Mapping[str, Any]) -> ErrorBody:
    """Returns the error in an answer or chunk that is, or contains, an error object."""
    part = error_part(body) or _filter_error(body.get("choices"))
    if isinstance(part, str):
        outer = _read_inner(body)
        nested = _inner_error(part)
        message = f"{part}: {outer.message}" if outer.message else part
        error = msgspec.structs.replace(outer, message=tidy(message))
        return error if nested is None else _with_inner(error, nested)
    if isinstance(part, dict):
        error = _read_inner(part)
        request_id = error.request_id or _text(body.get("request_id"))
        return msgspec.structs.replace(error, request_id=request_id)
    return _read_inner(body)


def error_part(body: Mapping[str, Any]) -> Any:
    """Returns the object or text in which an answer reports an error, wherever it is; None if it reports none there."""
    holders = [body, *map(body.get, ("x_groq", "response", "ResponseMetadata")), _first(body.get("choices"))]
    for holder in holders:
        error = rawjson.at(holder, "error") or rawjson.at(holder, "Error")
        error = _first(error) if isinstance(error, list) else error
        if (isinstance(error, str) and error.strip()) or (isinstance(error, dict) and any(error.values())):
            return error
    if isinstance(error := _first(body.get("errors")), dict | str):
        return error
    return body["base_resp"] if rawjson.at(body, "base_resp", "status_code") else None


def _first(value: Any) -> Any:
    """Returns the first item of a list; None without one."""
    return value[0] if isinstance(value, list) and value else None


def _filter_error(choices: Any) -> Any:
    """Returns Azure's refusal of a prompt: an answer whose choice says only that the filter failed it."""
    choice = _first(choices)
    said = rawjson.at(choice, "message", "content")
    return None if said else rawjson.at(choice, "content_filter_results", "error")


def _read_inner(inner: Mapping[str, Any]) -> ErrorBody:
    message = next((inner[name] for name in _MESSAGES if inner.get(name) not in (None, "")), None)
    code, status = _code(inner)
    hints = {name: inner[name] for name in ("details", "innererror") if isinstance(inner.get(name), list | dict)}
    error = ErrorBody(
        message=_message(message, inner),
        type=_text(inner.get("type")) or _text(inner.get("status")) or _text(inner.get("__type")),
        code=code,
        param=_text(inner.get("param")),
        status=status,
        request_id=_text(inner.get("request_id")),
        delay_s=_delay(inner),
        headers=_headers(inner),
        hints=rawjson.encode(hints)[:2000].decode("utf-8", "replace") if hints else "",
        refused=_refused_fields(message) or _refused_fields(inner.get("detail")),
    )
    nested = _inner_error(message) or _inner_error(rawjson.at(inner, "metadata", "raw"))
    return error if nested is None else _with_inner(error, nested)


def _code(inner: Mapping[str, Any]) -> tuple[str, int]:
    """Returns the identifier, and the HTTP status: a code may be either, and a status may have a name of its own."""
    code = next((inner[name] for name in _CODES if inner.get(name) not in (None, "")), "")
    numbers = [_whole(code), *(_whole(inner.get(name)) for name in _STATUSES)]
    status = next((number for number in numbers if 400 <= number <= 599), 0)
    if (number := _whole(code)) and number <= 599 and len(str(code)) <= 3:
        return "", status
    if "status_code" in inner and number in _MINIMAX:
        status = _MINIMAX[number]
    return str(number) if isinstance(code, int) and number else _text(code), status


def _whole(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _inner_error(message: Any) -> ErrorBody | None:
    """Returns the error in a text that is itself JSON."""
    if not isinstance(message, str) or not message.lstrip().startswith("{"):
        return None
    decoded = rawjson.maybe(message.encode("utf-8", "surrogatepass"))
    return read_object(decoded) if isinstance(decoded, dict) else None


def _with_inner(outer: ErrorBody, inner: ErrorBody) -> ErrorBody:
    """Returns the outer error with what the inner one knows better."""
    return msgspec.structs.replace(
        outer,
        message=inner.message if outer.message.startswith("{") and inner.message else outer.message,
        type=inner.type or outer.type,
        code=inner.code or outer.code,
        param=inner.param or outer.param,
        status=outer.status or inner.status,
        delay_s=inner.delay_s if outer.delay_s is None else outer.delay_s,
        headers=outer.headers or inner.headers,
        refused=outer.refused or inner.refused,
        hints=outer.hints + inner.hints,
    )


def _message(message: Any, inner: Mapping[str, Any]) -> str:
    """Returns the text of a message: text, FastAPI's list of details, or an object that holds one of these."""
    if isinstance(message, dict):
        return _message(message.get("detail", message.get("message")), message)
    if isinstance(message, list):
        lines = [_detail(item) for item in message[:20]]
        return tidy("; ".join(line for line in lines if line))
    if not isinstance(message, str) or not message.strip():
        return ""
    raw = rawjson.text_at(inner, "metadata", "raw")  # OpenRouter: what the provider said that returned an error
    return tidy(f"{message}: {raw}" if raw else message)


def _headers(inner: Mapping[str, Any]) -> dict[str, str]:
    headers = rawjson.at(inner, "metadata", "headers")
    if not isinstance(headers, dict):
        return {}
    return {name.lower(): str(value) for name, value in list(headers.items())[:32] if isinstance(value, str | int)}


def _detail(item: Any) -> str:
    if isinstance(item, dict):
        place = item.get("loc")
        where = ".".join(str(part) for part in place) if isinstance(place, list) else ""
        text = _text(item.get("msg")) or _text(item.get("message"))
        return f"{where}: {text}" if where else text
    return _text(item)


def _refused_fields(details: Any) -> tuple[str, ...]:
    """Returns fields that a strict schema forbids (Mistral): ``{"type": "extra_forbidden", "loc": ["body", "x"]}``."""
    if isinstance(details, dict):
        details = details.get("detail")
    if not isinstance(details, list):
        return ()
    places = [d.get("loc") for d in details if isinstance(d, dict) and d.get("type") in _EXTRA]
    return tuple(".".join(str(part) for part in place) for place in places if isinstance(place, list))


def _delay(inner: Mapping[str, Any]) -> float | None:
    """Returns the seconds to wait, as Google (``"retryDelay": "34s"`` in the details) and others write them."""
    details, metadata = inner.get("details"), inner.get("metadata")
    for holder in (*(details if isinstance(details, list) else (details,)), metadata, inner):
        for name in _DELAYS:
            if match := _DELAY.fullmatch(str(rawjson.at(holder, name)).strip()):
                return float(match[1])
    return None


def _text(value: Any) -> str:
    return plain(rawjson.text_at(value).strip())


def excerpt(body: bytes) -> str:
    """Returns the title of a page, or the beginning of a text without its tags."""
    page = body[:65536].decode("utf-8", "replace")
    title = _TITLE.search(page)
    text = title[1] if title else _TAG.sub(" ", _SCRIPT.sub(" ", page))
    return tidy(html.unescape(text), 200)


def tidy(text: str, limit: int = 2000) -> str:
    """Returns foreign text on one line, without keys and queries of URLs."""
    text = " ".join(text[: 4 * limit].split())
    return plain(_KEY.sub("…", _QUERY.sub(r"\1", text)), limit)
