from tests.tui.owner import settle, shown
from tui.pages.list_page import GAP_MS
from tui.pages.list_page import _due as due


def test_sums_are_asked_for_once_and_again_after_calls() -> None:
    assert due(None, 0, 0)
    assert not due((0, 5), GAP_MS, 5)
    assert not due((0, 5), GAP_MS - 1, 6)
    assert due((0, 5), GAP_MS, 6)


async def test_a_page_asks_for_its_own_sums() -> None:
    async with shown("channels") as (app, pilot, owner):
        await settle(app, pilot)
        assert [asked for asked in owner.asked if asked.startswith("summary ")] == ["summary  ", "summary channel hour"]
