"""Group verbs: make, edit, rename, duplicate, delete; what uses a group is named before it goes."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.views import GroupView
from tui.pages.base import Verb
from tui.pages.group_form import body, fields, shows, twin
from tui.pages.seek import seek
from tui.safe import safe
from tui.session import Session
from tui.twins import command
from tui.widgets.form import Field, Form, Plan
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
