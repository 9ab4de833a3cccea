"""Answer headers: what the gateway reports about an answer in ``x-gateway-*`` headers (``docs/http.md``).

To add a header, add a line here and a row to the table in ``docs/http.md``. A fact that is not known when the headers
are sent follows in a comment at the end of the stream.
"""

from collections.abc import Iterable
from functools import lru_cache

from gateway.core.call_state import AttemptState, CallLimits, CallResult
from gateway.domain.call import Record, lost_events
from gateway.domain.money import number
from gateway.domain.text import plain
from gateway.domain.usage import COUNTED_HERE, Usage


def answer_headers(attempt: AttemptState, limits: CallLimits, result: CallResult) -> dict[str, str]:
    """Returns the headers for an answer or an error of an admitted call, as far as their values are known."""
    if limits.read_headers is not None:
        limits.read()
    out = {name: _header(value) for name, value in attempt.reply_headers.items()}
    if limits.headers:
        out.update(limits.headers)
    if attempt.route is not None:
        out["x-gateway-channel"] = _header(attempt.route.channel.name)
        out["x-gateway-model"] = _header(attempt.route.served.upstream or attempt.route.served.name)
        out["x-gateway-route"] = _header(attempt.route_reason)
        if attempt.price is None:
            out["x-gateway-price"] = "unpriced"
    out["x-gateway-attempts"] = str(max(1, attempt.number))
    out["x-gateway-overhead-ms"] = f"{result.overhead_us / 1000:.2f}"
    if limits.budget_warning:
        out["x-gateway-budget-warning"] = _header(limits.budget_warning)
    if attempt.dropped:
        out["x-gateway-dropped-params"] = _header(",".join(attempt.dropped))
    if attempt.lowered is not None:
        out["x-gateway-output-limit"] = str(attempt.lowered)
    return out


def whole_answer_headers(
    attempt: AttemptState, limits: CallLimits, result: CallResult, record: Record
) -> dict[str, str]:
    """Returns the headers of a whole answer: its record is written, so its cost is known."""
    out = answer_headers(attempt, limits, result)
    out["x-gateway-cost"] = number(record.cost)
    if record.source in COUNTED_HERE:
        out["x-gateway-usage"] = record.source.value
    if record.balance is not None:
        out["x-gateway-balance"] = number(record.balance)
    return out


def end_of_stream_facts(usage: Usage, marks: Iterable[str]) -> dict[str, str]:
    """Returns the facts known only at the end of a stream, which a comment reports."""
    lost = lost_events(marks)
    facts = {"x-gateway-lost-events": str(lost)} if lost else {}
    if usage.source in COUNTED_HERE:
        facts["x-gateway-usage"] = usage.source.value
    return facts


@lru_cache(maxsize=1024)
def _header(value: str) -> str:
    """Returns a header value that any client can read: printable ASCII."""
    return plain(value).encode("ascii", "replace").decode()
