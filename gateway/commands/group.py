"""``group``: adds, edits and shows groups, which decide which tokens use which channels, and at what price."""

from collections.abc import Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.completion import GROUPS
from gateway.commands.editing import add_rename, body_of_new, field_options, patch_of
from gateway.commands.options import TEXT, confirm, says_yes, yes_option
from gateway.commands.output import ListColumn, notify, out_change, out_list, out_view, wants_json
from gateway.commands.session import run
from gateway.domain.fields import GROUP, details
from gateway.domain.group import GroupFields, hidden_aliases
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import brief_multiplier, count_text, first_of
from gateway.domain.limit_kinds import DOLLAR_BUDGETS
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.patterns import matches
from gateway.domain.text import plain, word
from gateway.domain.views import ChannelView, GroupView, ModelView

COLUMNS = [
    ListColumn("Name", lambda g: g.name, "name"),
    ListColumn("Price", lambda g: brief_multiplier(g.multiplier), "number"),
    ListColumn("Tokens", lambda g: formatting.brief_names(g.tokens)),
    ListColumn("Channels", lambda g: formatting.brief_names(g.channels), drop=2),
    ListColumn("Models", lambda g: formatting.brief_names(g.sees), drop=1),
    ListColumn("Calls", lambda g: f"{g.calls:,}", "number"),
    ListColumn("Spent", lambda g: brief_dollars(g.spent_nanos), "number"),
    ListColumn("Budget", lambda g: DOLLAR_BUDGETS.show(g.budgets)),
]


@click.group(cls=Noun, bare="list")
def group() -> None:
    """Groups connect tokens with channels: a group decides which models its tokens see, and multiplies their prices."""


@group.command("list", examples=["tollkeeper group list"])
def list_groups() -> None:
    """List all groups."""
    groups = run(lambda client: client.groups())
    out_list(groups, COLUMNS, empty="no groups yet; create one: tollkeeper group add NAME")


@group.command("show", examples=["tollkeeper group show default"])
@click.argument("name", shell_complete=GROUPS)
def show_group(name: str) -> None:
    """Show one group: its tokens, channels and models."""

    async def work(client: ControlClient) -> tuple[GroupView, str]:
        view = await client.group(name)
        has_note = view.fallbacks and not wants_json()
        return view, _unusable_fallbacks_note(view, await client.models()) if has_note else ""

    view, note = run(work)
    out_view(view, _pairs(view))
    notify(note)


@group.command("add", examples=["tollkeeper group add friends --multiplier 1.5 --budget month=20"])
@click.argument("name")
@field_options(GROUP, "name")
@click.option("--like", metavar="NAME", type=TEXT, shell_complete=GROUPS, help="Copy the fields of this group.")
def add_group(name: str, *, like: str | None, **values: Any) -> None:
    """Create a group."""

    async def work(client: ControlClient) -> tuple[GroupView, list[ChannelView]]:
        other = None if like is None else await client.group(like)
        body = body_of_new(GROUP, values, GroupFields(name=name), other)
        return await client.add_group(body), await client.channels()

    view, channels = run(work, create=True)
    advice = f"Give it a channel: tollkeeper channel add NAME --group {word(view.name)}"
    if channels:
        first = max(channels, key=lambda channel: channel.priority)
        edit = f"tollkeeper channel edit {word(first.name)} --add-group {word(view.name)}"
        advice = f"Give it channels, such as: {edit}"
    out_change(view, f"Group '{view.name}' created. {advice}", _hidden_note(view))


