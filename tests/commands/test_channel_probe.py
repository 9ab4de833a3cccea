"""Asking an upstream through its channel."""

from gateway.commands.channel_probe import merged
from gateway.commands.exits import Exit
from gateway.domain.channel import Check, Served
from gateway.domain.units import Millis
from gateway.domain.views import PresetView
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, NOW

GOOD = Check(time=NOW, ok=True, ms=Millis(85), text="2 models")
BAD = Check(time=NOW, ok=False, ms=Millis(85), text="401: key refused")
LISTED = [Served(name="gpt-4o", context=128_000), Served(name="gpt-4o-mini"), Served(name="o3")]


def test_presets_are_listed() -> None:
    known = PresetView(name="groq", dialect="openai", base_url="https://g/v1", key_variable="GROQ_API_KEY", local=False)
    ran = run("channel", "presets", control=Control({"GET /presets": [known]}))
    assert ran.out.splitlines()[1].split() == ["groq", "openai", "https://g/v1", "env:GROQ_API_KEY"]
    assert set(run("channel", "presets", "--json", control=Control({"GET /presets": [known]})).json[0]) == {
        *("name", "dialect", "base_url", "key_variable", "local")
    }


def test_a_good_test() -> None:
    ran = run("channel", "test", "openai", control=Control({"POST /channels/openai/test": GOOD}))
    assert (ran.code, ran.out) == (0, "ok after 85ms 2 models\n")


def test_a_bad_test_is_a_failure_of_the_upstream() -> None:
    ran = run("channel", "test", "openai", "--json", control=Control({"POST /channels/openai/test": BAD}))
    assert (ran.code, ran.json["ok"]) == (Exit.UPSTREAM, False)


def test_the_model_of_a_test_is_passed_on() -> None:
    control = Control({"POST /channels/openai/test": GOOD})
    run("channel", "test", "openai", "--model", "gpt-4o", control=control)
    assert control.bodies == [{"model": "gpt-4o"}]


def answers() -> Control:
    return Control(
        {"GET /channels/x/models": LISTED, "GET /channels/x": CHANNEL, "PATCH /channels/ch_1": CHANNEL},
    )


def test_models_are_listed_with_what_is_offered() -> None:
    ran = run("channel", "models", "x", "--json", control=answers())
    assert ran.json == [
        {"name": "gpt-4o", "context": 128_000, "served": True},
        {"name": "gpt-4o-mini", "context": None, "served": True},
        {"name": "o3", "context": None, "served": False},
    ]


def test_patterns_narrow_the_list() -> None:
    ran = run("channel", "models", "x", "o*", control=answers())
    assert [line.split()[0] for line in ran.out.splitlines()] == ["Model", "o3"]


def test_models_are_added_to_those_there_are() -> None:
    control = answers()
    run("channel", "models", "x", "--add", control=control)
    assert [model["name"] for model in control.bodies[0]["models"]] == ["fast", "gpt-4o", "o3"]


def test_models_are_replaced_and_keep_their_public_names() -> None:
    control = answers()
    run("channel", "models", "x", "gpt-4o-mini", "--set", control=control)
    assert control.bodies == [{"models": [{"name": "fast", "upstream": "gpt-4o-mini"}]}]


def test_adding_and_setting_exclude_each_other() -> None:
    assert run("channel", "models", "x", "--add", "--set", control=answers()).code == Exit.USAGE


def test_merging_takes_each_upstream_name_once() -> None:
    assert merged([], [Served(name="a"), Served(name="a")], []) == [Served(name="a")]
