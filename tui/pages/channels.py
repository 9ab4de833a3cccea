"""Channels page: the upstream accounts, with their state, speed, errors and models. A key is never shown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual.content import Content

from gateway.client.cells import cut
from gateway.domain.channel import ChannelFields
from gateway.domain.fields import CHANNEL, details
from gateway.domain.human_values import ago, first_of, state_word
from gateway.domain.incidents import PAUSED_STATES
from gateway.domain.money import dollars
from gateway.domain.views import ChannelView, SumRow
from tui import format as fmt, glyphs
from tui.charts import spark
from tui.columns import Column, number_column, text_column
from tui.incidents import incident_line
from tui.pages import channel_actions, list_page
from tui.pages.base import Verb, on_selected
from tui.pages.channel_form import key_trouble
from tui.pages.list_page import TrendPage
from tui.session import ConsoleSession
from tui.text import TextCard, add_details, content, safe
from tui.widgets.why import explain_for_groups

_STATES = {
    "attention": (0, glyphs.FAILED, "bad"),
    "cooling": (1, glyphs.WARNING, "warn"),
    "half_open": (2, glyphs.HALF, "warn"),
    "untested": (3, "?", "dim"),
    "ok": (4, glyphs.ON, "ok"),
    "off": (5, glyphs.OFF, "dim"),
}
"""The place of each state in the sort order of the table, its mark and its tone."""


def _state_style(channel: ChannelView) -> tuple[int, str, str]:
    """Returns a channel's entry in ``_STATES``; another one for a state that only a newer server knows."""
    return _STATES.get(channel.shown_state, (6, "?", "dim"))


def _error_share(day: SumRow | None) -> float | None:
    """Returns the share of calls that failed; None if there were no calls."""
    return None if day is None or not day.calls else day.errors / day.calls


def remedy(channel: ChannelView) -> tuple[str, str]:
    """Returns the action that ends a channel's pause, and what it does. A rejected key must be replaced."""
    if channel.state != "attention":
        return "channels.clear", "resumes it"
    return ("channels.keys", "replaces its keys") if len(channel.keys) > 1 else ("entity.edit", "replaces its key")


def _add_state(card: TextCard, channel: ChannelView, session: ConsoleSession) -> None:
    _, mark, tone = _state_style(channel)
    parts = [(f"{mark} {safe(state_word(channel.shown_state))}", tone)]
    if channel.reason:
        parts.append((f"   {safe(channel.reason)}", ""))
    if channel.shown_state == "untested":
        parts.append((f"   nothing has succeeded here yet: {session.key('channels.test')} tests it", ""))
    if pause_left := fmt.countdown(session.now(), channel.until_ms):
        action, effect = remedy(channel)
        now = " now" if action == "channels.clear" else ""
        parts.append((f"   retry in {pause_left}, {session.key(action)} {effect}{now}", "warn"))
        if channel.state == "cooling":
            parts.append(("; until then used only if no other channel can serve", "dim"))
    if missing := channel.missing_text(session.now()):
        parts.append((f"   {missing}, {session.key('channels.clear')} tries again now", "warn"))
    if channel.in_flight:
        parts.append((f"   {channel.in_flight} running", "live"))
    if channel.waiting:
        parts.append((f"   {channel.waiting} queued", "warn"))
    card.row("state", *parts)


def _add_test(card: TextCard, channel: ChannelView, session: ConsoleSession) -> None:
    check = channel.last_check
    if check is None:
        card.row("test", (f"not tested yet; {session.key('channels.test')} tests it", "dim"))
        return
    mark, tone = (glyphs.OK, "ok") if check.ok else (glyphs.FAILED, "bad")
    if check.ok and check.failed_keys:
        mark, tone = glyphs.WARNING, "warn"
    text = f"{ago(session.now() - check.time)}: {safe(session.advice(check.text))}"
    card.row("test", (mark, tone), f" {fmt.duration(check.ms)}, {text}")


def _add_keys(card: TextCard, channel: ChannelView, session: ConsoleSession) -> None:
    for key in channel.keys:
        trouble = key_trouble(key, session)
        label, hint = ("keys", f"   {session.key('channels.keys')} edits them") if key.number == 1 else ("", "")
        text = f"{key.number} {safe(key.key)}"
        card.row(label, text, (f"   {trouble}" if trouble else "", "warn"), (hint, "dim"))


