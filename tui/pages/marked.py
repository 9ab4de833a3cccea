"""Marked rows: actions on all of them at once, after one confirmation, as one change that one undo reverts.

Without marks they act on the selected row; what ends nothing there is done without a question. Rows that a filter hides
keep their marks, and are changed with the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.field_kinds import json_value
from gateway.domain.fields import TOKEN
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import ago, first_of
from gateway.domain.limit_kinds import CHANNEL_LIMITS, CLIENT_LIMITS, DOLLAR_BUDGETS, RateLimits
from gateway.domain.limits import Limits
from gateway.domain.units import Millis
from tui import format as fmt
from tui.pages.base import AnyPage, Verb, selection, unmark
from tui.text import safe
from tui.widgets.choices import ChooseOne
from tui.widgets.dialogs import notice, toast
from tui.widgets.form import Form, line_plan


class BulkChange(msgspec.Struct, frozen=True):
    """A change of several rows, to be confirmed."""

    patches: dict[str, Any]
    """The change of each row, by its id or name; None removes the row."""
    action: str
    """What is done, with ``{}`` for the rows: ``Move {} to group a``."""
    consequences: str


_BUDGET = next(field for field in TOKEN if field.name == "budgets")

_ACTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "tokens": ("enable", "disable", "move", "limits", "budgets", "delete"),
    "groups": ("limits", "budgets", "delete"),
    "channels": ("enable", "disable", "add", "move", "limits", "delete"),
    "models": ("free", "remove"),
}
_ACTIONS: Mapping[str, tuple[str, str]] = {
    "enable": ("Enable", ""),
    "disable": ("Disable", ""),
    "add": ("Add", "to a group, and keep their others"),
    "move": ("Move", "to one group"),
    "limits": ("Limit", "requests, tokens and calls at once"),
    "budgets": ("Budget", "dollars in a window of time"),
    "free": ("Free", "a price of zero"),
    "delete": ("Delete", ""),
    "remove": ("Remove", "the price"),
}
"""The menu's name and explanation of each action."""


async def bulk(page: AnyPage) -> None:
    """Choose an action for the marked rows."""
    views = _entities(page)
    actions = {_ACTIONS[action][0]: action for action in _ACTIONS_OF[page.id]}
    options = [_ACTIONS[action] for action in actions.values()]
    chosen = await page.ask(ChooseOne(f"{_count_text(page, views)}: {_list_names(views)}", options, ""))
    await _run(page, actions[chosen], views)


async def toggle(page: AnyPage) -> None:
    """Disable the selected or all marked entities, or enable them if all are disabled. Asks only about marked ones."""
    views = _entities(page)
    await _run(page, "disable" if any(view.enabled for view in views) else "enable", views, asks=bool(page.table.marks))


async def delete(page: AnyPage) -> None:
    """Delete the selected or all marked entities, after confirmation."""
    await _run(page, "delete", _entities(page))


async def free(page: AnyPage) -> None:
    """Set the price of the selected or all marked models to zero. Asks if one of them has a price."""
    views = _entities(page)
    await _run(page, "free", views, asks=any(view.price is not None for view in views))


def bulk_verb(action: str, single: Verb) -> Verb:
    """Returns the verb that runs an action on the marked rows, or ``single`` on the selected one if none is marked."""
    return lambda page: _run(page, action, _entities(page)) if page.table.marks else single(page)


async def resume(page: AnyPage) -> None:
    """Resume the marked channels, without a question, because that ends nothing."""
    views = _entities(page)
    resumed = [await page.session.client.clear_channel(view.id) for view in views]
    unmark(page)
    failing = [safe(view.name, 40) for view in resumed if view.state == "attention"]
    warning = f" Still in need of attention: {first_of(failing, 12)}." if failing else ""
    toast(page, f"{_count_text(page, views).capitalize()} resumed.{warning}", bad=bool(failing))


async def _run(page: AnyPage, action: str, views: Sequence[Any], *, asks: bool = True) -> None:
    change = await _plan(page, action, views)
    views = [view for view in views if page.key(view) in change.patches]
    verb = "Make free" if action == "free" else change.action.partition(" ")[0]
    if asks:
        names = f"{_list_names(views)}\n\n" if len(views) > 1 else ""
        is_harmless = action in ("enable", "add", "limits", "budgets")  # they end nothing, and are undone in one step
        question = f"{change.action.replace('{}', _subject(page, views))}?"
        await page.confirm(question, f"{names}{change.consequences}".strip(), verb, harmless=is_harmless)
    table = "prices" if page.id == "models" else page.id
    summary = await page.session.client.batch(table, change.patches)
    unmark(page)
    sentence = f"{summary[:1].upper()}{summary[1:]}."
    if summary == NOTHING_CHANGED:
        raise notice(sentence)
    page.report_change(sentence if asks else f"{sentence} {change.consequences}".strip())


async def _plan(page: AnyPage, action: str, views: Sequence[Any]) -> BulkChange:
    """Returns the change that an action makes, after asking for what it needs."""
    if action in ("enable", "disable"):
        patches = {page.key(view): {"enabled": action == "enable"} for view in views}
        return BulkChange(patches, f"{_ACTIONS[action][0]} {{}}", _consequences(page, action, views))
    if action == "free":
        price = {"input": 0, "output": 0}
        consequences = "Calls will cost nothing, and no dollar budget will limit them."
        return BulkChange({view.name: price for view in views}, "Make {} free", consequences)
    if action == "remove":
        priced = [view for view in views if view.price is not None and not view.price.inherited_from]
        if not priced:
            raise notice("They have no price of their own.")
        consequences = f"Calls will be {page.session.board.unpriced_effect}."
        return BulkChange({view.name: None for view in priced}, "Remove the price of {}", consequences)
    if action == "delete":
        consequences = f"{_consequences(page, action, views)} History is kept.".strip()
        return BulkChange({page.key(view): None for view in views}, "Delete {}", consequences)
    plans = {"add": _plan_add, "move": _plan_move, "limits": _plan_limit, "budgets": _plan_budget}
    return await plans[action](page, views)


