"""Live page: every call as it happens, with its cost. Running calls change in place; scrolling loads older ones.

The list can be sorted by a column if the column's id is in ``SORT_KEYS`` of ``domain.query``.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from rich.cells import cell_len
from textual.content import Content

from gateway.client import connect_card
from gateway.client.cells import cut, cut_middle, cut_pair
from gateway.domain.call import BUDGET_MARK, LOST_EVENTS_MARK, mark_total, mark_values
from gateway.domain.errors import GatewayError
from gateway.domain.query import SORT_KEYS, parse, speed_of
from gateway.domain.units import CallId
from gateway.domain.views import CallView, RunningView
from tui import format as fmt, glyphs
from tui.calls import channel_text
from tui.charts import spark
from tui.columns import Column
from tui.listing import PageListing
from tui.pages import list_page, live_actions
from tui.pages.base import Verb
from tui.pages.list_page import ListPage
from tui.pages.live_source import FOUND_LIMIT, LiveSource, count_unseen, load_found, note_seen, progress_text
from tui.receipt import has_no_price, mark_of, receipt, tone_of
from tui.session import ConsoleSession
from tui.text import LIMIT, Part, content, fit_groups, lines, safe

GUIDE = (
    "{2} your tokens: there {tokens.connect} shows what to paste and makes a test call",
    "{4} channels: where answers come from",
    "{:} all commands   {app.help} keys",
)
"""The hints below the gateway's address until there are calls."""


class LiveListing(PageListing[CallView]):
    """What the page shows: calls, running and ended."""

    noun = "call"
    hint = "claude  st:err  tok:laptop  ch:openai*  api:messages  dur:>5s  cost:>0.01  since:10m  !demo"

    def all_columns(self) -> Sequence[Column[CallView]]:
        return columns(self.session)

    def key(self, row: CallView) -> Hashable:
        return CallId(row.id)

    def row_name(self, row: CallView) -> str:
        return row.id

    def export_view(self, row: CallView) -> CallView:
        """Returns the row with the fields of an ended call only, so that all lines of a file have the same columns."""
        return CallView(**{name: getattr(row, name) for name in CallView.__struct_fields__})

    def command(self, row: CallView) -> str:
        if row.request:
            return connect_card.request_curl(self.session.address, safe(row.request))
        return connect_card.curl(self.session.address, row.model or "MODEL", api=row.api, stream=row.stream)

    def lead(self, width: int) -> Content:
        """Returns calls per minute, errors and times, whatever the filter. The page puts its state in front."""
        recent = self.session.board.call_rates
        minute_count = max(6, min(24, width - 60))
        minutes = recent.minutes(self.session.now(), minute_count)
        rate: list[Part] = [("   calls/min ", "dim"), (spark(minutes, minute_count), "live"), (f" {minutes[-1]}", "")]
        groups = [self._waiting(width), rate]
        if repeats := recent.repeats(self.session.now()):
            groups.append([(f" ({repeats:,} repeated)", "dim")])
        if recent.failed is not None:
            tone = "bad" if recent.failed > 0.05 else ""
            groups.append([("   errors ", "dim"), (fmt.percent(recent.failed), tone)])
        if recent.first_byte_ms is not None:
            groups.append([("   first token ", "dim"), (fmt.duration(recent.first_byte_ms), "")])
        if recent.failed is not None:
            groups.append([(f" (last {recent.samples})", "dim")])
        return content(*fit_groups(width, *groups))

    def _waiting(self, width: int) -> list[Part]:
        """Returns ``32 running · 28 waiting: 20 for channel 'a' (4 calls at once)``; empty while no call waits."""
        calls, dot = self.session.board.calls, glyphs.DOT
        waits = calls.count_waiting()
        if not waits:
            return []
        count = waits.total()
        text = f"{count} waiting: " + ", ".join(f"{n} for {safe(reason, 60)}" for reason, n in waits.most_common(3))
        return [(f"   {len(calls.running) - count} running {dot} ", "live"), (cut(text, max(12, width - 24)), "warn")]

    def detail(self, row: CallView, width: int) -> Content:
        return receipt(row, self.session, width)

    def empty(self) -> Content:
        address = (self.session.address or "the server", "key")
        advice = content("Point a client at ", address, " with one of your tokens:")
        rows = (content(*self.session.hint(row)) for row in GUIDE)
        return lines(content(("No calls yet.", "bold")), content(""), advice, content(""), *rows)


def columns(session: ConsoleSession) -> list[Column[CallView]]:
    """Returns all columns. They sort by the server's keys, as the server also sorts the calls that are not loaded."""
    return [
        msgspec.structs.replace(c, sort=SORT_KEYS.get(c.id), largest_on_top=c.id in ("time", "status"))
        for c in _columns(session)
    ]


