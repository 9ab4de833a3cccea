"""Receipt: one call as a pane of text: how it went, what was tried, and how its cost comes about."""

from collections.abc import Iterator

from textual.content import Content

from gateway.domain.money import dollars
from gateway.domain.price import Rates
from gateway.domain.units import MILLION
from gateway.domain.views import CallView
from gateway.domain.written import brief_multiplier
from tui import format as fmt
from tui.glyphs import Glyphs
from tui.rows import RunningView, failed, speed
from tui.safe import safe
from tui.tones import Part, content, lines

LABEL = 9
"""Cells of the word in front of each line."""


def receipt(call: CallView, now: int, glyphs: Glyphs, width: int) -> Content:
    """All that is known of a call, at most ``width`` cells wide where it can be helped."""
    rows = [_title(call, now), _route(call, glyphs)]
    if call.error:
        rows.append(_labelled("error", (safe(f"{call.code}: {call.error}" if call.code else call.error), "bad")))
    rows += _timing(call, glyphs, width)
    rows.append(_labelled("tokens", *_tokens(call)))
    rows += _cost(call, glyphs)
    rows += _attempts(call, glyphs)
    rows += _rest(call)
    return lines(*rows)


def state_of(call: CallView, glyphs: Glyphs) -> Part:
    """How it stands, as a mark and words."""
    if isinstance(call, RunningView):
        doing = "streaming" if call.first_byte_ms is not None else "waiting" if call.channel else "routing"
        return f"{glyphs.running} running, {doing}", "live"
    words = f"{call.status} {call.outcome}".strip().replace("_", " ")
    if call.finish_reason:
        words += f", {call.finish_reason}"
    return f"{mark_of(call, glyphs)} {safe(words)}", tone_of(call)


def mark_of(call: CallView, glyphs: Glyphs) -> str:
    """One mark for how it ended, or that it runs."""
    if call.state == "running":
        return glyphs.running
    if not failed(call):
        return glyphs.ok
    return glyphs.stopped if call.outcome in ("client_closed", "cancelled", "stopped") else glyphs.failed


def tone_of(call: CallView) -> str:
    """The tone of that mark."""
    if call.state == "running":
        return "live"
    if not failed(call):
        return "ok"
    return "warn" if call.status in (429, 499) or call.outcome in ("cancelled", "stopped") else "bad"


def arithmetic(call: CallView, rates: Rates, glyphs: Glyphs) -> str:
    """The cost's formula with the numbers in it: ``529 x $3/M + 89 x $15/M, group x1 = $0.00292``."""
    fresh = call.input_tokens - call.cached_tokens - call.cache_write_tokens
    kinds = (
        (fresh, rates.input, ""),
        (call.cached_tokens, rates.cached_input, " cached"),
        (call.cache_write_tokens, rates.cache_write, " written to cache"),
        (call.output_tokens, rates.output, ""),
    )
    parts = [f"{n:,}{what} {glyphs.times} ${fmt.price(rate)}/M" for n, rate, what in kinds if n]
    if rates.per_call:
        parts.append(f"{dollars(rates.per_call)} a call")
    group = f", group {brief_multiplier(rates.multiplier)}" if rates.multiplier != MILLION else ""
    return f"{' + '.join(parts) or '0'}{group} = {dollars(call.cost_nanos)}"


def _labelled(label: str, *parts: Part | str) -> Content:
    return content((f" {label:<{LABEL - 2}} ", "dim"), *parts)


def _title(call: CallView, now: int) -> Content:
    kind = "stream" if call.stream else "plain"
    told = [fmt.moment(call.time_ms, now), kind, f"token {call.token or 'none'}", f"group {call.group or 'none'}"]
    if call.app:
        told.append(f"app {call.app}")
    return content((f" {call.id}", "bold"), ("   " + "   ".join(map(safe, told)), "dim"))


def _route(call: CallView, glyphs: Glyphs) -> Content:
    to = f" {glyphs.right} {safe(call.channel)}" if call.channel else ""
    other = call.upstream_model not in ("", call.model)
    upstream = f" as {safe(call.upstream_model)}" if other else ""
    return content((f" {safe(call.model) or 'no model'}", "bold"), (f"{to}{upstream}   ", ""), state_of(call, glyphs))


