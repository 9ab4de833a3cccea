"""A document is followed wholly or not at all, and following it twice changes nothing."""

import random
import tomllib
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.control.config_import import ImportPlan
from gateway.core.config_export import export_text
from gateway.core.offered_models import offered_models
from gateway.domain.account import Account
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Check, Dialect, ServedModel, Timeouts, TokenLimitField, UpstreamModels
from gateway.domain.config_views import FieldDifference
from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.price import Price, Tier
from gateway.domain.registry import Registry
from gateway.domain.settings import Durability, Settings
from gateway.domain.units import Millis, Nanos
from tests.core import kit
from tests.house import amount
from tests.refusals import refusal_of

NOW = Millis(1_795_000_000_000)
OWN = kit.registry(kit.channel("up", "m", groups=("home",)), tokens=(kit.token(),))


def followed(text: str, registry: Registry = OWN, *, prune: bool = False) -> ImportPlan:
    plan = ImportPlan(registry, NOW)
    plan.add_document(tomllib.loads(text), prune=prune)
    return plan


def told(plan: ImportPlan) -> list[tuple[str, str, str]]:
    return [(d.action, d.noun, d.name) for d in plan.differences()]


@pytest.mark.parametrize("seed", range(amount(15, 60)))
def test_what_was_exported_is_imported_as_it_was(seed: int) -> None:
    """Onto itself nothing changes; another home becomes the same, byte by byte, with prune."""
    chance = random.Random(seed)
    one, other = _some(chance), _some(chance)
    text = export_text(one)
    assert (followed(text, one, prune=True).changes, followed(text, one, prune=True).differences()) == ([], [])
    plan = followed(text, other, prune=True)
    assert export_text(plan.registry) == text
    assert followed(text, plan.registry, prune=True).changes == []
    merged = followed(text, other)
    assert followed(text, merged.registry).changes == []
    assert all(d.action == "kept" for d in followed(text, merged.registry).differences())


@pytest.mark.parametrize("prune", [True, False])
def test_a_new_group_may_have_the_id_of_one_that_is_removed(*, prune: bool) -> None:
    renamed = kit.registry(groups=(Group(id="new", name="other"), Group(name="home")), prices=())
    plan = followed("format = 1\n[groups.new]\n[groups.home]\n", renamed, prune=prune)
    assert (plan.registry.groups["new"].id == "new") is prune


def test_ended_tokens_of_programs_are_removed_with_their_group_only() -> None:
    ended = replace(kit.token("ended"), group="home", temporary=True, expires=Millis(NOW - 1))
    registry = replace(OWN, tokens={**OWN.tokens, ended.id: ended})
    assert told(followed(export_text(registry), registry, prune=True)) == []
    without = export_text(registry).replace("home", "other")
    assert ("removed", "token", ended.name) in told(followed(without, registry, prune=True))


def test_what_is_added_and_changed_is_reported_by_field() -> None:
    text = """
        format = 1
        [groups.work]
        [channels.up]
        dialect = "openai"
        base_url = "https://up.example/v1"
        key = "env:TOLLKEEPER_KEY_UP"
        models = ["m", { name = "fast", upstream = "m-mini" }]
        groups = ["home", "work"]
    """
    plan = followed(text)
    assert told(plan) == [
        ("added", "group", "work"),
        ("changed", "channel", "up"),
        ("kept", "group", "home"),
        ("kept", "token", "laptop"),
        ("kept", "price", "m"),
    ]
    assert plan.differences()[1].fields == [
        FieldDifference(field="models", before="m", after="m, fast=m-mini"),
        FieldDifference(field="groups", before="home", after="home, work"),
    ]
    assert plan.registry.channels[kit.channel("up").id].key == "sk-upstream-canary"


def test_a_new_thing_without_a_word_has_no_fields_and_a_key_that_looks_the_same_is_reported() -> None:
    assert followed("format = 1\n[groups.new]").differences()[0].fields == []
    registry = kit.registry(kit.channel("up", groups=("home",), key="old"))
    plan = followed(export_text(registry).replace("env:TOLLKEEPER_KEY_UP", "new"), registry)
    assert plan.differences()[0].fields == [FieldDifference(field="keys", before="…", after="…")]


def test_missing_fields_get_their_default() -> None:
    registry = kit.registry(groups=(Group(name="home", multiplier=5, limits=Limits(rpm=5)),))
    plan = followed("format = 1\n[groups.home]", registry)
    assert plan.registry.groups["home"] == Group(name="home")
    assert [field.field for field in plan.differences()[0].fields] == ["multiplier", "limits"]


