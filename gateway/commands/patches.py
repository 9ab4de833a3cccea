"""Patches: what the options of an edit change, as the control surface wants it.

It replaces a field as a whole; so budgets and limits are put over those there are.
"""

from collections.abc import Mapping, Sequence

import click
import msgspec

from gateway.commands.options import once
from gateway.domain.limits import Limits, Window
from gateway.domain.views import BudgetView

Patch = dict[str, object]
Amounts = Sequence[tuple[Window, int | None]]


def given(**values: object) -> Patch:
    """Those of the values that were given at all."""
    return {name: value for name, value in values.items() if value is not None}


def something(patch: Patch) -> Patch:
    """The patch itself; raises UsageError when it changes nothing."""
    if not patch:
        raise click.UsageError("nothing to change; name at least one option", click.get_current_context())
    return patch


def one_of(none: str, some: str, *, both: bool) -> None:
    """Raises UsageError when both an option and the one that drops all it says are given."""
    if both:
        raise click.UsageError(f"{none} and {some} exclude each other", click.get_current_context())


def budgets(there: Sequence[BudgetView], in_dollars: Amounts, in_tokens: Amounts) -> Patch:
    """The budgets with some amounts set and some (None) taken away; no field at all when nothing was asked."""
    if not (in_dollars or in_tokens):
        return {}
    nanos = {view.window: view.limit_nanos for view in there} | once(in_dollars, "--budget")
    tokens = {view.window: view.limit_tokens for view in there} | once(in_tokens, "--tokens-budget")
    found = [(window, nanos.get(window), tokens.get(window)) for window in Window]
    return {
        "budgets": [
            {"window": window.value, "nanos": amount, "tokens": count}
            for window, amount, count in found
            if amount is not None or count is not None
        ]
    }


def limits(there: Limits, changes: Mapping[str, tuple[int | None] | None]) -> Patch:
    """The limits with some set and some (None) taken away; no field at all when nothing was asked."""
    asked = {name: change[0] for name, change in changes.items() if change is not None}
    return {"limits": msgspec.structs.asdict(there) | asked} if asked else {}