@group.command("edit", examples=["tollkeeper group edit friends --multiplier 1.2 --rename family"])
@click.argument("ref", metavar="NAME", shell_complete=GROUPS)
@field_options(GROUP)
def edit_group(ref: str, **values: Any) -> None:
    """Change a group. Only the given options change."""

    async def work(client: ControlClient) -> tuple[GroupView, list[str], str]:
        before = await client.group(ref)
        patch = options.require_changes(patch_of(GROUP, values, before))
        view = await client.edit_group(ref, patch)
        notes = [_lost_fallbacks_note(before, view)]
        if patch.get("fallbacks"):
            notes.append(_unusable_fallbacks_note(view, await client.models()))
        if {"fallbacks", "models"} & patch.keys():
            notes.append(_hidden_note(view))
        if "models" in patch:
            notes += await formatting.groups_without_models(client, [view.name])
        is_unchanged = all(getattr(before, name) == getattr(view, name) for name in patch)
        return view, notes, f"is as before: {NOTHING_CHANGED}" if is_unchanged else "saved"

    view, notes, result = run(work)
    out_change(view, f"Group '{view.name}' {result}.", *notes)


def _hidden_note(view: GroupView) -> str:
    """Returns a note about aliases that the group's own list of models hides, or an empty string."""
    hidden = ", ".join(map(plain, hidden_aliases(view)))
    return f"note: the group's own --models hide {hidden}; add it there, or no token can use it" if hidden else ""


def _lost_fallbacks_note(before: GroupView, view: GroupView) -> str:
    """Returns a note about models that lost their fallbacks, because the new ones replaced all; else an empty text."""
    lost = {fallback.model for fallback in before.fallbacks} - {fallback.model for fallback in view.fallbacks}
    if not lost or not view.fallbacks:
        return ""
    names = ", ".join(map(plain, sorted(lost)))
    return f"note: --fallback replaces all fallbacks, so these models have none now: {names}"


def _unusable_fallbacks_note(view: GroupView, models: Sequence[ModelView]) -> str:
    """Returns a note about fallbacks that no channel of the group offers, else about those that the group hides."""
    offered = {model.name for model in models if not set(model.channels).isdisjoint(view.channels)}
    missing = {name for fallback in view.fallbacks for name in fallback.to if name not in offered}
    if missing:
        names = ", ".join(map(plain, sorted(missing)))
        return f"note: fallbacks that no channel of group '{plain(view.name)}' offers now: {names}"
    hidden = sorted({name for fallback in view.fallbacks for name in fallback.to if not matches(name, view.models)})
    names = ", ".join(map(plain, hidden))
    return f"note: the group's own --models leave out the fallbacks {names}: they never answer" if hidden else ""


add_rename(group, GROUPS, "friends family", "Give a group another name. It keeps its tokens, channels and calls.")


@group.command("remove", json_help="", examples=["tollkeeper group remove friends --move default"])
@click.argument("name", shell_complete=GROUPS)
@click.option(
    "--move",
    type=TEXT,
    metavar="GROUP",
    shell_complete=GROUPS,
    help="Move its tokens and channels to this group; required if it has any.",
)
@yes_option()
def remove_group(name: str, move: str | None) -> None:
    """Remove a group."""
    if not says_yes():
        view = run(lambda client: client.group(name))
        if move:
            run(lambda client: client.group(move))  # raises NotFound
        users = [*view.tokens, *view.channels]
        if move or not users:  # else the server refuses the removal and says what uses the group
            moves = f" Its tokens and channels move to '{move}': {first_of(users, 3)}." if users else ""
            confirm(f"Remove group '{name}'?{moves}")
    run(lambda client: client.remove_group(name, move=move or ""))
    notify(f"Group '{name}' removed.")


def _pairs(view: GroupView) -> list[tuple[str, str]]:
    return [
        ("name", view.name),
        ("tokens", ", ".join(view.tokens) or "none"),
        ("channels", ", ".join(view.channels) or "none: its tokens see no models"),
        ("sees", ", ".join(view.sees) or "nothing"),
        ("created", formatting.moment(view.created_ms)),
        ("calls", f"{view.calls:,}"),
        ("spent", dollars(view.spent_nanos)),
        ("waiting", count_text(view.waiting, "call") if view.waiting else ""),
        *details(GROUP, view, "name"),
        *formatting.budget_outlooks(view.budgets, view.created_ms),
    ]