def test_things_that_are_there_keep_what_is_their_own() -> None:
    check = Check(time=NOW, ok=True, ms=Millis(5))
    channel = kit.channel("up", groups=("home",), created=Millis(7), last_check=check)
    registry = kit.registry(channel, tokens=(kit.token(created=Millis(9)),))
    text = (
        'format = 1\n[channels.up]\ndialect = "mock"\ngroups = ["home"]\n[tokens.laptop]\ngroup = "home"\nnote = "mine"'
    )
    after = followed(text, registry).registry
    changed = after.channels[channel.id]
    assert (changed.dialect, changed.created, changed.last_check) == (Dialect.MOCK, 7, check)
    token = after.tokens[kit.token().id]
    assert (token.note, token.digest, token.created) == ("mine", kit.token().digest, 9)


def test_a_new_token_gets_a_key_and_a_new_thing_a_date() -> None:
    plan = followed('format = 1\n[tokens.phone]\ngroup = "home"\n[prices.x]\ninput = "1"\noutput = "2"')
    (phone,) = [token for token in plan.registry.tokens.values() if token.name == "phone"]
    assert plan.keys["phone"].startswith("sk-tk-")
    assert phone.hint == f"{plan.keys['phone'][:10]}…{plan.keys['phone'][-4:]}"
    assert (phone.created, plan.registry.prices["x"].updated) == (NOW, NOW)
    # a dry run makes another key than the import after it
    assert [field.field for field in plan.differences()[0].fields] == ["group"]


def test_the_rates_of_a_free_price_are_reported() -> None:
    assert followed('format = 1\n[prices.x]\ninput = "0"\noutput = "0"').differences()[0].fields == [
        FieldDifference(field="input", before="", after="$0.00"),
        FieldDifference(field="output", before="", after="$0.00"),
    ]


def test_the_dialect_of_a_new_channel_is_reported_without_quotes() -> None:
    text = 'format = 1\n[channels.new]\ndialect = "anthropic"\nbase_url = "https://a.example"\ngroups = ["home"]'
    assert "anthropic" in [field.after for field in followed(text).differences()[0].fields]


def test_prune_removes_what_is_not_named() -> None:
    plan = followed('format = 1\n[groups.home]\n[tokens.laptop]\ngroup = "home"', prune=True)
    assert [found for found in told(plan) if found[0] == "removed"] == [
        ("removed", "channel", "up"),
        ("removed", "price", "m"),
    ]
    assert (plan.registry.channels, plan.registry.prices) == ({}, {})


def test_a_token_without_a_group_is_in_the_usual_one_and_a_preset_implies_the_dialect() -> None:
    plan = followed('format = 1\n[tokens.phone]\n[channels.c]\npreset = "anthropic"\ngroups = ["home"]')
    (phone,) = [token for token in plan.registry.tokens.values() if token.name == "phone"]
    (made,) = [channel for channel in plan.registry.channels.values() if channel.name == "c"]
    assert (phone.group, made.dialect) == ("home", Dialect.ANTHROPIC)


def test_a_key_that_is_written_out_is_taken_and_shown_masked() -> None:
    text = (
        'format = 1\n[channels.up]\ndialect = "mock"\ngroups = ["home"]\nmodels = ["m"]\nkey = "sk-a-new-canary-1234"'
    )
    plan = followed(text)
    assert plan.registry.channels[kit.channel("up").id].key == "sk-a-new-canary-1234"
    assert "canary" not in str(plan.differences())
    assert FieldDifference(field="keys", before="…nary", after="…1234") in plan.differences()[0].fields


LISTED = (ServedModel(name="m"), ServedModel(name="gpt-a"), ServedModel(name="gpt-b"), ServedModel(name="x"))


def live(registry: Registry) -> list[tuple[str, bool]]:
    return [(model.name, model.live) for channel in registry.channels.values() for model in channel.models]


def test_patterns_select_from_the_list_there_is_and_another_upstream_has_none() -> None:
    channel = kit.channel("up", groups=("home",))
    lists = {channel.id: UpstreamModels(channel=channel.id, time=NOW, models=LISTED)}
    registry = msgspec.structs.replace(kit.registry(channel), lists=lists)
    text = export_text(registry).replace("[channels.up]", '[channels.up]\npatterns = ["gpt-*"]')
    plan = followed(text, registry)
    assert live(plan.registry) == [("m", False), ("gpt-a", True), ("gpt-b", True)]
    assert export_text(plan.registry).count("gpt") == 1
    assert followed(export_text(plan.registry), plan.registry).changes == []
    moved = followed(text.replace("up.example", "other.example"), plan.registry).registry
    assert (live(moved), moved.lists) == ([("m", False)], {})


