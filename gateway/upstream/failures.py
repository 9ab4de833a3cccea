"""Why an attempt failed, found in what the upstream answered or did, and what the client learns of it.

Codes beginning with ``upstream_`` are ours, and all but ``upstream_rejected`` have a status of their own. Any other one
goes with the upstream's own status: the client's request was at fault, or it names a model that is not there.
"""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from gateway.domain.advice import REDIRECT_ADVICE, WRONG_PATH_ADVICE
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError
from gateway.domain.text import plain
from gateway.upstream.adapter import Failure, OrderOrigin, UpstreamText
from gateway.upstream.error_body import ErrorBody

RETRY_AFTER_LIMIT_S = 600.0

WORDS_LIMIT = 300
"""Characters of what an upstream says about a channel's own account."""

REJECTED = "upstream_rejected"
"""The code of a refusal for which the upstream gave none."""
TIMEOUT = "upstream_timeout"
BAD_RESPONSE = "upstream_bad_response"

_CLIENT = frozenset({400, 413, 415, 422})
_SLOW = frozenset({408, 504, 524})
_OVERLOADED = frozenset({498, 503, 529})

_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|fund)|credit[_ ]balance|out[_ ]of[_ ]credit|spend(?:ing)?[_ ]limit"
    r"|billing_(?:hard_limit_reached|not_active)|usage limit|perday"
)
_KEY = re.compile(
    r"invalid[_ ]api[_ ]key|api[_ ]key[_ ](?:not valid|invalid|expired)|incorrect api key"
    r"|account[^.]{0,40}(?:deactivated|suspended)"
)
_NO_MODEL = re.compile(
    r"model_not_found|not a valid model|unknown model|no such model"
    r"|models?\b.{0,200}?(?:not found|not exist|is not available|not supported for generatecontent)"
)
_DENIED = re.compile(
    r"(?:access to|(?:allowed|authorized|permitted|entitled) to (?:use|access|call|invoke))"
    r" (?:the |this |that |requested |specified )*models?\b"
    r"|\bmodels?\b.{0,120}?(?:not have access|no access|access denied|not enabled|not (?:allowed|authorized|permitted))"
)
"""The key is good, and this model is not for it."""
_NO_PATH = re.compile(r"invalid url|unknown_url")
_REQUEST = re.compile(r"invalid_request_error")
_FLAGGED = re.compile(r"content_filter|moderation|flagged|safety")

_RULES: tuple[tuple[FailureKind, frozenset[int], re.Pattern[str] | None], ...] = (
    (FailureKind.QUOTA, frozenset({402}), None),
    (FailureKind.QUOTA, frozenset({400, 403, 429}), _MONEY),
    (FailureKind.CLIENT, frozenset({400, 403}), _FLAGGED),
    (FailureKind.MISSING, frozenset({401, 403}), _DENIED),
    (FailureKind.MISSING, frozenset({403}), _NO_MODEL),
    (FailureKind.AUTH, frozenset({401, 403}), None),
    (FailureKind.AUTH, frozenset({400}), _KEY),
    (FailureKind.MISSING, frozenset({400, 404}), _NO_MODEL),
    (FailureKind.SERVER, frozenset({404}), _NO_PATH),
    (FailureKind.CLIENT, frozenset({404}), _REQUEST),
    (FailureKind.RATE, frozenset({429}), None),
    (FailureKind.SLOW, _SLOW, None),
    (FailureKind.CLIENT, _CLIENT, None),
)
"""The first rule whose status and words fit; everything else is the upstream's own failure."""

