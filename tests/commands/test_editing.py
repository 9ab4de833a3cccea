"""Options drawn from the tables of fields: those that a form prints turn one value into the other."""

from itertools import chain
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from gateway.commands.editing import field_options, patch_of
from gateway.domain.field_kinds import Field, json_value
from gateway.domain.fields import TOKEN, Table
from gateway.domain.price_kinds import PRICE
from tests.domain.field_samples import EACH, PRICES, TOKENS

CASES = [
    pytest.param([one for one in table if one.name == name], pair[start], pair[1 - start], id=f"{noun}-{name}-{start}")
    for noun, (table, pair) in EACH.items()
    for name in dict.fromkeys(field.name for field in table)
    for start in (0, 1)
    if not (name == "token_limit_field" and start == 1)  # no option removes it
]
CASES += [pytest.param([field], *PRICES, id=f"price-{field.name}") for field in PRICE]


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


@pytest.mark.parametrize(("fields", "before", "after"), CASES)
def test_printed_options_turn_one_value_into_the_other(
    fields: list[Field], before: msgspec.Struct, after: msgspec.Struct
) -> None:
    name = fields[0].name
    old, new = getattr(before, name), getattr(after, name)
    if name == "headers":  # printed without values that may be secret
        new = {header: value for header, value in new.items() if value.startswith("env:")}
    sent = patch(fields, before, *chain.from_iterable(one.arguments(old, new) for one in fields))
    expected = {} if old == new else {name: json_value(new)}
    if name == "proxy" and new == "":
        expected = {"proxy": "none"}  # the command itself turns it into no proxy
    assert sent == expected


def test_a_switch_has_a_flag_for_each_side() -> None:
    assert patch(TOKEN, TOKENS[1], "--finish-when-empty") == {"stop_when_empty": False}
    assert patch(TOKEN, TOKENS[0]) == {}
