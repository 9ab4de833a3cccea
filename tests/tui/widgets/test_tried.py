from tests.tui.owner import Owner, press, public, said, shown, until
from tui.widgets.connect import Connect, TokenTest


async def test_one_call_at_a_time() -> None:
    owner = Owner()
    async with public(owner) as asked, shown("tokens", owner) as (app, pilot, _):
        await app.push_screen(Connect(app.session, owner.tokens_now[0]))
        for _ in range(3):
            app.screen.query_one(TokenTest).call("gpt-5-mini")
        await until(app, pilot, owner.records[0].id)
        assert len(asked) == 1


async def test_without_a_server_nothing_is_tried() -> None:
    async with shown("tokens") as (app, pilot, _):
        app.session.lose("it was stopped")
        await press(app, pilot, "c", "t")
        assert said(app, ".said") == ""