_NAMES = re.compile(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)\s+(?:request\s+)?"
    r"(?:parameter|argument|field|name|key|property)s?(?:\s+supplied)?\s*:?\s*[`'\"]?([a-z_]+)"
    r"|(?:parameter|field|property|argument)\s+[`'\"]?([a-z_]+)[`'\"]?\s+is\s+(?:unsupported|not\s+(?:supported|allowed))"
    r"|[`'\"]?\b([a-z_]+)[`'\"]?:?\s+(?:is\s+not\s+supported|is\s+unsupported|extra\s+inputs\s+are\s+not\s+permitted)"
    r"|does\s+not\s+support\s+(?:the\s+)?(?:parameters?\s+)?[`'\"]?([a-z_]+)",
    re.IGNORECASE,
)
_MOST_OUTPUT = re.compile(
    r"supports? at most (\d{1,9}) (?:completion|output) tokens"
    r"|(?<!\d)(\d{1,9}), which is the maximum allowed number of output tokens"
    r"|max_(?:completion_)?tokens[`'\"]? must be (?:less than or equal to|at most|<=) [`'\"]?(\d{1,9})(?!\d)"
    r"|range of max_(?:completion_)?tokens (?:is|should be) \[\d+, ?(\d{1,9})\]",
    re.IGNORECASE,
)
"""The model's own limit, in a refusal of a higher one: as OpenAI, Anthropic, Groq, and DeepSeek with Qwen write it."""
_SET = re.compile(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)\s+(?:request\s+)?(?:parameter|argument|field|name|key)s?\b"
    r"[^{\[('\"]{0,60}[{\[(]([^}\])]{1,500})[}\])]",
    re.IGNORECASE,
)
"""Names as a set or list, as Python writes them: transformers says ``Unexpected fields in the request: {'x', 'y'}``."""
_QUOTED = re.compile(r"['\"]([a-z_]+)['\"]")


def classify(channel: Channel, status: int, error: ErrorBody, headers: Mapping[str, str]) -> Failure:
    """The failure that an answer means. ``status`` may also come from inside a body of status 200."""
    kind = _kind(status, error)
    wait = retry_after_s(headers)
    code, text = _code_and_text(channel, kind, status, error)
    refused = kind is FailureKind.CLIENT and status in {400, 422}
    return Failure(
        kind=kind,
        code=code,
        text=UpstreamText(text),
        for_owner=_for_owner(text, error) if kind in (FailureKind.AUTH, FailureKind.QUOTA) else None,
        status=status,
        param="model" if kind is FailureKind.MISSING and not error.param else None,
        origin=OrderOrigin(
            status=status,
            type=UpstreamText(error.type),
            code=UpstreamText(error.code),
            param=UpstreamText(error.param),
            request_id=UpstreamText(error.request_id or upstream_id(headers)),
        ),
        retry_after_s=wait if wait is not None else _clamp(error.delay_s),
        parameters=_parameters(error) if refused else (),
        max_output=_max_output(error) if refused else None,
    )


def _max_output(error: ErrorBody) -> int | None:
    found = _MOST_OUTPUT.search(error.message[:1000])
    return int(next(filter(None, found.groups()))) or None if found is not None else None


def _kind(status: int, error: ErrorBody) -> FailureKind:
    words = error.words
    for kind, statuses, pattern in _RULES:
        if status in statuses and (pattern is None or pattern.search(words)):
            return kind
    return FailureKind.SERVER


def _code_and_text(channel: Channel, kind: FailureKind, status: int, error: ErrorBody) -> tuple[str, str]:
    """Code and message for the client. What concerns the channel's own account never holds the upstream's words."""
    code, text = "upstream_error", _server_words(status, error)
    if kind is FailureKind.AUTH:
        fault = "refused the channel's key" if channel.key else "requires a key and the channel has none"
        code, text = "upstream_auth_failed", f"the upstream {fault} (HTTP {status}). Set a valid key for this channel."
    elif kind is FailureKind.QUOTA:
        code, text = "upstream_out_of_credit", f"the upstream account is out of credit or quota (HTTP {status})."
    elif kind is FailureKind.MISSING:
        code, text = "model_not_found", _words(status, error)
    elif kind is FailureKind.CLIENT:
        code, text = REJECTED, _words(status, error)
    elif kind is FailureKind.SLOW:
        code, text = TIMEOUT, f"the upstream gave up waiting: {_words(status, error)}"
    elif status == 429:
        code, text = "upstream_rate_limited", f"the upstream is limiting the rate: {_words(status, error)}"
    elif status in _OVERLOADED:
        code, text = "upstream_overloaded", f"the upstream is overloaded: {_words(status, error)}"
    return code, f"channel '{channel.name}': {text}"


