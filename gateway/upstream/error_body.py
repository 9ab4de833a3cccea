"""ErrorBody: what an upstream says about an error, read from any known shape."""

import html
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.json_text import nested_value
from gateway.domain.text import plain

BODY_LIMIT = 4 << 20
"""At most this many bytes of a body are read."""

_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,400})", re.IGNORECASE)
_SCRIPT = re.compile(r"<(script|style)\b.*?(</\1\s*>|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,1000}>?")
_QUERY = re.compile(r"(https?://[^\s?\"']{1,500})\?[^\s\"']*")
_KEY = re.compile(r"\b(?:sk|gsk|pk|xai|rk|AIza|Bearer)[-_ ][\w*.-]{6,}|\bAIza[\w-]{10,}")
_REPEATED_INPUT = re.compile(r"['\"]input['\"]: .*?(?=, ['\"](?:ctx|url|type)['\"]: |\}, \{['\"]type|$)", re.DOTALL)
"""Matches the refused value that pydantic repeats."""
_QUOTED = re.compile(
    r"\{.*\}|(?<![\w\\])'[^{}]{1,200}?'(?!\w)|\"[^\"{}]{1,200}\"|`[^`{}]{1,200}`|(?<=\w)\[\w+\]|(?<=properties)\.\w+",
    re.DOTALL,
)
"""Matches quoted texts and names of properties, but not those in an object, which is another error within this one."""

MESSAGE_FIELDS = (
    *("message", "detail", "msg", "error_msg", "error_message", "errmsg", "errorMessage", "status_msg", "Message"),
    *("title", "reason"),
)
_ERROR_HOLDERS = ("x_groq", "response", "Response", "ResponseMetadata")
CODE_FIELDS = ("code", "Code", "error_code", "status_code", "errcode")
_STATUSES = ("http_code", "http_status", "statusCode", "status_code", "status")
_DELAYS = {
    **dict.fromkeys(("retryDelay", "retry_after", "retryAfter", "retry_after_seconds"), "retry-after"),
    **dict.fromkeys(("quotaResetDelay", "resets_in_seconds", "reset_seconds", "resets_at"), "retry-after"),
    "estimated_time": "retry-after",
    **dict.fromkeys(("retry_after_ms", "retryAfterMs"), "retry-after-ms"),
}
"""Fields with the time to wait, as Google, Codex's plans and others write them, and the header that means the same."""
_MINIMAX = {
    **dict.fromkeys((1002, 1039, 1041), 429),
    **dict.fromkeys((1004, 2049), 401),
    **dict.fromkeys((1008, 2056), 402),
    **dict.fromkeys((1026, 1027, 1042, 2013), 400),
    1001: 504,
}
"""The statuses of MiniMax's own error numbers, which come without one."""
_FORBIDDEN_TYPES = frozenset({"extra_forbidden", "value_error.extra", "unexpected_keyword_argument"})


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the upstream reports it; empty strings for what is missing."""

    message: str = ""
    type: str = ""
    code: str = ""
    """The identifier of the error. A code that is an HTTP status is in ``status`` instead."""
    param: str = ""
    status: int = 0
    """The HTTP status in the body."""
    request_id: str = ""
    headers: Mapping[str, str] = {}
    """Headers of another upstream behind this one, which the body repeats, and how long the body asks to wait."""
    refused: tuple[str, ...] = ()
    """Paths of fields that the upstream does not know."""
    hints: str = ""
    """The details as JSON, shortened: Google names the exhausted quota there."""
    is_json: bool = True
    """False if the body was text, HTML or empty."""

    @property
    def words(self) -> str:
        """Returns all its texts in lower case to search for words, without the values of the request in them."""
        return _REPEATED_INPUT.sub("", f"{self.code} {self.type} {self.message} {self.hints}").lower()

    @property
    def own_words(self) -> str:
        """Returns ``words`` without what the message quotes, which may be any words of the client's."""
        message = _QUOTED.sub(
            lambda found: found[0] if found[0][0] == "{" else found[0][0] + found[0][-1], self.message
        )
        hints = "" if "fieldViolations" in self.hints else self.hints  # Google's, which repeat the message
        return msgspec.structs.replace(self, message=message, hints=hints).words