async def _plan_add(page: AnyPage, views: Sequence[Any]) -> BulkChange:
    candidates = {group.name: [v for v in views if group.name not in v.groups] for group in page.session.board.groups}
    names = sorted(name for name, channels in candidates.items() if channels)
    if not names:
        raise notice(f"They serve all groups. Page 3 ({page.session.key('entity.new')}) creates one.")
    group = await page.ask(ChooseOne(f"Add {_subject(page, views)} to group", [(name, "") for name in names], ""))
    patches = {page.key(view): {"groups": [*view.groups, group]} for view in candidates[group]}
    return BulkChange(patches, f"Add {{}} to group {safe(group)}", "They will serve their other groups as before.")


async def _plan_move(page: AnyPage, views: Sequence[Any]) -> BulkChange:
    current = {frozenset(view.groups if page.id == "channels" else [view.group]) for view in views}
    names = sorted(group.name for group in page.session.board.groups if current != {frozenset([group.name])})
    if not names:
        raise notice(f"No other group exists. Page 3 ({page.session.key('entity.new')}) creates one.")
    group = await page.ask(ChooseOne(f"Move {_subject(page, views)} to group", [(name, "") for name in names], ""))
    patch = {"groups": [group]} if page.id == "channels" else {"group": group}
    served, seen = "They will serve this group only.", "They will see its models, at its prices."
    patches = {page.key(view): patch for view in views}
    return BulkChange(patches, f"Move {{}} to group {safe(group)}", served if page.id == "channels" else seen)


async def _plan_limit(page: AnyPage, views: Sequence[Any]) -> BulkChange:
    kind = RateLimits(names=CHANNEL_LIMITS if page.id == "channels" else CLIENT_LIMITS)
    example = "rpm=60 tpm=200k; rpm=none removes one, none removes all"
    title = f"Rate limits of {_subject(page, views)}"
    text = await page.ask(Form(line_plan(title, "Limits", example, kind.changes)))
    limits = {page.key(view): msgspec.structs.replace(view.limits, **kind.changes(text)) for view in views}
    patches = {key: {"limits": json_value(changed)} for key, changed in limits.items()}
    if all(changed == Limits() for changed in limits.values()):
        return BulkChange(patches, "Remove all rate limits of {}", "")
    return BulkChange(patches, f"Set limits of {{}} to {safe(text)}", "Other limits stay as they are.")


async def _plan_budget(page: AnyPage, views: Sequence[Any]) -> BulkChange:
    example = "day=5 month=50 (dollars); day=none removes one, none removes all"
    now = page.session.now()
    title = f"Budget of {_subject(page, views)}"
    text = await page.ask(Form(line_plan(title, "Budgets", example, lambda text: budgets_of(text, (), now))))
    patches = {page.key(view): {"budgets": budgets_of(text, view.budgets, now)} for view in views}
    if not any(patch["budgets"] for patch in patches.values()):
        return BulkChange(patches, "Remove all budgets of {}", "")
    return BulkChange(patches, f"Set the budget of {{}} to {safe(text)}", "Budgets for other times stay as they are.")


def budgets_of(text: str, before: Sequence[Any], now: Millis) -> list[dict[str, Any]]:
    """Returns budgets, as sent, after changes such as ``day=5 month=none`` or ``none``. Raises BadRequest."""
    amounts = DOLLAR_BUDGETS.read_option(text, now)
    after: list[dict[str, Any]] = json_value(DOLLAR_BUDGETS.gather(_BUDGET, [amounts], tuple(before)))
    return after


def _entities(page: AnyPage) -> list[Any]:
    """Returns the marked rows that still exist, or the selected entity. Raises a notice if no row is selected."""
    marked = [row for row in page.rows() if page.key(row) in page.table.marks]
    return marked or [selection(page)]


def _count_text(page: AnyPage, views: Sequence[Any]) -> str:
    return fmt.count_text(len(views), page.noun)


def _subject(page: AnyPage, views: Sequence[Any]) -> str:
    """Returns ``token laptop``, or ``2 tokens``."""
    return f"{page.noun} {safe(views[0].name, 40)}" if len(views) == 1 else _count_text(page, views)


def _list_names(views: Sequence[Any]) -> str:
    return first_of([safe(view.name, 40) for view in views], 12)


def _consequences(page: AnyPage, action: str, views: Sequence[Any]) -> str:
    if page.id == "tokens" and action != "enable":
        return f"Clients get 401 immediately. {usage_text(page, views)}"
    if page.id == "channels" and action != "enable":
        return f"{_effect_on_models(page, views)} Running calls finish."
    return ""


def usage_text(page: AnyPage, tokens: Sequence[Any]) -> str:
    """Returns how often tokens were used: ``1,204 calls so far, the last one 14 s ago.``."""
    last = max((token.last_used_ms for token in tokens if token.last_used_ms is not None), default=None)
    if last is None:
        return "No calls so far."
    calls = fmt.count_text(sum(token.calls for token in tokens), "call")
    return f"{calls} so far, the last one {ago(page.session.now() - last)}."


def _effect_on_models(page: AnyPage, channels: Sequence[Any]) -> str:
    """Returns which models only these channels serve, or that others serve all of their models."""
    names = {channel.name for channel in channels}
    models = page.session.board.models
    lost = [safe(model.name, 40) for model in models if model.channels and names.issuperset(model.channels)]
    return f"No other channel serves {first_of(lost, 12)}." if lost else "Other channels serve all the same models."
