"""What the forms of tokens, groups and channels send, and the commands that would do the same."""

from typing import Any

import msgspec
import pytest
from textual.widgets import Input

from gateway.domain.channel import Overrides, ServedModel, Timeouts
from gateway.domain.group import Fallback, Policy
from gateway.domain.limits import Limits
from gateway.domain.units import Millis
from tests.domain.field_samples import ODD
from tests.tui.owner import Owner, press, screen, shown, text_of, typed_form
from tests.tui.stage import NOW, channel, group, token
from tui.pages.channel_form import ChannelForm
from tui.pages.groups import GroupForm
from tui.pages.tokens import TokenForm
from tui.text import safe
from tui.widgets.form import FormFields

LAPTOP = token("laptop", expires=Millis(NOW + 86_400_001), models=("gpt-*",), note="mine")
ODD_TOKEN = token("my box", models=tuple(ODD), note=" mine ")
FALLBACKS = (Fallback(model="gpt-*", to=("a", "b")), Fallback(model="x", to=("y",)))
HOME = group("x", policy=Policy.FASTEST, sticky=True, fallbacks=FALLBACKS)
ODD_FALLBACKS = tuple(Fallback(model=one, to=tuple(ODD)) for one in ODD)
ODD_MODELS = tuple(
    ServedModel(name=prefix + one, upstream=f"u{one}" * bool(prefix)) for prefix in ("", "p") for one in ODD
)
ODD_CHANNEL = channel(
    "my box", models=ODD_MODELS, patterns=("m *",), groups=tuple(ODD), note=" x ", options={"retry_after": "Wed, 21"}
)
PROXIED = channel("x", proxy="http://proxy:3128")
SECRET, REFERRING = channel("x", headers={"X-Team": "…lue"}), channel("x", headers={"X-A": "env:A", "X-B": "env:B"})
OVERRIDING = channel("x", overrides=Overrides(set={"temperature": 0.2}, system="Be brief.\nBe kind: \\n."))


@pytest.mark.parametrize(
    ("make", "view", "typed", "body", "command"),
    [
        (TokenForm, LAPTOP, {}, {}, "token edit laptop"),
        (TokenForm, LAPTOP, {"expires": ""}, {"expires": None}, "token edit laptop --expires never"),
        (TokenForm, ODD_TOKEN, {}, {}, "token edit 'my box'"),
        (TokenForm, ODD_TOKEN, {"note": "zz"}, {"note": "zz"}, "token edit 'my box' --note zz"),
        (
            TokenForm,
            token("x"),
            {"models": '"m bad" demo*'},
            {"models": ["m bad", "demo*"]},
            "token edit x --models 'm bad,demo*'",
        ),
        (TokenForm, token("x", models=("a",)), {"models": ""}, {"models": []}, "token edit x --models '*'"),
        (GroupForm, HOME, {}, {}, "group edit x"),
        (
            GroupForm,
            group("x"),
            {"policy": "cheapest first", "sticky": "stay on one channel", "fallbacks": "gpt-*=a,b"},
            {"policy": "cheapest", "sticky": True, "fallbacks": [{"model": "gpt-*", "to": ["a", "b"]}]},
            "group edit x --policy cheapest --sticky --fallback 'gpt-*=a,b'",
        ),
        (
            GroupForm,
            HOME,
            {"sticky": "may switch channels", "fallbacks": ""},
            {"sticky": False, "fallbacks": []},
            "group edit x --not-sticky --no-fallbacks",
        ),
        (
            GroupForm,
            group("my box", models=tuple(ODD), note=" x ", fallbacks=ODD_FALLBACKS),
            {},
            {},
            "group edit 'my box'",
        ),
        (
            GroupForm,
            group("x"),
            {"models": '"m bad", demo*', "fallbacks": 'm*=demo-echo,"m bad"'},
            {"models": ["m bad", "demo*"], "fallbacks": [{"model": "m*", "to": ["demo-echo", "m bad"]}]},
            "group edit x --models 'm bad,demo*' --fallback 'm*=demo-echo,m bad'",
        ),
        (ChannelForm, channel("x", options={"latency": 200}, key="env:KEY"), {}, {}, "channel edit x"),
        (ChannelForm, channel("x"), {"groups": ""}, {"groups": []}, "channel edit x --no-groups"),
        (
            ChannelForm,
            channel("x", timeouts=Timeouts(head=60)),
            {"timeouts": "idle=30"},
            {"timeouts": {"connect": 10.0, "head": 120.0, "idle": 30.0, "comments": 900.0, "total": 600.0}},
            "channel edit x --timeout idle=30 --timeout head=default",
        ),
        (ChannelForm, PROXIED, {}, {}, "channel edit x"),
        (ChannelForm, PROXIED, {"proxy": "none"}, {"proxy": ""}, "channel edit x --proxy none"),
        (ChannelForm, PROXIED, {"proxy": ""}, {"proxy": ""}, "channel edit x --proxy none"),
        (
            ChannelForm,
            PROXIED,
            {"proxy": "http://me:secret@proxy:3128"},
            {"proxy": "http://me:secret@proxy:3128"},
            "channel edit x --proxy -",
        ),
        (ChannelForm, ODD_CHANNEL, {}, {}, "channel edit 'my box'"),
        (ChannelForm, ODD_CHANNEL, {"priority": "9"}, {"priority": 9}, "channel edit 'my box' --priority 9"),
        (ChannelForm, SECRET, {}, {}, "channel edit x"),
        (ChannelForm, SECRET, {"headers": "none"}, {"headers": {}}, "channel edit x --no-headers"),
        (
            ChannelForm,
            SECRET,
            {"headers": "X-Team=red X-Title='my app' X-Pass=env:PASS"},
            {"headers": {"X-Team": "red", "X-Title": "my app", "X-Pass": "env:PASS"}},
            "channel edit x --header X-Team=VALUE --header X-Title=VALUE --header X-Pass=env:PASS",
        ),
        (ChannelForm, REFERRING, {}, {}, "channel edit x"),
        (ChannelForm, REFERRING, {"headers": ""}, {"headers": {}}, "channel edit x --no-headers"),
        (ChannelForm, OVERRIDING, {}, {}, "channel edit x"),
        (
            ChannelForm,
            OVERRIDING,
            {"parameters": "", "system": ""},
            {"overrides": None},
            "channel edit x --no-overrides",
        ),
        (
            ChannelForm,
            OVERRIDING,
            {"parameters": "None", "system": " none "},
            {"overrides": None},
            "channel edit x --no-overrides",
        ),
        (GroupForm, HOME, {"fallbacks": "none"}, {"fallbacks": []}, "group edit x --no-fallbacks"),
        (
            TokenForm,
            token("x", limits=Limits(rpm=60)),
            {"limits": "none"},
            {"limits": dict.fromkeys(Limits.__struct_fields__)},
            "token edit x --rpm none",
        ),
    ],
)
def test_a_form_sends_what_was_changed(make: Any, view: Any, typed: dict[str, str], body: object, command: str) -> None:
    assert typed_form(make, view, **typed) == (body, command)


