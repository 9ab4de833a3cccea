"""The configuration changes as a whole or not at all, and is never made up."""

from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB, where

from gateway.domain.account import Account, AccountStatus, Grant
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Channel, Dialect, ServedModel, UpstreamModels
from gateway.domain.errors import BadRequest, InternalError, Unavailable
from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.price import Price, Tier
from gateway.domain.registry import Change, Entity, Registry, RetiredKey
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, Nanos
from gateway.store import files
from gateway.store.entities import Entities
from gateway.store.errors import StoreDamaged, StoreError
from tests.store.samples import token

CHANNEL = Channel(
    id=ChannelId("ch_1"),
    name="up",
    dialect=Dialect.OPENAI,
    models=(ServedModel(name="m", upstream="m-1"),),
    headers={"a": "b"},
)
TOKEN = Token(
    id=token(1),
    name="laptop",
    group="default",
    digest="0" * 64,
    hint="sk-tk-…",
    budgets=(Budget(window=Window.DAY, nanos=Nanos(5)),),
    limits=Limits(rpm=3),
)
PRICE = Price(
    model="m", input=Nanos(1), output=Nanos(2), tiers=(Tier(above=5, input=Nanos(3), output=Nanos(4)),), source="ü"
)
ALL: list[Change] = [
    Change("account", "", Account(status=AccountStatus.SUSPENDED)),
    Change("settings", "", Settings(keep_days=9)),
    Change("tokens", "tok_1", TOKEN),
    Change("groups", "default", Group(name="default")),
    Change("channels", "ch_1", CHANNEL),
    Change("prices", "m", PRICE),
    Change(
        "lists",
        "ch_1",
        UpstreamModels(channel=ChannelId("ch_1"), time=Millis(5), models=(ServedModel(name="m"),), new=("m",)),
    ),
    Change(
        "retired", "d1", RetiredKey(digest="d1", hint="a…b", noun="token", owner="tok_1", name="a", since=Millis(1))
    ),
    Change("grants", "g1", Grant(id="g1", nanos=Nanos(10**15), time=Millis(1))),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


@pytest.fixture
def entities(path: Path) -> Entities:
    return Entities(path)


def test_a_new_configuration_has_its_defaults_and_a_file(entities: Entities, path: Path) -> None:
    assert (entities.registry.account, entities.registry.settings, entities.granted) == (Account(), Settings(), 0)
    assert path.exists()


def test_everything_comes_back_as_it_was_put(entities: Entities, path: Path) -> None:
    entities.apply(ALL)
    told = list[str]()
    again = Entities(path, report=told.append)
    assert again.registry == entities.registry
    assert (again.registry.tokens, again.granted, told) == ({"tok_1": TOKEN}, 10**15, [])


def test_stock_tinydb_reads_it(path: Path) -> None:
    Entities(path).apply(ALL)
    with TinyDB(path, access_mode="r") as stock:
        assert stock.tables() == {"meta", *(change.table for change in ALL)}
        found: Any = stock.table("tokens").get(where("name") == "laptop")
        assert (found["limits"], found.doc_id) == ({"rpm": 3}, 1)


def test_the_last_of_several_changes_of_one_entity_counts(entities: Entities, path: Path) -> None:
    entities.apply(ALL)
    entities.apply([Change("groups", "default", None), Change("groups", "default", Group(name="default", note="x"))])
    assert entities.registry.groups == {"default": Group(name="default", note="x")}
    assert Entities(path).registry == entities.registry


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("tokens", "tok_2", TOKEN),
        ("tokens", "tok_1", CHANNEL),
        ("account", "x", Account()),
        ("account", "", None),
        ("settings", "", None),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(path: Path, table: Any, key: str, value: Entity | None) -> None:
    entities = Entities(path)
    before = entities.registry
    with pytest.raises(InternalError):
        entities.apply([ALL[3], Change(table, key, value)])
    assert (entities.registry, Entities(path).registry) == (before, before)


def test_a_disk_that_refuses_changes_nothing(entities: Entities, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = entities.registry
    monkeypatch.setattr(files, "replace", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(Unavailable, match="full"):
        entities.apply(ALL)
    assert entities.registry is before


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    path.write_text('{"meta":{"1":{"format":99}},"future":{}}')
    with pytest.raises(StoreError, match="format 99"):
        Entities(path)
    assert "future" in path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "\x00" * 100,
        "{}",
        '{"meta":{"1":{"format":"2"}}}',
        '{"meta":{"1":{"format":1}}}',
        '{"meta":{"1":{}}}',
        '{"meta":[]}',
        '{"meta":{"1":{"format":2}},"tokens":{"1":{"id":"x"}}}',
        '{"meta":{"1":{"format":2}},"tokens":{"x":{}}}',
        '{"meta":{"1":{"format":2}},"grants":{"1":{"id":"g","nanos":1.5,"time":1}}}',
        '{"meta":{"1":{"format":2}},"groups":{"1":{"name":"a"},"2":{"name":"a"}}}',
        '{"meta":{"1":{"format":2}},"groups":{"1":[]}}',
        '{"meta":{"1":{"format":2}},"grantr":{"1":{"id":"g","nanos":5,"time":1}}}',
    ],
)
def test_a_damaged_configuration_is_refused_and_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StoreDamaged, match=r"cannot be used.*restore config\.json from a backup") as caught:
        Entities(path)
    assert path.read_text() == text
    assert caught.value.message.count(str(path)) == 1


