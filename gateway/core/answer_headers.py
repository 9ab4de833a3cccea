"""The ``x-gateway-*`` headers: what the gateway reports about an answer (``docs/http.md``).

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
    headers = {name: _header(value) for name, value in attempt.reply_headers.items()}
    if limits.headers:
        headers.update(limits.headers)
    if attempt.route is not None:
        headers["x-gateway-channel"] = _header(attempt.route.channel.name)
        headers["x-gateway-model"] = _header(attempt.route.served.upstream or attempt.route.served.name)
        headers["x-gateway-route"] = _header(attempt.route_reason)
        if attempt.price is None:
            headers["x-gateway-price"] = "unpriced"
    headers["x-gateway-attempts"] = str(max(1, attempt.number))
    headers["x-gateway-overhead-ms"] = f"{result.overhead_us / 1000:.2f}"
    if limits.budget_warning:
        headers["x-gateway-budget-warning"] = _header(limits.budget_warning)
    if attempt.dropped:
        headers["x-gateway-dropped-params"] = _header(",".join(attempt.dropped))
    if attempt.lowered is not None:
        headers["x-gateway-output-limit"] = str(attempt.lowered)
    return headers


def whole_answer_headers(
    attempt: AttemptState, limits: CallLimits, result: CallResult, record: Record
) -> dict[str, str]:
    """Returns the headers of a whole answer: its record is written, so its cost is known."""
    headers = answer_headers(attempt, limits, result)
    headers["x-gateway-cost"] = number(record.cost)
    if record.source in COUNTED_HERE:
        headers["x-gateway-usage"] = record.source.value
    if record.balance is not None:
        headers["x-gateway-balance"] = number(record.balance)
    return headers


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
