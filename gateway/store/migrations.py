"""Migrations: steps that bring ``config.json`` from each format to the next, on plain dictionaries.

Segments of the call log are never migrated: documents without a field get its default when they are read.
"""

from collections.abc import Callable

from gateway.store.documents import Tables


def one_budget_to_many(tables: Tables) -> None:
    """Format 1 to 2: tokens, groups and the account had one ``budget``; now they have a list of ``budgets``."""
    for table in ("tokens", "groups", "account"):
        for document in tables.get(table, {}).values():
            budget = document.pop("budget", None)
            if budget is not None:
                document["budgets"] = [budget]


STEPS: tuple[Callable[[Tables], None], ...] = (one_budget_to_many,)
"""The first one makes format 2 of format 1, and so on."""

NEWEST = len(STEPS) + 1


def migrate(tables: Tables, found: int) -> None:
    """Bring tables of format ``found`` to the newest, in place."""
    for step in STEPS[found - 1 :]:
        step(tables)
    tables["meta"] = {"1": {"format": NEWEST}}
