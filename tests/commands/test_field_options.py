"""Options drawn from the tables of fields: those that a form prints turn one value into the other."""

from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from gateway.commands.field_options import field_options, patch_of
from gateway.domain.field_kinds import Field
from gateway.domain.fields import CHANNEL, PRICE, TOKEN, Table
from tests.domain.field_samples import CHANNELS, EACH, PRICES, TOKENS

CASES = [
    pytest.param(field, pair[start], pair[1 - start], id=f"{noun}-{field.name}-{start}")
    for noun, (table, pair) in EACH.items()
    for field in table
    for start in (0, 1)
    if not (field.name == "token_limit_field" and start == 1)  # no option removes it
]
CASES += [pytest.param(field, *PRICES, id=f"price-{field.name}") for field in PRICE]


def patch(table: Table, before: msgspec.Struct, *args: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    @click.command()
    @field_options(table)
    def command(**given: Any) -> None:
        found.update(patch_of(table, given, before))

    ran = CliRunner().invoke(command, args)
    if ran.exit_code:
        raise AssertionError(ran.output)
    return found


@pytest.mark.parametrize(("field", "before", "after"), CASES)
def test_printed_options_turn_one_value_into_the_other(
    field: Field, before: msgspec.Struct, after: msgspec.Struct
) -> None:
    old, new = getattr(before, field.name), getattr(after, field.name)
    if field.name == "headers":  # printed without values that may be secret
        new = {name: value for name, value in new.items() if value.startswith("env:")}
    sent = patch([field], before, *field.kind.arguments(field, old, new))
    expected = {} if old == new else {field.name: field.kind.body(new)}
    if field.name == "proxy" and new == "":
        expected = {"proxy": "none"}  # the command itself turns it into no proxy
    assert sent == expected


@pytest.mark.parametrize(
    ("table", "before", "args", "why"),
    [
        (TOKEN, TOKENS[0], ("--budget", "day=1", "--budget", "day=2"), "'day' is given twice"),
        (TOKEN, TOKENS[0], ("--budget", "year=1"), "unknown budget window 'year'"),
        (TOKEN, TOKENS[0], ("--rpm", "1.5"), "not a whole number"),
        (TOKEN, TOKENS[0], ("--models", ","), "contains no names"),
        (TOKEN, TOKENS[0], ("--expires", "soon"), "is not a time; use a span"),
        (CHANNEL, CHANNELS[0], ("--weight", "-1"), "at least 0"),
        (CHANNEL, CHANNELS[0], ("--header", "x"), "NAME=VALUE"),
        (CHANNEL, CHANNELS[0], ("--group", "a", "--no-groups"), "exclude each other"),
    ],
)
def test_nonsense_is_a_usage_error(table: Table, before: msgspec.Struct, args: tuple[str, ...], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        patch(table, before, *args)


def test_a_switch_has_a_flag_for_each_side() -> None:
    assert patch(TOKEN, TOKENS[1], "--finish-when-empty") == {"stop_when_empty": False}
    assert patch(TOKEN, TOKENS[0]) == {}
