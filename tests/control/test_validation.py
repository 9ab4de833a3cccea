from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gateway.control import prices, validation
from gateway.control.request_bodies import patch, types_of
from gateway.domain.account import Account, AccountFields
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Channel, ChannelFields, Dialect, Overrides, ServedModel, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.group import Group, GroupFields
from gateway.domain.limits import Limits
from gateway.domain.price import Price, PriceHours, PriceRule, Tier
from gateway.domain.registry import Table
from gateway.domain.settings import Settings
from gateway.domain.token import Token, TokenFields
from gateway.domain.units import ChannelId, Nanos, TokenId
from tests.core import kit
from tests.house import amount
from tests.refusals import refusal_of

REGISTRY = kit.registry(groups=(Group(name="default"), Group(name="home")), prices=())


def token(**more: object) -> Token:
    return Token(**{"id": TokenId("t"), "name": "x", "group": "home", "digest": "d", "hint": "h"} | more)  # type: ignore[arg-type]


def channel(**more: object) -> Channel:
    fields = {"id": ChannelId("c"), "name": "x", "dialect": Dialect.OPENAI, "base_url": "https://a.example/v1"}
    return Channel(**fields | more)  # type: ignore[arg-type]


def price(**more: object) -> Price:
    return Price(**{"model": "m", "input": 1, "output": 1} | more)  # type: ignore[arg-type]


def fault(check: Callable[[], None]) -> str | None:
    """The field that is complained of; None if all is well."""
    try:
        check()
    except BadRequest as error:
        return error.param
    return None


@pytest.mark.parametrize("name", ["a", "x" * 64, "my laptop", "Büro", "日本語", "a/b", "a:b", "😀", "-"])
def test_names_that_can_be_shown_are_good(name: str) -> None:
    assert fault(lambda: validation.check_name(name)) is None


@pytest.mark.parametrize(
    "name",
    ["", " ", "x" * 65, " a", "a ", "a\n", "a\tb", "\x1b[31m", "a\u202eb", "a\u200bb", "\ud800", "a\u2028b", ".", ".."],
)
def test_names_that_cannot_are_not(name: str) -> None:
    assert fault(lambda: validation.check_name(name)) == "name"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, None),
        ({"budgets": (Budget(nanos=Nanos(0)), Budget(window=Window.DAY, tokens=5))}, None),
        ({"group": "nobody"}, "group"),
        ({"name": "sk-tk-laptop"}, "name"),
        ({"budgets": (Budget(),)}, "budgets"),
        ({"budgets": (Budget(nanos=Nanos(1)), Budget(tokens=1))}, "budgets"),
        ({"budgets": (Budget(nanos=Nanos(-1)),)}, "budgets"),
        ({"limits": Limits(rpm=0)}, "limits"),
        ({"limits": Limits(concurrent=-1)}, "limits"),
        ({"limits": Limits(streams=0)}, "limits"),
        ({"limits": Limits(streams=1, queue=0, queue_s=0)}, None),
        ({"limits": Limits(queue=-1)}, "limits"),
        ({"limits": Limits(queue_s=600)}, None),
        ({"limits": Limits(queue_s=601)}, "limits"),
        ({"hold_output": 10**9}, None),
        ({"hold_output": 10**9 + 1}, "hold_output"),
        ({"hold_output": -1}, "hold_output"),
        ({"models": ("",)}, "models"),
        ({"models": ("gpt-*", "a\x00b")}, "models"),
        ({"note": "two\nlines"}, "note"),
    ],
)
def test_an_invalid_token_names_the_field_at_fault(more: dict[str, object], field: str | None) -> None:
    assert fault(lambda: validation.check_entity("tokens", token(**more), REGISTRY)) == field


def test_a_missing_group_is_reported_with_those_there_are() -> None:
    error = refusal_of(validation.check_entity, "tokens", token(group="hoem"), REGISTRY)
    assert error.message.endswith("the groups are: default, home; 'tollkeeper group add' adds one")


