"""What an upstream says of an error, in any of the shapes seen in the field, as one value."""

import html
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain.text import plain
from gateway.upstream import rawjson

MESSAGE_LIMIT = 2000
"""Characters of an upstream's message that are passed on."""
EXCERPT_LIMIT = 200
"""Characters of a body that is not JSON."""

_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,400})", re.IGNORECASE)
_SCRIPT = re.compile(r"<(script|style)\b.*?(</\1\s*>|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,1000}>?")
_QUERY = re.compile(r"(https?://[^\s?\"']{1,500})\?[^\s\"']*")
_KEY = re.compile(r"\b(?:sk|gsk|pk|xai|rk|AIza|Bearer)[-_ ][\w*.-]{6,}|\bAIza[\w-]{10,}")
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s\Z")


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the upstream reports it; empty strings for what is missing."""

    message: str = ""
    type: str = ""
    code: str = ""
    """Its identifier; a code that is a number is a ``status``."""
    param: str = ""
    status: int = 0
    """The HTTP status the body names."""
    request_id: str = ""
    delay_s: float | None = None
    """How long it asks to wait, in the body."""
    refused: tuple[str, ...] = ()
    """Names of top-level fields it says it does not know."""
    hints: str = ""
    """The details as they came, shortened: Google names the exhausted quota there."""
    json: bool = True
    """False: the body was text, HTML or empty."""

    @property
    def words(self) -> str:
        """The whole text, in lower case, to look for words in."""
        return f"{self.code} {self.type} {self.message} {self.hints}".lower()


def read_error(body: bytes) -> ErrorBody:
    """What the body of a failed answer says."""
    found = rawjson.maybe(body[: 4 * 1024 * 1024].strip())
    if isinstance(found, list):  # Gemini's compatible surface
        found = found[0] if found and isinstance(found[0], dict) else None
    if isinstance(found, dict):
        return read_object(found)
    if isinstance(found, str):
        return ErrorBody(message=tidy(found))
    return ErrorBody(message=excerpt(body), json=False)


def read_object(found: Mapping[str, Any]) -> ErrorBody:
    """What an answer or a chunk says that is, or holds, an error object."""
    inner = found.get("error")
    if isinstance(inner, dict):
        error = _read_inner(inner)
        request_id = error.request_id or _text(found.get("request_id"))
        return msgspec.structs.replace(error, request_id=request_id)
    if isinstance(inner, str) and inner:
        return ErrorBody(message=tidy(inner), code=_text(found.get("code")))
    return _read_inner(found)


def _read_inner(inner: Mapping[str, Any]) -> ErrorBody:
    code = inner.get("code")
    number = code if isinstance(code, int) and not isinstance(code, bool) else 0
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        number = int(code)
    details = inner.get("details")
    message = inner.get("message", inner.get("detail", inner.get("msg")))
    return ErrorBody(
        message=_message(message, inner),
        type=_text(inner.get("type")) or _text(inner.get("status")),
        code="" if number else _text(code),
        param=_text(inner.get("param")),
        status=number if 400 <= number <= 599 else 0,
        request_id=_text(inner.get("request_id")),
        delay_s=_delay(details),
        hints=rawjson.encode(details)[:2000].decode("utf-8", "replace") if isinstance(details, list) else "",
        refused=_refused_fields(message) or _refused_fields(inner.get("detail")),
    )


def _message(message: Any, inner: Mapping[str, Any]) -> str:
    """The text of a message that may be text, FastAPI's list of details, or an object that holds one of these."""
    if isinstance(message, dict):
        return _message(message.get("detail", message.get("message")), message)
    if isinstance(message, list):
        lines = [_detail(item) for item in message[:5]]
        return tidy("; ".join(line for line in lines if line))
    if isinstance(message, str) and message.strip():
        return tidy(_raw_reason(message, inner))
    return ""


def _raw_reason(message: str, inner: Mapping[str, Any]) -> str:
    """OpenRouter wraps the real reason: ``Provider returned error`` with the provider's words in the metadata."""
    metadata = inner.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f"{message}: {raw}" if isinstance(raw, str) and raw else message


def _detail(item: Any) -> str:
    if isinstance(item, dict):
        place = item.get("loc")
        where = ".".join(str(part) for part in place) if isinstance(place, list) else ""
        text = _text(item.get("msg")) or _text(item.get("message"))
        return f"{where}: {text}" if where else text
    return _text(item)


def _refused_fields(details: Any) -> tuple[str, ...]:
    """Top-level fields a strict schema forbids (Mistral): ``{"type": "extra_forbidden", "loc": ["body", "x"]}``."""
    if isinstance(details, dict):
        details = details.get("detail")
    if not isinstance(details, list):
        return ()
    places = [d["loc"] for d in details if isinstance(d, dict) and d.get("type") == "extra_forbidden" and "loc" in d]
    return tuple(str(place[1]) for place in places if isinstance(place, list) and len(place) == 2)


def _delay(details: Any) -> float | None:
    """Google's ``{"retryDelay": "34s"}`` among the details."""
    for detail in details if isinstance(details, list) else ():
        match = _DELAY.match(_text(detail.get("retryDelay"))) if isinstance(detail, dict) else None
        if match:
            return float(match[1])
    return None


def _text(value: Any) -> str:
    return plain(value.strip()) if isinstance(value, str) else ""


def excerpt(body: bytes) -> str:
    """The title of a page, or the beginning of a text without its tags."""
    page = body[:65536].decode("utf-8", "replace")
    title = _TITLE.search(page)
    text = title[1] if title else _TAG.sub(" ", _SCRIPT.sub(" ", page))
    return tidy(html.unescape(text), EXCERPT_LIMIT)


def tidy(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Foreign text on one line without keys and queries of URLs."""
    text = " ".join(text[: 4 * limit].split())
    return plain(_KEY.sub("…", _QUERY.sub(r"\1", text)), limit)