def test_models_of_a_pattern_keep_the_date_since_when_they_are_offered() -> None:
    """Gemini's list has no dates, so they have that of their arrival: an import of the same text changes nothing."""
    channel = kit.channel("up", groups=("home",))
    listed = UpstreamModels(channel=channel.id, time=NOW, models=LISTED)
    channel = offered_models(msgspec.structs.replace(channel, patterns=("*",)), LISTED, Millis(NOW - 60_000))
    registry = msgspec.structs.replace(kit.registry(channel), lists={channel.id: listed})
    assert followed(export_text(registry), registry).changes == []


def test_patterns_that_stand_among_the_models_go_where_they_belong() -> None:
    text = f'format = 1\n{CHANNEL}models = ["m", "gpt-*"]'
    plan = followed(text)
    (made,) = [channel for channel in plan.registry.channels.values() if channel.name == "c"]
    assert ([model.name for model in made.models], made.patterns) == (["m"], ("gpt-*",))
    assert followed(text, plan.registry).changes == []


def test_the_list_of_a_channel_goes_with_it() -> None:
    channel = kit.channel("up", groups=("home",))
    lists = {channel.id: UpstreamModels(channel=channel.id, time=NOW)}
    registry = msgspec.structs.replace(kit.registry(channel), lists=lists)
    assert followed("format = 1\n[groups.home]", registry, prune=True).registry.lists == {}


