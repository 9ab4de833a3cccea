"""Repeated calls: which calls repeat an earlier one, as the client's SDK counts them.

The gateway's own retries are in ``core.retry``.

SDKs number their attempts (``x-stainless-retry-count``), but give them nothing in common. The preceding call is the one
of the same token, program, API and model with the preceding number that ended last, not long ago, and has no retry yet.
"""

from collections.abc import Iterable, Mapping, Sequence

from gateway.domain.views import CallView


def repeated_calls(calls: Iterable[CallView]) -> Mapping[str, str]:
    """Returns the id of the call before each retry, by the retry's id, as far as it is among these calls."""
    repeated_ids: dict[str, str] = {}
    unrepeated: dict[tuple[object, ...], list[CallView]] = {}
    for call in sorted(calls, key=lambda call: call.id):
        if call.retry:
            candidates = unrepeated.get((*_common(call), call.retry - 1), [])
            previous = next(
                (candidate for candidate in reversed(candidates) if _ended_shortly_before(candidate, call)), None
            )
            if previous is not None:
                candidates.remove(previous)
                repeated_ids[call.id] = previous.id
        if not 200 <= call.status < 300:
            unrepeated.setdefault((*_common(call), call.retry), []).append(call)
    return repeated_ids


def earlier_attempts(call: CallView, calls: Iterable[CallView]) -> Sequence[CallView]:
    """Returns the calls that this one repeats, the last one first, as far as they are among these calls."""
    by_id = {other.id: other for other in calls} | {call.id: call}
    repeated_ids, attempts = repeated_calls(by_id.values()), []
    while (earlier := repeated_ids.get(call.id)) is not None:
        call = by_id[earlier]
        attempts.append(call)
    return attempts


def _common(call: CallView) -> tuple[str, str, str, str]:
    return call.token_id, call.app, call.api, call.model


def _ended_shortly_before(before: CallView, call: CallView) -> bool:
    # SDKs wait up to a minute before they try again
    return 0 <= call.time_ms - (before.time_ms + before.duration_ms) <= 120_000
