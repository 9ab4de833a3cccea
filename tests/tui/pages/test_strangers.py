"""Strings of strangers on every page: nothing of them moves a cursor, nothing is read as markup, nothing breaks."""

from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Check, ServedModel
from gateway.domain.units import Millis
from gateway.domain.views import ChannelView, KeyView, Offer
from tests.tui.owner import Owner, listed, listing, press, price_of, proposal, refused, screen, shown
from tests.tui.stage import NOW, call, channel, group, model, token

EVIL = (
    "\x1b[2J\x1b[31mred",
    "\x1b]52;c;ZXZpbA==\x07",
    "[bold red]markup[/]",
    "[@click=app.quit]click[/]",
    "[/]",
    "\\[",
    "\u202eright to left",
    "\u200b\u2066\ufeff",
    "e\u0301" + "\u0301" * 40,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\u5bbd" * 60,
    "\r\n\t\x00\x7f\x9b31m",
    "x" * 5_000,
    "$(reboot); 'quoted' \"twice\"",
    "\ud800" + "lone",
    "   ",
)
PAGES = ("tokens", "groups", "channels", "models", "account", "usage", "doctor")
NEWER = (("tokens", "W"), ("channels", "L"), ("channels", "a"), ("channels", "A"), ("channels", "i"), ("models", "P"))
DIALOGS = (
    ("tokens", "e"),
    ("tokens", "c"),
    ("tokens", "d"),
    ("channels", "t"),
    ("groups", "d"),
    ("models", "e"),
    *NEWER,
)
CONTROLS = {chr(i) for i in (*range(10), *range(11, 32), *range(127, 160))} | set("\u202e\u2066\u200b\ufeff\u200d")


def hostile(texts: tuple[str, ...] = EVIL) -> Owner:
    """Every text of strangers and owners is one of these; a row of each kind a text."""
    owner = Owner(0)
    there = list(enumerate(texts))
    owner.tokens_now = [
        token("a", id=f"tok_{i}", group=t, hint=t, models=[t], sees=[t], note=t, budgets=[]) for i, t in there
    ]
    owner.tokens_now = [msgspec.structs.replace(one, name=one.note) for one in owner.tokens_now]
    owner.groups_now = [
        msgspec.structs.replace(group("a", models=[t], sees=[t], tokens=[t], channels=[t], note=t), name=t)
        for t in texts
    ]
    owner.groups_now.append(group("other"))
    owner.channels_now = [_channel(i, t) for i, t in there]
    price = price_of("gpt-5-mini")
    owner.models_now = [
        model("gpt-5-mini", name=t, channels=[t], groups=[t], price=msgspec.structs.replace(price, source=t))
        for t in texts
    ]
    owner.grants_now = [msgspec.structs.replace(owner.grants_now[0], note=t) for t in texts]
    owner.account_now = msgspec.structs.replace(owner.account_now, status=texts[0])
    owner.records = [call(i, model=t, token_id=t, channel=t, app=t, token=t) for i, t in there]
    owner.now_running = []
    text = texts[0]
    owner.listing = listing(listed(text, state="new", public=text), error=text, patterns=texts[:1])
    owner.offered = [
        Offer(name=text, dialect=text, preset=text, base_url=text, key=text, models=[ServedModel(name=text)])
    ]
    owner.proposals = [proposal(text, channel=text, guard=text, change=text)]
    routes = [msgspec.structs.replace(route, channel=text, reason=text, passed=text) for route in refused().routes]
    owner.answer = refused(message=text, fix=text, rule=text, code=text, group=text, routes=routes)
    return owner


def _channel(number: int, text: str) -> ChannelView:
    check = Check(time=NOW, ok=False, ms=Millis(1), text=text)
    state: dict[str, Any] = {"state": "cooling", "reason": text, "until_ms": Millis(NOW + 9_000), "key": text}
    keys = [KeyView(number=n, key=text, state=text, reason=text, until_ms=None) for n in (1, 2)]
    odd: dict[str, Any] = {
        "headers": {text: text},
        "options": {text: text},
        "preset": text,
        "base_url": text,
        "keys": keys,
        "proxy": text,
    }
    served = [ServedModel(name=text, upstream=text)]
    made = channel("a", id=f"ch_{number}", models=served, groups=[text], last_check=check, note=text, **state, **odd)
    return msgspec.structs.replace(made, name=text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", PAGES)
async def test_a_page_draws_them_harmlessly(page: str) -> None:
    async with shown(page, hostile(), size=(100, 30)) as (app, pilot, _):
        await press(app, pilot, *(["enter"] if page != "doctor" else []))
        for _ in EVIL:
            assert CONTROLS.isdisjoint(screen(app))
            await press(app, pilot, "right" if page == "doctor" else "b" if page == "usage" else "j")
        assert app.is_running


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("page", "key"), DIALOGS)
@pytest.mark.parametrize("number", [0, 2, 3, 6, 11])
async def test_a_dialog_draws_them_harmlessly(page: str, key: str, number: int) -> None:
    async with shown(page, hostile((EVIL[number],))) as (app, pilot, _):
        await press(app, pilot, key)
        assert CONTROLS.isdisjoint(screen(app))
        assert app.screen.is_modal
