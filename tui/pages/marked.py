"""Marked rows: changes of all of them at once, after one confirmation, as one change and one undo.

Without marks the selected row is changed. Rows that a filter hides keep their marks, and change with the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.field_kinds import json_value
from gateway.domain.fields import TOKEN
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import first_of
from gateway.domain.limit_kinds import CHANNEL_LIMITS, CLIENT_LIMITS, RateLimits
from gateway.domain.limits import Limits
from gateway.domain.units import Millis
from tui import format as fmt
from tui.pages.base import AnyPage, unmark
from tui.text import safe
from tui.widgets.choices import ChooseOne
from tui.widgets.dialogs import UNCHANGED, Confirm, toast
from tui.widgets.form import Form, line_plan

Patches = dict[str, Any]
"""The change of each row, by its id; None removes it."""

_NONE = ("none", "never")
_BUDGET = next(field for field in TOKEN if field.name == "budgets")


_ACTS_OF: Mapping[str, tuple[str, ...]] = {
    "tokens": ("enable", "disable", "move", "limits", "budgets", "delete"),
    "groups": ("limits", "budgets", "delete"),
    "channels": ("enable", "disable", "add", "move", "limits", "delete"),
    "models": ("free", "delete"),
}
"""The actions on the rows of each page."""
_ACTS: Mapping[str, tuple[str, str]] = {
    "enable": ("Enable", ""),
    "disable": ("Disable", ""),
    "add": ("Add", "to a group, beside their others"),
    "move": ("Move", "to one group"),
    "limits": ("Limit", "requests, tokens and calls at once"),
    "budgets": ("Budget", "dollars in a window of time"),
    "free": ("Free", "a price of zero"),
    "delete": ("Delete", ""),
}
"""The menu's name and explanation of each action."""
_HARMLESS = ("enable", "add", "limits", "budgets")
"""Actions that do not end anything and are undone in one step."""

_UNPRICE = ("Remove", "the price")


async def bulk(page: AnyPage) -> None:
    """Choose an action for the marked rows."""
    views = _views(page)
    if not views:
        toast(page, f"Nothing is marked or selected. Press {page.session.key('list.mark')} to mark a row.")
        return
    named = {act: _UNPRICE if (act, page.id) == ("delete", "models") else _ACTS[act] for act in _ACTS_OF[page.id]}
    ids = {name: act for act, (name, _) in named.items()}
    chosen = await page.ask(ChooseOne(f"{_count_text(page, views)}: {_list_names(views)}", [*named.values()], ""))
    if chosen is not None:
        await _do(page, ids[chosen], views)


async def acts_on_marks(page: AnyPage, verb: str) -> bool:
    """Run the verb on all marked rows instead of the selected one. Returns False without marks."""
    views = _views(page) if page.table.marks else []
    if not views:
        return False
    act = verb
    if verb == "toggle":
        act = "disable" if any(view.enabled for view in views) else "enable"
    await _do(page, act, views)
    return True


async def resume(page: AnyPage) -> bool:
    """Resume the marked channels, without a question, because it ends nothing. Returns False without marks."""
    views = _views(page) if page.table.marks else []
    if not views:
        return False
    resumed = [await page.session.client.clear_channel(view.id) for view in views]
    unmark(page)
    ill = [safe(view.name, 40) for view in resumed if view.state == "attention"]
    left = f" Still in need of attention: {first_of(ill, 12)}." if ill else ""
    toast(page, f"{_count_text(page, views).capitalize()} resumed.{left}", bad=bool(ill))
    return True


async def _do(page: AnyPage, act: str, views: Sequence[Any]) -> None:
    planned = await _plan(page, act, views)
    if planned is None:
        return
    patches, what, effect = planned
    views = [view for view in views if _ref(page, view) in patches]
    verb = "Make free" if act == "free" else what.partition(" ")[0]
    count = _count_text(page, views)
    question = f"{what.replace('{}', count)}?"
    text = f"{_list_names(views)}\n\n{effect}".strip()
    if not await page.ask(Confirm(question, text, verb, harmless=act in _HARMLESS)):
        return
    table = "prices" if page.id == "models" else page.id
    done = await page.session.client.batch(table, patches)
    unmark(page)
    page.report_edit(UNCHANGED if done == NOTHING_CHANGED else done, f"{done[:1].upper()}{done[1:]}.")


async def _plan(page: AnyPage, act: str, views: Sequence[Any]) -> tuple[Patches, str, str] | None:
    """Returns the change of each row, the question with ``{}`` for the rows, and the effect; None if cancelled."""
    if act in ("enable", "disable"):
        patches = {_ref(page, view): {"enabled": act == "enable"} for view in views}
        return patches, f"{_ACTS[act][0]} {{}}", _effect(page, act, views)
    if act == "free":
        price = {"input": 0, "output": 0}
        effect = "Their calls will cost nothing, and no dollar budget will limit them."
        return {view.name: price for view in views}, "Make {} free", effect
    if act == "delete" and page.id == "models":
        priced = [view for view in views if view.price is not None]
        if not priced:
            toast(page, "None of them has a price.")
            return None
        effect = f"Calls will be {page.session.board.unpriced_effect}."
        return {view.name: None for view in priced}, "Remove the price of {}", effect
    if act == "delete":
        return {_ref(page, view): None for view in views}, "Delete {}", _effect(page, act, views)
    asks = {"add": _plan_add, "move": _plan_move, "limits": _plan_limit, "budgets": _plan_budget}
    return await asks[act](page, views)


