"""The tables of fields: every field that the owner edits is there, and typed, shown and read back in one way."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.domain.account import AccountFields
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import ChannelFields
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import Field
from gateway.domain.fields import ACCOUNT, CHANNEL, GROUP, SETTINGS, TOKEN, Table, changed_fields, details
from gateway.domain.group import GroupFields
from gateway.domain.limits import Limits
from gateway.domain.list_kinds import unique_pairs
from gateway.domain.price import Price, PriceDraft
from gateway.domain.price_kinds import PRICE
from gateway.domain.settings import Settings
from gateway.domain.token import TokenFields
from gateway.domain.units import Millis, Nanos
from tests.domain.field_samples import EACH, NOW, PRICES, TOKENS

BY_HAND: dict[type[msgspec.Struct], set[str]] = {
    TokenFields: {"enabled"},
    ChannelFields: {"enabled", "key", "keys", "models", "patterns"},
}
"""Fields that have commands, options or inputs of their own."""

TABLES = {
    TokenFields: TOKEN,
    GroupFields: GROUP,
    ChannelFields: CHANNEL,
    AccountFields: ACCOUNT,
    Settings: SETTINGS,
    PriceDraft: PRICE,
}
CASES = [
    pytest.param(field, entity, id=f"{noun}-{field.id}-{number}")
    for noun, (table, pair) in {**EACH, "price": (PRICE, PRICES)}.items()
    for field in table
    for number, entity in enumerate(pair)
    if not (field.kind.required and getattr(entity, field.name) is None)
]


@pytest.mark.parametrize("struct", TABLES, ids=lambda struct: struct.__name__)
def test_every_field_that_the_owner_edits_is_in_the_table(struct: type[msgspec.Struct]) -> None:
    names = [field.name for field in TABLES[struct]]
    assert sorted(set(names)) == sorted(set(struct.__struct_fields__) - BY_HAND.get(struct, set()))


def test_a_price_has_every_field_of_its_draft() -> None:
    assert {field.name for field in PRICE} <= set(Price.__struct_fields__)


@pytest.mark.parametrize(("field", "entity"), CASES)
def test_a_value_that_is_typed_as_it_is_written_is_the_same(field: Field, entity: object) -> None:
    value = getattr(entity, field.name)
    part = field.kind.read(field.kind.text(value), NOW)
    assert part == field.kind.content(value)
    assert field.kind.with_content(value, part) == value


@pytest.mark.parametrize(("field", "entity"), CASES)
def test_an_unchanged_value_needs_no_option_and_every_other_value_has_words(field: Field, entity: object) -> None:
    value = getattr(entity, field.name)
    assert field.arguments(value, value) == []
    assert field.kind.show(value) or field.kind.text(value) == "" or field.name == "token_limit_field"


@pytest.mark.parametrize(("table", "pair"), EACH.values(), ids=EACH)
def test_without_options_nothing_changes(table: Table, pair: tuple[msgspec.Struct, msgspec.Struct]) -> None:
    assert changed_fields(table, {}, pair[1]) == {}


def test_details_name_a_field_as_its_label_without_the_unit() -> None:
    shown = dict(details(CHANNEL, EACH["channel"][1][1], "note"))  # type: ignore[arg-type]
    assert shown["timeouts"] == "connect 10s, head 60s, idle 0.5s, comments 900s, total 600s"
    assert shown["base URL"] == "https://h/v1"
    assert "note" not in shown


WRONG = {
    "budgets": ("fortnight=5", "unknown budget window 'fortnight'; use day, week, month or ever"),
    "limits": ("rpx=5", "unknown limit 'rpx=5'"),
    "expires": ("soon", "is not a time; use a span"),
    "name": (" ", "required"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_say_why(name: str) -> None:
    field = next(field for field in TOKEN if field.name == name)
    text, why = WRONG[name]
    with pytest.raises(BadRequest, match=why):
        field.kind.read(text, NOW)


def test_a_budget_without_amounts_disappears() -> None:
    given = {"budgets": [[("day", None), ("month", 5)]], "token_budgets": [[("day", None), ("ever", None)]]}
    assert changed_fields(TOKEN, given, TOKENS[1]) == {"budgets": [{"window": "month", "nanos": 5, "tokens": None}]}


def budget_readers() -> list[Callable[[str, Millis], Any]]:
    fields = [field for field in TOKEN if field.name == "budgets"]
    return [option.read for field in fields for option in field.kind.options(field) if option.read]


def test_none_removes_all_budgets_of_its_unit() -> None:
    dollars, tokens = budget_readers()
    given = {"budgets": [dollars("none", NOW), dollars("week=2", NOW)]}
    budgets = (Budget(window=Window.DAY, nanos=Nanos(5), tokens=7), Budget(window=Window.MONTH, nanos=Nanos(9)))
    before = msgspec.structs.replace(TOKENS[1], budgets=budgets)
    assert changed_fields(TOKEN, given, before) == {
        "budgets": [
            {"window": "day", "nanos": None, "tokens": 7},
            {"window": "week", "nanos": 2_000_000_000, "tokens": None},
        ]
    }
    assert changed_fields(TOKEN, {"token_budgets": [tokens("none", NOW)]}, before)["budgets"][0]["tokens"] is None


@pytest.mark.parametrize("text", ["day=5 month=1000", "day=5,month=1000", " day=5, month=1000,"])
def test_one_option_may_hold_several_budgets(text: str) -> None:
    dollars, _ = budget_readers()
    assert dollars(text, NOW) == [("day", 5 * 10**9), ("month", 1000 * 10**9)]
    field = next(field for field in TOKEN if field.name == "budgets")
    assert field.kind.read(text, NOW) == {"day": 5 * 10**9, "month": 1000 * 10**9}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("day=5 month=1,000", "'1,000' is not a"),
        (" ", "a budget needs a window"),
        ("5/month", r"day, week, month or ever, as in day=5$"),
    ],
    ids=["an amount with a comma", "an empty budget", "a budget in other words"],
)
def test_what_is_not_a_budget_is_an_error_that_says_why(text: str, told: str) -> None:
    for read in budget_readers():
        with pytest.raises(BadRequest, match=told):
            read(text, NOW)


@pytest.mark.parametrize("text", ["5", "2.50"])
def test_a_budget_names_its_window(text: str) -> None:
    for read in budget_readers():
        with pytest.raises(BadRequest, match="day, week, month or ever, as in day=5"):
            read(text, NOW)
    field = next(field for field in TOKEN if field.name == "budgets")
    with pytest.raises(BadRequest, match="a budget needs a window: "):
        field.kind.read(text, NOW)


def test_limits_are_merged_with_the_present_ones() -> None:
    before = msgspec.structs.replace(TOKENS[0], limits=Limits(rpm=60, tpm=5))
    changed = changed_fields(TOKEN, {"rpm": (None,), "concurrent": (4,)}, before)
    assert changed == {"limits": msgspec.structs.asdict(Limits(tpm=5, concurrent=4))}


def test_a_span_counts_from_now() -> None:
    field = next(field for field in TOKEN if field.name == "expires")
    assert field.kind.read("1d", Millis(0)) == 86_400_000
    assert field.kind.read("never", Millis(0)) is None
    assert field.kind.read("tomorrow", NOW) - field.kind.read("today", NOW) > 80_000_000


@pytest.mark.parametrize(
    ("id_", "text", "name"),
    [
        ("budgets", "day=5 day=6", "day"),
        ("token_budgets", "week=1M, week=2M", "week"),
        ("limits", "rpm=60 tpm=1k rpm=70", "rpm"),
    ],
)
def test_what_a_form_gives_twice_is_refused(id_: str, text: str, name: str) -> None:
    field = next(field for field in TOKEN if field.id == id_)
    with pytest.raises(BadRequest, match=f"'{name}' is given twice"):
        field.kind.read(text, NOW)


def test_a_name_given_twice_is_refused() -> None:
    assert unique_pairs([("a", 1), ("b", 1)], "--x") == {"a": 1, "b": 1}
    with pytest.raises(BadRequest, match="--x: 'a' is given twice"):
        unique_pairs([("a", 1), ("a", 2)], "--x")
