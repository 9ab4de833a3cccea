"""Strings of strangers on every page: nothing of them moves a cursor, nothing is read as markup, nothing breaks."""

import msgspec
import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.views import Offer
from tests.tui import hostile
from tests.tui.owner import Owner, listed, listing, press, proposal, refused, screen, shown
from tests.tui.stage import group

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


def strange(texts: tuple[str, ...] = EVIL) -> Owner:
    """A server full of these, which are in what dialogs ask it for as well."""
    made, text = hostile.owner(texts), texts[0]
    made.groups_now.append(group("other"))
    made.grants_now = [msgspec.structs.replace(made.grants_now[0], note=t) for t in texts]
    made.listing = listing(listed(text, state="new", public=text), error=text, patterns=texts[:1])
    served = [ServedModel(name=text)]
    made.offered = [Offer(name=text, dialect=text, preset=text, base_url=text, key=text, models=served)]
    made.proposals = [proposal(text, channel=text, guard=text, change=text)]
    routes = [msgspec.structs.replace(route, channel=text, reason=text, passed=text) for route in refused().routes]
    made.answer = refused(message=text, fix=text, rule=text, code=text, group=text, routes=routes)
    return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", PAGES)
async def test_a_page_draws_them_harmlessly(page: str) -> None:
    async with shown(page, strange(), size=(100, 30)) as (app, pilot, _):
        await press(app, pilot, *(["enter"] if page != "doctor" else []))
        for _ in EVIL:
            assert CONTROLS.isdisjoint(screen(app))
            await press(app, pilot, "right" if page == "doctor" else "b" if page == "usage" else "j")
        assert app.is_running


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("page", "key"), DIALOGS)
@pytest.mark.parametrize("number", [0, 2, 3, 6, 11])
async def test_a_dialog_draws_them_harmlessly(page: str, key: str, number: int) -> None:
    async with shown(page, strange((EVIL[number],))) as (app, pilot, _):
        await press(app, pilot, key)
        assert CONTROLS.isdisjoint(screen(app))
        assert app.screen.is_modal
