"""Sentences name the keys in use, also where the server advises a command."""

import re
from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.views import Offer, Step
from tests.house import ROOT, sources
from tests.tui.owner import Owner, press, public, screen, see, shown, text_of
from tests.tui.stage import call, console, wait_until, words
from tui.key_advice import key_advice
from tui.keymap import Keymap
from tui.pages.doctor import DoctorPage
from tui.preferences import Preferences
from tui.receipt import receipt
from tui.widgets.form import Form, FormField, FormPlan, Values


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("'tollkeeper account set --status active' reactivates it", "space on page 6 (Account) reactivates it"),
        ("top up: 'tollkeeper account grant 10'", "top up: a on page 6 (Account)"),
        ("'tollkeeper token enable ci'", "space on page 2 (Tokens)"),
        ("'tollkeeper token add NAME' creates one", "n on page 2 (Tokens) creates one"),
        ("'tollkeeper token edit ci'", "e on page 2 (Tokens)"),
        ("'tollkeeper token edit 'my token' --expires 30d'", 'e on page 2 (Tokens), "Expires": 30d'),
        (
            "'tollkeeper token edit ci --budget ever=AMOUNT' raises it",
            'e on page 2 (Tokens), "Budget, dollars": ever=AMOUNT raises it',
        ),
        ("'tollkeeper account set --tokens-budget day=1M'", 'e on page 6 (Account), "Budget, tokens": day=1M'),
        ("'tollkeeper channel edit a --rpm COUNT' helps", 'e on page 4 (Channels), "Limits": rpm=COUNT helps'),
        ("'tollkeeper channel edit a --key -'", 'e on page 4 (Channels), "Key"'),
        ("'tollkeeper channel edit a --add-group b'", 'e on page 4 (Channels), "Groups": b'),
        (
            "'tollkeeper price set m --like OTHER', or give it amounts of its own",
            'e on page 5 (Models), "Same as": OTHER, or give it amounts of its own',
        ),
        (
            "permit it with 'tollkeeper settings set --add-origin https://a.lan'",
            'permit it with e on page 9 (Settings), "Origins": https://a.lan',
        ),
        ("'tollkeeper settings set --app-origins' permits all", 'e on page 9 (Settings), "Apps" permits all'),
        ("'tollkeeper channel edit a --enigma 3'", "e on page 4 (Channels), --enigma 3"),
        ("'tollkeeper channel test a' tries it", "t on page 4 (Channels) tries it"),
        ("'tollkeeper channel list' shows all", "page 4 (Channels) shows all"),
        ("'tollkeeper why ci gpt' explains it", "W (Why) explains it"),
        ("'tollkeeper why ci 'my model'' explains it", "W (Why) explains it"),
        ("'tollkeeper why ci 'emoji-🦙'' explains it", "W (Why) explains it"),
        ("'tollkeeper token edit 'R&D' --expires 30d'", 'e on page 2 (Tokens), "Expires": 30d'),
        ("""'tollkeeper token edit 'Zoë'"'"'s pc' --expires 30d'""", 'e on page 2 (Tokens), "Expires": 30d'),
        ("'tollkeeper status' or 'tollkeeper doctor'", "page 8 (Doctor) or page 8 (Doctor)"),
        ("suspended; tollkeeper account set --status active", "suspended; space on page 6 (Account)"),
        ("then 'tollkeeper serve'", "then r (Restart)"),
        ("'tollkeeper serve --port 8656'", "'tollkeeper serve --port 8656'"),
        ("'tollkeeper discover' finds some", "a on page 4 (Channels) finds some"),
        ("'tollkeeper channel presets' shows them", "the Preset field of a channel's form shows them"),
        (
            "keep a copy; 'tollkeeper verify' shows what is wrong",
            "keep a copy; 'tollkeeper verify' shows what is wrong",
        ),
        ("no advice at all", "no advice at all"),
    ],
)
def test_commands_become_keys(told: str, read: str) -> None:
    assert key_advice(told, Keymap()) == read


def test_every_command_that_is_advised_anywhere_can_be_read() -> None:
    found = {text for source in sources() for text in re.findall(r"'tollkeeper [a-z][^'\n]*'", source.text)}
    assert len(found) > 50
    for text in found:
        assert key_advice(text, Keymap())
        assert key_advice(re.sub(r"\{[^}]*\}", "x", text), Keymap())


def test_a_refused_calls_receipt_names_keys() -> None:
    refused = call(1, status=403, code="account_suspended", error="'tollkeeper account set --status active' helps")
    assert "space on page 6 (Account) helps" in receipt(refused, console().session, 100).plain


OWN = Keymap(
    {
        "app.undo": "f2",
        "app.help": "f3",
        "app.leave": "f4",
        "app.stop": "f5",
        "entity.toggle": "f6",
        "entity.new": "f7",
        "entity.edit": "f8",
        "channels.test": "f9",
        "channels.fetch": "",
        "list.why": "f10",
        "list.filter": "f11",
        "list.back": "f12",
        "models.edit": "f8",
        "tokens.connect": "ctrl+t",
    }
)
"""Keys of an owner who changed nearly all that sentences name."""
PREFERENCES = Preferences(keymap=OWN)


