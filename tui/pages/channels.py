"""Channels page: the upstream accounts: health with a countdown, speed, errors, models. A key is never shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual.content import Content

from gateway.domain.channel import ChannelFields
from gateway.domain.fields import CHANNEL, details
from gateway.domain.human_values import first_of
from gateway.domain.incidents import PAUSED_STATES, reason_text
from gateway.domain.money import dollars
from gateway.domain.views import ChannelView, SumRow
from tui import format as fmt
from tui import glyphs
from tui.charts import spark
from tui.columns import Column, number_column, text_column
from tui.incidents import incident_line
from tui.listing import PageListing
from tui.pages import channel_actions, channel_fields, list_page
from tui.pages.base import AnyPage, Verb, selection
from tui.pages.list_page import TrendPage
from tui.session import ConsoleSession
from tui.text import TextCard, add_details, content, cut, lines, safe
from tui.widgets.why import explain_for_groups

DRAWN = ("name", "base_url", "groups", "priority", "weight")
"""Fields that the pane draws in a special way."""


class ChannelRow(msgspec.Struct, frozen=True):
    """A channel, its values that change with time, and its last 24 hours."""

    view: ChannelView
    left: str
    """The time until it is tried again; empty unless paused."""
    day: SumRow | None
    waits: tuple[float, ...]
    """Milliseconds to the first byte, for each hour."""

    @property
    def first_byte_ms(self) -> int | None:
        """Returns the mean time to the first byte, without waits for a place; None without such calls."""
        mean = None if self.day is None else self.day.mean_upstream_ms
        return None if mean is None else round(mean)

    @property
    def errors(self) -> float | None:
        """Returns the share of calls that it failed; None without calls."""
        return None if self.day is None or not self.day.calls else self.day.errors / self.day.calls


class ChannelListing(PageListing[ChannelRow]):
    """The listing of channels, in the order they are tried."""

    noun = "channel"

    def columns(self) -> Sequence[Column[ChannelRow]]:
        return list(_columns())

    def rows(self) -> Sequence[ChannelRow]:
        ordered = sorted(self.session.board.channels, key=lambda c: (-c.priority, c.name))
        return [*map(self._row, ordered)]

    def lead(self, width: int) -> Content:
        channels = self.session.board.channels
        counts: dict[str, int] = {}
        for channel in channels:
            counts[channel.shown_state] = counts.get(channel.shown_state, 0) + 1
        dot = glyphs.DOT
        summary = f" {dot} ".join(f"{number} {state_word(state)}" for state, number in counts.items())
        resting = [channel for channel in channels if channel.state in PAUSED_STATES]
        paused = min(resting, key=lambda c: STATE_ORDER.index(c.state), default=None)
        parts = [(f" {self.count_rows(len(channels))} {dot} {summary}", "")]
        lacking = next((other for other in channels if other.missing_text(self.session.now())), None)
        if paused is None and lacking is not None:
            text = f"{safe(lacking.name, 24)}: {lacking.missing_text(self.session.now())}"
            parts.append((f"   {cut(text, max(10, width - len(parts[0][0]) - 3))}", "warn"))
        if paused is not None:
            action, does = remedy(paused)
            where = " in its row" if len(channels) > 1 else ""  # the key acts on the row under the cursor
            ends = [(f"   {self.session.key(action)}", "key"), (f"{where} {does}", "dim")]
            text = f"{safe(paused.name, 24)}: {reason(paused)}"
            rest = width - sum(len(end) for end, _ in ends) - 3
            if rest - len(parts[0][0]) < min(len(text), 40):  # problems matter more than the number of healthy ones
                parts = [(f" {self.count_rows(len(channels))}", "")]
            why = cut(text, max(10, rest - len(parts[0][0])))
            parts += [(f"   {why}", "bad" if paused.state == "attention" else "warn"), *ends]
        return content(*parts)

    def detail(self, row: ChannelRow, width: int) -> Content:
        channel, session = row.view, self.session
        card, now = TextCard(width), session.now()
        where = safe(channel.base_url) or "built in"
        key = f"key {safe(channel.key)}" if channel.key else "no key"
        card.line((safe(channel.name), "bold"), f"   {safe(channel.dialect)}   {where}   ", (key, "dim"))
        _health(card, row, session)
        if (check := channel.last_check) is not None:
            mark, tone = (glyphs.OK, "ok") if check.ok else (glyphs.FAILED, "bad")
            if check.ok and check.failed_keys:
                mark, tone = glyphs.WARNING, "warn"
            text = f" {fmt.seconds(check.ms)}, {fmt.time_ago(now, check.time)}: {safe(session.advice(check.text))}"
            card.row("test", (mark, tone), text)
        else:
            card.row("test", (f"not tested yet; {session.key('channels.test')} tests it", "dim"))
        if lately := session.board.incidents.newest(channel.name)[:1]:
            card.row(
                "recent",
                incident_line(lately[0], now),
                (f"   {session.key('channels.incidents')}", "key"),
                (" all incidents", "dim"),
            )
        for key_view in channel.keys if len(channel.keys) > 1 else ():
            trouble = channel_fields.key_trouble(key_view, session)
            label = "keys" if key_view.number == 1 else ""
            hint = f"   {session.key('channels.keys')} edits them" if label else ""
            parts = f"{key_view.number} {safe(key_view.key)}", (trouble and f"   {trouble}", "warn"), (hint, "dim")
            card.row(label, *parts)
        card.row("models", *_models(channel, session))
        groups = ", ".join(map(safe, channel.groups)) or "none: no token can use it"
        card.row("groups", f"{groups}   priority {channel.priority}   weight {channel.weight}")
        card.row("24 h", *self._day(row))
        counts = f"{fmt.count_text(channel.calls, 'call')}, {fmt.count_text(channel.errors, 'error')}"
        maybe = (
            f"; possibly billed upstream but not charged here: {dollars(channel.possible_nanos)}"
            if channel.possible_nanos
            else ""
        )
        card.row("total", f"{counts}, {dollars(channel.spent_nanos)}{maybe}")
        _other_rows(card, channel)
        return card.content()

    def empty(self) -> Content:
        return lines(
            content(("No channels yet: calls have nowhere to go.", "bold")),
            content(""),
            content("A channel is an upstream account: a base URL, a key, and the models it offers."),
            content(
                (self.session.key("entity.new"), "key"),
                " creates one   ",
                (self.session.key("channels.discover"), "key"),
                " discovers what is on this machine   ",
                (":", "key"),
                " First steps",
            ),
        )

    def words(self, row: ChannelRow) -> str:
        c = row.view
        models = " ".join(model.name for model in c.models)
        return safe(f"{c.name} {c.dialect} {c.shown_state} {c.base_url} {' '.join(c.groups)} {c.note} {models}", 20_000)

    def _row(self, channel: ChannelView) -> ChannelRow:
        if channel.state == "cooling" and channel.until_ms is not None and channel.until_ms <= self.session.now():
            channel = msgspec.structs.replace(
                channel, state="half_open", until_ms=None
            )  # the end of a pause is not an event
        left = fmt.countdown(self.session.now(), channel.until_ms) if channel.until_ms is not None else ""
        waits = self.trends.values(channel.id, lambda hour: hour.mean_upstream_ms or 0)
        return ChannelRow(channel, left, self.trends.totals.get(channel.id), tuple(waits))

    def _day(self, row: ChannelRow) -> Iterator[tuple[str, str]]:
        if row.day is None:
            yield "no calls", "dim"
            return
        yield spark(row.waits, 24), "live"
        yield f" first token {fmt.seconds(row.first_byte_ms)}", ""
        failed = f"{fmt.percent(row.errors or 0)} of {fmt.count_text(row.day.calls, 'call')} failed"
        ended = f", {row.day.aborts:,} cancelled" if row.day.aborts else ""
        ended += f", {row.day.lost:,} lost" if row.day.lost else ""
        yield f", {failed}{ended}, {fmt.dollar_amount(row.day.cost_nanos)}", ""


def reason(channel: ChannelView) -> str:
    """Returns why it gets no calls, without its name in front."""
    return safe(reason_text(channel.reason))


def remedy(channel: ChannelView) -> tuple[str, str]:
    """Returns the id of the action that helps a paused channel, and the effect of its key: a refused key stays refused
    until it is replaced.
    """
    if channel.state != "attention":
        return "channels.clear", "resumes it"
    return ("channels.keys", "replaces its keys") if len(channel.keys) > 1 else ("entity.edit", "replaces its key")


def state_word(state: str) -> str:
    """Returns the state in the words used everywhere."""
    return safe(fmt.channel_state(state), 16)


def _health(card: TextCard, row: ChannelRow, session: ConsoleSession) -> None:
    channel = row.view
    parts = [(f"{_mark(channel)} {state_word(channel.shown_state)}", _tone(row))]
    if channel.reason:
        parts.append((f"   {reason(channel)}", ""))
    if channel.shown_state == "untested":
        parts.append((f"   nothing has succeeded here yet: {session.key('channels.test')} tests it", ""))
    if row.left:
        action, does = remedy(channel)
        now = " now" if action == "channels.clear" else ""
        parts.append((f"   retry in {row.left}, {session.key(action)} {does}{now}", "warn"))
        if channel.state == "cooling":
            parts.append(("; until then used only if no other channel can serve", "dim"))
    if missing := channel.missing_text(session.now()):
        parts.append((f"   {missing}, {session.key('channels.clear')} tries again now", "warn"))
    if channel.in_flight:
        parts.append((f"   {channel.in_flight} running", "live"))
    if channel.waiting:
        parts.append((f"   {channel.waiting} queued", "warn"))
    card.row("state", *parts)


def _models(channel: ChannelView, session: ConsoleSession) -> Iterator[tuple[str, str]]:
    fetch = session.key("channels.fetch")
    if not channel.models:
        yield f"none: {fetch} fetches the upstream's list", "warn"
        return
    named = [
        f"{safe(m.name)} {glyphs.RIGHT} {safe(m.upstream)}" if m.upstream else safe(m.name) for m in channel.models
    ]
    yield f"{len(channel.models)}: {first_of(named, 10)}", ""
    if channel.patterns:
        yield f"   by {safe(', '.join(channel.patterns), 80)}", "dim"
    if channel.list_error:
        yield f"   showing the last good list: {safe(session.advice(channel.list_error))}", "warn"
    yield f"   {fetch} fetches the list", "dim"


def _other_rows(card: TextCard, channel: ChannelView) -> None:
    """Add the fields that differ from their defaults."""
    usual = ChannelFields(name="")
    changed = [field for field in CHANNEL if getattr(channel, field.name) != getattr(usual, field.name)]
    add_details(card, details(changed, channel, *DRAWN))


def _columns() -> Iterator[Column[ChannelRow]]:
    yield Column("state", "State", 11, _short_state, tone=_tone, sort=_state_order)
    yield text_column("name", "Name", 13, lambda r: r.view.name, max_width=18, flex=True)
    yield text_column("dialect", "Dialect", 9, lambda r: r.view.dialect, rank=6, dim=True)
    yield number_column("models", "Models", 6, lambda r: len(r.view.models), str, rank=2)
    yield number_column("priority", "Prio", 4, lambda r: r.view.priority, str, rank=3)
    yield Column(
        "first",
        "First token 24 h",
        12 + 7,
        _speed,
        max_width=12 + 16,
        tone=lambda r: _tone(r) if r.view.reason else "",
        sort=lambda r: r.first_byte_ms or 0,
    )
    yield number_column(
        "errors",
        "Errors",
        6,
        lambda r: r.errors,
        fmt.percent,
        tone=lambda r: "bad" if (r.errors or 0) > 0.05 else "",
    )
    yield number_column("running", "Now", 3, lambda r: r.view.in_flight or None, str, rank=5)
    yield number_column("calls", "Calls", 6, lambda r: r.view.calls, fmt.count, rank=4)
    yield number_column("spent", "Spent", 9, lambda r: r.view.spent_nanos or None, fmt.short_cost, rank=1)
    yield text_column(
        "groups", "Groups", 12, lambda r: ", ".join(r.view.groups), rank=8, dim=True, max_width=24, extra=True
    )
    yield text_column("url", "Base URL", 24, lambda r: r.view.base_url, rank=9, dim=True, max_width=48, extra=True)
    yield text_column("note", "Note", 10, lambda r: r.view.note, rank=10, dim=True, max_width=40, extra=True)


STATE_ORDER = ("attention", "cooling", "half_open", "untested", "ok", "off")
"""The order of states: channels that need attention come first."""


def _state_order(row: ChannelRow) -> int:
    return STATE_ORDER.index(row.view.shown_state) if row.view.shown_state in STATE_ORDER else len(STATE_ORDER)


def _short_state(row: ChannelRow) -> str:
    """Returns the state for a narrow column."""
    return f"{_mark(row.view)} {state_word(row.view.shown_state).removeprefix('needs ')}"


def _mark(channel: ChannelView) -> str:
    marks = {"ok": glyphs.ON, "cooling": glyphs.WARNING, "half_open": glyphs.HALF, "attention": glyphs.FAILED}
    return marks.get(channel.shown_state, "?" if channel.shown_state == "untested" else glyphs.OFF)


def _tone(row: ChannelRow) -> str:
    return {"ok": "ok", "cooling": "warn", "half_open": "warn", "attention": "bad"}.get(row.view.shown_state, "dim")


def _speed(row: ChannelRow) -> str:
    """Returns why it does not answer and for how long; otherwise how fast it answers."""
    if row.left or row.view.state == "attention":
        return f"{f'retry in {row.left}: ' if row.left else ''}{reason(row.view)}"
    if row.first_byte_ms is None:
        return glyphs.NOTHING
    return f"{spark(row.waits, 12)} {fmt.seconds(row.first_byte_ms)}"


async def _why(page: AnyPage) -> None:
    """Show what would happen to calls of its models."""
    if (channel := selection(page)) is not None:
        await explain_for_groups(page, channel.groups, [model.name for model in channel.models])


class ChannelsPage(TrendPage[ChannelRow]):
    """The page with a table of channels."""

    scopes = ("entity", "channels", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_page.VERBS, **channel_actions.VERBS, "why": _why}
    by = "channel"
    hourly = True

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session, "channels", ChannelListing(session))
