"""Places: everywhere in an upstream's answer where a text may stand, in each dialect: bodies, headers, status lines,
trailers, events.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.domain.channel import Dialect
from tests.cases.gemini import streams as gemini
from tests.fakes.messages import message
from tests.fakes.provider import EVENTS, JSON, Exchange
from tests.fakes.replies import choice, chunk, delta, dumps, usage, whole
from tests.fakes.wire import head_bytes


@dataclass(frozen=True)
class Said:
    """What an upstream answers."""

    body: bytes = b""
    headers: Mapping[str, str] | None = None
    kind: str = JSON
    line: str = ""
    """The status line, if it is an odd one."""
    trailer: str = ""

    async def give(self, exchange: Exchange, status: int) -> None:
        line = self.line or f"HTTP/1.1 {status} Status"
        headers = {"content-type": self.kind, **(self.headers or {})}
        if self.trailer:
            head = head_bytes(line, [*headers.items(), ("transfer-encoding", "chunked")])
            await exchange.write(
                head
                + b"%x\r\n%b\r\n0\r\nx-trailer: %b\r\n\r\n"
                % (len(self.body), self.body, self.trailer.encode("latin-1", "replace"))
            )
        else:
            headers["content-length"] = str(len(self.body))
            await exchange.write(head_bytes(line, list(headers.items())) + self.body)


Place = Callable[[str], Said]
"""What is answered with this text in it."""


def _error(dialect: Dialect, text: str = "it broke", **more: Any) -> dict[str, Any]:
    if dialect is Dialect.ANTHROPIC:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text, **more}}
    if dialect is Dialect.GEMINI:
        return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT", **more}}
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None, **more}}


def error_places(dialect: Dialect) -> dict[str, Place]:
    """Everywhere in an answer that is an error."""

    def field(name: str) -> Place:
        return lambda text: Said(dumps(_error(dialect, **{name: text})))

    def header(name: str) -> Place:
        return lambda text: Said(dumps(_error(dialect)), {name: _ascii(text)})

    bodies: dict[str, Place] = {
        "message": lambda text: Said(dumps(_error(dialect, f"bad: {text} (see the log)"))),
        "long message": lambda text: Said(dumps(_error(dialect, "x " * 980 + text))),
        "nested": lambda text: Said(dumps({"error": {"error": {"message": text}, "message": {"detail": text}}})),
        "string": lambda text: Said(dumps({"error": f"bad: {text}"})),
        "flat": lambda text: Said(dumps({"object": "error", "message": text, "type": text, "code": text})),
        "detail": lambda text: Said(dumps({"detail": [{"loc": ["body", text], "msg": text, "type": "x"}]})),
        "raw": lambda text: Said(dumps(_error(dialect, "Provider returned error", metadata={"raw": text}))),
        "list": lambda text: Said(dumps([_error(dialect, text)])),
        "details": lambda text: Said(dumps(_error(dialect, details=[{"reason": text, "retryDelay": text}]))),
        "request id": lambda text: Said(dumps({**_error(dialect), "request_id": text})),
        "html": lambda text: Said(f"<html><p>{text}</p><script>{text}</script>".encode(), kind="text/html"),
        "title": lambda text: Said(f"<html><title>{text}</title></html>".encode(), kind="text/html"),
        "text": lambda text: Said(text.encode(), kind="text/plain"),
        "half json": lambda text: Said(dumps(_error(dialect, text))[:-3]),
        "status line": lambda text: Said(dumps(_error(dialect)), line=f"HTTP/1.1 400 {_ascii(text)}"),
        "odd status": lambda text: Said(b"", line=f"HTTP/1.1 {_ascii(text)[:20]}"),
        "trailer": lambda text: Said(dumps(_error(dialect)), trailer=_ascii(text)),
        "coding": lambda text: Said(b"x", {"content-encoding": _ascii(text)}),
        "transfer": lambda text: Said(b"x", {"transfer-encoding": _ascii(text)}),
    }
    fields = {f"field {name}": field(name) for name in ("code", "param", "type", "status")}
    names = (
        *("x-request-id", "request-id", "x-generation-id", "www-authenticate", "retry-after", "retry-after-ms"),
        *(
            "location",
            "set-cookie",
            "openai-processing-ms",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-tokens",
        ),
        *("content-type", "date", "server"),
    )
    headers = {f"header {name}": header(name) for name in names}
    named: Place = lambda text: Said(dumps(_error(dialect)), {f"x-ratelimit-limit-{_token(text)}": "1"})  # noqa: E731
    return {**bodies, **fields, **headers, "header name": named}


def good_places(dialect: Dialect) -> dict[str, Place]:
    """Everywhere in an answer of status 200 but its content; some of them are failures all the same."""
    said: dict[str, Callable[[str], dict[str, Any]]] = {
        "error inside": lambda text: _error(dialect, text, code=text, type=text),
        "no answer": lambda text: {"said": text, "message": text},
        **_GOOD[dialect],
    }
    out: dict[str, Place] = {name: _plain(make) for name, make in said.items()}
    for name in ("x-request-id", "openai-processing-ms", "x-ratelimit-remaining-requests", "retry-after", "etag"):
        out[f"header {name}"] = _with_header(name, dialect)
    return out


def stream_places(dialect: Dialect) -> dict[str, Place]:
    """The same in streams, and what only streams have."""
    out: dict[str, Place] = {
        "error event": lambda text: _events({"event": "error", "data": dumps(_error(dialect, text, code=text))}),
        "garbled": lambda text: _events({"data": text.encode()}, {"data": text.encode()}),
        "half chunk": lambda text: _events({"data": dumps({"id": text})[:-1]}, {"data": dumps({"id": text})[:-1]}),
        "comment": lambda text: Said(b": " + text.encode().replace(b"\n", b" ") + b"\n\n", kind=EVENTS),
        "event name": lambda text: _events({"event": _ascii(text), "data": b"{}"}),
        "page": lambda text: Said(f"<html><title>{text}</title>".encode(), kind="text/html"),
    }
    for name, make in _STREAMED[dialect].items():
        out[name] = _of_events(make)
    return out


def _plain(make: Callable[[str], dict[str, Any]]) -> Place:
    return lambda text: Said(dumps(make(text)))


def _of_events(make: Callable[[str], list[dict[str, Any]]]) -> Place:
    return lambda text: _events(*({"data": dumps(doc)} for doc in make(text)))


def _with_header(name: str, dialect: Dialect) -> Place:
    return lambda text: Said(dumps(_GOOD[dialect]["id"]("id-1")), {name: _ascii(text)})


def _events(*events: Mapping[str, Any]) -> Said:
    out = b""
    for event in events:
        out += b"event: %b\n" % str(event["event"]).encode() if "event" in event else b""
        out += b"data: %b\n\n" % event["data"].replace(b"\n", b" ")
    return Said(out, kind=EVENTS)


def _ascii(text: str) -> str:
    return text.replace("\n", " ").encode("ascii", "replace").decode()


def _token(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z._-]", "-", text)


def _message(**more: Any) -> dict[str, Any]:
    return {**message(), **more}


def _openai(**more: Any) -> dict[str, Any]:
    return {**whole("m", spent=usage()), **more}


def _response(**more: Any) -> dict[str, Any]:
    return {**gemini.response(gemini.say("Hi"), finish="STOP", **gemini.spent(9, 2)), "responseId": "r1", **more}


def _chunks(**more: Any) -> list[dict[str, Any]]:
    return [chunk(delta("Hi"), **more), chunk(delta(finish="stop"), **more), chunk(usage=usage(), **more)]


_GOOD: dict[Dialect, dict[str, Callable[[str], dict[str, Any]]]] = {
    Dialect.OPENAI: {
        "id": lambda text: _openai(id=f"chatcmpl-{text}"),
        "model": lambda text: _openai(model=text),
        "fingerprint": lambda text: _openai(system_fingerprint=text, provider={"name": [text]}),
        "finish": lambda text: {**whole("m", spent=usage()), "choices": [choice("Hi", finish=text)]},
        "beside a choice": lambda text: {**whole("m", spent=usage()), "choices": [{**choice("Hi"), "note": text}]},
        "usage": lambda text: _openai(usage={**usage(), "cost_details": {"note": text}, "cost": text}),
        "odd usage": lambda text: _openai(usage={"prompt_tokens": text, "completion_tokens": text}),
        "groq": lambda text: _openai(x_groq={"id": text}),
        "name of a field": lambda text: {**_openai(), text: 1},
    },
    Dialect.ANTHROPIC: {
        "id": lambda text: _message(id=f"msg_{text}"),
        "model": lambda text: _message(model=text),
        "finish": lambda text: _message(stop_reason=text, stop_sequence=text),
        "usage": lambda text: _message(usage={"input_tokens": 9, "output_tokens": 2, "service_tier": text}),
    },
    Dialect.GEMINI: {
        "id": lambda text: _response(responseId=f"r-{text}"),
        "model": lambda text: _response(modelVersion=text),
        "finish": lambda text: {**_response(), "candidates": [{"finishReason": text, "finishMessage": text}]},
        "blocked": lambda text: {"promptFeedback": {"blockReason": text, "blockReasonMessage": text}},
    },
}

_STREAMED: dict[Dialect, dict[str, Callable[[str], list[dict[str, Any]]]]] = {
    Dialect.OPENAI: {
        "id": lambda text: _chunks(id=f"chatcmpl-{text}"),
        "fingerprint": lambda text: _chunks(system_fingerprint=text, provider=text),
        "name of a field": lambda text: [{**part, text: 1} for part in _chunks()],
        "error beside": lambda text: [{**chunk(delta("Hi")), "error": {"message": text, "code": text}}],
        "late error": lambda text: [*_chunks()[:1], {"error": {"message": text, "type": text, "param": text}}],
        "finish": lambda text: [chunk(delta("Hi")), chunk(delta(finish=text)), chunk(usage=usage())],
        "usage": lambda text: [*_chunks()[:2], chunk(usage={**usage(), "note": text, "details": [text]})],
    },
    Dialect.ANTHROPIC: {
        "id": lambda text: [{"type": "message_start", "message": _message(id=text, content=[])}],
        "late error": lambda text: [
            {"type": "message_start", "message": _message(content=[])},
            {"type": "error", "error": {"type": text, "message": text}},
        ],
    },
    Dialect.GEMINI: {
        "id": lambda text: [_response(responseId=text)],
        "late error": lambda text: [_response(), {"error": {"code": 500, "message": text, "status": text}}],
        "failed": lambda text: [{"candidates": [{"finishReason": "MALFORMED_RESPONSE", "finishMessage": text}]}],
    },
}
