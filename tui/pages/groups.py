"""Groups page: which tokens use which channels, and the models, price factor and limits there.

Deleting a group first names what uses it, and moves that to another group.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual.content import Content

from gateway.domain.errors import Conflict
from gateway.domain.fields import GROUP, details
from gateway.domain.forecast import forecast
from gateway.domain.group import GroupFields, Policy, hidden_aliases
from gateway.domain.human_values import brief_multiplier, first_of
from gateway.domain.limit_kinds import limits_text
from gateway.domain.money import dollars
from gateway.domain.patterns import matches
from gateway.domain.views import GroupView
from tui import format as fmt, glyphs
from tui.budgets import budget_column, budget_parts, by_unit
from tui.columns import Column, number_column, text_column
from tui.pages import list_page, marked
from tui.pages.base import AnyPage, Verb, on_selected
from tui.pages.entities import EntityForm, ask_new, creating_verbs, edit_verb
from tui.pages.list_page import ListPage, select_row
from tui.session import ConsoleSession
from tui.text import Part, TextCard, add_details, content, fit_groups, safe
from tui.widgets.form import Form, FormField, FormPlan, Values
from tui.widgets.why import explain_for_groups

Route = Sequence[tuple[str, str]]
"""The channels of a group in the order they are tried, with their states."""


def _columns(page: "GroupsPage") -> Iterator[Column[GroupView]]:
    yield text_column("name", "Group", 12, lambda g: g.name, max_width=24, flex=True)
    yield number_column(
        "multiplier",
        "Price",
        6,
        lambda g: g.multiplier,
        brief_multiplier,
        tone=lambda g: "warn" if g.multiplier == 0 else "",
    )
    yield number_column("tokens", "Tokens", 6, lambda g: len(g.tokens) or None, str, rank=2)
    yield number_column("sees", "Models", 6, lambda g: len(g.sees) or None, str, rank=3)
    yield Column(
        "route",
        "Channels",
        20,
        lambda g: _route_text(g, page.route(g)),
        max_width=64,
        tone=lambda g: "" if any(state in ("ok", "half_open") for _, state in page.route(g)) else "warn",
        sort=lambda g: [name.casefold() for name in g.channels],
    )
    yield number_column("rpm", "Max RPM", 7, lambda g: g.limits.rpm, fmt.brief_count, rank=4)
    yield number_column("tpm", "Max TPM", 7, lambda g: g.limits.tpm, fmt.brief_count, rank=5)
    yield budget_column(lambda g: g.budgets, rank=1)
    yield number_column("spent", "Spent", 9, lambda g: g.spent_nanos, fmt.short_cost, rank=6, extra=True)
    yield number_column("calls", "Calls", 7, lambda g: g.calls, fmt.count, rank=6, extra=True)
    yield text_column("policy", "Routing order", 13, _order, rank=7, dim=True, max_width=23, extra=True)
    yield text_column("note", "Note", 10, lambda g: g.note, rank=8, dim=True, max_width=40, extra=True)


def _order(group: GroupView) -> str:
    return next(field.kind.show(group.policy) for field in GROUP if field.name == "policy")


def _route_text(group: GroupView, route: Route) -> str:
    marks = {"ok": "", "half_open": f" {glyphs.HALF}", "off": f" {glyphs.OFF}", "attention": f" {glyphs.FAILED}"}
    named = [f"{safe(name)}{marks.get(state, f' {glyphs.WARNING}')}" for name, state in route]
    if group.policy != Policy.PRIORITY and named:
        return f"{safe(group.policy, 12)} of {', '.join(named)}"
    return f" {glyphs.RIGHT} ".join(named) or "no channel"


def _route_parts(route: Route, session: ConsoleSession) -> Iterator[tuple[str, str]]:
    if not route:
        yield no_channel(session), "warn"
    for number, (name, state) in enumerate(route):
        yield f" {glyphs.RIGHT} " if number else "", "dim"
        yield safe(name), ""
        if state != "ok":
            yield f" ({safe(fmt.channel_state(state), 16)})", "warn"


class GroupForm(EntityForm):
    """The form that edits a group, or creates one: empty, or as a ``copy`` of another, without its channels."""

    def __init__(self, session: ConsoleSession, group: GroupView | None = None, *, copy: bool = False) -> None:
        super().__init__("group", GROUP, GroupFields(name=""), session, group, copy=copy)

    def preview(self, values: Values) -> str:
        if self.edited is None:
            return no_channel(self.session)
        channels = [channel for channel in self.session.board.channels if channel.name in self.edited.channels]
        offered = sorted({model.name for channel in channels if channel.enabled for model in channel.models})
        visible = [name for name in offered if matches(name, tuple(values["models"]))]
        text = f"its tokens see {len(visible)} of the {fmt.count_text(len(offered), 'model')} that its channels offer"
        fields = GroupFields(name="", models=tuple(values["models"]), fallbacks=tuple(values["fallbacks"]))
        aliases = hidden_aliases(fields)
        return f"{text}; Models hides {', '.join(map(safe, aliases))}" if aliases else text


def no_channel(session: ConsoleSession) -> str:
    """Returns what to do about a group without a channel."""
    return f"no channel lists this group; add it on page 4 ({session.key('entity.edit')})"


@on_selected
async def _delete(page: AnyPage, group: GroupView) -> None:
    """Delete the group; its tokens and channels move to another group."""
    session: ConsoleSession = page.session
    other_groups = [other.name for other in session.board.groups if other.name != group.name]
    tokens = [f"token {safe(name, 40)}" for name in group.tokens]
    users = first_of([*tokens, *(f"channel {safe(name, 40)}" for name in group.channels)], 8)
    if users and not other_groups:
        raise Conflict(f"{group.name} is used by {users}, and no other group exists to move them to")
    if users:
        plan = FormPlan(
            title=f"Delete group {group.name}?",
            intro=f"Used by {users}, to be moved to another group. History is kept.",
            fields=[FormField(id="move", label="Move them to", options=other_groups, value=other_groups[0])],
            save=lambda values: session.client.remove_group(group.name, values["move"]),
            command=lambda values: fmt.cli_command("group", "remove", group.name, move=values["move"]),
            verb="Delete",
            confirms=False,
        )
        await page.ask(Form(plan))
    else:
        await page.confirm(f"Delete group {group.name}?", "Nothing uses it. History is kept.", "Delete")
        await session.client.remove_group(group.name, "")
    page.report_change(f"Group {group.name} deleted.")


async def _create(page: AnyPage, template: GroupView | None) -> None:
    add = page.session.client.add_group
    created = await ask_new(page, GroupForm(page.session, template, copy=True), add, template)
    select_row(page, created.name)
    page.report_change(f"Group {created.name} created.")


class GroupsPage(ListPage[GroupView]):
    """The page with a table of groups."""

    scopes = ("entity", "list")
    noun = "group"
    guide = ("No groups yet. Every token belongs to one.", "{entity.new} creates one")
    key_field = "name"
    all_columns = _columns
    verbs: ClassVar[Mapping[str, Verb]] = {
        **list_page.VERBS,
        "why": on_selected(lambda page, group: explain_for_groups(page, [group.name], group.sees)),
        **creating_verbs(_create),
        "edit": edit_verb(GroupForm, lambda client: client.edit_group),
        "delete": marked.bulk_verb("delete", _delete),
        "bulk": marked.bulk,
    }

    def rows(self) -> Sequence[GroupView]:
        return self.session.board.groups

    def route(self, group: GroupView) -> Route:
        states = {channel.name: channel.state for channel in self.session.board.channels}
        return [(name, states.get(name, "off")) for name in group.channels]

    def lead(self, width: int) -> Content:
        about = f" {glyphs.DOT} a group gives its tokens channels, a price factor and shared limits"
        counted = f" {self.count_rows(len(self.session.board.groups))}"
        return content(*fit_groups(width, [(counted, "")], [(about, "dim")]))

    def detail(self, group: GroupView, width: int) -> Content:
        card, now = TextCard(width), self.session.now()
        card.line((safe(group.name), "bold"), f"   price {brief_multiplier(group.multiplier)}")
        card.row("route", *_route_parts(self.route(group), self.session))
        patterns = f"shows {', '.join(map(safe, group.models))}; " if group.models else ""
        card.row("models", f"{patterns}{first_of([*map(safe, group.sees)], 12) or 'none: its tokens see no models'}")
        for rule in group.fallbacks:
            substitutes = f" {glyphs.RIGHT} ".join(map(safe, rule.to))
            note: Part = ("   if no channel can serve it", "dim")
            if rule.model in hidden_aliases(group):
                note = ("   hidden by the group's own models", "warn")
            card.row("else", f"{safe(rule.model)} {glyphs.RIGHT} {substitutes}", note)
        card.row("tokens", first_of([*map(safe, group.tokens)], 12) or ("none", "dim"))
        for budget in by_unit(group.budgets):
            text = forecast(budget, now, group.created_ms)
            card.row(budget.window.value, *budget_parts(budget, 8, text))
        card.row("limits", limits_text(group.limits) or ("none of its own", "dim"))
        card.row("total", f"{fmt.count_text(group.calls, 'call')}, {dollars(group.spent_nanos)}")
        own_rows = ("name", "multiplier", "models", "fallbacks", "budgets", "limits")
        add_details(card, details(GROUP, group, *own_rows))
        return card.content()

    def words(self, group: GroupView) -> str:
        return safe(" ".join([group.name, *group.tokens, *group.channels, *group.models, group.note]), 20_000)
