"""Repeated calls: which calls are a client's retries of earlier ones. The gateway's own retries are in ``core.retry``.

SDKs number their attempts (``x-stainless-retry-count``), but give them no common id. So the call before a retry is the
latest one with the preceding number and the same token, program, API and model that ended recently and has no retry.
"""

from collections.abc import Iterable, Mapping, Sequence

from gateway.domain.views import CallView


def repeated_calls(calls: Iterable[CallView]) -> Mapping[str, str]:
    """Maps the id of each retry to the id of the call before it, if it is among these calls."""
    repeated_ids: dict[str, str] = {}
    unrepeated: dict[tuple[object, ...], list[CallView]] = {}
    for call in sorted(calls, key=lambda call: call.id):
        if call.retry:
            candidates = unrepeated.get(_attempt_key(call, call.retry - 1), [])
            previous = _previous_attempt(call, candidates)
            if previous is not None:
                candidates.remove(previous)
                repeated_ids[call.id] = previous.id
        if not 200 <= call.status < 300:
            unrepeated.setdefault(_attempt_key(call, call.retry), []).append(call)
    return repeated_ids


def earlier_attempts(call: CallView, calls: Iterable[CallView]) -> Sequence[CallView]:
    """Returns the calls that this one repeats, newest first."""
    by_id = {other.id: other for other in calls} | {call.id: call}
    repeated_ids = repeated_calls(by_id.values())
    attempts: list[CallView] = []
    while (earlier := repeated_ids.get(call.id)) is not None:
        call = by_id[earlier]
        attempts.append(call)
    return attempts


def _attempt_key(call: CallView, number: int) -> tuple[object, ...]:
    """Returns what the call has in common with the attempt of this number, if its SDK made both."""
    return call.token_id, call.app, call.api, call.model, number


def _previous_attempt(call: CallView, candidates: Sequence[CallView]) -> CallView | None:
    """Returns the latest candidate that ended at most two minutes before the call. SDKs wait up to one minute."""
    for candidate in reversed(candidates):
        if 0 <= call.time_ms - (candidate.time_ms + candidate.duration_ms) <= 120_000:
            return candidate
    return None
