import tomllib

import msgspec
import pytest

from gateway.core.config_export import entity_table, export_text, hide_secrets, notes, restore_secrets, secret_variables
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.config_codec import INNER, SECTIONS, Section
from gateway.domain.registry import KINDS
from gateway.domain.settings import Settings
from tests.core import kit
from tests.core.kit import channel
from tests.domain.samples import whole


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_every_field_that_can_be_set_is_exported(section: Section) -> None:
    """Also one that was added today, unless it is marked as this home's own."""
    entity = whole(KINDS[section.name][0])
    if isinstance(entity, Channel):
        entity = msgspec.structs.replace(entity, models=(ServedModel(name="named by the owner"),))
    assert len(entity_table(entity, section)) == len(KINDS[section.name][0].__struct_fields__) - len(
        {section.title, *section.omit} - {""}
    )


def test_no_secret_is_exported() -> None:
    channel = kit.channel(
        "up",
        key="sk-canary-1",
        keys=("sk-canary-2",),
        headers={"Authorization": "sk-canary-3"},
        proxy="http://a:canary@b:1",
    )
    text = export_text(kit.registry(channel, tokens=(kit.token("laptop", digest="canary", hint="sk-tk-canary…1"),)))
    assert "canary" not in text


def test_things_are_sorted_whatever_their_order_was() -> None:
    channels = [kit.channel(name) for name in ("b", "a", "c")]
    texts = {export_text(kit.registry(*made)) for made in (channels, channels[::-1])}
    assert len(texts) == 1
    found = tomllib.loads(texts.pop())
    assert (found["format"], list(found["channels"])) == (1, ["a", "b", "c"])


def test_defaults_are_left_out_but_an_entry_without_fields_is_there() -> None:
    found = tomllib.loads(export_text(kit.registry()))
    assert set(found) == {"format", "groups", "prices"}
    assert found["groups"] == {"home": {}}
    assert tomllib.loads(export_text(kit.registry(settings=Settings(keep_days=5))))["settings"] == {"keep_days": 5}


def test_dates_and_results_are_this_home_s_own() -> None:
    channel = whole(Channel)
    assert INNER
    text = export_text(kit.registry(msgspec.structs.replace(channel, keys=(), headers={})))
    assert "created" not in text
    assert "last_check" not in text


def test_notes_say_what_another_home_needs() -> None:
    found = notes(kit.registry(kit.channel("up"), kit.channel("local", key=""), tokens=(kit.token(),)))
    assert found == [
        "channel 'up': set TOLLKEEPER_KEY_UP where another home reads this file",
        "tokens are without their keys: another home makes new ones",
    ]


def test_models_that_patterns_let_in_are_not_named() -> None:
    models = (ServedModel(name="mine", context=5), ServedModel(name="theirs", live=True))
    channel = msgspec.structs.replace(kit.channel("up"), models=models, patterns=("the*",))
    found = tomllib.loads(export_text(kit.registry(channel)))["channels"]["up"]
    assert (found["models"], found["patterns"]) == ([{"name": "mine", "context": 5}], ["the*"])


def with_secrets(name: str = "openai") -> Channel:
    return channel(
        name,
        key="sk-first",
        keys=("env:MINE", "sk-third"),
        proxy="http://me:secret@proxy:3128",
        headers={"X-Auth": "secret", "X-Title": "open", "X-Ref": "env:OTHER"},
    )


def test_secrets_become_references_and_nothing_else_changes() -> None:
    found = hide_secrets(with_secrets())
    assert found.all_keys == ("env:TOLLKEEPER_KEY_OPENAI", "env:MINE", "env:TOLLKEEPER_KEY_OPENAI__3")
    assert found.headers["X-Title"] == "open"
    assert found.headers["X-Ref"] == "env:OTHER"
    assert found.headers["X-Auth"].startswith("env:TOLLKEEPER_KEY_OPENAI__X_AUTH_")
    assert not any(
        "sk-" in text or "secret" in text for text in (*found.all_keys, *found.headers.values(), found.proxy)
    )


def test_a_proxy_without_a_password_is_not_a_secret() -> None:
    assert hide_secrets(channel(proxy="http://proxy:3128")).proxy == "http://proxy:3128"


def test_the_variables_are_reported() -> None:
    assert len(secret_variables(with_secrets())) == 4
    assert secret_variables(channel("local", key="")) == []


def test_the_same_home_has_its_secrets_back() -> None:
    own = with_secrets()
    assert restore_secrets(hide_secrets(own), own) == own


def test_another_home_keeps_the_references() -> None:
    shown = hide_secrets(with_secrets())
    assert restore_secrets(shown, channel("openai", key="sk-another")).all_keys == ("sk-another", *shown.keys)
    assert restore_secrets(shown, channel("openai", key="")) == shown
    assert hide_secrets(shown) == shown


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b", "a-b"), ("a_b", "a-b"), ("a-2", "a"), ("A", "a"), ("ä", "ö"), ("a_2", "a"), ("a" * 50, "a" * 51)],
)
def test_no_two_secrets_have_the_same_variable(one: str, other: str) -> None:
    names = [name for up in (one, other) for name in secret_variables(channel(up, key="sk-1", keys=("sk-2", "sk-3")))]
    assert len(set(names)) == 6
    assert all(name.replace("_", "").isalnum() and name.isascii() and name.isupper() for name in names)
