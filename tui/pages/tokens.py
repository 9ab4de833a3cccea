"""Tokens page: the keys that clients present, what they may spend, and how to use them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual.content import Content

from gateway.client.cells import cut_middle
from gateway.domain.fields import TOKEN, details
from gateway.domain.forecast import forecast
from gateway.domain.human_values import first_of, plural
from gateway.domain.limit_kinds import limits_text
from gateway.domain.money import dollars
from gateway.domain.patterns import matches
from gateway.domain.token import Color, TokenFields
from gateway.domain.units import DAY_MS, Nanos
from gateway.domain.views import GroupView, NewToken, TokenView
from tui import format as fmt, glyphs
from tui.budgets import budget_column, budget_parts, budget_tone, by_unit, highest_share, tightest
from tui.charts import spark
from tui.columns import Column, number_column, text_column
from tui.pages import list_page, marked
from tui.pages.base import AnyPage, Verb, on_selected
from tui.pages.entities import EntityForm, ask_new, creating_verbs, edit_verb
from tui.pages.list_page import TrendPage, select_row
from tui.session import ConsoleSession
from tui.text import TextCard, add_details, content, fit_groups, safe
from tui.widgets.connect import Connect
from tui.widgets.dialogs import toast
from tui.widgets.form import FormField, Values
from tui.widgets.why import WhyScreen

COLOR_TONES = {Color.NONE: "", Color.RED: "bad", Color.YELLOW: "warn", Color.GREEN: "ok", Color.GRAY: "dim"}
"""The tones of token colors. The theme draws names in them."""


def _highest_share(token: TokenView) -> float:
    return highest_share(token.budgets) if token.enabled else 0.0


def _models(token: TokenView) -> Iterator[tuple[str, str]]:
    allowed = f"may use {', '.join(map(safe, token.models))}; " if token.models else ""
    if not token.sees:
        yield f"{allowed}sees none: no enabled channel of its group offers an allowed model", "warn"
        return
    yield f"{allowed}sees {len(token.sees)}: {first_of([*map(safe, token.sees)], 12)}", ""


def _columns(page: "TokensPage") -> Iterator[Column[TokenView]]:
    marks = {"active": (glyphs.ON, "ok"), "expired": (glyphs.FAILED, "bad")}
    other = (glyphs.OFF, "dim")
    now = page.session.now
    yield Column(
        "state",
        "",
        1,
        lambda t: marks.get(t.state, other)[0],
        tone=lambda t: marks.get(t.state, other)[1],
        sort=lambda t: t.state,
    )
    yield text_column(
        "name",
        "Name",
        10,
        lambda t: t.name,
        max_width=18,
        flex=True,
        tone=lambda t: COLOR_TONES[t.color],
        fit_text=lambda t, width: cut_middle(safe(t.name), width),
    )
    yield text_column("key", "Key", 15, lambda t: t.hint, rank=5, dim=True)
    yield text_column("group", "Group", 9, lambda t: t.group, rank=2, max_width=14)
    yield budget_column(lambda t: t.budgets)
    yield text_column(
        "window", "Window", 6, lambda t: b.window.value if (b := tightest(t.budgets)) else "", rank=6, dim=True
    )
    yield number_column("today", "Today", 9, lambda t: page.today_nanos(t) or None, fmt.short_cost)
    yield Column(
        "expires",
        "Expires",
        7,
        lambda t: _expiry(t, now()),
        rank=3,
        tone=lambda t: "warn" if t.expires else "dim",
        sort=lambda t: t.expires or 1 << 62,
    )
    yield Column("seen", "Seen", 5, lambda t: _last_used(t, now()), right=True, sort=lambda t: t.last_used_ms or 0)
    yield number_column("spent", "Spent", 9, lambda t: t.spent_nanos, fmt.short_cost, rank=7, extra=True)
    yield number_column("calls", "Calls", 7, lambda t: t.calls, fmt.count, rank=7, extra=True)
    yield number_column("sees", "Models", 6, lambda t: len(t.sees), str, rank=8, extra=True)
    yield text_column(
        "limits", "Limits", 16, lambda t: limits_text(t.limits), rank=9, dim=True, max_width=40, extra=True
    )
    yield text_column("note", "Note", 10, lambda t: t.note, rank=10, dim=True, max_width=40, extra=True)


def _expiry(token: TokenView, now: int) -> str:
    if token.expires is None:
        return "never"
    if token.expires <= now:
        return "expired"
    if token.expires < now + DAY_MS:
        return f"in {fmt.age(token.expires - now)}"
    return fmt.day(token.expires - 1)  # its last day


def _last_used(token: TokenView, now: int) -> str:
    if token.held_nanos:
        return "now"
    return "never" if token.last_used_ms is None else fmt.age(now - token.last_used_ms)


class TokenForm(EntityForm):
    """The form that edits a token, or creates one: empty, or as a ``copy`` of another."""

    def __init__(self, session: ConsoleSession, token: TokenView | None = None, *, copy: bool = False) -> None:
        blank = TokenFields(name="", group="")
        self._groups = sorted(group.name for group in session.board.groups) or ["default"]
        source = msgspec.structs.replace(blank, group="default" if "default" in self._groups else self._groups[0])
        super().__init__("token", TOKEN, blank, session, token, copy=copy, source=source)

    def fields(self) -> list[FormField]:
        return self.inputs(group={"options": self._groups, "suggest": ()})

    def preview(self, values: Values) -> str:
        """Returns ``this token sees 3 models: ...`` for the group and patterns typed so far."""
        session = self.session
        group = next((view for view in session.board.groups if view.name == values["group"]), None)
        if group is None or not group.sees:
            return "this token sees no models: its group has no enabled channel with models"
        allowed = [name for name in group.sees if matches(name, tuple(values["models"]))]
        names = [name for name in allowed if not _is_empty_alias(session, group, name, allowed)]
        if not names:
            return "this token sees no models: no pattern matches a model of its group"
        count, first_names = fmt.count_text(len(names), "model"), first_of([safe(name, 40) for name in names], 6)
        return f"this token sees {count}: {first_names}{_missing_fallbacks(group, allowed)}"


def _is_empty_alias(session: ConsoleSession, group: GroupView, name: str, allowed: Sequence[str]) -> bool:
    """Returns whether the group has neither a model of this name nor a fallback for it that the token may use."""
    channels = [channel for channel in session.board.channels if channel.enabled and group.name in channel.groups]
    if any(model.name == name for channel in channels for model in channel.models):
        return False
    return not any(fallback in allowed for rule in group.fallbacks if rule.model == name for fallback in rule.to)


def _missing_fallbacks(group: GroupView, allowed: Sequence[str]) -> str:
    """Returns a clause about fallbacks of allowed models that the token's patterns leave out."""
    rules_in_use = [rule for rule in group.fallbacks if any(matches(name, (rule.model,)) for name in allowed)]
    missing = dict.fromkeys(name for rule in rules_in_use for name in rule.to if name not in allowed)
    names = ", ".join(safe(name, 40) for name in missing)
    return f"; its patterns leave out the {plural(len(missing), 'fallback')} {names}" if missing else ""