def _models(channel: ChannelView, session: ConsoleSession) -> Iterator[tuple[str, str]]:
    fetch = session.key("channels.fetch")
    if not channel.models:
        yield f"none: {fetch} fetches the upstream's list", "warn"
        return
    names = [
        f"{safe(m.name)} {glyphs.RIGHT} {safe(m.upstream)}" if m.upstream else safe(m.name) for m in channel.models
    ]
    yield f"{len(channel.models)}: {first_of(names, 10)}", ""
    if channel.patterns:
        yield f"   by {safe(', '.join(channel.patterns), 80)}", "dim"
    if channel.list_error:
        yield f"   showing the last good list: {safe(session.advice(channel.list_error))}", "warn"
    if channel.refused_params:
        yield f"   rejected by the upstream, so left out: {safe(', '.join(channel.refused_params), 80)}", "warn"
    yield f"   {fetch} fetches the list", "dim"


def _columns(page: "ChannelsPage") -> Iterator[Column[ChannelView]]:
    yield Column("state", "State", 11, _short_state, tone=lambda c: _state_style(c)[2], sort=_state_style)
    yield text_column("name", "Name", 13, lambda c: c.name, max_width=18, flex=True)
    yield text_column("dialect", "Dialect", 9, lambda c: c.dialect, rank=6, dim=True)
    yield number_column("models", "Models", 6, lambda c: len(c.models), str, rank=2)
    yield number_column("priority", "Prio", 4, lambda c: c.priority, str, rank=3)
    yield Column(
        "first",
        "First token 24 h",
        12 + 7,
        page.speed,
        max_width=12 + 16,
        tone=lambda c: _state_style(c)[2] if c.reason else "",
        sort=lambda c: page.first_byte_ms(c) or 0,
    )
    yield number_column(
        "errors",
        "Errors",
        6,
        lambda c: _error_share(page.day(c)),
        fmt.percent,
        tone=lambda c: "bad" if (_error_share(page.day(c)) or 0) > 0.05 else "",
    )
    yield number_column("running", "Now", 3, lambda c: c.in_flight or None, str, rank=5)
    yield number_column("calls", "Calls", 6, lambda c: c.calls, fmt.count, rank=4)
    yield number_column("spent", "Spent", 9, lambda c: c.spent_nanos or None, fmt.short_cost, rank=1)
    yield text_column("groups", "Groups", 12, lambda c: ", ".join(c.groups), rank=8, dim=True, max_width=24, extra=True)
    yield text_column("url", "Base URL", 24, lambda c: c.base_url, rank=9, dim=True, max_width=48, extra=True)
    yield text_column("note", "Note", 10, lambda c: c.note, rank=10, dim=True, max_width=40, extra=True)


def _short_state(channel: ChannelView) -> str:
    return f"{_state_style(channel)[1]} {safe(state_word(channel.shown_state)).removeprefix('needs ')}"


