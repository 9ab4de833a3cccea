from gateway.domain.limits import Limits, Window
from tests.tui.stage import budget, token
from tui.budgets import budget_fields


def test_what_there_is_stands_in_the_fields_and_reads_back() -> None:
    made = {
        field.id: field
        for field in budget_fields(token("a", budgets=[budget(0, 5, Window.DAY)], limits=Limits(rpm=60)))
    }
    assert {name: field.value for name, field in made.items()} == {
        "budgets": "day=5",
        "token_budgets": "",
        "limits": "rpm=60",
    }
    assert made["budgets"].parse("day=5") == {Window.DAY: 5 * 10**9}


def test_without_anything_they_are_empty() -> None:
    assert [field.value for field in budget_fields(None)] == ["", "", ""]