def _columns(session: ConsoleSession) -> Iterator[Column[CallView]]:
    board, now = session.board, session.now
    yield Column(
        "time",
        "Time",
        8,
        lambda c: fmt.brief_moment(c.time_ms, now()),
        max_width=12,
        fit_text=lambda c, width: (fmt.brief_moment if width < 12 else fmt.moment)(c.time_ms, now()),
    )
    yield Column("id", "Call", 8, lambda c: safe(c.id[-8:]), rank=11, dim=True, extra=True)
    yield Column("model", "Model", 18, _model_text, max_width=26, flex=True, fit_text=_model_and_wait)
    yield Column("status", "St", 4, _status, tone=tone_of)
    yield Column("duration", "Duration", 6, lambda c: fmt.duration(c.known_duration_ms), right=True, short_title="Dur")
    yield Column(
        "first", "First token", 6, lambda c: fmt.duration(c.first_byte_ms), rank=2, right=True, short_title="First"
    )
    yield Column("speed", "Tok/s", 5, _speed, dim=True, rank=5, right=True)
    yield Column("input", "In", 6, lambda c: _token_count(c, c.input_tokens), rank=1, right=True)
    yield Column("cached", "Cached", 7, lambda c: _token_count(c, c.cached_tokens), dim=True, rank=7, right=True)
    yield Column("output", "Out", 6, lambda c: _token_count(c, c.output_tokens), rank=1, right=True)
    yield Column(
        "cost",
        "Cost",
        9,
        lambda c: "no price" if has_no_price(c, board) else _cost(c),
        tone=lambda c: "warn" if has_no_price(c, board) else _running_tone(c),
        right=True,
    )
    yield _name_column("channel", "Channel", (11, 18), channel_text, rank=4, dim=True)
    yield _name_column("api", "API", (11, 11), lambda c: c.api, rank=10, dim=True)
    yield _name_column("token", "Token", (7, 16), _token_text, rank=3, tone=_token_tone)
    yield _name_column("app", "App", (10, 20), lambda c: c.app, rank=8, dim=True, extra=True)
    yield _name_column("group", "Group", (8, 12), lambda c: c.group, rank=9, dim=True, extra=True)
    yield Column("tries", "Try", 3, _tries, rank=9, dim=True, right=True, extra=True)
    yield Column("end", "End", 10, end_text, rank=10, dim=True, max_width=21, extra=True)


def _name_column(
    id_: str, title: str, widths: tuple[int, int], name: Callable[[CallView], str], **more: Any
) -> Column[CallView]:
    """Returns a column of names, which are cut in the middle. ``widths``: the usual one and the largest."""

    def text(call: CallView, width: int = LIMIT) -> str:
        return cut_middle(safe(name(call)), width)

    return Column(id_, title, widths[0], text, max_width=widths[1], fit_text=text, **more)


def _token_text(call: CallView) -> str:
    """Returns the token's name, marked if most of a budget of the call was spent."""
    return f"{glyphs.WARNING}{call.token}" if mark_values(call.marks, BUDGET_MARK) else call.token


def _token_tone(call: CallView) -> str:
    return "warn" if mark_values(call.marks, BUDGET_MARK) else ""


def end_text(call: CallView) -> str:
    """Returns why the answer ended, and how many events it lost; without an answer, the error code."""
    lost = mark_total(call.marks, LOST_EVENTS_MARK)
    reason = safe(call.finish_reason or call.code)
    return f"{reason} -{lost}" if lost else reason


def _model_text(call: CallView, width: int = LIMIT) -> str:
    """Returns the model and fallback, or the request, then the number of calls and the retry. Only names are cut."""
    times = f" {glyphs.TIMES}{call.count:,}" if call.count > 1 else ""
    retry = f" retry {call.retry}" if call.retry else ""
    name = safe(call.model or call.request) or "no model"
    name_width, fallback = width - len(times) - len(retry), safe(call.fallback)
    name = cut_pair(name, fallback, name_width) if fallback else cut(name, name_width)
    return f"{name}{times}{retry}"


def _model_and_wait(call: CallView, width: int) -> str:
    """Returns the model, and what the call waits for if there is space: the column does not grow for a short wait."""
    text = _model_text(call, width)
    if not call.waits_for or width - cell_len(text) < 14:  # cells that a wait needs
        return text
    return f"{text} {glyphs.DOT} {safe(call.waits_for.partition(' (')[0], 80)}"


def _status(call: CallView) -> str:
    """Returns a mark and the status: colour alone never shows it."""
    if call.waits_for:
        return "wait"
    if isinstance(call, RunningView):
        return f"try{call.attempt}" if call.attempt > 1 else f"{glyphs.RUNNING} {glyphs.ELLIPSIS}"
    if call.status:
        return f"{mark_of(call)}{call.status}"
    return "lost" if call.lost else "---"


def _running_tone(call: CallView) -> str:
    return "live" if call.state == "running" else ""