def test_a_factor_out_of_range_is_reported_with_its_unit() -> None:
    error = refusal_of(validation.check_entity, "groups", Group(name="g", multiplier=10**10), REGISTRY)
    bounds = "it must be from 0 to 1000000000, in parts per million; 1000000 means times 1"
    assert error.message == f"multiplier: 10000000000 is out of range; {bounds}"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, None),
        ({"multiplier": 0}, None),
        ({"multiplier": -1}, "multiplier"),
        ({"multiplier": 10**10}, "multiplier"),
        ({"name": ""}, "name"),
    ],
)
def test_an_invalid_group_names_the_field_at_fault(more: dict[str, object], field: str | None) -> None:
    group = Group(**{"name": "g"} | more)  # type: ignore[arg-type]
    assert fault(lambda: validation.check_entity("groups", group, REGISTRY)) == field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, None),
        ({"groups": ()}, None),
        ({"key": "sk-abc", "headers": {"X-Org": "env:ORG"}, "models": (ServedModel(name="org/m:1"),)}, None),
        ({"dialect": Dialect.MOCK, "base_url": ""}, None),
        ({"dialect": Dialect.MOCK}, "base_url"),
        ({"base_url": ""}, "base_url"),
        ({"base_url": "http://169.254.169.254"}, "base_url"),
        ({"groups": ("default", "nobody")}, "groups"),
        ({"groups": ("home", "home")}, "groups"),
        ({"models": (ServedModel(name="a"), ServedModel(name="a"))}, "models"),
        ({"models": (ServedModel(name="a", upstream="b\x07"),)}, "models"),
        ({"weight": -1}, "weight"),
        ({"cost_factor": 10**9 + 1}, "cost_factor"),
        ({"key": "two\nlines"}, "key"),
        ({"key": "env:"}, "key"),
        ({"key": "env:A B"}, "key"),
        ({"key": " sk"}, "key"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"headers": {"Authorization": "x"}}, "headers"),
        ({"headers": {"Proxy-Authorization": "x"}}, "headers"),
        ({"overrides": Overrides(set={"model": "x"})}, "overrides"),
        ({"overrides": Overrides(system="Be brief.")}, None),
        ({"proxy": "http://me:pw@h:3128"}, None),
        ({"proxy": "env:PROXY"}, None),
        ({"proxy": "socks5://h:1"}, "proxy"),
        ({"dialect": Dialect.MOCK, "base_url": "", "options": {"latency": 5}}, None),
        ({"dialect": Dialect.MOCK, "base_url": "", "options": {"nope": 5}}, "options"),
        ({"options": {"latency": 5}}, "options"),
        ({"proxy": "http://h:1", "dialect": Dialect.MOCK, "base_url": ""}, "proxy"),
        ({"headers": {"bad name": "x"}}, "headers"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        ({"headers": {"X": "a\r\nY: b"}}, "headers"),
        ({"timeouts": Timeouts(connect=0)}, "timeouts"),
        ({"timeouts": Timeouts(total=float("inf"))}, "timeouts"),
        ({"limits": Limits(queue_s=5)}, None),
        ({"limits": Limits(streams=5)}, "limits"),
    ],
)
def test_an_invalid_channel_names_the_field_at_fault(more: dict[str, object], field: str | None) -> None:
    assert fault(lambda: validation.check_entity("channels", channel(**more), REGISTRY)) == field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, None),
        ({"input": 0, "output": 0}, None),
        ({"input": -1}, "input"),
        ({"cached_input": -1}, "cached_input"),
        ({"per_call": -1}, "per_call"),
        ({"model": " m"}, "model"),
        (
            {"tiers": (Tier(above=5, input=Nanos(1), output=Nanos(1)), Tier(above=9, input=Nanos(1), output=Nanos(1)))},
            None,
        ),
        ({"tiers": (Tier(above=5, input=Nanos(1), output=Nanos(1)),) * 2}, "tiers"),
        ({"tiers": (Tier(above=5, input=Nanos(-1), output=Nanos(1)),)}, "tiers"),
        ({"rules": (PriceRule(variant="flex", input=Nanos(-1), output=Nanos(1)),)}, "rules"),
    ],
)
def test_an_invalid_price_names_the_field_at_fault(more: dict[str, object], field: str | None) -> None:
    assert fault(lambda: validation.check_price(price(**more))) == field


def test_hours_that_begin_after_their_day_are_told_when_to_begin() -> None:
    hours = (PriceHours(start=24 * 60, end=60, days=("mon",)),)
    rule = PriceRule(during=hours, input=Nanos(1), output=Nanos(1))
    with pytest.raises(BadRequest, match=r"^during: 'mon 24:00-01:00 UTC' must begin before 24:00, on a day$"):
        validation.check_price(price(rules=(rule,)))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (
            {
                "hosts": ("gateway.lan", "[::1]", "10.0.0.1"),
                "origins": (
                    "https://a.example",
                    "http://localhost:3000",
                    "app://obsidian.md",
                    "null",
                    "http://[::1]:80",
                ),
            },
            None,
        ),
        ({"hosts": ("gateway.lan:8655",)}, None),
        ({"hosts": ("https://x",)}, "hosts"),
        ({"hosts": ("",)}, "hosts"),
        ({"origins": ("*",)}, "origins"),
        ({"origins": ("https://a.example/",)}, "origins"),
        ({"origins": ("https://",)}, "origins"),
        ({"origins": ("http://[",)}, "origins"),
        ({"origins": ("app://a/b",)}, "origins"),
        ({"origins": ("NULL",)}, "origins"),
        ({"origins": ("a,b",)}, "origins"),
        ({"keep_days": 0}, "keep_days"),
    ],
)
def test_invalid_settings_name_the_field_at_fault(more: dict[str, object], field: str | None) -> None:
    settings = Settings(**more)  # type: ignore[arg-type]
    assert fault(lambda: validation.check_entity("settings", settings, REGISTRY)) == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

TABLES: dict[Table, tuple[msgspec.Struct, dict[str, Any]]] = {
    "account": (Account(), types_of(AccountFields)),
    "settings": (Settings(), types_of(Settings)),
    "tokens": (token(), types_of(TokenFields)),
    "groups": (Group(name="g"), types_of(GroupFields)),
    "channels": (channel(), types_of(ChannelFields)),
    "prices": (price(), prices.EDITABLE),
}


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=amount(25, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_body_is_accepted_whole_or_refused_with_its_field(table: Table, data: st.DataObject) -> None:
    """Values are of any kind, or those of a good entity: what is accepted can be written and read again."""
    entity, editable = TABLES[table]
    good = msgspec.to_builtins(entity)
    fields = {name: JSON | st.just(good.get(name)) for name in editable}
    body = data.draw(st.fixed_dictionaries({}, optional=fields))
    text = msgspec.json.encode(body)
    field = fault(lambda: validation.check_entity(table, patch(entity, text, editable), REGISTRY))
    if field is None:
        changed = patch(entity, text, editable)
        assert msgspec.json.decode(msgspec.json.encode(changed), type=type(entity)) == changed
    else:
        assert field.partition(".")[0].partition("[")[0] in editable