@on_selected
async def _rotate(page: AnyPage, token: TokenView) -> None:
    """Create a new key for the token; the old one stops working immediately."""
    consequences = f"The old key stops working immediately. {marked.usage_text(page, [token])}"
    await page.confirm(f"Rotate the key of {token.name}?", consequences, "Rotate")
    await _show_key(page, await page.session.client.rotate_token(token.id))


async def _create(page: AnyPage, template: TokenView | None) -> None:
    add = page.session.client.add_token
    created = await ask_new(page, TokenForm(page.session, template, copy=True), add, template)
    await _show_key(page, created)


async def _show_key(page: AnyPage, issued: NewToken) -> None:
    select_row(page, issued.token.id)
    await page.ask(Connect(page.session, issued.token, key=issued.key))


def _show_ended(page: AnyPage) -> None:
    page.shows_ended = not page.shows_ended
    if not page.session.board.ended_tokens:
        toast(page, "No tokens of ended programs. 'tollkeeper run' creates a token for each program that it starts.")
    page.renew()


class TokensPage(TrendPage[TokenView]):
    """The page with a table of tokens."""

    scopes = ("entity", "tokens", "list")
    noun = "token"
    guide = (
        "No tokens yet.",
        "A token is the key that a client presents: its group, its budgets, its limits.",
        "{entity.new} creates one and shows its key once   {:} First steps",
    )
    verbs: ClassVar[Mapping[str, Verb]] = {
        **list_page.VERBS,
        "why": on_selected(lambda page, t: page.ask(WhyScreen(page.session, t.name, t.sees[0] if t.sees else ""))),
        "bulk": marked.bulk,
        **creating_verbs(_create),
        "edit": edit_verb(TokenForm, lambda client: client.edit_token),
        "toggle": marked.toggle,
        "delete": marked.delete,
        "connect": on_selected(lambda page, token: page.ask(Connect(page.session, token))),
        "rotate": _rotate,
        "ended": _show_ended,
    }
    all_columns = _columns
    by = "token"
    shows_ended = False
    """Whether the tokens of programs that have ended are listed, too."""

    def rows(self) -> Sequence[TokenView]:
        board = self.session.board
        return [*board.tokens, *(board.ended_tokens if self.shows_ended else ())]

    def lead(self, width: int) -> Content:
        tokens = self.session.board.tokens
        active = sum(token.state == "active" for token in tokens)
        fullest = max(tokens, key=_highest_share, default=None)
        parts = [(f" {self.count_rows(len(self.rows()))} {glyphs.DOT} {active} on", "")]
        if ended := len(self.session.board.ended_tokens):
            key = self.session.key("tokens.ended")
            state = f"shown ({key} hides" if self.shows_ended else f"hidden ({key} shows"
            parts.append((f" {glyphs.DOT} ended runs: {ended:,} {state} them)", "dim"))
        if fullest is not None and (share := _highest_share(fullest)) >= 0.9:
            parts.append((f" {glyphs.DOT} {safe(fullest.name, 30)} is at {fmt.percent(share)}", budget_tone(share)))
        hint = f"   {self.session.key('tokens.connect')} shows how to use one, with a test call"
        return content(*fit_groups(width, parts, [(hint, "dim")]))

    def detail(self, token: TokenView, width: int) -> Content:
        card, now = TextCard(width), self.session.now()
        state = "" if token.state == "active" else f"   {safe(token.state)}"
        card.line(
            (safe(token.name), COLOR_TONES[token.color] or "bold"),
            f"   {safe(token.hint)}   group {safe(token.group)}",
            (state, "warn"),
        )
        for budget in by_unit(token.budgets):
            text = forecast(budget, now, token.created_ms)
            card.row(budget.window.value, *budget_parts(budget, 8, text))
        if not token.budgets:
            card.row("budget", ("none of its own", "dim"))
        self._add_sums(card, token, width)
        card.row("limits", limits_text(token.limits) or ("none of its own", "dim"))
        card.row("models", *_models(token))
        others = details(TOKEN, token, "name", "group", "models", "budgets", "limits")  # these have their own rows
        add_details(card, [("created", fmt.moment(token.created_ms, now)), *others])
        return card.content()

    def words(self, token: TokenView) -> str:
        return safe(token.search_text, 20_000)

    def today_nanos(self, token: TokenView) -> Nanos:
        today = self.trends.newest(token.id)
        return today.cost_nanos if today else Nanos(0)

    def _add_sums(self, card: TextCard, token: TokenView, width: int) -> None:
        costs = self.trends.values(token.id, lambda day: day.cost_nanos)
        total = self.trends.totals.get(token.id)
        calls, refused = (total.calls - total.refused, total.refused) if total else (0, 0)
        errors = f", errors {fmt.percent((total.errors - refused) / calls)}" if total is not None and calls else ""
        text = f" {fmt.dollar_amount(total.cost_nanos if total else 0)}, {fmt.count_text(calls, 'call')}"
        today = fmt.dollar_amount(self.today_nanos(token))
        text += f"{f' and {refused:,} refused' if refused else ''}{errors}; {today} today"
        card.row("30 days", (spark(costs, min(30, max(10, width - 50))), "live"), text)
        card.row("total", f"{fmt.count_text(token.calls, 'call')}, {dollars(token.spent_nanos)}")
