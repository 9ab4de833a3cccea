import tomllib
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.domain.account import Account
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.config_codec import INNER, SECTIONS, inline, read, table, write_fields
from gateway.domain.errors import BadRequest
from gateway.domain.group import Group
from gateway.domain.price import Price, Tier
from gateway.domain.registry import KINDS, Registry
from gateway.domain.settings import Settings
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from tests.domain.samples import whole
from tests.refusals import refusal_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.dictionaries(TEXTS, VALUES, max_size=5))
def test_every_value_is_read_back_as_it_was(path: list[str], values: dict[str, object]) -> None:
    found = tomllib.loads(table(path, values))  # type: ignore[arg-type]
    for name in path:
        found = found[name]
    assert found == values


@given(TEXTS)
def test_a_line_is_safe_to_look_at(text: str) -> None:
    line = inline(text)
    assert plain(line, len(line)) == line or max(map(ord, line)) > 127  # combining marks may be many


def test_lists_of_several_have_a_value_a_line() -> None:
    text = table(["groups", "a b"], {"models": ["x"], "hosts": ["x", "y"], "limits": {"rpm": 5}, "on": True})
    assert text == (
        '[groups."a b"]\nmodels = ["x"]\nhosts = [\n    "x",\n    "y",\n]\nlimits = { rpm = 5 }\non = true\n'
    )


@pytest.mark.parametrize("text", ["\x1b]0;x\x07", "\u202e", "\x7f", "\ue000", "\U000e0001"])
def test_control_characters_are_escaped(text: str) -> None:
    assert inline(text).isprintable()
    assert tomllib.loads(f"x = {inline(text)}") == {"x": text}


STRUCTS = (Settings, Account, Group, Channel, Token, Price)


@pytest.mark.parametrize("kind", STRUCTS)
def test_every_field_is_written_and_read_back(kind: type[msgspec.Struct]) -> None:
    """Also a field that was added today: it is read off the struct."""
    entity = whole(kind)
    if isinstance(entity, Channel):  # what its upstream lists is no configuration
        named = (msgspec.structs.replace(m, created=Millis(0), published=None, live=False) for m in entity.models)
        entity = msgspec.structs.replace(entity, models=tuple(named))
    form = write_fields(entity)
    assert len(form) == len(kind.__struct_fields__)
    text = table(["x"], form)
    assert read(kind, tomllib.loads(text)["x"], "x", {}) == entity


@pytest.mark.parametrize("kind", STRUCTS)
def test_defaults_are_left_out(kind: type[msgspec.Struct]) -> None:
    needed = {f.name: getattr(whole(kind), f.name) for f in msgspec.structs.fields(kind) if f.required}
    assert set(write_fields(kind(**needed))) == set(needed) | ({"id"} if kind is Group else set())  # its name


def test_money_is_in_dollars_and_factors_are_factors() -> None:
    group = Group(name="g", multiplier=1_500_000, budgets=(Budget(window=Window.DAY, nanos=Nanos(5_000_000_001)),))
    assert write_fields(group) == {
        "name": "g",
        "id": "g",
        "multiplier": "1.5",
        "budgets": [{"window": "day", "dollars": "5.000000001"}],
    }
    price = Price(model="m", input=Nanos(0), output=Nanos(1), tiers=(Tier(above=5, input=Nanos(0), output=Nanos(2)),))
    assert write_fields(price)["tiers"] == [{"above": 5, "input": "0.00", "output": "0.000000002"}]


def test_a_struct_that_is_just_a_name_is_that_name() -> None:
    channel = whole(Channel)
    models = (ServedModel(name="a"), ServedModel(name="b", upstream="c"))
    form = write_fields(msgspec.structs.replace(channel, models=models))
    assert form["models"] == ["a", {"name": "b", "upstream": "c"}]
    assert read(Channel, form, "x", {}).models == models


def test_moments_are_exact_to_the_millisecond() -> None:
    for moment in range(1_795_263_905_000, 1_795_263_906_000, 7):
        token = msgspec.structs.replace(whole(Token), expires=Millis(moment))
        assert read(Token, write_fields(token), "x", {}) == token


