import pytest

from tests.tui.owner import Owner, press, screen, shown


async def test_a_chart_rankings_and_budgets_are_on_one_page() -> None:
    async with shown("usage", size=(200, 50)) as (app, _, _):
        text = screen(app)
        for told in (
            "cost per day",
            "by token",
            "by model",
            "by channel",
            "by app",
            "budgets",
            "at this pace used up on Tue",
        ):
            assert told in text


async def test_keys_turn_period_value_and_dimension_and_they_are_remembered() -> None:
    async with shown("usage") as (app, pilot, owner):
        await press(app, pilot, "p", "v", "b")
        assert "p period 24 hours   v value calls   b by token" in screen(app)
        assert "calls per hour" in screen(app)
        assert "summary token hour" in owner.asked
        assert app.session.state.view("usage").choices == {"period": "24 hours", "value": "calls", "by": "token"}


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
async def test_a_year_of_latency_fits(size: tuple[int, int]) -> None:
    async with shown("usage", size=size) as (app, pilot, _):
        await press(app, pilot, *"ppppvvvv")
        assert f"latency to the first byte per {6 if size[0] == 80 else 8} days" in screen(app)


async def test_without_calls_it_says_what_to_do() -> None:
    async with shown("usage", Owner(0)) as (app, _, _):
        assert "No calls in this period." in screen(app)
