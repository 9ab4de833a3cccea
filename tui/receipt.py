"""Receipt: one call as a pane of text: how it went, what was tried, and how its cost was computed."""

from collections.abc import Iterator

from textual.content import Content

from gateway.domain.call import (
    BUDGET_MARK,
    CHAT_API,
    EXPLAINED_MARKS,
    LOST_EVENTS_MARK,
    PASSED_MARK,
    Outcome,
    mark_total,
    mark_values,
    outcome_text,
    request_size,
    wait_of,
)
from gateway.domain.cost import UNIT_WORDS, counts_billed
from gateway.domain.human_values import brief_multiplier
from gateway.domain.money import dollars
from gateway.domain.price import Rates
from gateway.domain.query import speed_of
from gateway.domain.units import MILLION, Millis
from gateway.domain.usage import PART_WORDS
from gateway.domain.views import CallView, RunningView
from tui import format as fmt, glyphs
from tui.board import Board
from tui.calls import is_failure
from tui.session import ConsoleSession
from tui.text import Part, TextCard, safe


def receipt(call: CallView, session: ConsoleSession, width: int) -> Content:
    """Returns everything known about a call, in lines of at most ``width`` cells."""
    card, now = TextCard(width, label=13), session.now()
    card.line((safe(call.id, 40), "bold"), (f"   {fmt.moment(call.time_ms, now)}   ", "dim"), state_of(call))
    _add_route(card, call)
    if call.error:
        error = session.advice(f"{call.code}: {call.error}" if call.code else call.error)
        card.row("error", (safe(error, 1_500), "bad"))  # so long because it ends with what to do
        if call.token:
            card.row("", (session.key("list.why"), "key"), (" what it would get now, and why", "dim"))
    _add_timing(card, call)
    card.row("tokens", *_tokens(call))
    _add_cost(card, call, session)
    _add_attempts(card, call)
    _add_other_rows(card, call)
    return card.content()


def state_of(call: CallView) -> Part:
    """Returns the call's state, as a mark and words."""
    if isinstance(call, RunningView):
        if call.waits_for:
            return f"{glyphs.HALF} waiting for {safe(call.waits_for, 120)}", "warn"
        phase = "waiting for the upstream" if call.channel else "routing"
        if call.first_byte_ms is not None:
            phase = "streaming"
        return f"{glyphs.RUNNING} running, {phase}", "live"
    outcome = outcome_text(call.outcome, call.finish_reason)
    text = f"{call.status} {glyphs.DOT} {outcome}" if call.status else outcome
    if lost := mark_total(call.marks, LOST_EVENTS_MARK):
        text += f", {fmt.count_text(lost, 'event')} lost"
    return f"{mark_of(call)} {safe(text)}", tone_of(call)


def is_lost(call: CallView) -> bool:
    """Returns whether the gateway stopped while the call ran, so that its duration and usage are unknown."""
    return call.outcome == Outcome.LOST


def duration_of(call: CallView) -> Millis | None:
    """Returns the duration of a call; None if it is unknown."""
    return None if is_lost(call) else call.duration_ms


def mark_of(call: CallView) -> str:
    """Returns the mark that shows that the call runs, or how it ended."""
    if call.state == "running":
        return glyphs.RUNNING
    if not is_failure(call):
        return glyphs.OK
    return glyphs.STOPPED if call.outcome in ("client_closed", "cancelled", "stopped") else glyphs.FAILED


def tone_of(call: CallView) -> str:
    """Returns the tone of the call's mark."""
    if call.state == "running":
        return "warn" if call.waits_for else "live"
    if not is_failure(call):
        return "ok"
    return "warn" if call.status in (429, 499) or call.outcome in ("cancelled", "stopped") else "bad"


_PART_SUFFIXES = {
    "input": "",
    "output": "",
    "cached input": " cached",
    "cache write": " written to cache",
    "long cache write": " written to cache for long",
}
"""The words after the count of a billed part; other parts have their names there."""