def _speed(call: CallView) -> str:
    rate = speed_of(call)
    return glyphs.NOTHING if rate is None else fmt.brief_count(round(rate))


def _token_count(call: CallView, number: int) -> str:
    return fmt.count(number) if number or call.state == "running" else glyphs.NOTHING


def _cost(call: CallView) -> str:
    """Returns the cost: ``free`` if it is zero, a dot if nothing was used."""
    if call.cost_nanos:
        return fmt.cost(call.cost_nanos)
    return glyphs.NOTHING if call.state == "running" or call.usage_source == "none" else "free"


def _tries(call: CallView) -> str:
    tries = call.attempt if isinstance(call, RunningView) else len(call.attempts)
    return str(tries) if tries else glyphs.NOTHING


class LivePage(LiveListing, ListPage[CallView]):
    """The Live page."""

    scopes = ("live", "list")
    marks_hint = ("live.cancel", "ends those that run")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_page.VERBS, **live_actions.VERBS, "curl": list_page.copy_command}

    def __init__(self, session: ConsoleSession) -> None:
        self.calls = LiveSource(session)
        super().__init__(session, self.calls)
        self._fetching = False

    def narrow(self, text: str) -> None:
        self.calls.narrow(parse(text, self.session.now()) if text.strip() else None)

    def fill(self) -> None:
        self.calls.renew()
        self.searching = self.calls.query is not None and not self.calls.search.done

    def renew(self) -> None:
        self.table.follows = not self.calls.paused  # also while sorted, because calls that are found later may be first
        super().renew()
        if not self._fetching and self.session.link == "attached" and self._needs_more():  # one request at a time
            self._fetching = True
            self.run_worker(self._load(), group="history", exit_on_error=True)

    def list_state(self) -> Content:
        """Returns whether the list follows new calls, how many calls it has, and how many are out of sight."""
        table, calls = self.table, self.calls
        count = fmt.count_text(calls.count, "call")
        if calls.paused:
            return content((f" {glyphs.PAUSE} paused", "warn"), f"  {count}{self.search_state()}{self.unseen_text()}")
        if self.shows_marked:
            return content()  # the number of marked calls follows
        if self.view.sort:
            if calls.search.cut:
                text = f"the first {count} of {self.search_state(of_all=True)}"
            else:
                text = f"{count}{self.search_state()}"
            return content((f" {glyphs.STAY} sorted", "warn"), f"  {text}")
        if calls.query is not None and calls.query.until is not None and calls.query.until <= self.session.now():
            return content((f" {glyphs.STAY} past calls", "warn"), f"  {count}{self.search_state()}")
        if table.following:
            note_seen(calls)
            return content((f" {glyphs.FOLLOW} following", "live"), f"  {count}{self.search_state()}")
        return content((f" {glyphs.STAY} not following", "warn"), f"  {count}{self.search_state()}{self.unseen_text()}")

    def unseen_text(self) -> str:
        """Returns the number of new calls that are out of sight, and the key that shows them."""
        calls = self.calls
        count = count_unseen(calls)
        hint = f"({self.session.key('live.pause')} shows them)" if calls.paused else f"{glyphs.UP} (g)"
        return f" {glyphs.DOT} {count:,} new {hint}" if count else ""

    def search_state(self, *, of_all: bool = False) -> str:
        """Returns how far back a filter or sort has searched; ``of_all`` continues ``the first 2,000 calls of``."""
        search, all_calls = self.calls.search, fmt.count_text(self.session.board.calls.total, "call")
        if self.calls.query is None and not self.view.sort:
            return ""
        if search.done and self.calls.query is None:
            return f"all {all_calls}" if of_all else ""
        if search.done:
            is_full = not self.view.sort and search.cursor and len(self.calls.search_results) >= FOUND_LIMIT
            extent = "more are older" if is_full else f"searched all {all_calls}"
            return f"{'those that match' if of_all else ''}, {extent}"
        progress = progress_text(self.calls, self.session.now(), is_searching=self._needs_more())
        return f"{'those found' if of_all else ''}, {progress}"

    def _needs_more(self) -> bool:
        """Returns whether older calls are missing on the screen or a little below it, or in a sorted search."""
        calls = self.calls
        if self.view.sort:
            return not calls.search.done
        if calls.query is None:
            return calls.history.waiting
        margin = 2 * self.size.height
        return not calls.search.done and calls.count < max(self.table.cursor, self.table.scroll_offset.y) + margin

    async def _load(self) -> None:
        pause_s = 0.02  # leave the gateway time for calls
        try:
            if self.view.sort or self.calls.query is not None:
                await load_found(self.calls)
            else:
                await self.calls.history.load(self.session.client.numbered_calls, self.calls.records)
        except GatewayError:
            pause_s = 1.0  # the header says so if the server is gone
        self.set_timer(pause_s, self._finish_loading)

    def _finish_loading(self) -> None:
        self._fetching = False
        self.renew()
