import tomllib

import msgspec
import pytest

from gateway.core.config_export import export_text, form, notes
from gateway.domain.channel import Channel, Served
from gateway.domain.config_codec import INNER, SECTIONS, Section
from gateway.domain.settings import Settings
from tests.core import kit
from tests.domain.samples import whole


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_every_field_that_can_be_set_is_exported(section: Section) -> None:
    """Also one that was added today, unless it is said to be this home's own."""
    entity = whole(section.kind)
    if isinstance(entity, Channel):
        entity = msgspec.structs.replace(entity, models=(Served(name="named by the owner"),))
    assert len(form(entity, section)) == len(section.kind.__struct_fields__) - len(
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


def test_what_is_as_it_comes_is_not_there_but_a_thing_without_a_word_is() -> None:
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


def test_what_to_do_elsewhere_is_told() -> None:
    found = notes(kit.registry(kit.channel("up"), kit.channel("local", key=""), tokens=(kit.token(),)))
    assert found == [
        "channel 'up': set TOLLKEEPER_KEY_UP where another home reads this file",
        "tokens are without their keys: another home makes new ones",
    ]


def test_models_that_patterns_let_in_are_not_named() -> None:
    models = (Served(name="mine", context=5), Served(name="theirs", live=True))
    channel = msgspec.structs.replace(kit.channel("up"), models=models, patterns=("the*",))
    found = tomllib.loads(export_text(kit.registry(channel)))["channels"]["up"]
    assert (found["models"], found["patterns"]) == ([{"name": "mine", "context": 5}], ["the*"])