def read_error(body: bytes) -> ErrorBody:
    """Returns the error in the body of a failed answer."""
    body = body[:BODY_LIMIT]
    if body.startswith(b"\x1f\x8b"):  # gzip, although no header said so
        with suppress(zlib.error):
            body = zlib.decompressobj(wbits=31).decompress(body, BODY_LIMIT)
    body = body.strip()
    decoded = rawjson.maybe(body)
    if decoded is None:  # it may be an event stream
        lines = (rawjson.maybe(line.removeprefix(b"data:").strip()) for line in body[:65536].splitlines()[:20])
        decoded = next((value for value in lines if value is not None), None)
    decoded = _first(decoded) if isinstance(decoded, list) else decoded  # Gemini's compatible API sends a list
    if isinstance(decoded, dict):
        return read_object(decoded)
    if isinstance(decoded, str):
        return ErrorBody(message=tidy(decoded))
    return ErrorBody(message=excerpt(body), is_json=False)


def read_object(body: Mapping[str, Any]) -> ErrorBody:
    """Returns the error in an answer or chunk that is, or contains, an error object; of an unknown form, its JSON."""
    part = error_part(body) or _filter_error(body.get("choices"))
    error = _read_fields(part if isinstance(part, dict) else body)
    if isinstance(part, dict):
        request_id = error.request_id or _text(body.get("request_id"))
        error = msgspec.structs.replace(error, request_id=request_id)
    elif isinstance(part, str):
        nested = _nested_error(part)
        text = part if error.message in ("", part) else f"{part}: {error.message}"
        error = msgspec.structs.replace(error, message=tidy(text))
        error = error if nested is None else _with_nested(error, nested)
    return error if error.message or not body else msgspec.structs.replace(error, message=excerpt(rawjson.encode(body)))


def error_part(body: Mapping[str, Any]) -> Any:
    """Returns the object or text that is an answer's error, wherever it is, or None."""
    holders = [body, *map(body.get, _ERROR_HOLDERS), _first(body.get("choices"))]
    for holder in holders:
        error = next(filter(None, (rawjson.at(holder, name) for name in ("error", "Error", "errors"))), None)
        error = _first(error) if isinstance(error, list) else error
        if (isinstance(error, str) and error.strip()) or (isinstance(error, dict) and any(error.values())):
            return error
    return body["base_resp"] if rawjson.at(body, "base_resp", "status_code") else None


def _first(value: Any) -> Any:
    """Returns the first item of a list; None for an empty list and anything else."""
    return value[0] if isinstance(value, list) and value else None


def _filter_error(choices: Any) -> Any:
    """Returns the error of Azure's content filter: an answer whose choice has nothing but that error."""
    choice = _first(choices)
    content = rawjson.at(choice, "message", "content")
    return None if content else rawjson.at(choice, "content_filter_results", "error")


def _read_fields(fields: Mapping[str, Any]) -> ErrorBody:
    """Returns the error in an object, and in what its message may contain as JSON."""
    message = next((fields[name] for name in MESSAGE_FIELDS if fields.get(name) not in (None, "")), None)
    code, status = _code_and_status(fields)
    kinds = (*map(fields.get, ("type", "status", "__type", "error_type")), rawjson.at(fields, "metadata", "error_type"))
    text, param = _message_text(message, fields), _text(fields.get("param"))
    if param.count(" ") > 2:  # Xiaomi writes there what is wrong
        text, param = f"{text}: {param}", ""
    error = ErrorBody(
        message=text,
        type=next(filter(None, map(_text, kinds)), ""),
        code=code,
        param=param,
        status=status,
        request_id=_text(fields.get("request_id")),
        headers=_delay(fields) | _repeated_headers(fields),
        hints=_hints(fields),
        refused=_refused_fields(message) or _refused_fields(fields.get("detail")),
    )
    nested = _nested_error(message) or _nested_error(rawjson.at(fields, "metadata", "raw"))
    return error if nested is None else _with_nested(error, nested)


def _repeated_headers(fields: Mapping[str, Any]) -> dict[str, str]:
    headers = rawjson.at(fields, "metadata", "headers")
    pairs = list(headers.items())[:32] if isinstance(headers, dict) else []
    return {name.lower(): str(value) for name, value in pairs if isinstance(value, str | int)}


def _hints(fields: Mapping[str, Any]) -> str:
    hints = {name: fields[name] for name in ("details", "innererror") if isinstance(fields.get(name), list | dict)}
    return rawjson.encode(hints)[:2000].decode("utf-8", "replace") if hints else ""