def cost_formula(call: CallView, rates: Rates) -> str:
    """Returns how the cost was computed: ``529 x $3/M + 89 x $15/M, group x1.5 = $0.00438``."""
    parts = [
        f"{count:,}{_PART_SUFFIXES.get(part, f' {part}')} {glyphs.TIMES} "
        f"${fmt.price(rate)}{'' if part in UNIT_WORDS else '/M'}"
        for count, part, rate in counts_billed(call.usage, rates)
    ]
    if rates.per_call:
        parts.append(f"{dollars(rates.per_call)} a call")
    group = f", group {brief_multiplier(rates.multiplier)}" if rates.multiplier != MILLION else ""
    return f"{' + '.join(parts) or '0'}{group} = {dollars(call.cost_nanos)}"


def _add_route(card: TextCard, call: CallView) -> None:
    channel = f" {glyphs.RIGHT} {safe(call.channel)}" if call.channel else ""
    upstream = f" as {safe(call.upstream_model)}" if call.upstream_model not in ("", call.model) else ""
    parts = [f"token {call.token or 'none'}", f"group {call.group or 'none'}"]
    if call.stream or call.model:  # otherwise the request was rejected before it was read
        parts.append("stream" if call.stream else "plain")
    if call.api not in (CHAT_API, ""):
        parts.append(f"{call.api} {call.conversion}".rstrip())
    if call.app:
        parts.append(f"app {call.app}")
    origin = f"   {f' {glyphs.DOT} '.join(map(safe, parts))}"
    card.line((safe(call.model or call.request) or "no model", "bold"), f"{channel}{upstream}", (origin, "dim"))


def _add_timing(card: TextCard, call: CallView) -> None:
    if is_lost(call):
        card.row("timing", ("not known: the gateway stopped while it ran", "dim"))
        return
    first = "no answer yet" if call.state == "running" else "no answer"
    if call.first_byte_ms is not None:
        first = f"first token after {fmt.seconds(call.first_byte_ms)}"
    text = f"  {first}, duration {fmt.seconds(call.duration_ms)}"
    width = max(0, min(60, card.width - card.label_width - len(text) - 1)) if call.duration_ms else 0
    wait_ms = call.duration_ms if call.first_byte_ms is None else call.first_byte_ms
    wait_width = round(width * wait_ms / call.duration_ms) if call.duration_ms else 0
    bar = glyphs.WAIT * wait_width + glyphs.FILLS[0] * (width - wait_width)
    card.row("timing", (bar, "live"), text)
    if facts := list(_timing_facts(call)):
        card.row("", (f" {glyphs.DOT} ".join(facts), "dim"))


def _timing_facts(call: CallView) -> Iterator[str]:
    queued = wait_of(call.marks)
    if queued:
        yield f"waited {fmt.seconds(queued.ms)} of it for {safe(queued.place)}"
    if between := call.between_tries_ms:
        yield f"waited {fmt.seconds(between)} of it after {fmt.count_text(call.failed_tries, 'try')} that failed"
    if call.overhead_us:
        overhead_ms = max(0.0, call.overhead_us / 1000 - (queued.ms if queued else 0))
        yield f"{overhead_ms:.1f}ms in the gateway before the upstream call"
    if (rate := speed_of(call)) is not None:
        yield f"{rate:.0f} tok/s"


def _tokens(call: CallView) -> Iterator[Part]:
    if is_lost(call) and call.usage_source == "none":
        yield "not known", "dim"
        return
    yield f"in {call.input_tokens:,}", ""
    if call.cached_tokens or call.cache_write_tokens:
        written = f", {call.cache_write_tokens:,} written to cache" if call.cache_write_tokens else ""
        long = f", {call.cache_write_long_tokens:,} of it for long" if call.cache_write_long_tokens else ""
        yield f" ({call.cached_tokens:,} cached{written}{long})", ""
    yield f"   out {call.output_tokens:,}", ""
    if call.reasoning_tokens:
        yield f" ({call.reasoning_tokens:,} reasoning)", ""
    if parts := [f"{count:,} {PART_WORDS[name]}" for name, count in call.parts.items() if name in PART_WORDS]:
        yield f"   {', '.join(parts)}", ""
    if call.variant:
        yield f"   {safe(call.variant)}", ""
    yield f"   {safe(call.usage_source)}", "warn" if call.usage_source in ("estimated", "partial") else "dim"