async def _plan_add(page: AnyPage, views: Sequence[Any]) -> tuple[Patches, str, str] | None:
    lacking = {group.name: [v for v in views if group.name not in v.groups] for group in page.session.board.groups}
    names = sorted(name for name, channels in lacking.items() if channels)
    if not names:
        toast(page, f"They serve all groups. Page 3 ({page.session.key('entity.new')}) creates one.")
        return None
    group = await page.ask(ChooseOne(f"Add {_count_text(page, views)} to group", [(name, "") for name in names], ""))
    if group is None:
        return None
    patches = {_ref(page, view): {"groups": [*view.groups, group]} for view in lacking[group]}
    return patches, f"Add {{}} to group {safe(group)}", "They will serve their other groups as before."


async def _plan_move(page: AnyPage, views: Sequence[Any]) -> tuple[Patches, str, str] | None:
    there = {frozenset(view.groups if page.id == "channels" else [view.group]) for view in views}
    names = sorted(group.name for group in page.session.board.groups if there != {frozenset([group.name])})
    if not names:
        toast(page, f"There is no other group. Page 3 ({page.session.key('entity.new')}) creates one.")
        return None
    group = await page.ask(ChooseOne(f"Move {_count_text(page, views)} to group", [(name, "") for name in names], ""))
    if group is None:
        return None
    patch = {"groups": [group]} if page.id == "channels" else {"group": group}
    effect = "They will serve this group only." if page.id == "channels" else "They will see its models, at its prices."
    return {_ref(page, view): patch for view in views}, f"Move {{}} to group {safe(group)}", effect


async def _plan_limit(page: AnyPage, views: Sequence[Any]) -> tuple[Patches, str, str] | None:
    names = CHANNEL_LIMITS if page.id == "channels" else CLIENT_LIMITS
    example = "rpm=60 tpm=200k; rpm=none removes one, none removes all"
    title = f"Rate limits of {_count_text(page, views)}"
    text = await page.ask(Form(line_plan(title, "Limits", example, lambda text: limits_of(text, names, Limits()))))
    if text is None:
        return None
    patches = {_ref(page, view): {"limits": json_value(limits_of(text, names, view.limits))} for view in views}
    return patches, f"Set limits of {{}} to {safe(text)}", "Other limits stay as they are."


async def _plan_budget(page: AnyPage, views: Sequence[Any]) -> tuple[Patches, str, str] | None:
    example = "day=5 month=50 (dollars); day=none removes one, none removes all"
    now = page.session.now()
    title = f"Budget of {_count_text(page, views)}"
    text = await page.ask(Form(line_plan(title, "Budgets", example, lambda text: budgets_of(text, (), now))))
    if text is None:
        return None
    patches = {_ref(page, view): {"budgets": budgets_of(text, view.budgets, now)} for view in views}
    return patches, f"Set the budget of {{}} to {safe(text)}", "Budgets for other times stay as they are."


def limits_of(text: str, names: Sequence[str], before: Limits) -> Limits:
    """Returns the limits changed by a text; a ``none`` removes one limit, and ``none`` alone all of them. Raises
    BadRequest.
    """
    if text.strip().lower() in _NONE:
        return Limits()
    return msgspec.structs.replace(before, **RateLimits(names).changes(text))


def budgets_of(text: str, before: Sequence[Any], now: Millis) -> list[dict[str, Any]]:
    """Returns the budgets changed by a text, as they are sent; a ``none`` removes one, and ``none`` alone all. Raises
    BadRequest.
    """
    (option,) = _BUDGET.kind.options(_BUDGET)
    pairs = [option.read(text, now)] if option.read else []
    after: list[dict[str, Any]] = json_value(_BUDGET.kind.change(_BUDGET, {option.name: pairs}, tuple(before)))
    return after


def _views(page: AnyPage) -> list[Any]:
    """Returns the marked rows that still exist, or the selected one."""
    rows = {page.listing.key(row): row.view for row in page.listing.rows()}
    marked = [rows[key] for key in rows if key in page.table.marks]
    if marked or page.table.marks:
        return marked
    return [] if page.table.current is None else [page.table.current.view]


def _ref(page: AnyPage, view: Any) -> str:
    return str(view.id if page.id in ("tokens", "channels") else view.name)


def _count_text(page: AnyPage, views: Sequence[Any]) -> str:
    noun = page.id.removesuffix("s")
    return fmt.count_text(len(views), noun)


def _list_names(views: Sequence[Any]) -> str:
    return first_of([safe(view.name, 40) for view in views], 12)


def _effect(page: AnyPage, act: str, views: Sequence[Any]) -> str:
    """Returns what stops working."""
    if act == "enable":
        return ""
    if page.id == "tokens":
        calls = sum(view.calls for view in views)
        used = f" They made {fmt.count_text(calls, 'call')}." if calls else " They have never been used."
        return f"Their clients get 401 immediately.{used}"
    if page.id == "channels":
        names = {view.name for view in views}
        lost = [
            safe(model.name, 40)
            for model in page.session.board.models
            if model.channels and set(model.channels) <= names
        ]
        if lost:
            return f"No other channel serves {first_of(lost, 12)}."
        return "Other channels serve all their models. Running calls finish."
    return ""
