"""Repeated calls: which calls are a client's retries of earlier ones. The gateway's own retries are in ``core.retry``.

SDKs number their attempts (``x-stainless-retry-count``), but give them no common id. So the call before a retry is the
latest one with the preceding number and the same token, program, API and model that ended recently and has no retry.
"""

from collections.abc import Iterable, Mapping, Sequence

from gateway.domain.views import CallView


def repeated_calls(calls: Iterable[CallView]) -> Mapping[str, str]:
    """Maps the id of each retry to that of the call before it, as far as it is among these calls."""
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
    """Returns the calls that this one repeats, newest first, as far as they are among these calls."""
    by_id = {other.id: other for other in calls} | {call.id: call}
    repeated_ids, attempts = repeated_calls(by_id.values()), []
    while (earlier := repeated_ids.get(call.id)) is not None:
        call = by_id[earlier]
        attempts.append(call)
    return attempts


def _common(call: CallView) -> tuple[str, str, str, str]:
    return call.token_id, call.app, call.api, call.model


def _ended_shortly_before(before: CallView, call: CallView) -> bool:
    """Returns whether a call ended at most two minutes before the next one. SDKs wait up to one minute."""
    return 0 <= call.time_ms - (before.time_ms + before.duration_ms) <= 120_000
