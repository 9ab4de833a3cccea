"""LiveListing: what the Live page shows of a call: columns, the line above, the receipt, what is copied."""

from collections.abc import Callable, Hashable, Iterator, Sequence

from textual.content import Content

from gateway.client import connect_card
from gateway.domain.units import CallId
from gateway.domain.views import CallView
from tui import format as fmt
from tui.charts import spark
from tui.columns import Column
from tui.glyphs import Glyphs
from tui.listing import Listing
from tui.receipt import mark_of, receipt, tone_of
from tui.rows import RunningView, speed
from tui.safe import safe
from tui.tones import content, lines

SPARK = 24
"""Minutes in the line above the table."""


class LiveListing(Listing[CallView]):
    """Calls, running and ended."""

    noun = "call"
    hint = "claude  st:err  tok:laptop  ch:openai*  dur:>5s  cost:>0.01  since:10m  !demo"

    def columns(self) -> Sequence[Column[CallView]]:
        return columns(self.session.glyphs)

    def rows(self) -> Sequence[CallView]:
        return ()  # they come from a LiveSource

    def key(self, row: CallView) -> Hashable:
        return CallId(row.id)

    def name(self, row: CallView) -> str:
        return row.id

    def twin(self, row: CallView) -> str:
        return connect_card.curl(self.session.address, safe(row.model))

    def lead(self, width: int) -> Content:
        """What goes on: minutes, errors, first bytes; who uses the page puts its own words in front."""
        pulse, glyphs = self.session.board.pulse, self.session.glyphs
        room = max(6, min(SPARK, width - 54))
        minutes = pulse.minutes(self.session.now(), room)
        parts = [("   calls/min ", "dim"), (spark(minutes, room, glyphs), "live"), (f" {minutes[-1]}", "")]
        if pulse.failed is not None:
            parts += [("   errors ", "dim"), (fmt.share(pulse.failed), "bad" if pulse.failed > 0.05 else "")]
        if pulse.first_byte_ms is not None:
            parts += [("   first byte ", "dim"), (fmt.seconds(pulse.first_byte_ms), "")]
        return content(*parts)

    def detail(self, row: CallView, width: int) -> Content:
        return receipt(row, self.session.now(), self.session.glyphs, width)

    def empty(self) -> Content:
        session = self.session
        if session.link == "starting":
            return content(("Starting the server ...", "dim"))
        return lines(
            content(("No calls yet.", "bold")),
            content(""),
            content("Point a client at ", (session.address or "the server", "key"), " with one of your tokens:"),
            content(""),
            content(("2", "key"), " your tokens; there ", ("c", "key"), " shows what to paste, and makes a test call"),
            content(("4", "key"), " channels: where answers come from"),
            content((":", "key"), " everything that can be done   ", ("?", "key"), " keys"),
        )


def columns(glyphs: Glyphs) -> list[Column[CallView]]:
    """All columns of the Live page."""
    return [*_first_columns(glyphs), *_count_columns(glyphs), *_name_columns(glyphs)]


def _first_columns(glyphs: Glyphs) -> Iterator[Column[CallView]]:
    yield Column("time", "Time", 8, lambda c: fmt.clock(c.time_ms), sort=lambda c: c.time_ms)
    yield Column("id", "Call", 8, lambda c: safe(c.id[-8:]), rank=6, tone=_dim, extra=True)
    yield Column("model", "Model", 18, lambda c: safe(c.model), flex=True, sort=lambda c: c.model)
    yield Column("status", "St", 4, lambda c: _status(c, glyphs), tone=tone_of, sort=lambda c: c.status)


def _count_columns(glyphs: Glyphs) -> Iterator[Column[CallView]]:
    columns: list[tuple[str, str, int, int, Callable[[CallView], str], Callable[[CallView], float]]] = [
        ("duration", "Dur", 6, 0, lambda c: fmt.seconds(c.duration_ms), lambda c: c.duration_ms),
        ("first", "First", 6, 2, lambda c: fmt.seconds(c.first_byte_ms), lambda c: c.first_byte_ms or 0),
        ("speed", "Tok/s", 5, 5, lambda c: _speed(c, glyphs), lambda c: speed(c) or 0),
        ("input", "In", 6, 1, lambda c: _tokens(c, c.input_tokens, glyphs), lambda c: c.input_tokens),
        ("cached", "Cached", 7, 7, lambda c: _tokens(c, c.cached_tokens, glyphs), lambda c: c.cached_tokens),
        ("output", "Out", 6, 1, lambda c: _tokens(c, c.output_tokens, glyphs), lambda c: c.output_tokens),
    ]
    for id_, title, width, rank, text, sort in columns:
        tone = _dim if id_ in ("speed", "cached") else None
        yield Column(id_, title, width, text, tone=tone, rank=rank, right=True, sort=sort)
    yield Column(
        "cost", "Cost", 9, lambda c: _cost(c, glyphs), tone=_cost_tone, right=True, sort=lambda c: c.cost_nanos
    )


def _name_columns(glyphs: Glyphs) -> Iterator[Column[CallView]]:
    yield Column("channel", "Channel", 11, lambda c: safe(c.channel), rank=4, tone=_dim, sort=lambda c: c.channel)
    yield Column("token", "Token", 7, lambda c: safe(c.token), rank=3, sort=lambda c: c.token)
    yield Column("group", "Group", 8, lambda c: safe(c.group), rank=9, tone=_dim, extra=True)
    yield Column("app", "App", 10, lambda c: safe(c.app), rank=8, tone=_dim, sort=lambda c: c.app, extra=True)
    yield Column("tries", "Try", 3, lambda c: _tries(c, glyphs), rank=8, tone=_dim, right=True, extra=True)
    yield Column("end", "End", 10, lambda c: safe(c.finish_reason), rank=9, tone=_dim, extra=True)


def _dim(_call: CallView) -> str:
    return "dim"


def _status(call: CallView, glyphs: Glyphs) -> str:
    """A mark and a number, never colour alone."""
    if isinstance(call, RunningView):
        return f"{glyphs.running} {call.attempt}." if call.attempt > 1 else f"{glyphs.running} {glyphs.ellipsis}"
    return f"{mark_of(call, glyphs)}{call.status or '---'}"


def _speed(call: CallView, glyphs: Glyphs) -> str:
    rate = speed(call)
    return glyphs.nothing if rate is None else fmt.short(round(rate))


def _tokens(call: CallView, number: int, glyphs: Glyphs) -> str:
    return fmt.count(number) if number or call.state == "running" else glyphs.nothing


def _cost(call: CallView, glyphs: Glyphs) -> str:
    """Nothing used and no price are two things; neither is a price of zero."""
    if call.cost_nanos:
        return fmt.cost(call.cost_nanos)
    if call.state == "running" or call.usage_source == "none":
        return glyphs.nothing
    return "no price" if call.rates is None else "free"


def _cost_tone(call: CallView) -> str:
    if call.state == "running":
        return "live"
    return "warn" if call.rates is None and call.usage_source != "none" else ""


def _tries(call: CallView, glyphs: Glyphs) -> str:
    tries = call.attempt if isinstance(call, RunningView) else len(call.attempts)
    return str(tries) if tries else glyphs.nothing
