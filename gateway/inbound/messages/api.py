"""Messages (``POST /v1/messages``), Anthropic's API, spoken by Claude Code and the Claude SDKs.

Channels of dialect anthropic get the request unchanged; for the others it is translated. Errors have Anthropic's form
and statuses, with the gateway's own details in ``error.gateway``, which the SDKs ignore. A native channel's error about
the client's own mistake is passed on in the vendor's words: Claude Code searches them, to call again without what was
refused.
"""

from functools import partial

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect
from gateway.domain.errors import GatewayError, InvalidToken, NotFound, QuotaExceeded, UpstreamError
from gateway.domain.order import Order
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.api import error_object
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.messages.conversation import translate_messages
from gateway.inbound.messages.native import MessagesRelay, native_order, without_deferred_tools
from gateway.inbound.messages.render import MessagesRenderer, WholeMessageRenderer, write_event
from gateway.inbound.messages.request import parse_messages_request, prompt_of
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import DialectAdapter
from gateway.upstream.vendors import LOCAL, vendor_of

OVERLOADED = 529
NO_THREADS = "thread_unsupported_request"
"""Anthropic's code for a request that cannot have a thread: its SDKs then send the whole conversation instead."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    421: "permission_error",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
"""``error.type`` by status; other mistakes of the client are invalid requests."""


class Messages(InboundApi):
    """The Messages API as an ``InboundApi``."""

    name = "messages"
    respells = True
    stream_type = "text/event-stream; charset=utf-8"
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    id_headers: tuple[str, ...] = ("x-request-id", "request-id")
    id_prefix = "msg_"
    sticky = True
    caps = ("max_tokens",)
    obstacle_code = NO_THREADS
    obstacle_param = "thread"

    def parse(self, request: HttpRequest) -> InboundRequest:
        return parse_messages_request(request)

    def other_names(self, model: str) -> tuple[str, ...]:
        """Returns other names to try: Claude Code adds ``[1m]`` for a long context, and lists names that look like its
        own.
        """
        short = model.removesuffix("[1m]")
        bare = short.removeprefix("anthropic/").removeprefix("claude/")
        return tuple(name for name in dict.fromkeys((short, bare)) if name != model)

    def prompt_tokens(self, request: InboundRequest) -> int:
        return prompt_of(request.fields) if request.prompt is None else request.prompt

    def selects(self, request: InboundRequest) -> bool:
        """Returns whether the upstream is to keep the conversation."""
        return not rawjson.is_null(request.fields.get("thread"))

    def keeps_answer(self, request: InboundRequest) -> bool:
        return self.selects(request)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """Returns why a channel cannot answer: a conversation kept by another upstream would be lost silently."""
        if channel.dialect is Dialect.ANTHROPIC and vendor_of(channel.preset, channel.base_url).name not in LOCAL:
            return ""
        return "keeps no conversations: send all messages without 'thread'"

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        if channel.dialect is Dialect.ANTHROPIC:
            native = native_order(order, channel.overrides)
            repaired = partial(without_deferred_tools, native)
            return AttemptPlan(MessagesRelay(chat), native, native=True, learns=False, repaired=repaired)
        translation = translate_messages(order)
        names = translation.names
        adapter = RenderingAdapter(
            chat,
            lambda order: MessagesRenderer(order, names, muted=translation.muted),
            lambda order: WholeMessageRenderer(order, names, muted=translation.muted),
        )
        return AttemptPlan(adapter, finish_translation(translation.order, channel), native=False)

    def status(self, error: GatewayError) -> int:
        if isinstance(error, UpstreamError):
            if error.code == "upstream_overloaded":
                return OVERLOADED
            if error.status == 402:
                return 402
        return error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        if isinstance(error, UpstreamError) and error.verbatim:
            return error.verbatim.encode("utf-8", "replace")
        return msgspec.json.encode(self._error(error, call))

    def error_event(self, error: GatewayError, call: str) -> bytes:
        """Returns the error event. An open block stays open: then Claude Code makes the call again."""
        return write_event(b"error", msgspec.json.encode(self._error(error, call)))

    def _error(self, error: GatewayError, call: str) -> dict[str, object]:
        status, message = self.status(error), error.message
        if isinstance(error, NotFound) and error.param == "model":
            message = "model: " + message.removeprefix("model ")
        inner: dict[str, object] = {"type": _type(error, status), "message": message, "code": error.code}
        if error.code == NO_THREADS:
            inner["details"] = {"error_code": NO_THREADS}
        if isinstance(error, QuotaExceeded):
            inner["details"] = {"error_code": "enforced_spend_limit_reached"}
        if error.param:
            inner["param"] = error.param
        ours = error_object(error, call)["error"]
        inner |= {name: ours[name] for name in ("gateway", "metadata") if name in ours}
        return {"type": "error", "error": inner, "request_id": call}


def _type(error: GatewayError, status: int) -> str:
    if isinstance(error, InvalidToken):
        return "authentication_error"
    return _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")


MESSAGES = Messages()
