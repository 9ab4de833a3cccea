"""A key that is pasted into a field to search with is never seen there, and its owner is named."""

import pytest
from msgspec.structs import replace
from textual import events
from textual.widgets import Input

from gateway.domain.key_owners import KeyOwner, digest, handle, hint
from gateway.domain.units import Millis
from tests.tui.owner import Owner, screen, settle, shown, until
from tests.tui.stage import NOW, words
from tui.widgets.search_input import FilterInput, PaletteInput

KEY = "sk-tk-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2q"
HANDLE = handle(hint(KEY), digest(KEY))
OWNER = KeyOwner(noun="token", id="tok_laptop", name="laptop", handle=HANDLE, since=Millis(NOW - 3_600_000))


@pytest.mark.parametrize("page", ["live", "tokens", "channels", "models", "usage"])
async def test_a_pasted_key_is_hidden_and_its_owner_is_named(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(page) as (app, pilot, owner):

        async def key_owner(_handle: str) -> KeyOwner:
            return OWNER

        monkeypatch.setattr(owner, "key_owner", key_owner)
        await pilot.press("/", *KEY)
        field = app.page.query_one(Input)
        assert isinstance(field, FilterInput)
        assert field.value == HANDLE
        await settle(app, pilot)
        await settle(app, pilot)
        assert words(app)[-1].startswith("sk-tk-aB3d…nO2q was the key of token 'laptop' until ")
        assert KEY not in screen(app)
        assert KEY not in str(app.session.state)


def owner_of_laptop() -> Owner:
    owner = Owner()
    owner.tokens_now = [replace(one, keys=(OWNER,)) if one.name == "laptop" else one for one in owner.tokens_now]
    return owner


async def test_a_former_key_leaves_its_token_in_the_list() -> None:
    async with shown("tokens", owner_of_laptop()) as (app, pilot, _):
        await pilot.press("/", *KEY, "enter")
        await until(app, pilot, "1 of 5 tokens")
        assert "laptop" in screen(app)


async def test_the_palette_hides_a_key_and_finds_its_token() -> None:
    async with shown("live", owner_of_laptop()) as (app, pilot, _):
        await pilot.press("ctrl+p", *KEY)
        await until(app, pilot, "was the key of token 'laptop'")
        assert app.screen.query_one(PaletteInput).value == HANDLE
        assert KEY not in screen(app)


async def test_a_vendors_key_is_hidden_when_it_is_pasted() -> None:
    async with shown("channels") as (app, pilot, _):
        await pilot.press("/")
        app.post_message(events.Paste("sk-proj-abcdefghijklmnopqrstuvwxyz"))
        await pilot.pause()
        await pilot.pause()
        assert app.page.query_one(Input).value.startswith("…wxyz#")