def test_a_configuration_cut_anywhere_is_refused_with_the_way_back(entities: Entities, path: Path) -> None:
    entities.apply(ALL[:4])
    entities.apply(ALL[4:])
    data = path.read_bytes()
    for end in range(len(data) - 2):
        path.write_bytes(data[:end])
        with pytest.raises(StoreDamaged, match=r"config\.old\.json is the version before the last change"):
            Entities(path)
    path.write_bytes(path.with_name("config.old.json").read_bytes())
    assert Entities(path).registry.tokens == {"tok_1": TOKEN}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_either_read_or_refused_with_the_one_error(path: Path, bit: int) -> None:
    Entities(path).apply(ALL)
    data = path.read_bytes()
    refused: list[str] = []
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        try:
            Entities(path)
        except StoreError as exc:
            refused.append(exc.message)
    assert len(refused) > (len(data) - 10 if bit == 7 else 30)
    assert [message for message in refused if not message.startswith(str(path))] == []


def test_a_configuration_that_must_be_there_is_missed(path: Path) -> None:
    with pytest.raises(StoreDamaged, match="it is missing"):
        Entities(path, expected=True)
    assert not path.exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"time":5', '"time":9000000000000000', "lists 1: Expected `int` <= 253402300799999"),
        ('"day"', '"' + "x" * 5000 + '"', "Invalid enum value 'xxxx"),
        (
            '"prices":{\n"1":',
            '"prices":{\n"\\u001b[31m\\u202e":1,"1":',
            "prices \ufffd[31m\ufffd: Expected `object`, got `int`",
        ),
    ],
)
def test_an_edited_value_that_cannot_be_used_is_named_in_plain_text(path: Path, old: str, new: str, why: str) -> None:
    Entities(path).apply(ALL)
    text = path.read_text()
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StoreDamaged) as caught:
        Entities(path)
    assert why in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 600


def test_an_edited_configuration_is_checked_and_left_as_it_is(path: Path) -> None:
    def check(registry: Registry) -> None:
        if registry.tokens[token(1)].name == "phone":
            raise BadRequest("tokens.phone: no")

    Entities(path, check=check).apply(ALL)
    edited = path.read_bytes().replace(b'"laptop"', b'"phone"')
    path.write_bytes(edited)
    message = r"config\.json cannot be used: tokens\.phone: no; correct it there\. Nothing"
    with pytest.raises(StoreDamaged, match=message):
        Entities(path, check=check)
    assert path.read_bytes() == edited
    assert not list(path.parent.glob("*.changed"))


def test_a_change_by_another_program_is_adopted_and_noticed(entities: Entities, path: Path) -> None:
    entities.apply(ALL)
    path.write_bytes(path.read_bytes().replace(b'"nanos":1000000000000000', b'"nanos":1000000000000001'))
    left = path.read_bytes()
    told = list[str]()
    again = Entities(path, moment=7, report=told.append)
    changed = f"{path} was changed by another program; the changes are used"
    assert (told, again.granted) == ([f"{changed}, the file as it was found is config.json.7.changed"], 10**15 + 1)
    assert path.with_name("config.json.7.changed").read_bytes() == left
    once = Entities(path, report=told.append)
    assert (len(told), once.registry) == (1, again.registry)


def test_an_edit_while_the_store_is_open_is_copied_before_it_is_replaced(path: Path) -> None:
    told = list[str]()
    entities = Entities(path, moment=7, report=told.append)
    entities.apply(ALL)
    assert told == []
    edited = path.read_bytes().replace(b'"laptop"', b'"phone"')
    path.write_bytes(edited)
    entities.apply([Change("settings", "", Settings(keep_days=30))])
    entities.apply([Change("settings", "", Settings(keep_days=31))])
    copy = path.with_name("config.json.7.changed")
    assert [copy] == list(path.parent.glob("*.changed"))
    assert copy.read_bytes() == edited
    assert told == [f"{path} was changed while this gateway ran, and is not used; a copy is config.json.7.changed"]
    assert b'"laptop"' in path.read_bytes()


def test_another_programs_change_is_adopted_though_it_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Entities(path).apply(ALL)
    path.write_bytes(path.read_bytes().replace(b'"nanos":1000000000000000', b'"nanos":1000000000000001'))
    told = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
        full = Entities(path, report=told.append)
    changed = f"{path} was changed by another program; the changes are used"
    assert (told, full.granted) == ([changed], 10**15 + 1)
    Entities(path, moment=7, report=told.append)
    assert told[1:] == [f"{changed}, the file as it was found is config.json.7.changed"]