@pytest.mark.parametrize(("page", "noun"), [("tokens", "token"), ("groups", "group"), ("channels", "channel")])
async def test_what_was_changed_meanwhile_is_replaced_only_by_a_second_attempt(page: str, noun: str) -> None:
    async with shown(page) as (app, pilot, owner):
        first, *others = getattr(owner, f"{page}_now")
        await press(app, pilot, "e")
        row = app.screen.query_one(FormFields).rows["note"]
        row.input.value = "mine"
        for note in ("theirs", "\x1b[2J"):
            setattr(owner, f"{page}_now", [msgspec.structs.replace(first, note=note), *others])
            owner.changed()
            await press(app, pilot, "enter")
            assert f"changed meanwhile to: {safe(note)}; save again" in " ".join(screen(app).split())
        assert owner.did == []
        await press(app, pilot, "enter")
        assert owner.did == [(f"edit_{noun}", getattr(first, "id", "") or first.name, {"note": "mine"})]


@pytest.mark.parametrize("page", ["tokens", "groups", "channels"])
async def test_what_was_deleted_meanwhile_is_said_instead_of_its_id(page: str) -> None:
    async with shown(page) as (app, pilot, owner):
        await press(app, pilot, "e")
        app.screen.query_one(FormFields).rows["note"].input.value = "mine"
        setattr(owner, f"{page}_now", getattr(owner, f"{page}_now")[1:])
        owner.changed()
        text = "it was deleted or renamed meanwhile; after esc, H shows the change and undoes it"
        for _ in range(2):
            await press(app, pilot, "enter")
            assert text in " ".join(text_of(app, ".preview").split())
        assert owner.did == []


async def test_a_pasted_prompt_keeps_its_lines() -> None:
    async with shown("channels") as (app, pilot, _):
        await press(app, pilot, "n", "ctrl+o")
        app.screen.query_one("#field-system").focus()
        await press(app, pilot, "=Be brief.\nBe kind.\n")
        assert app.screen.query_one("#field-system", Input).value == r"Be brief.\nBe kind."


async def test_an_edited_prompt_keeps_its_emoji_and_has_blanks_for_a_tab() -> None:
    prompt = Overrides(system="\u26a0\ufe0f Rules:\n\tbe brief")
    async with shown("channels", Owner(channels_now=[channel("x", overrides=prompt)])) as (app, pilot, owner):
        await press(app, pilot, "e")
        app.screen.query_one("#field-system").focus()
        await press(app, pilot, "end", "!", "enter")
        ((_, _, patch),) = owner.did
        assert patch["overrides"]["system"] == "\u26a0\ufe0f Rules:\n    be brief!"
