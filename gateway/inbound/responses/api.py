"""Responses (``POST /v1/responses``): the API of Codex and of OpenAI's newer SDKs.

A channel that speaks the API gets the request unchanged. For others it is read into a ``Conversation``, and the answer
is rendered here. Reasoning that must come back is sealed in ``encrypted_content`` (``Seal``). ``recall`` completes
requests that continue a remembered response.

Errors have the bodies of chat completions. Their statuses keep Codex from useless retries: it calls again after every
4xx except 400, and a 429 without ``retry-after``.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.errors import PASSED_STATUS, GatewayError, QuotaExceeded, TooLarge, UpstreamError
from gateway.domain.json_text import contains
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.api import error_object
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.relay import NativeStream
from gateway.inbound.rendering import RenderedStream, RenderingAdapter
from gateway.inbound.responses.compaction import plan_compaction
from gateway.inbound.responses.reader import ResponsesReader
from gateway.inbound.responses.relay import KIND_FIELDS, ResponsesRelay, model_kind, native_order, repaired_order
from gateway.inbound.responses.render import ResponseRenderer
from gateway.inbound.responses.request import parse_responses_request, translate_responses
from gateway.inbound.responses.summary import COMPACTION, PROMPT_BOUND
from gateway.inbound.responses.tools import ToolTable
from gateway.upstream.adapter import AnswerStream, DialectAdapter
from gateway.upstream.vendors import speaks_responses

_FAILED_CODES = {
    "upstream_rate_limited": "rate_limit_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "upstream_out_of_credit": "insufficient_quota",
    "context_length_exceeded": "context_length_exceeded",
    "insufficient_quota": "insufficient_quota",
}
"""The codes in ``response.failed``, by the codes in an error body.

One that is overloaded is a ``server_error``: at the vendor's own ``server_is_overloaded`` Codex ends the whole task."""


class Responses(InboundApi):
    """Implements ``InboundApi``."""

    name = "responses"
    id_prefix = "resp_"
    sticky = True
    caps = ("max_output_tokens",)
    repeats_blindly = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        return parse_responses_request(request)

    def keeps_answer(self, request: InboundRequest) -> bool:
        return True

    def has_kinds(self, fields: Fields, kinds: Iterable[str]) -> bool:
        if not (kinds := list(kinds)):
            return False
        content = b"".join(fields.get(name, rawjson.NULL) for name in KIND_FIELDS)
        return model_kind(fields) in kinds or any(contains(content, b'"%b"' % kind.encode()) for kind in kinds)

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        if order.form.compacts:
            return plan_compaction(order, channel, chat, lacks_api=lacks_api, at_path=self.ability == COMPACTION)
        if not lacks_api and speaks_responses(channel):
            native = native_order(order, channel.overrides)
            repair = None if channel.strict else repaired_order
            return AttemptPlan(ResponsesRelay(chat), native, native=True, repair=repair)
        translated, tools = translate_responses(order)
        translated = finish_translation(translated, channel, chat)
        renderer = partial(ResponseRenderer, order, tools)
        return AttemptPlan(RenderingAdapter(chat, renderer, renderer), translated, native=False)

    def keep_alive_for(self, stream: AnswerStream | None) -> bytes:
        writer = _writer_of(stream)
        return writer.next_keep_alive() if isinstance(writer, ResponseRenderer) else self.keep_alive

    def status(self, error: GatewayError) -> int:
        """Returns 400 if the client must change the request first, else the error's status."""
        must_change = _is_passed_on(error) or isinstance(error, TooLarge) or error.code == "model_not_found"
        return 400 if must_change else error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        if isinstance(error, UpstreamError) and error.verbatim:
            response = rawjson.at(rawjson.maybe(error.verbatim.encode("utf-8", "surrogatepass")), "response")
            if not isinstance(response, dict):
                return error.verbatim.encode("utf-8", "replace")
            if response.get("error"):
                return rawjson.encode({"error": {"param": None, "type": error.http_type, **response["error"]}})
        return rawjson.encode({"error": _error_fields(error, call)})

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns ``response.failed``, with the part of the response that the client has."""
        if isinstance(error, UpstreamError) and error.verbatim:
            event = error.verbatim.encode("utf-8", "replace")
            if rawjson.text_at(rawjson.maybe(event), "type") == "response.failed":
                return b"event: response.failed\ndata: %b\n\n" % event
        details = _error_fields(error, call)
        if error.transient:
            details["type"] = "server_error"  # so that Continue makes the call again
        blank = Order(fields={}, model="", answer_id="resp_" + call[-24:])
        writer = _writer_of(stream) or ResponseRenderer(blank, ToolTable(), blank)
        # after a code that it does not know, Codex makes the call again
        other = "invalid_prompt" if 400 <= error.http_status < 409 else "server_error"
        failure = {"code": _FAILED_CODES.get(_error_code(error), other), "message": details["message"]}
        return writer.broken_end(failure, rawjson.encode(details))


class Compactions(Responses):
    """``POST /v1/responses/compact``."""

    ability = COMPACTION

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``. Compactions are not streamed."""
        parsed = super().parse(request)
        fields = {name: raw for name, raw in parsed.fields.items() if name not in ("stream", "stream_options")}
        return msgspec.structs.replace(
            parsed,
            fields=fields,
            body=parsed.body if len(fields) == len(parsed.fields) else b"",
            stream=False,
            bound=parsed.bound.plus(PROMPT_BOUND),
            form=msgspec.structs.replace(parsed.form, compacts=True),
        )

    def keeps_answer(self, request: InboundRequest) -> bool:
        return False


def _writer_of(stream: AnswerStream | None) -> ResponseRenderer | ResponsesReader | None:
    """Returns what knows which events the client has: the stream's renderer or reader; None if it has neither."""
    if isinstance(stream, RenderedStream) and isinstance(stream.renderer, ResponseRenderer):
        return stream.renderer
    return stream.reader if isinstance(stream, NativeStream) and isinstance(stream.reader, ResponsesReader) else None


RESPONSES = Responses()
COMPACTIONS = Compactions()


def _error_fields(error: GatewayError, call: str) -> dict[str, Any]:
    """Returns the fields of an error. If this API has its own code for it, ``gateway.code`` is the gateway's."""
    fields: dict[str, Any] = error_object(error, call)["error"]
    code = _error_code(error)
    if code != error.code:
        fields["gateway"] = {**fields.get("gateway", {}), "code": error.code}
        fields["code"] = code
    return fields


def _error_code(error: GatewayError) -> str:
    """Returns the error's code, or this API's own code if clients act on it."""
    if error.program_status == 400:
        return "invalid_prompt"  # otherwise Codex shows the whole JSON instead of the message
    if isinstance(error, QuotaExceeded):
        return "insufficient_quota"
    return error.code


def _is_passed_on(error: GatewayError) -> bool:
    """Returns whether the upstream refused the request itself."""
    return isinstance(error, UpstreamError) and error.http_status in PASSED_STATUS
