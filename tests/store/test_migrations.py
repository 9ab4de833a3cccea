"""Each step brings a real layout to the next format."""

from typing import Any

import pytest

from gateway.store.documents import NEWEST, STEPS, Tables, migrate


def format_1() -> Tables:
    return {
        "meta": {"1": {"format": 1}},
        "account": {"1": {"budget": {"window": "month", "nanos": 5}}},
        "tokens": {"1": {"id": "tok_1", "budget": {"tokens": 7}}, "2": {"id": "tok_2"}, "3": {"budget": None}},
        "groups": {},
    }


def test_one_budget_becomes_a_list() -> None:
    tables = format_1()
    migrate(tables, 1)
    assert tables["account"]["1"] == {"budgets": [{"window": "month", "nanos": 5}]}
    assert tables["tokens"] == {"1": {"id": "tok_1", "budgets": [{"tokens": 7}]}, "2": {"id": "tok_2"}, "3": {}}
    assert tables["meta"] == {"1": {"format": NEWEST}}


@pytest.mark.parametrize("found", range(1, NEWEST + 1))
def test_only_the_steps_that_are_needed_are_taken(found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    steps: Any = [lambda _, n=n: taken.append(n) for n in range(len(STEPS))]
    monkeypatch.setattr("gateway.store.documents.STEPS", steps)
    migrate({}, found)
    assert taken == list(range(found - 1, NEWEST - 1))
