import pytest
from msgspec.structs import replace

from gateway.commands import stdin
from gateway.commands.exit_codes import Exit
from gateway.domain.channel import ServedModel
from gateway.domain.errors import UpstreamError
from gateway.domain.upstream_views import PresetView
from gateway.domain.views import Offer
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, HOSTILE

LOCAL = Offer(
    name="ollama",
    dialect="openai",
    preset="ollama",
    base_url="http://127.0.0.1:11434/v1",
    key="",
    models=[ServedModel(name="llama")],
)
VENDOR = Offer(
    name="groq", dialect="openai", preset="groq", base_url="https://groq/v1", key="env:GROQ_API_KEY", models=[]
)
PRESETS = [
    PresetView(name=name, dialect="openai", base_url="", key_variable=variable, local=False)
    for name, variable in (("groq", "GROQ_API_KEY"), ("openai", "OPENAI_API_KEY"), ("vllm", ""))
]


def found(*offers: Offer, **more: object) -> Control:
    answers = {"GET /offers": list(offers), "GET /presets": PRESETS, "GET /channels": [CHANNEL]}
    return Control({**answers, "POST /channels": CHANNEL, **more})


def test_what_was_found_is_listed_and_nothing_is_made() -> None:
    control = found(LOCAL, VENDOR)
    ran = run("discover", control=control)
    assert ran.out.splitlines()[1].split() == ["ollama", LOCAL.base_url, "none", "needed", "llama"]
    assert "env:GROQ_API_KEY" in ran.out
    assert (ran.code, "--add NAME" in ran.err, control.bodies) == (0, True, [])


def test_named_offers_are_added_with_their_known_facts() -> None:
    control = found(LOCAL, VENDOR)
    ran = run("discover", "--add", "groq", "--add", "groq", control=control)
    expected = {"name": "groq", "dialect": "openai", "preset": "groq", "base_url": VENDOR.base_url, "key": VENDOR.key}
    assert (ran.code, control.bodies) == (0, [expected])
    assert f"Channel '{CHANNEL.name}' created" in ran.err


def test_all_are_added_and_a_name_in_use_gets_a_number() -> None:
    control = found(replace(LOCAL, name=CHANNEL.name), VENDOR)
    run("discover", "--all", control=control)
    assert [body["name"] for body in control.bodies] == [f"{CHANNEL.name}-2", "groq"]
    assert control.bodies[0]["models"][0]["name"] == "llama"


def test_one_that_fails_keeps_no_other_from_being_added() -> None:
    control = found(VENDOR, LOCAL, **{"POST /channels": UpstreamError("no list")})
    ran = run("discover", "--all", "--json", control=control)
    assert (ran.code, len(control.bodies)) == (Exit.UPSTREAM, 2)
    assert [failed["name"] for failed in ran.json["failed"]] == ["groq", "ollama"]
    assert ran.err == "tollkeeper: not added: groq: no list; ollama: no list\n"


def test_json_has_the_same_keys_whatever_was_found() -> None:
    assert run("discover", "--json", control=found()).json == {"offers": [], "added": [], "failed": []}
    assert set(run("discover", "--all", "--json", control=found(LOCAL)).json) == {"offers", "added", "failed"}


def test_a_name_that_is_not_offered() -> None:
    ran = run("discover", "--add", "nope", control=found(LOCAL))
    assert (ran.code, "found: ollama" in ran.err) == (Exit.NOT_FOUND, True)


def test_nothing_found_says_what_to_do() -> None:
    assert "channel add --help" in run("discover", control=found()).err


def test_on_a_terminal_it_asks_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "is_terminal", lambda: True)
    control = found(LOCAL, VENDOR)
    run("discover", control=control, stdin="n\ny\n")
    assert [body["name"] for body in control.bodies] == ["groq"]


def test_a_key_that_the_server_does_not_see_is_reported_by_its_name_alone() -> None:
    ran = run("discover", control=found(), env={"GROQ_API_KEY": "gsk-canary", "OPENAI_API_KEY": "sk-tk-ours"})
    assert "GROQ_API_KEY is set here, but not in the server's environment" in ran.err
    assert "OPENAI_API_KEY" not in ran.err
    assert "canary" not in ran.err
    used = replace(CHANNEL, key="env:GROQ_API_KEY")
    ran = run("discover", control=found(**{"GET /channels": [used]}), env={"GROQ_API_KEY": "gsk-canary"})
    assert "GROQ" not in ran.err


def test_strangers_model_names_are_made_harmless() -> None:
    ran = run("discover", control=found(replace(LOCAL, models=[ServedModel(name=HOSTILE)])))
    assert not set("\x1b\x07\x9b\u202e") & set(ran.out)