class ChannelsPage(TrendPage[ChannelView]):
    """The page with a table of channels."""

    scopes = ("entity", "channels", "list")
    noun = "channel"
    guide = (
        "No channels yet: calls have nowhere to go.",
        "A channel is an upstream account: a base URL, a key, and the models it offers.",
        "{entity.new} creates one   {channels.discover} discovers what is on this machine   {:} First steps",
    )
    verbs: ClassVar[Mapping[str, Verb]] = {
        **list_page.VERBS,
        **channel_actions.VERBS,
        "why": on_selected(
            lambda page, channel: explain_for_groups(page, channel.groups, [model.name for model in channel.models])
        ),
    }
    all_columns = _columns
    by = "channel"
    hourly = True

    def rows(self) -> Sequence[ChannelView]:
        ordered = sorted(self.session.board.channels, key=lambda channel: (-channel.priority, channel.name))
        return [*map(self._current, ordered)]

    def lead(self, width: int) -> Content:
        channels, now = self.session.board.channels, self.session.now()
        count = f" {self.count_rows(len(channels))}"
        states = Counter(channel.shown_state for channel in channels)
        summary = f" {glyphs.DOT} ".join([count, *(f"{n} {safe(state_word(state, n))}" for state, n in states.items())])
        paused = [channel for channel in channels if channel.state in PAUSED_STATES]
        if paused:
            worst = min(paused, key=_state_style)
            return self._problem_line(worst, count, summary, width)
        incomplete = next((channel for channel in channels if channel.missing_text(now)), None)
        if incomplete is None:
            return content(summary)
        problem = f"{safe(incomplete.name, 24)}: {incomplete.missing_text(now)}"
        return content(summary, (f"   {cut(problem, max(10, width - len(summary) - 3))}", "warn"))

    def _problem_line(self, channel: ChannelView, count: str, summary: str, width: int) -> Content:
        """Returns why a channel is paused and which key helps, after the summary, or the count if space is short."""
        action, effect = remedy(channel)
        # the key acts on the row under the cursor
        place = " in its row" if len(self.session.board.channels) > 1 else ""
        hints = [(f"   {self.session.key(action)}", "key"), (f"{place} {effect}", "dim")]
        problem = f"{safe(channel.name, 24)}: {safe(channel.reason)}"
        free = width - sum(len(hint) for hint, _ in hints) - 3
        start = summary if free - len(summary) >= min(len(problem), 40) else count
        problem = cut(problem, max(10, free - len(start)))
        return content(start, (f"   {problem}", "bad" if channel.state == "attention" else "warn"), *hints)

    def detail(self, channel: ChannelView, width: int) -> Content:
        session = self.session
        card, now = TextCard(width), session.now()
        address = safe(channel.base_url) or "built in"
        key = f"key {safe(channel.key)}" if channel.key else "no key"
        card.line((safe(channel.name), "bold"), f"   {safe(channel.dialect)}   {address}   ", (key, "dim"))
        _add_state(card, channel, session)
        _add_test(card, channel, session)
        if newest := session.board.incidents.newest(channel.name)[:1]:
            hint = session.hint("{   channels.incidents} all incidents", "dim")
            card.row("recent", incident_line(newest[0], now), *hint)
        if len(channel.keys) > 1:
            _add_keys(card, channel, session)
        card.row("models", *_models(channel, session))
        groups = ", ".join(map(safe, channel.groups)) or "none: no token can use it"
        card.row("groups", f"{groups}   priority {channel.priority}   weight {channel.weight}")
        card.row("24 h", *self._day_parts(channel))
        counts = f"{fmt.count_text(channel.calls, 'call')}, {fmt.count_text(channel.errors, 'error')}"
        uncharged = f"; possibly billed upstream but not charged here: {dollars(channel.possible_nanos)}"
        card.row("total", f"{counts}, {dollars(channel.spent_nanos)}{uncharged if channel.possible_nanos else ''}")
        defaults = ChannelFields(name="")
        changed = [field for field in CHANNEL if getattr(channel, field.name) != getattr(defaults, field.name)]
        own_rows = ("name", "base_url", "groups", "priority", "weight")
        add_details(card, details(changed, channel, *own_rows))
        return card.content()

    def words(self, channel: ChannelView) -> str:
        words = (channel.name, channel.dialect, channel.shown_state, channel.base_url, *channel.groups, channel.note)
        return safe(" ".join((*words, *(model.name for model in channel.models))), 20_000)

    def day(self, channel: ChannelView) -> SumRow | None:
        """Returns the sums of the last 24 hours; None if the channel had no calls."""
        return self.trends.totals.get(channel.id)

    def first_byte_ms(self, channel: ChannelView) -> float | None:
        """Returns the mean time that the upstream took to its first byte; None if the channel had no calls."""
        day = self.day(channel)
        return None if day is None else day.mean_upstream_ms

    def speed(self, channel: ChannelView) -> str:
        """Returns how fast the channel answers; if it is paused, for how long and why."""
        if pause_left := fmt.countdown(self.session.now(), channel.until_ms):
            return f"retry in {pause_left}: {safe(channel.reason)}"
        if channel.state == "attention":
            return safe(channel.reason)
        if (first_byte_ms := self.first_byte_ms(channel)) is None:
            return glyphs.NOTHING
        return f"{self._hourly_speed(channel, 12)} {fmt.duration(first_byte_ms)}"

    def _hourly_speed(self, channel: ChannelView, width: int) -> str:
        """Returns a sparkline of the mean times to the first byte in the last 24 hours."""
        return spark(self.trends.values(channel.id, lambda hour: hour.mean_upstream_ms or 0), width)

    def _current(self, channel: ChannelView) -> ChannelView:
        """Returns the channel as it is now: the server sends no event when a pause ends."""
        if channel.state == "cooling" and channel.until_ms is not None and channel.until_ms <= self.session.now():
            return msgspec.structs.replace(channel, state="half_open", until_ms=None)
        return channel

    def _day_parts(self, channel: ChannelView) -> Iterator[tuple[str, str]]:
        if (day := self.day(channel)) is None:
            yield "no calls", "dim"
            return
        yield self._hourly_speed(channel, 24), "live"
        yield f" first token {fmt.duration(self.first_byte_ms(channel))}", ""
        failed = f"{fmt.percent(_error_share(day) or 0)} of {fmt.count_text(day.calls, 'call')} failed"
        ended = f", {day.aborts:,} cancelled" if day.aborts else ""
        ended += f", {day.lost:,} lost" if day.lost else ""
        yield f", {failed}{ended}, {fmt.dollar_amount(day.cost_nanos)}", ""