@pytest.mark.parametrize(
    "value", [None, [None], {"json": "null"}, {"json": 5}, {"a": {"b": None}}, 5, 1.0, "x", True, []]
)
def test_json_of_the_owner_s_is_kept_whatever_it_is(value: Any) -> None:
    overrides = Overrides(set={"p": value, "q": 5})
    text = table(["x"], write_fields(overrides))
    found = read(Overrides, tomllib.loads(text)["x"], "x", {})
    assert msgspec.json.encode(found) == msgspec.json.encode(overrides)


WRONG: list[tuple[type[msgspec.Struct], Any, str]] = [
    (Group, [], "x: must be a table"),
    (Group, {}, "x.name: is missing"),
    (Group, {"name": "g", "nmae": 1}, "x.nmae: is unknown; use one of: name, models, multiplier"),
    (Group, {"name": 1}, "x.name: Expected `str`, got `int`"),
    (Group, {"name": "g", "multiplier": 1.5}, "x.multiplier: must be a string in quotation marks"),
    (Group, {"name": "g", "multiplier": "much"}, "x.multiplier: 'much' is not a number such as 1.5"),
    (Group, {"name": "g", "models": "m"}, "x.models: must be a list"),
    (Group, {"name": "g", "models": ["m", 5]}, "x.models[1]: Expected `str`, got `int`"),
    (Group, {"name": "g", "limits": 5}, "x.limits: must be a table"),
    (Group, {"name": "g", "limits": {"rmp": 5}}, "x.limits.rmp: is unknown"),
    (Group, {"name": "g", "limits": {"rpm": "5"}}, "x.limits.rpm: Expected `int"),
    (Group, {"name": "g", "limits": {"rpm": True}}, "x.limits.rpm: Expected `int"),
    (Group, {"name": "g", "budgets": [{"window": "year"}]}, "x.budgets[0].window: Invalid enum value"),
    (Group, {"name": "g", "budgets": [{"nanos": 5}]}, "x.budgets[0].nanos: is unknown; use one of: window, dollars"),
    (Group, {"name": "g", "budgets": [{"dollars": 5}]}, "x.budgets[0].dollars: must be a string in quotation marks"),
    (Group, {"name": "g", "budgets": [{"dollars": "5 EUR"}]}, "x.budgets[0].dollars: '5 EUR' is not an amount"),
    (Settings, {"keep_days": 10**19}, "x.keep_days: must be from"),
    (Channel, {"id": "c", "name": "c", "dialect": "openai", "headers": ["x"]}, "x.headers: must be a table"),
    (
        Channel,
        {"dialect": "cobol"},
        "x.dialect: Invalid enum value 'cobol'; use one of: openai, anthropic, gemini, mock",
    ),
    (Overrides, {"set": {"p": {"json": "nul"}}}, "x.set.p.json: is not valid JSON"),
    (Overrides, {"set": {"p": [{"q": float("nan")}]}}, "x.set.p[0].q: nan is not a number that JSON can hold"),
    (Overrides, {"set": {"p": float("-inf")}}, "x.set.p: -inf is not a number that JSON can hold"),
    (Overrides, {"set": {"p": [date(2026, 1, 1)]}}, "x.set.p[0]: dates and times must be strings"),
    (Token, {"expires": "soon"}, "x.expires: 'soon' is not a time"),
]


@pytest.mark.parametrize(("kind", "values", "said"), WRONG)
def test_what_is_not_understood_is_refused_with_its_place(kind: type[msgspec.Struct], values: Any, said: str) -> None:
    error = refusal_of(read, kind, values, "x", {})
    assert error.message.startswith(said), error.message
    assert error.code == "bad_configuration"


def test_what_a_home_knows_by_itself_is_neither_written_nor_read() -> None:
    assert "created" not in write_fields(whole(Account), ("created",))
    with pytest.raises(BadRequest, match="created: is unknown"):
        read(Account, {"created": "2026-01-01"}, "x", {"created": Millis(5)})


NO_CONFIGURATION = {"grants", "lists", "retired"}
"""Money, what was learned, and keys that were replaced."""


def test_every_table_of_the_registry_is_a_section_or_no_configuration() -> None:
    """A new table must be one or the other."""
    assert {section.name for section in SECTIONS} | NO_CONFIGURATION == set(Registry.__struct_fields__)


def test_omitted_names_are_fields() -> None:
    for section in SECTIONS:
        assert {*section.omit, section.title} - {""} <= set(KINDS[section.name][0].__struct_fields__)
    for kind, names in INNER.items():
        assert set(names) <= set(getattr(kind, "__struct_fields__", ()))
