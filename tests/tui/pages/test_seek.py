from gateway.domain.units import Millis
from tests.tui.owner import settle, shown
from tests.tui.stage import token
from tui.pages.list_page import seek


async def test_the_cursor_goes_to_a_row_when_it_comes() -> None:
    async with shown("tokens") as (app, pilot, owner):
        seek(app.page, "tok_zebra")
        owner.tokens_now.append(token("zebra", last_used_ms=Millis(1)))
        owner.changed()
        for _ in range(50):
            await pilot.pause(0.02)
            await settle(app, pilot)
            if app.page.query_one("LiveTable").cursor == 5:  # type: ignore[attr-defined]
                break
        assert app.page.query_one("LiveTable").cursor == 5  # type: ignore[attr-defined]


async def test_a_row_that_never_comes_is_given_up() -> None:
    async with shown("tokens") as (app, _, _):
        seek(app.page, "tok_nobody", times=0)
        assert app.page.query_one("LiveTable").cursor == 0  # type: ignore[attr-defined]