def test_advice_names_the_owners_own_keys() -> None:
    assert key_advice("'tollkeeper token enable ci'", OWN) == "f6 on page 2 (Tokens)"
    assert key_advice("'tollkeeper why ci gpt'", OWN) == "f10 (Why)"
    assert key_advice("'tollkeeper channel models a'", OWN) == ": Models on page 4 (Channels)"


@pytest.mark.parametrize(
    ("page", "keys", "words_shown"),
    [
        ("channels", ["f6"], "Press f2 to undo."),
        ("channels", [], "not tested yet; f9 tests it"),
        ("channels", [], ": Models fetches the list"),
        ("models", [], "f8 sets one"),
        ("models", ["f11", *"unpriced", "enter", "enter"], "stops it; f8 on page 5 (Models)"),
        ("tokens", ["f11", *"zzz", "enter"], "f12 clears the filter   f11 changes it"),
        ("tokens", ["ctrl+t", "escape", "ctrl+c"], "Press f4 to quit; the server keeps running. Press f5 to stop"),
        ("tokens", ["ctrl+t"], "R issues a new one"),
        ("tokens", [], "^t shows how to use one"),
    ],
)
async def test_hints_name_the_owners_own_keys(page: str, keys: list[str], words_shown: str) -> None:
    owner = Owner()
    owner.channels_now = [msgspec.structs.replace(one, last_check=None) for one in owner.channels_now]
    async with shown(page, owner, preferences=PREFERENCES, size=(120, 40)) as (app, pilot, _):
        if page == "channels" and not keys:
            await press(app, pilot, "enter")
        await press(app, pilot, *keys)
        await wait_until(pilot, lambda: words_shown in "\n".join([screen(app), *words(app)]))


async def test_an_empty_list_names_the_owners_own_keys() -> None:
    async with shown("live", Owner(0, now_running=[], tokens_now=[]), preferences=PREFERENCES) as (app, pilot, _):
        assert "there ^t shows what to paste" in screen(app)
        assert "f3 keys" in screen(app)
        await see(app, pilot, "f7 creates one", "2")
        await press(app, pilot, "f6")
        assert words(app) == ["No token selected. Press f7 to create one."]


def test_no_sentence_names_a_key_of_an_action_by_itself() -> None:
    """Keys that can be rebound are read from the keymap."""
    named = re.compile(r"[Pp]ress (?:[a-zA-Z?/]|space|enter)\b(?! to confirm)|\b[A-Za-z] on the \w+ page")
    found = [(path.name, line) for path in (ROOT / "tui").rglob("*.py") for line in named.findall(path.read_text())]
    assert found == []


ADVICE = "no channel takes calls; 'tollkeeper channel test anthropic' tries it"


@pytest.mark.parametrize(("param", "place"), [("a", "#wrong-a"), ("", ".preview")])
async def test_complaints_of_a_form_name_keys(param: str, place: str) -> None:
    async def save(_values: Values) -> None:
        raise BadRequest(ADVICE, param=param)

    async with shown("tokens", preferences=PREFERENCES) as (app, pilot, _):
        app.push_screen(Form(FormPlan(title="T", fields=[FormField(id="a", label="A")], save=save)))
        await press(app, pilot, "enter")
        assert text_of(app, place) == "no channel takes calls; f9 on page 4 (Channels) tries it"


async def test_a_test_call_that_fails_names_keys() -> None:
    owner = Owner()
    async with (
        public(owner, 503, ADVICE),
        shown("tokens", owner, preferences=PREFERENCES, size=(120, 30)) as (app, pilot, _),
    ):
        await see(app, pilot, "no channel takes calls; f9 on page 4 (Channels) tries it", "ctrl+t", "t")


async def test_a_discovery_that_fails_names_keys() -> None:
    class Refusing(Owner):
        async def add_channel(self, body: Any) -> SavedChannel:
            raise BadRequest(f"{ADVICE}: {body['name']}")

    owner = Refusing()
    owner.offered = [
        Offer(name="lab", dialect="openai", preset="", base_url="http://127.0.0.1:9/v1", key="", models=[])
    ]
    async with shown("channels", owner, preferences=PREFERENCES) as (app, pilot, _):
        await press(app, pilot, "a", "space", "enter")
        assert words(app) == ["lab: no channel takes calls; f9 on page 4 (Channels) tries it: lab"]


async def test_the_doctor_names_keys() -> None:
    step = Step(name="account", result="fail", text="suspended", fix="'tollkeeper token enable ci'")
    async with shown("doctor", preferences=PREFERENCES) as (app, _, _):
        page = app.page
        assert isinstance(page, DoctorPage)
        page._steps = [step]  # noqa: SLF001 - what the doctor finds depends on the machine
        assert "f6 on page 2 (Tokens)" in page.report(90).plain