CHANNEL = '[channels.c]\ndialect = "openai"\nbase_url = "https://x.example/v1"\ngroups = ["home"]\n'
TOKEN = '[tokens.t]\ngroup = "home"\n'
BAD = {
    "": "format: must be 1",
    "format = 2": "format: must be 1",
    'format = "1"': "format: must be 1",
    "format = true": "format: must be 1",
    "format = 1.5": "format: must be 1",
    "format = 1\nchanels = 5": "chanels: is not a section; the sections are: settings",
    "format = 1\n[grants.x]": "grants: is not a section",
    "format = 1\nchannels = 5": "channels: must be a table",
    "format = 1\nchannels = [1]": "channels: must be a table",
    "format = 1\n[channels]\nc = 5": "channels.c: must be a table",
    "format = 1\nsettings = true": "settings: must be a table",
    "format = 1\n[settings]\nkeep_day = 5": "settings.keep_day: is unknown",
    "format = 1\n[settings]\nkeep_days = 0": "settings.keep_days: 0 is out of range; it must be at least 1",
    'format = 1\n[settings]\nkeep_days = "5"': "settings.keep_days: Expected `int`",
    'format = 1\n[settings]\ndurability = "never"': "settings.durability: Invalid enum value",
    'format = 1\n[settings]\nhosts = ["a b"]': "settings.hosts: 'a b' is not a host name",
    'format = 1\n[settings]\norigins = ["x"]': "settings.origins: 'x' is not an origin",
    'format = 1\n[account]\nstatus = "rich"': "account.status: Invalid enum value",
    'format = 1\n[account]\nbudgets = [{ window = "day" }]': "account.budgets: the day budget has neither",
    'format = 1\n[account]\nbudgets = [{ dollars = "-5" }]': "account.budgets: must not be negative",
    "format = 1\n[account]\ncreated = 5": "account.created: is unknown",
    "format = 1\n[groups.g]\nmultiplier = 2": "groups.g.multiplier: must be a string in quotation marks",
    'format = 1\n[groups.g]\nmultiplier = "-2"': "groups.g.multiplier: '-2' is not a number such as 1.5",
    "format = 1\n[groups.g]\nlimits = { rpm = 0 }": "groups.g.limits: rpm must be above 0",
    "format = 1\n[groups.g]\nlimits = { rpm = -1 }": "groups.g.limits: rpm must be above 0",
    "format = 1\n[groups.g]\nlimits = { rps = 1 }": "groups.g.limits.rps: is unknown",
    'format = 1\n[groups." g"]': "groups. g.name: a name must not begin or end with a space",
    'format = 1\n[groups.""]': "groups..name: a name must have 1 to 64 characters",
    'format = 1\n[groups."a\\u001bb"]': "groups.a�b.name: a name must not contain control",
    'format = 1\n[groups.g]\nname = "h"': "groups.g.name: is unknown",
    "format = 1\n[groups.g]\nmodels = [1]": "groups.g.models[0]: Expected `str`",
    'format = 1\n[groups.g]\nmodels = [" m"]': "groups.g.models: the model name",
    f'format = 1\n[groups.g]\nnote = "{"x" * 501}"': "groups.g.note: must be one line",
    "format = 1\n[channels.c]": "channels.c.dialect: is missing",
    'format = 1\n[channels.c]\ndialect = "cobol"': "channels.c.dialect: Invalid enum value",
    'format = 1\n[channels.c]\ndialect = "openai"': "channels.c.base_url: a base URL is required",
    f"format = 1\n{CHANNEL}base_ur = 5": "channels.c.base_ur: is unknown",
    f"format = 1\n{CHANNEL}id = 'ch_x'": "channels.c.id: is unknown",
    f"format = 1\n{CHANNEL}key = ' a'": "channels.c.key: must be printable",
    f"format = 1\n{CHANNEL}key = 'env:'": "channels.c.key: 'env:' must be followed by",
    f"format = 1\n{CHANNEL}models = ['m', 'm']": "channels.c.models: 'm' is listed twice",
    f"format = 1\n{CHANNEL}models = [{{ upstream = 'm' }}]": "channels.c.models[0].name: is missing",
    f"format = 1\n{CHANNEL}models = [{{ name = 'm', live = true }}]": "channels.c.models[0].live: is unknown",
    f"format = 1\n{CHANNEL}models = [{{ name = 'm', prize = 1 }}]": "channels.c.models[0].prize: is unknown",
    f"format = 1\n{CHANNEL}priority = 1.5": "channels.c.priority: Expected `int`",
    f"format = 1\n{CHANNEL}priority = {10**19}": "channels.c.priority: must be from",
    f"format = 1\n{CHANNEL}weight = -1": "channels.c.weight: -1 is out of range",
    f"format = 1\n{CHANNEL}preset = 'nobody'": "channels.c.preset: unknown preset 'nobody'.",
    f"format = 1\n{CHANNEL}timeouts = {{ head = -1 }}": "channels.c.timeouts: head must be above 0",
    f"format = 1\n{CHANNEL}timeouts = {{ heat = 1 }}": "channels.c.timeouts.heat: is unknown",
    f"format = 1\n{CHANNEL}headers = {{ 'a b' = 'c' }}": "channels.c.headers: 'a b' is not a valid header name",
    f"format = 1\n{CHANNEL}headers = {{ Host = 'c' }}": "channels.c.headers: 'Host' is set by the gateway itself",
    f"format = 1\n{CHANNEL}strict = 'yes'": "channels.c.strict: Expected `bool`",
    'format = 1\n[channels.c]\ndialect = "mock"\ngroups = ["none"]': "channels.c.groups: no group 'none'",
    'format = 1\n[channels.c]\ndialect = "mock"\nbase_url = "http://x"': "channels.c.base_url: the mock dialect",
    'format = 1\n[channels.c]\ndialect = "mock"\ngroups = []\noptions = { nope = 1 }': "channels.c.options: 'nope'",
    'format = 1\n[channels.c]\ndialect = "openai"\nbase_url = "http://169.254.1.1"': "channels.c.base_url: base URL",
    'format = 1\n[channels.ch_up]\ndialect = "mock"\ngroups = ["home"]': "channels.ch_up.name: is the id of a channel",
    "format = 1\n[groups.a]\n[tokens.t]": "tokens.t.group: the field 'group' is missing; the groups are: a, home",
    'format = 1\n[tokens.t]\ngroup = "none"': "tokens.t.group: no group 'none'",
    f"format = 1\n{TOKEN}digest = 'x'": "tokens.t.digest: is unknown",
    f"format = 1\n{TOKEN}expires = 5": "tokens.t.expires: must be a string in quotation marks",
    f"format = 1\n{TOKEN}expires = 'soon'": "tokens.t.expires: 'soon' is not a time",
    f"format = 1\n{TOKEN}limits = {{ queue_s = 601 }}": "tokens.t.limits: queue_s must be at most 600 seconds",
    "format = 1\n[prices.m]\ninput = '1'": "prices.m.output: is missing",
    "format = 1\n[prices.m]\ninput = 1\noutput = '1'": "prices.m.input: must be a string in quotation marks",
    "format = 1\n[prices.m]\ninput = '-1'\noutput = '1'": "prices.m.input: must not be negative",
    "format = 1\n[prices.m]\ninput = '1e9'\noutput = '1'": "prices.m.input: '1e9' is not an amount",
    "format = 1\n[prices.m]\ninput = '1'\noutput = '1'\ntiers = [{ above = 1 }]": "prices.m.tiers[0].input: is missing",
    "format = 1\n[prices.m]\ninput = '1'\noutput = '1'\nupdated = '2026'": "prices.m.updated: is unknown",
}
"""Text, and how the message about it begins."""


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_bad_import_is_refused_with_its_place(text: str) -> None:
    error = refusal_of(followed, text)
    assert error.message.startswith(BAD[text]), error.message
    assert (error.code, "\x1b" in error.message) == ("bad_configuration", False)


