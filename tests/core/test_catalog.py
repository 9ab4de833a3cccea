"""What each token sees, and where it leads."""

from typing import Any

import pytest

from gateway.core.catalog import Catalog
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import NotFound
from gateway.domain.group import Group
from gateway.domain.units import Millis
from tests.core.clocks import NOON
from tests.core.kit import PRICE, catalog, channel, registry, token


def seen(found: Catalog, **fields: Any) -> list[str]:
    return list(found.visible(token(**fields)))


def test_a_token_sees_what_the_channels_of_its_group_serve() -> None:
    found = catalog(channel("a", "z", "m", groups=("home",)), channel("b", "n", groups=("work",)))
    assert seen(found) == ["m", "z"]


def test_several_groups_may_share_a_channel() -> None:
    groups = (Group(name="home"), Group(name="work"))
    found = catalog(channel("a", "m", groups=("home", "work")), groups=groups)
    assert [seen(found), seen(found, group="work")] == [["m"], ["m"]]


def test_channels_that_are_off_are_not_seen() -> None:
    assert seen(catalog(channel("a", groups=("home",), enabled=False))) == []


def test_the_groups_patterns_and_the_tokens_both_hold() -> None:
    models = ("gpt-4", "gpt-5", "claude")
    found = catalog(channel("a", *models, groups=("home",)), groups=(Group(name="home", models=("gpt-*",)),))
    assert seen(found) == ["gpt-4", "gpt-5"]
    assert seen(found, models=("*5", "claude")) == ["gpt-5"]


def test_an_unknown_group_sees_nothing() -> None:
    assert seen(catalog(channel()), group="nowhere") == []


def test_routes_are_in_routing_order() -> None:
    channels = [channel(name, groups=("home",), priority=p) for name, p in (("c", 0), ("b", 5), ("a", 0))]
    entry = catalog(*channels).visible(token())["m"]
    assert [r.channel.name for r in entry.routes] == ["b", "a", "c"]
    assert entry.owner == "b"


def test_an_entry_knows_since_when_and_how_long_a_context() -> None:
    def serving(name: str, created: int, context: int | None, made: int = 9) -> Channel:
        served = ServedModel(name="m", created=Millis(created), context=context)
        return channel(name, models=(served,), groups=("home",), created=Millis(made))

    entry = catalog(serving("a", 50, None), serving("b", 40, 8192), serving("c", 0, 4, made=45)).visible(token())["m"]
    assert (entry.created, entry.context) == (40, 8192)


def test_tokens_are_found_by_id_name_and_digest() -> None:
    one = token("laptop")
    found = catalog(tokens=(one, token("phone")))
    assert [found.token("laptop"), found.token("tok_laptop"), found.token_by_digest("digest of laptop")] == [one] * 3
    assert found.token_by_digest("other") is None


@pytest.mark.parametrize("noun", ["token", "channel", "group"])
def test_what_is_missing_is_reported_with_what_is_there(noun: str) -> None:
    found = catalog(channel("here"), tokens=(token("here"),), groups=(Group(name="here"),))
    with pytest.raises(NotFound, match=f"no {noun} 'gone'; there are: here$") as caught:
        getattr(found, noun)("gone")
    assert caught.value.param == noun


def test_an_id_that_a_console_still_shows_is_reported_as_gone() -> None:
    """The form of a token that was removed elsewhere sends its id, which its owner never typed."""
    with pytest.raises(NotFound, match=r"no token has the id 'tok_0123456789abcdef'; there are: here$"):
        catalog(tokens=(token("here"),)).token("tok_0123456789abcdef")


def test_similar_names_come_first_without_those_of_ended_programs() -> None:
    names = [f"bot-{number:02}" for number in range(25)]
    programs = [token(f"a-proj-{number}", temporary=True) for number in range(30)]
    found = catalog(tokens=(*map(token, (*names, "zz-laptop")), *programs))
    with pytest.raises(NotFound, match=r"there are: zz-laptop, bot-00, bot-01.* bot-18 and 6 more$"):
        found.token("laptop")


def test_the_token_of_a_program_is_named_if_its_name_is_near() -> None:
    found = catalog(tokens=(token("ci"), token("nice-owui-b2f358", temporary=True), token("other", temporary=True)))
    with pytest.raises(NotFound, match=r"there are: nice-owui-b2f358, ci$"):
        found.token("nice-owui-")


def test_nothing_there_is_reported_as_well() -> None:
    with pytest.raises(NotFound, match="none yet"):
        catalog().channel("x")


def test_prices_are_by_public_name() -> None:
    found = catalog()
    assert (found.price("m"), found.price("n")) == (PRICE, None)


def test_a_new_configuration_does_not_touch_the_old_lookups() -> None:
    old = catalog(channel("a", groups=("home",)))
    Catalog(registry(), NOON)
    assert seen(old) == ["m"]


def test_a_model_is_narrowed_to_an_api_once_for_the_same_routes() -> None:
    found = catalog(channel("a", "m", groups=("home",)), channel("b", "m", groups=("home",)))
    entry = found.visible(token())["m"]
    first, second = entry.routes
    alone = found.narrow(entry, "embeddings", [first])
    assert [(route.channel.name, route.api) for route in alone.routes] == [("a", "embeddings")]
    assert found.narrow(entry, "embeddings", [first]) is alone
    assert found.narrow(entry, "embeddings", [second]).routes[0].channel.name == "b"
    assert found.narrow(entry, "completions", [first]).routes[0].api == "completions"
