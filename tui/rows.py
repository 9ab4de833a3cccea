"""Rows: a running call in the words of a settled one, so that filters, columns and receipts take both."""

from gateway.domain.call import Running
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import UsageSource
from gateway.domain.views import CallView, iso
from tui.calls import Known

AT_ONCE_MS = 20
"""What came within so short a time says nothing about a speed."""


class RunningView(CallView, frozen=True, kw_only=True):
    """A call that is not settled yet: its duration, counts and cost are as of now, and estimates."""

    attempt: int
    """Which try runs; 0 before the first."""


def as_view(call: Known, now: Millis) -> CallView:
    """The row of a call."""
    return call if isinstance(call, CallView) else running_view(call, now)


def running_view(call: Running, now: Millis) -> RunningView:
    """What is known of a running call."""
    return RunningView(
        id=call.id,
        time=iso(call.ts),
        time_ms=call.ts,
        state="running",
        token=call.token_name,
        token_id=call.token,
        group=call.group,
        model=call.model,
        upstream_model=call.upstream_model,
        channel=call.channel_name,
        app=call.app,
        status=0,
        outcome="",
        code="",
        error="",
        finish_reason="",
        stream=call.stream,
        duration_ms=Millis(max(0, now - call.ts)),
        first_byte_ms=call.ttft,
        overhead_us=0,
        input_tokens=call.input,
        cached_tokens=0,
        cache_write_tokens=0,
        output_tokens=call.output,
        reasoning_tokens=0,
        usage_source=UsageSource.ESTIMATED.value,
        cost_nanos=call.cost,
        rates=None,
        held_nanos=call.held,
        balance_nanos=None,
        possible_nanos=Nanos(0),
        attempts=[],
        upstream_id="",
        retry=0,
        marks=[],
        attempt=call.attempt,
    )


def speed(call: CallView) -> float | None:
    """Output tokens a second after the first byte; None before there is something to count, or if it came at once."""
    if call.first_byte_ms is None or not call.output_tokens:
        return None
    ms = call.duration_ms - call.first_byte_ms
    return call.output_tokens * 1000 / ms if ms >= AT_ONCE_MS else None


def failed(call: CallView) -> bool:
    """Whether it ended, and not well."""
    return call.state == "settled" and not 200 <= call.status < 300
