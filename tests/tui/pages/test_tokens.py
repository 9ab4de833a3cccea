from tests.tui.owner import press, screen, shown


async def test_tokens_are_listed_with_their_budgets() -> None:
    async with shown("tokens") as (app, _, _):
        assert "● ci" in screen(app)
        assert "97% $4.8/5" in screen(app)
        assert "ci is at 97%" in screen(app)


async def test_the_pane_tells_all_of_one() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "j", "enter")
        assert "60 calls/min, 200k tok/min, 8 at a time" in screen(app)
        assert "sees 6: claude-sonnet-4-5" in screen(app)


async def test_today_comes_from_the_sums() -> None:
    async with shown("tokens") as (app, _, owner):
        assert "summary token day" in owner.asked
        today = next(line for line in screen(app).splitlines() if "editor" in line)
        assert "$0." in today
