import msgspec

from tests.tui.owner import KEY, Owner, press, public, said, screen, shown, until
from tests.tui.stage import words
from tui.widgets.connect import KINDS, Connect


async def test_every_kind_has_its_text() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c")
        found = []
        for _ in KINDS:
            found.append(said(app, ".text"))
            await press(app, pilot, "tab")
        starts = ("export OPENAI_BASE_URL", "set -gx", "$env:", "from openai", "import OpenAI", "curl ", "Open WebUI")
        assert [text.startswith(start) for text, start in zip(found, starts, strict=True)] == [True] * 7
        assert said(app, ".text") == found[0]


async def test_the_model_goes_into_the_texts() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c", "m", "left", "left")
        assert '"model":"gpt-5-mini"' in said(app, ".text")
        assert "2 of 6, m is the next" in said(app, ".model")


async def test_texts_and_the_key_are_copied() -> None:
    async with shown("tokens") as (app, pilot, owner):
        app.push_screen(Connect(app.session, owner.tokens_now[0], KEY))
        await press(app, pilot, "k")
        assert app.clipboard == KEY
        await press(app, pilot, "y")
        assert app.clipboard.startswith("export OPENAI_BASE_URL")
        assert words(app) == ["the key was copied", "copied: Shell"]


async def test_a_key_that_is_not_known_cannot_be_copied() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c", "k")
        assert words(app)[0].startswith("the key was shown once")


async def test_a_test_call_shows_its_receipt() -> None:
    owner = Owner()
    async with public(owner), shown("tokens", owner) as (app, pilot, _):
        await press(app, pilot, "c", "t")
        await until(app, pilot, owner.records[0].id)
        assert "cost" in said(app, ".said")


async def test_a_test_call_that_fails_says_why_and_where_to_go_on() -> None:
    owner = Owner()
    async with public(owner, "503 Service Unavailable"), shown("tokens", owner) as (app, pilot, _):
        await press(app, pilot, "c", "t")
        await until(app, pilot, "the test call failed: no channel takes calls")
        assert "8 runs the doctor" in screen(app)


async def test_a_token_that_sees_nothing_cannot_call() -> None:
    owner = Owner()
    owner.tokens_now = [msgspec.structs.replace(owner.tokens_now[0], sees=[])]
    async with shown("tokens", owner) as (app, pilot, _):
        await press(app, pilot, "c", "t")
        assert said(app, ".said").startswith("this token sees no model")


async def test_the_kinds_can_be_clicked() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c")
        await pilot.click(".kinds", offset=(12, 0))
        assert said(app, ".text").startswith("set -gx")
