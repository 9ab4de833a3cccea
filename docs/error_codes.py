"""The meaning of each error code of the public API. Status, type and retry advice come from the code itself.

``tests/test_documents.py`` fails if the gateway uses a code that is missing here, or if a code listed here is unused.
"""

from typing import NamedTuple

from gateway.domain.errors import (
    AnswerMemoryFull,
    BadRequest,
    GatewayError,
    InternalError,
    InvalidToken,
    NoChannel,
    NotFound,
    QuotaExceeded,
    RateLimited,
    RequestRefused,
    TooLarge,
    Unavailable,
    UpstreamError,
    UpstreamTimeout,
)


class ErrorRow(NamedTuple):
    """An error code, the class that carries it, and when it occurs (Markdown)."""

    code: str
    kind: type[GatewayError]
    when: str


ERRORS = (
    ErrorRow("invalid_json", BadRequest, "The body is not valid JSON, or not UTF-8."),
    ErrorRow("missing_required_parameter", BadRequest, "`model` or `messages` is missing."),
    ErrorRow("invalid_type", BadRequest, "A field has the wrong type; `param` names it."),
    ErrorRow("invalid_value", BadRequest, "A field has a value that is not allowed; `param` names it."),
    ErrorRow("unsupported_parameter", BadRequest, "The channel's dialect cannot express this field."),
    ErrorRow("duplicate_key", BadRequest, "A field occurs twice where that would change the cost of the call."),
    ErrorRow("too_deep", BadRequest, "The JSON is nested too deeply."),
    ErrorRow("too_complex", BadRequest, "The JSON has too many fields, strings or numbers."),
    ErrorRow("model_price_missing", BadRequest, "The model has no price, and `refuse_unpriced` is on."),
    ErrorRow("unexpected_body", BadRequest, "This path does not accept a body."),
    ErrorRow("bad_http", BadRequest, "The request is not valid HTTP."),
    ErrorRow("http_version", BadRequest, "The HTTP version is neither 1.0 nor 1.1."),
    ErrorRow("transfer_encoding", BadRequest, "The transfer encoding is not `chunked`."),
    ErrorRow("missing_api_key", InvalidToken, "The request carries no key."),
    ErrorRow("invalid_api_key", InvalidToken, "No token has this key."),
    ErrorRow("token_disabled", InvalidToken, "The token is disabled."),
    ErrorRow("token_expired", InvalidToken, "The token has expired."),
    ErrorRow("key_replaced", InvalidToken, "The key no longer works: it was replaced, or its token was removed."),
    ErrorRow(
        "origin_not_allowed",
        RequestRefused,
        "The origin of the web page or app is not permitted; the message says how to permit it.",
    ),
    ErrorRow("refused", RequestRefused, "The gateway does not accept the request in this form."),
    ErrorRow("model_not_found", NotFound, "The model does not exist, or this token may not see it."),
    ErrorRow(
        "previous_response_not_found",
        BadRequest,
        "Neither the gateway nor this channel keeps the response or item; send the whole input.",
    ),
    ErrorRow("websocket_not_supported", BadRequest, "The request is not a WebSocket handshake of version 13."),
    ErrorRow(
        "websocket_connection_limit_reached", BadRequest, "The WebSocket is 60 minutes old: open another connection."
    ),
    ErrorRow("unknown_url", NotFound, "The path does not exist."),
    ErrorRow("not_found", NotFound, "Something that the request names does not exist."),
    ErrorRow(
        "method_not_allowed", BadRequest, "The path exists, but not with this method; `Allow` lists the right ones."
    ),
    ErrorRow("request_timeout", BadRequest, "The body arrived too slowly."),
    ErrorRow("request_too_large", TooLarge, "The body is too large."),
    ErrorRow("unsupported_media_type", RequestRefused, "The body is compressed, or not `application/json` in UTF-8."),
    ErrorRow("expectation_failed", BadRequest, "`Expect` asks for something other than `100-continue`."),
    ErrorRow("wrong_host", RequestRefused, "`Host` does not name this gateway; see `settings set --add-host`."),
    ErrorRow("insufficient_quota", QuotaExceeded, "The account's balance or budget is too small for the call."),
    ErrorRow("group_quota_exceeded", QuotaExceeded, "A budget of the group is used up."),
    ErrorRow("token_quota_exceeded", QuotaExceeded, "A budget of the token is used up."),
    ErrorRow("account_suspended", QuotaExceeded, "The account is suspended."),
    ErrorRow("rate_limit_exceeded", RateLimited, "A limit of requests, tokens or concurrent calls is reached."),
    ErrorRow("too_many_streams", RateLimited, "The token has too many streams open."),
    ErrorRow("request_too_large_for_limit", RateLimited, "This call alone needs more tokens than a limit allows."),
    ErrorRow("upstream_rate_limited", UpstreamError, "Every channel that could answer is limited by its upstream."),
    ErrorRow("client_closed", Unavailable, "The client disconnected first; only the call log shows this."),
    ErrorRow("internal_error", InternalError, "A bug of the gateway; the message has the id of the call."),
    ErrorRow("upstream_error", UpstreamError, "The upstream failed."),
    ErrorRow("upstream_auth_failed", UpstreamError, "The upstream rejects the channel's key, or the key is not set."),
    ErrorRow("upstream_out_of_credit", UpstreamError, "The upstream account has no credit left."),
    ErrorRow("upstream_unreachable", UpstreamError, "The upstream cannot be reached, or the connection broke."),
    ErrorRow("upstream_bad_response", UpstreamError, "The upstream's answer is not valid."),
    ErrorRow("upstream_stream_truncated", UpstreamError, "The upstream ended a stream before the answer was complete."),
    ErrorRow("no_channel_available", NoChannel, "No channel can serve the model now; the message gives the reasons."),
    ErrorRow("upstream_overloaded", UpstreamError, "The upstream is overloaded."),
    ErrorRow("overloaded", Unavailable, "The gateway or all channels of the model are busy."),
    ErrorRow("gateway_stopping", Unavailable, "The gateway is shutting down."),
    ErrorRow("gateway_stopped", Unavailable, "The gateway died during the call; only the call log shows this."),
    ErrorRow("out_of_memory", Unavailable, "Request bodies, or the process, use too much memory."),
    ErrorRow(
        "answer_memory_full", AnswerMemoryFull, "Running answers use too much memory. The upstream had already begun."
    ),
    ErrorRow("call_cancelled", Unavailable, "The owner cancelled the call."),
    ErrorRow("store_unavailable", Unavailable, "The data folder cannot be written; calls resume when it can."),
    ErrorRow(
        "store_failed", Unavailable, "The record could not be written: the answer is withheld, and costs nothing."
    ),
    ErrorRow("upstream_timeout", UpstreamTimeout, "The upstream took too long."),
)