def _timing(call: CallView, glyphs: Glyphs, width: int) -> Iterator[Content]:
    first = fmt.seconds(call.first_byte_ms) if call.first_byte_ms is not None else "none yet"
    if call.first_byte_ms is None and call.state != "running":
        first = "never"
    words = f"  first byte {first}, all {fmt.seconds(call.duration_ms)}"
    room = max(0, min(60, width - LABEL - len(words)))
    waited = call.duration_ms if call.first_byte_ms is None else call.first_byte_ms
    wait = round(room * waited / call.duration_ms) if call.duration_ms else 0
    bar = glyphs.wait * wait + glyphs.fills[0] * (room - wait)
    yield _labelled("timing", (bar, "live"), words)
    rest = [f"{call.overhead_us / 1000:.1f}ms in the gateway before the upstream was asked"] if call.overhead_us else []
    if (rate := speed(call)) is not None:
        rest.append(f"{rate:.0f} tok/s")
    if rest:
        yield _labelled("", (f" {glyphs.dot} ".join(rest), "dim"))


def _tokens(call: CallView) -> Iterator[Part]:
    yield f"in {call.input_tokens:,}", ""
    if call.cached_tokens or call.cache_write_tokens:
        written = f", {call.cache_write_tokens:,} written to cache" if call.cache_write_tokens else ""
        yield f" ({call.cached_tokens:,} cached{written})", ""
    yield f"   out {call.output_tokens:,}", ""
    if call.reasoning_tokens:
        yield f" ({call.reasoning_tokens:,} reasoning)", ""
    yield f"   {safe(call.usage_source)}", "warn" if call.usage_source in ("estimated", "partial") else "dim"


def _cost(call: CallView, glyphs: Glyphs) -> Iterator[Content]:
    if call.state == "running":
        yield _labelled("cost", f"{fmt.cost(call.cost_nanos)} so far, estimated")
    elif call.rates is not None:
        yield _labelled("cost", arithmetic(call, call.rates, glyphs))
    elif call.usage_source != "none":
        yield _labelled("cost", ("unpriced: counted, not charged; 'tollkeeper price set' prices the model", "warn"))
    else:
        yield _labelled("cost", ("$0: nothing was used", ""))
    told = [f"held {dollars(call.held_nanos)}"] if call.held_nanos else []
    if call.balance_nanos is not None:
        told.append(
            f"balance {dollars(call.balance_nanos + call.cost_nanos)} before, {dollars(call.balance_nanos)} after"
        )
    if told:
        yield _labelled("", (f" {glyphs.dot} ".join(told), "dim"))
    if call.possible_nanos:
        yield _labelled(
            "", (f"the upstream may have billed {dollars(call.possible_nanos)} that was not charged here", "warn")
        )


def _attempts(call: CallView, glyphs: Glyphs) -> Iterator[Content]:
    if isinstance(call, RunningView):
        if call.attempt > 1:
            yield _labelled("tries", (f"{call.attempt}, now at {safe(call.channel)}", ""))
        return
    for number, attempt in enumerate(call.attempts, 1):
        fine = attempt.kind is None
        mark, tone = (glyphs.ok, "ok") if fine else (glyphs.failed, "bad")
        status = str(attempt.status) if attempt.status else "no answer"
        why = "" if attempt.kind is None else f"   {attempt.kind.value}: {safe(attempt.reason)}"
        billed = "   may have been billed" if attempt.billed else ""
        said = f"{number} {safe(attempt.channel)} {status} {fmt.seconds(attempt.ms)}{why}{billed}"
        yield _labelled("tries" if number == 1 else "", (f"{mark} ", tone), said)


def _rest(call: CallView) -> Iterator[Content]:
    if call.upstream_id:
        yield _labelled("upstream", (safe(call.upstream_id), "dim"))
    marks = [*call.marks, *([f"the SDK's retry {call.retry}"] if call.retry else [])]
    if marks:
        yield _labelled("marks", (safe(", ".join(marks)), "dim"))
