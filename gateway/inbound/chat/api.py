"""Chat completions (``POST /v1/chat/completions``), the API in whose form requests and answers are kept inside.

So requests go out as they came where a channel speaks it, and adapters already write the answers that clients get.
Error bodies are ``{"error": {message, type, param, code}}``, all four keys always there (``wire.md`` 1.6). What the
gateway adds is in ``error.gateway`` and ``error.metadata``, which the SDKs ignore.
"""

from collections.abc import Mapping

import msgspec

from gateway.domain.channel import Dialect
from gateway.domain.errors import GatewayError
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import LARGE, HttpRequest, InboundRequest
from gateway.inbound.chat.request import parse_chat_request, parse_large_chat_request
from gateway.upstream.adapter import Adapter, Order

METADATA = frozenset({"upstream", "resets_at"})
"""Details of an error that are put into ``error.metadata``."""


class ChatCompletions:
    """Implements ``InboundApi``."""

    name = "chat"
    stream_type = "text/event-stream; charset=utf-8"
    keep_alive = b": keep-alive\n\n"
    id_headers: tuple[str, ...] = ("x-request-id",)

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``."""
        body = request.body
        return parse_large_chat_request(body) if len(body) > LARGE else parse_chat_request(body)

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """See ``InboundApi``."""
        return Order(
            fields=request.fields,
            body=request.body,
            long=request.long,
            model=request.model,
            stream=request.stream,
            include_usage=request.include_usage,
            answer_id="chatcmpl-" + call[-24:],
            created=ts // 1000,
        )

    def adapter(self, dialect: Dialect, chat: Adapter) -> Adapter:
        """See ``InboundApi``."""
        return chat

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """See ``InboundApi``: SSE comments."""
        return "".join([*(f": {name}: {value}\n" for name, value in facts.items()), "\n"]).encode()

    def status(self, error: GatewayError) -> int:
        """See ``InboundApi``."""
        return error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``."""
        return msgspec.json.encode(error_object(error, call))

    def error_event(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``. No ``[DONE]`` follows (``wire.md`` S13)."""
        return b"data: " + self.error_body(error, call) + b"\n\n"


CHAT = ChatCompletions()


def error_object(error: GatewayError, call: str = "") -> dict[str, object]:
    """The error's body as JSON values."""
    ours = {name: value for name, value in error.details.items() if name not in METADATA}
    if call:
        ours = {"call_id": call, **ours}
    metadata = {name: value for name, value in error.details.items() if name in METADATA}
    inner: dict[str, object] = {
        "message": error.message + (f" [call {call}]" if call else ""),
        "type": error.http_type,
        "param": error.param,
        "code": None if error.code == "upstream_rejected" else error.code,
    }
    if ours:
        inner["gateway"] = ours
    if metadata:
        inner["metadata"] = metadata
    return {"error": inner}