def _for_owner(text: str, error: ErrorBody) -> UpstreamText | None:
    """Whoever has to act reads the upstream's own words."""
    if not (error.json and error.message):
        return None
    return UpstreamText(f"{text.partition('. ')[0].rstrip('.')}: {plain(error.message, WORDS_LIMIT)}")


def _words(status: int, error: ErrorBody) -> str:
    if error.json and error.message:
        return error.message
    return f"HTTP {status}: {error.message}" if error.message else f"HTTP {status} with an empty body"


def _server_words(status: int, error: ErrorBody) -> str:
    if 300 <= status < 400:
        return f"redirect refused (HTTP {status}). {REDIRECT_ADVICE}"
    if status == 404:
        return f"the upstream does not know this path (HTTP 404: {error.message}). {WRONG_PATH_ADVICE}"
    return f"the upstream failed: {_words(status, error)}"


def upstream_id(headers: Mapping[str, str]) -> str:
    """The upstream's own id of the call, or empty."""
    for name in ("x-request-id", "request-id", "x-generation-id", "mistral-correlation-id"):
        found = headers.get(name)
        if found:
            return plain(found, 120)
    return ""


def _parameters(error: ErrorBody) -> tuple[str, ...]:
    named = [error.param] if error.code in {"unsupported_parameter", "unknown_parameter"} and error.param else []
    named += error.refused
    named += [next(filter(None, match)) for match in _NAMES.findall(error.message[:1000])]
    named += [name for names in _SET.findall(error.message[:1000]) for name in _QUOTED.findall(names)]
    if "stream_options" in error.message:
        named.append("stream_options")
    return tuple(dict.fromkeys(named))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the headers ask, 0 to 600; None if they do not, or are not valid.

    A date is compared with the answer's own ``Date``: the upstream's clock need not be ours.
    """
    millis, seconds = _number(headers.get("retry-after-ms")), _number(headers.get("retry-after"))
    if millis is not None:
        return _clamp(millis / 1000)
    if seconds is not None:
        return _clamp(seconds)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return _clamp((until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _clamp(seconds: float | None) -> float | None:
    if seconds is None or math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, RETRY_AFTER_LIMIT_S)


def unreachable(channel: Channel, why: str, *, sent: bool) -> Failure:
    """No connection, or one that broke before an answer."""
    return _own(channel, FailureKind.NETWORK, "upstream_unreachable", f"cannot be reached: {why}", sent=sent)


def too_slow(channel: Channel, deadline: str, seconds: float, *, sent: bool) -> Failure:
    """A deadline passed; ``deadline`` says which, for example ``connect``."""
    text = f"took too long: {deadline} deadline of {seconds:g} s passed"
    return _own(channel, FailureKind.SLOW, TIMEOUT, text, sent=sent)


def bad_response(channel: Channel, why: str) -> Failure:
    """An answer that is not valid."""
    return _own(channel, FailureKind.SERVER, BAD_RESPONSE, f"sent a bad answer: {why}")


def not_gathered(channel: Channel, what: str, error: GatewayError) -> Failure:
    """An answer that was abandoned on this side, for lack of memory."""
    text = UpstreamText(f"channel '{channel.name}': {what} was abandoned: {error.message}")
    return Failure(kind=FailureKind.SERVER, code=error.code, text=text, origin=OrderOrigin())


def truncation(channel: Channel, why: str) -> Failure:
    """A stream that ended before its answer did."""
    text = f"ended the stream before the answer was complete: {why}"
    return _own(channel, FailureKind.SERVER, "upstream_stream_truncated", text)


def _own(channel: Channel, kind: FailureKind, code: str, what: str, *, sent: bool = True) -> Failure:
    text = UpstreamText(f"channel '{channel.name}': the upstream {what}")
    return Failure(kind=kind, code=code, text=text, origin=OrderOrigin(), sent=sent)
