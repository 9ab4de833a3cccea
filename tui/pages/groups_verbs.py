"""Group verbs: make, edit, rename, duplicate, delete; what uses a group is named before it goes."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.limits import Limits
from gateway.domain.patterns import matches
from gateway.domain.views import GroupView
from gateway.domain.written import brief_multiplier, multiplier_of
from tui import twins
from tui.limits import reader, written
from tui.pages.base import Verb
from tui.pages.seek import seek
from tui.parse import (
    budget_bodies,
    budgets,
    names,
    required,
    token_budgets,
    written_budgets,
    written_token_budgets,
)
from tui.safe import safe
from tui.session import Session
from tui.twins import changed, command
from tui.widgets.form import Field, Form, Plan, Values
from tui.widgets.toast import tell

Groups = Any
"""The page; it imports this file."""


def chosen(page: Groups) -> GroupView | None:
    """The group under the cursor; says so if there is none."""
    row = page.table.current
    if row is None:
        tell(page, "there is no group here; n makes one")
    return None if row is None else row.view


async def new(page: Groups) -> None:
    """Make a group."""
    await _make(page, None)


async def duplicate(page: Groups) -> None:
    """A new group like this one, without its tokens and channels."""
    if (group := chosen(page)) is not None:
        await _make(page, group)


async def edit(page: Groups) -> None:
    """Change the group under the cursor; with another name, tokens and channels follow."""
    group, session = chosen(page), page.session
    if group is None:
        return
    plan = Plan(
        title=f"Group {group.name}",
        fields=fields(group),
        save=lambda values: session.client.edit_group(group.name, body(values)),
        twin=lambda values: twin(group, values),
        live=lambda values: shows(session, group, values),
    )
    if await page.ask(Form(plan)) is not None:
        tell(page, f"group {group.name} was changed; u takes it back")


async def delete(page: Groups) -> None:
    """Remove the group; if something uses it, that moves to another group."""
    group, session = chosen(page), page.session
    if group is None:
        return
    others = [one.name for one in session.board.groups if one.name != group.name]
    used = _users(group)
    if used and not others:
        tell(page, f"{group.name} is used by {used}, and there is no other group to move them to", bad=True)
        return
    if used:
        plan = Plan(
            title=f"Delete group {group.name}?",
            intro=f"It is used by {used}. They move to another group. History stays.",
            fields=[Field(id="move", label="Move them to", options=others, value=others[0])],
            save=lambda values: _remove(session, group, values["move"]),
            twin=lambda values: command("group", "remove", group.name, move=values["move"]),
            verb="Delete",
        )
        done = await page.ask(Form(plan))
    else:
        done = await page.sure(f"Delete group {group.name}?", "Nothing uses it. History stays.", "Delete")
        if done:
            await _remove(session, group, "")
    if done:
        tell(page, f"deleted group {group.name}; u takes it back")


def fields(group: GroupView | None, *, copy: bool = False) -> list[Field]:
    """The fields, filled from a group if there is one."""
    name = "" if group is None else f"{group.name}-2" if copy else group.name
    return [
        Field(id="name", label="Name", value=name, hint="friends", parse=required),
        Field(
            id="multiplier",
            label="Price factor",
            value=brief_multiplier(group.multiplier)[1:] if group else "1",
            hint="1.5 is half as much again, 0 is free",
            parse=multiplier_of,
        ),
        Field(
            id="models",
            label="Models",
            value=", ".join(group.models) if group else "",
            hint="all that its channels offer, or patterns: gpt-*",
            parse=names,
        ),
        Field(
            id="budgets",
            label="Budget, dollars",
            value=written_budgets(group.budgets) if group else "",
            hint="none, or day=5 week=20 month=50 ever=100",
            parse=budgets,
        ),
        Field(
            id="token_budgets",
            label="Budget, tokens",
            value=written_token_budgets(group.budgets) if group else "",
            hint="none, or day=1M",
            parse=token_budgets,
        ),
        Field(
            id="limits",
            label="Limits",
            value=written(group.limits) if group else "",
            hint="none, or rpm=60 tpm=200k rpd= tpd= concurrent=8",
            parse=reader(),
        ),
        Field(id="note", label="Note", value=group.note if group else "", hint="a line for you"),
    ]


def body(values: Values) -> dict[str, Any]:
    """What the server takes."""
    made = {name: values[name] for name in ("name", "multiplier", "models", "limits", "note")}
    return made | {"budgets": budget_bodies(values["budgets"], values["token_budgets"])}


def shows(session: Session, group: GroupView | None, values: Values) -> str:
    """Which models its tokens will see."""
    channels = [one for one in session.board.channels if group is not None and one.name in group.channels]
    offered = sorted({model.name for one in channels if one.enabled for model in one.models})
    found = [name for name in offered if matches(name, tuple(values["models"]))]
    if group is None:
        return "give it channels afterwards: on page 4, e, name it among a channel's groups"
    return f"its tokens see {len(found)} of the {len(offered)} models that its channels offer"


def twin(group: GroupView | None, values: Mapping[str, str]) -> str:
    """The command that does the same."""
    before = fields(group)
    was = {field.id: field.value for field in before}
    models = changed(values["models"], was["models"])
    text = command(
        "group",
        "edit" if group else "add",
        group.name if group else values["name"] or "NAME",
        rename=changed(values["name"], group.name) if group else None,
        multiplier=changed(values["multiplier"], was["multiplier"]),
        models=models if models is None else models or "*",
        note=changed(values["note"], was["note"]),
    )
    text += twins.budgets(values, group.budgets if group else ())
    return text + twins.limits(values["limits"], group.limits if group else Limits())


async def _remove(session: Session, group: GroupView, move: str) -> bool:
    await session.client.remove_group(group.name, move)
    return True


async def _make(page: Groups, like: GroupView | None) -> None:
    session = page.session
    plan = Plan(
        title="New group" if like is None else f"New group like {like.name}",
        fields=fields(like, copy=True),
        save=lambda values: session.client.add_group(body(values)),
        twin=lambda values: twin(None, values),
        live=lambda values: shows(session, None, values),
        verb="Make it",
    )
    made = await page.ask(Form(plan))
    if made is not None:
        seek(page, made.name)
        tell(page, f"group {made.name} was made; u takes it back")


def _users(group: GroupView) -> str:
    told = [f"token {safe(name, 40)}" for name in group.tokens] + [
        f"channel {safe(name, 40)}" for name in group.channels
    ]
    more = f" and {len(told) - 8} more" if len(told) > 8 else ""
    return ", ".join(told[:8]) + more


VERBS: Mapping[str, Verb] = {"new": new, "edit": edit, "delete": delete, "duplicate": duplicate}