def _some(chance: random.Random) -> Registry:
    """A configuration that the owner could have made."""
    groups = [
        Group(name=name, created=Millis(chance.randrange(9)), **_account(chance)) for name in _few(chance, "abé d")
    ]
    groups.append(
        Group(name="home", multiplier=chance.choice((10**6, 1_500_000, 1)), models=chance.choice(((), ("m*",))))
    )
    names = tuple(group.name for group in groups)
    return kit.registry(
        *(
            kit.channel(name, *_few(chance, ("m", "x=y", "a/b:c")), **_channel(chance, names))
            for name in _few(chance, ("up", "öl", "a b", "9"))
        ),
        tokens=tuple(
            kit.token(
                name,
                group=chance.choice(names),
                expires=chance.choice((None, Millis(chance.randrange(2 * 10**12)))),
                **_account(chance),
            )
            for name in _few(chance, ("laptop", "my phone", "x.y"))
        ),
        groups=tuple(groups),
        prices=tuple(_price(name, chance) for name in _few(chance, ("m", "a/b:c", "ünpriced"))),
        account=Account(stop_when_empty=chance.random() < 0.5, budgets=_account(chance)["budgets"]),
        settings=Settings(
            refuse_unpriced=chance.random() < 0.5,
            durability=chance.choice(tuple(Durability)),
            hosts=chance.choice(((), ("box.lan",), ("a", "b"))),
            keep_days=chance.choice((400, 5)),
        ),
    )


def _few(chance: random.Random, names: Any) -> list[str]:
    return [name.strip() or "z" for name in names if chance.random() < 0.6]


def _account(chance: random.Random) -> dict[str, Any]:
    windows = [window for window in Window if chance.random() < 0.4]
    amounts = (Nanos(1), Nanos(5_000_000_000), None)
    budgets = tuple(Budget(window=w, nanos=chance.choice(amounts), tokens=chance.randrange(9)) for w in windows)
    limits = Limits(rpm=chance.choice((None, 5)), tpd=chance.choice((None, 10**6)))
    return {"budgets": budgets, "limits": limits, "note": chance.choice(("", "a note"))}


def _channel(chance: random.Random, groups: tuple[str, ...]) -> dict[str, Any]:
    knobs: dict[str, Any] = {"cut": 1, "html": True, "latency": 1.5, "retry_after": "x\n\x1b"}
    mock = {"dialect": Dialect.MOCK, "base_url": "", "preset": "", "options": chance.choice(({}, knobs))}
    return {
        "base_url": chance.choice(("https://x.example/v1", "http://127.0.0.1:9")),
        "key": chance.choice(("", "sk-literal", "env:MINE")),
        "groups": tuple(group for group in groups if chance.random() < 0.7),
        "priority": chance.randrange(-2, 3),
        "weight": chance.randrange(3),
        "enabled": chance.random() < 0.8,
        "preset": chance.choice(("", "openai")),
        "timeouts": chance.choice((Timeouts(), Timeouts(head=5.5))),
        "headers": chance.choice(({}, {"X-B": "secret", "X-A": "env:X", "X-Title": "t"})),
        "token_limit_field": chance.choice((None, TokenLimitField.KEEP)),
        "created": Millis(chance.randrange(9)),
    } | (mock if chance.random() < 0.4 else {})


def _price(name: str, chance: random.Random) -> Price:
    tiers = (Tier(above=200_000, input=Nanos(5), output=Nanos(0), cache_write=Nanos(7)),)
    amounts = (Nanos(0), Nanos(1), Nanos(2_500_000_000))
    return Price(
        model=name,
        input=chance.choice(amounts),
        output=chance.choice(amounts),
        cached_input=chance.choice((None, *amounts)),
        tiers=chance.choice(((), tiers)),
        source=chance.choice(("manual", "demo")),
        updated=Millis(chance.randrange(9)),
    )


def test_an_option_is_imported_in_one_spelling() -> None:
    text = 'format = 1\n[channels.c]\ndialect = "mock"\ngroups = []\noptions = { no-usage = true }'
    made = next(c for c in followed(text).registry.channels.values() if c.name == "c")
    assert made.options == {"no_usage": True}