def _code_and_status(fields: Mapping[str, Any]) -> tuple[str, int]:
    """Returns the identifier and the HTTP status. A code may be either; a status may also have a field of its own."""
    codes = (*map(fields.get, CODE_FIELDS), rawjson.at(fields, "availability", "code"))  # the last is OpenRouter's
    code = next((code for code in codes if code not in (None, "")), "")
    numbers = (rawjson.whole_number(value) for value in (code, *map(fields.get, _STATUSES)))
    status = next((number for number in numbers if number and 400 <= number <= 599), 0)
    if (number := rawjson.whole_number(code)) and number <= 599 and len(str(code)) <= 3:
        return "", status
    if "status_code" in fields and number in _MINIMAX:
        status = _MINIMAX[number]
    return str(number) if isinstance(code, int) and number else _text(code), status


def _nested_error(message: Any) -> ErrorBody | None:
    """Returns the error in a text that is itself JSON; None for any other text."""
    if not isinstance(message, str) or not message.lstrip().startswith("{"):
        return None
    decoded = nested_value(message)
    return read_object(decoded) if isinstance(decoded, dict) else None


def _with_nested(outer: ErrorBody, nested: ErrorBody) -> ErrorBody:
    """Returns the outer error with what is more exact in the nested one."""
    return msgspec.structs.replace(
        outer,
        message=nested.message if outer.message.startswith("{") and nested.message else outer.message,
        type=nested.type or outer.type,
        code=nested.code or outer.code,
        param=nested.param or outer.param,
        status=outer.status or nested.status,
        headers={**nested.headers, **outer.headers},
        refused=outer.refused or nested.refused,
        hints=outer.hints + nested.hints,
    )


def _message_text(message: Any, fields: Mapping[str, Any]) -> str:
    """Returns the text of a message, which may be FastAPI's list of details, or an object with a message in it."""
    if isinstance(message, dict):
        return _message_text(message.get("detail", message.get("message")), message)
    if isinstance(message, list):
        lines = [_detail(item) for item in message[:20]]
        return tidy("; ".join(line for line in lines if line))
    if not isinstance(message, str) or not message.strip():
        return ""
    raw = rawjson.text_at(fields, "metadata", "raw")  # OpenRouter's: the answer of the provider behind it
    return tidy(f"{message}: {raw}" if raw else message)


def _detail(item: Any) -> str:
    """Returns an item of FastAPI's list of details as a line."""
    if isinstance(item, dict):
        path = ".".join(str(part) for part in rawjson.list_at(item, "loc"))
        text = _text(item.get("msg")) or _text(item.get("message"))
        return f"{path}: {text}" if path else text
    return _text(item)


def _refused_fields(details: Any) -> tuple[str, ...]:
    """Returns fields that a strict schema forbids (Mistral): ``{"type": "extra_forbidden", "loc": ["body", "x"]}``."""
    if isinstance(details, dict):
        details = details.get("detail")
    if not isinstance(details, list):
        return ()
    paths = [d.get("loc") for d in details[:100] if isinstance(d, dict) and str(d.get("type")) in _FORBIDDEN_TYPES]
    return tuple(".".join(str(part) for part in path) for path in paths if isinstance(path, list))


def _delay(fields: Mapping[str, Any]) -> dict[str, str]:
    """Returns how long to wait as a header; empty if the error does not say it."""
    details = fields.get("details")
    holders = details[:20] if isinstance(details, list) else [details]
    holders = [*holders, *(rawjson.at(each, "metadata") for each in holders)]
    for holder in (*holders, fields.get("metadata"), fields.get("availability"), fields):
        for name, header in _DELAYS.items():
            text = str(rawjson.at(holder, name)).strip()
            if text[:1].isdigit():
                return {header: text}
    return {}


def _text(value: Any) -> str:
    return plain(rawjson.text_at(value).strip())


def excerpt(body: bytes) -> str:
    """Returns the title of an HTML page, or the beginning of a text without tags."""
    page = body[:65536].decode("utf-8", "replace")
    title = _TITLE.search(page)
    text = title[1] if title else _TAG.sub(" ", _SCRIPT.sub(" ", page))
    return tidy(html.unescape(text), 200)


def tidy(text: str, limit: int = 2000) -> str:
    """Returns a text from outside on one line, without keys and without the queries of URLs."""
    text = " ".join(text[: 4 * limit].split())
    return plain(_KEY.sub("…", _QUERY.sub(r"\1", text)), limit)
