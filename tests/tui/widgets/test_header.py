import msgspec
import pytest
from msgspec.structs import replace
from textual.content import Content
from textual.style import Style

from tests.tui.owner import press, settle, shown
from tests.tui.stage import FakeClient, calls, console, running, status
from tui.pages.base import AnyPage
from tui.session import ConsoleSession
from tui.widgets.header import Header, state_line, tabs_line


def session() -> ConsoleSession:
    made = console().session
    made.board.apply(FakeClient(calls(5)).snapshot())
    made.board.today_nanos, made.board.today_tokens = 3_000_000, 45_000
    made.link = "attached"
    return made


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 130, 200])
def test_lines_are_as_wide_as_the_screen_at_most(width: int) -> None:
    assert state_line(session(), width).cell_length <= max(width, 70)
    assert tabs_line("live", width).cell_length <= max(width, 75)


def test_with_room_everything_is_reported() -> None:
    text = state_line(session(), 140).plain
    parts = (
        "tollkeeper",
        "http://127.0.0.1:8655/v1",
        "running 2",
        "today $",
        "tok",
        "deepseek paused until 14:25",
        "ci 97%",
    )
    assert [part for part in parts if part not in text] == []


def test_an_alert_that_does_not_fit_is_cut_before_only_its_number_is_left() -> None:
    assert state_line(session(), 60).plain.endswith("▲ deepseek paused un… +1")
    assert state_line(session(), 40).plain.rstrip().endswith(" +2")


def test_an_alert_leads_to_its_page() -> None:
    made = session()
    line = state_line(made, 140)
    assert target(line, "deepseek paused") == ("app.go_to", ("channels", "ch_deepseek"))
    assert target(line, "ci 97%") == ("app.go_to", ("tokens", "tok_ci"))
    assert target(line, "running") is None
    made.board.tokens = [replace(one, name="深度求索渠道") if one.name == "ci" else one for one in made.board.tokens]
    wide = state_line(made, 140)
    assert wide.cell_length == 140
    assert target(wide, "深度") == ("app.go_to", ("tokens", "tok_ci"))


def target(line: Content, text: str) -> object:
    """What a click on a text does."""
    found = [span for span in line.spans if span.start <= line.plain.index(text) < span.end]
    return next(
        (span.style.meta["@click"] for span in found if isinstance(span.style, Style) and span.style.meta), None
    )


async def test_a_click_on_an_alert_opens_its_page_with_the_cursor_on_its_row() -> None:
    async with shown("channels", size=(160, 30)) as (app, pilot, _):
        await press(app, pilot, "slash", *"ollama", "enter", "1")
        line = state_line(app.session, 160).plain
        await pilot.click(Header, offset=(line.index("deepseek"), 0))
        await settle(app, pilot)
        page: AnyPage = app.page
        assert (page.id, page.table.current.name, page.view.filter) == ("channels", "deepseek", "")


def test_a_server_that_is_gone_says_what_to_do() -> None:
    made = session()
    made.mark_server_gone("connection refused \x1b[2J")
    text = state_line(made, 100).plain
    assert "no server" in text
    assert "r starts one" in text
    assert "\x1b" not in text


def test_one_that_is_started_again_or_not_seen_yet_is_not_there() -> None:
    """Most servers run already when a console is opened."""
    made, fresh = session(), console().session
    made.link = "starting"
    assert "starting the server" in state_line(made, 100).plain
    assert "connecting to the server" in state_line(fresh, 100).plain
    fresh.attach(FakeClient())
    assert "connecting to the server" in state_line(fresh, 100).plain


def test_a_server_without_a_public_address_says_so() -> None:
    made = session()
    snapshot = msgspec.structs.replace(FakeClient(calls(5)).snapshot(), status=status(5, address=""))
    made.board.apply(snapshot)
    assert "no public address" in state_line(made, 140).plain


def test_on_the_narrowest_screens_the_open_page_is_named() -> None:
    assert tabs_line("channels", 40, ["? help "]).plain.split("  ")[0] == " 1 2 3 4 Channels 5 6 7 8 9"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_name_leads_to_its_page(width: int) -> None:
    line = tabs_line("live", width, ["? help "])
    assert target(line, "2 ") == ("app.go_to", ("tokens", ""))
    assert target(line, "4 ") == ("app.go_to", ("channels", ""))
    assert "? help" not in line.plain or target(line, "? help") is None


async def test_the_open_page_is_marked_as_soon_as_it_is_opened() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "4")
        header = app.query_one(Header)
        line = app.screen._compositor.render_strips()[1]  # noqa: SLF001 - Textual gives it nowhere else
        marked = [segment.text for segment in line if segment.style is not None and segment.style.reverse]
        assert (header.page, marked) == ("channels", [" 4 Channels "])


def test_what_is_beside_the_running_calls_keeps_its_place() -> None:
    made, texts = session(), []
    for count in (0, 1, 12):
        made.board.calls.running = {one.id: one for one in map(running, range(count))}
        texts.append(state_line(made, 120).plain)
    assert len({text.index("today") for text in texts}) == 1
