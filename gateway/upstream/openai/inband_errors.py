"""Errors inside answers: an upstream that has sent status 200 can report a failure only in the body."""

from typing import Any

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import Failure
from gateway.upstream.error_body import ErrorBody, read_error, read_object
from gateway.upstream.failures import classify
from gateway.upstream.rawjson import Fields

_STATUSES = (
    (402, ("insufficient_quota", "credit", "insufficient_balance")),
    (429, ("rate_limit", "rate limit", "too many requests")),
    (503, ("overloaded", "insufficient_system_resource", "capacity")),
    (401, ("authentication", "invalid_api_key", "unauthorized")),
    (404, ("model_not_found",)),
    (400, ("invalid_request", "context_length", "content_filter")),
    (504, ("timeout",)),
)
"""Words that show the status of an error that names none."""


def is_error(chunk: Fields) -> bool:
    """Whether an answer or a chunk is an error, or brings one, in any of the places where upstreams put it."""
    if "error" in chunk and rawjson.value(chunk["error"]):
        return True
    if bytes(chunk.get("object", rawjson.NULL)) == b'"error"':
        return True
    groq = rawjson.value(chunk["x_groq"]) if "x_groq" in chunk else None
    return isinstance(groq, dict) and bool(groq.get("error"))


def failure_in(data: bytes, channel: Channel) -> Failure:
    """The failure that an error in the body reports."""
    found = rawjson.maybe(data)
    return _classified(_read(found) if isinstance(found, dict) else read_error(data), channel)


def failure_word(word: str, channel: Channel) -> Failure:
    """The failure that a finish reason reports."""
    return _classified(ErrorBody(message=f"the answer ended with finish_reason '{word}'", type=word), channel)


def _read(found: dict[str, Any]) -> ErrorBody:
    groq = found.get("x_groq")
    if not found.get("error") and isinstance(groq, dict) and groq.get("error"):
        return read_object(groq)
    return read_object(found)


def _classified(error: ErrorBody, channel: Channel) -> Failure:
    failure = classify(channel, error.status or _status(error.words), error, {})
    return msgspec.structs.replace(failure, parameters=())


def _status(words: str) -> int:
    return next((status for status, signs in _STATUSES if any(sign in words for sign in signs)), 500)