def unpriced(call: CallView, board: Board) -> bool:
    """Returns whether the call costs nothing because its model has no price, or had none when the call ended."""
    if call.state == "running":
        return not call.cost_nanos and call.model in board.unpriced
    return call.rates is None and not call.cost_nanos and call.usage_source != "none"


def _add_cost(card: TextCard, call: CallView, session: ConsoleSession) -> None:
    if unpriced(call, session.board):
        card.row("cost", ("no price: counted, not charged, and no budget stops it; page 5 sets one", "warn"))
    elif call.state == "running":
        card.row("cost", f"at most {fmt.cost(call.cost_nanos)} so far, estimated")
    elif call.rates is not None:
        card.row("cost", cost_formula(call, call.rates))
    elif call.cost_nanos:
        card.row("cost", f"{dollars(call.cost_nanos)}: its rates were not recorded")
    elif is_lost(call):
        card.row("cost", "$0: what it used is not known, and nothing was charged")
    else:
        card.row("cost", "$0: nothing was used")
    amounts = [f"held {dollars(call.held_nanos)}"] if call.held_nanos else []
    if call.balance_nanos is not None:
        before = dollars(call.balance_nanos + call.cost_nanos)
        amounts.append(f"balance {before} before, {dollars(call.balance_nanos)} after")
    if amounts:
        card.row("", (f" {glyphs.DOT} ".join(amounts), "dim"))
    if call.possible_nanos:
        card.row("", (f"the upstream may have billed {dollars(call.possible_nanos)} that was not charged here", "warn"))


def _add_attempts(card: TextCard, call: CallView) -> None:
    if isinstance(call, RunningView):
        if call.attempt > 1:
            card.row("tries", f"{call.attempt}, now on {safe(call.channel)}")
        return
    for skipped in mark_values(call.marks, PASSED_MARK):
        card.row("passed over", (safe(skipped), "dim"))
    for number, attempt in enumerate(call.attempts, 1):
        mark, tone = (glyphs.OK, "ok") if attempt.kind is None else (glyphs.FAILED, "bad")
        status = call.attempt_status(attempt)
        reason = "" if attempt.kind is None else f"   {attempt.kind.value}: {safe(attempt.reason)}"
        billed = "   may have been billed" if attempt.billed else ""
        model = f" as {safe(attempt.model)}" if attempt.model else ""
        key = f" key {safe(attempt.key)}" if attempt.key else ""
        text = f"{number} {safe(attempt.channel)}{model}{key} {status} {fmt.seconds(attempt.ms)}{reason}{billed}"
        card.row("tries" if number == 1 else "", (f"{mark} ", tone), text)


def _add_other_rows(card: TextCard, call: CallView) -> None:
    if call.upstream_id:
        card.row("upstream id", (safe(call.upstream_id), "dim"))
    if (size := request_size(call.marks)) is not None:
        card.row("asked for", (size.text(), "dim"))
    if call.stay:
        card.row("stayed", (safe(call.stay), "dim"))
    if (more := call.count - 1) > 0:
        card.row("repeated", f"{more:,} more like this {'was' if more == 1 else 'were'} not listed")
    if call.retry:
        card.row("retry", f"{call.retry} of the same call, as its SDK counts")
    for warning in mark_values(call.marks, BUDGET_MARK):
        card.row("budget", (f"{glyphs.WARNING} {safe(warning)}", "warn"))
    marks = [mark for mark in call.marks if not mark.startswith((BUDGET_MARK, *EXPLAINED_MARKS))]
    if marks:
        card.row("marks", (safe(", ".join(marks)), "dim"))
