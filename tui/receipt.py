"""Receipt: one call as a pane of text: how it went and how long it took, then the rows that every receipt has."""

from textual.content import Content

from gateway.client.receipt import lacked_price, receipt_rows, timing_facts
from gateway.domain.call import CHAT_API, LOST_EVENTS_MARK, mark_total, outcome_text
from gateway.domain.query import SUCCESS
from gateway.domain.views import CallView, RunningView
from tui import format as fmt, glyphs
from tui.board import Board
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
            card.row("", *session.hint("{list.why} what it would get now, and why", "dim"))
    _add_timing(card, call)
    for label, parts in receipt_rows(call, unpriced=has_no_price(call, session.board)):
        card.row(label, *((safe(session.advice(text), 1_000), tone) for text, tone in parts))
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


def mark_of(call: CallView) -> str:
    """Returns the mark that shows that the call runs, or how it ended."""
    if call.state == "running":
        return glyphs.RUNNING
    if SUCCESS.matches(call):
        return glyphs.OK
    return glyphs.STOPPED if call.outcome in ("client_closed", "cancelled", "stopped") else glyphs.FAILED


def tone_of(call: CallView) -> str:
    """Returns the tone of the call's mark."""
    if call.state == "running":
        return "warn" if call.waits_for else "live"
    if SUCCESS.matches(call):
        return "ok"
    return "warn" if call.status in (429, 499) or call.outcome in ("cancelled", "stopped") else "bad"


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
    if call.lost:
        card.row("timing", ("not known: the gateway stopped while it ran", "dim"))
        return
    first = "no answer yet" if call.state == "running" else "no answer"
    if call.first_byte_ms is not None:
        first = f"first token after {fmt.duration(call.first_byte_ms)}"
    text = f"  {first}, duration {fmt.duration(call.duration_ms)}"
    width = max(0, min(60, card.width - card.label_width - len(text) - 1)) if call.duration_ms else 0
    wait_ms = call.duration_ms if call.first_byte_ms is None else call.first_byte_ms
    wait_width = round(width * wait_ms / call.duration_ms) if call.duration_ms else 0
    bar = glyphs.WAIT * wait_width + glyphs.FILLS[0] * (width - wait_width)
    card.row("timing", (bar, "live"), text)
    if facts := list(timing_facts(call)):
        card.row("", (safe(f" {glyphs.DOT} ".join(facts)), "dim"))


def has_no_price(call: CallView, board: Board) -> bool:
    """Returns whether the call costs nothing because its model has no price, or had none when the call ended."""
    if call.state == "running":
        return not call.cost_nanos and call.model in board.unpriced
    return lacked_price(call)
