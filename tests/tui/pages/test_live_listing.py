from pathlib import Path

from gateway.config import Config
from gateway.domain.views import CallView
from tests.tui.stage import NOW, FakeClient, call, calls, running
from tui.calls import running_view
from tui.glyphs import UNICODE
from tui.pages.live import LiveListing, columns
from tui.saved_state import Remembered
from tui.session import Session


def listing() -> LiveListing:
    session = Session(Config(home=Path("/nowhere")), UNICODE, lambda: NOW, Remembered())
    session.board.apply(FakeClient(calls(50)).snapshot())
    session.link = "attached"
    return LiveListing(session)


def cells(row: CallView) -> dict[str, str]:
    return {column.id: column.text(row) for column in columns(UNICODE)}


def test_a_finished_call_is_told_in_numbers() -> None:
    one = call(3, NOW, model="m", status=200, duration_ms=1_210, first_byte_ms=190, input_tokens=1_394)
    told = cells(one)
    assert (told["time"], told["model"], told["status"]) == ("14:13:20", "m", "✓200")
    assert (told["duration"], told["first"], told["input"]) == ("1.21s", "0.19s", "1,394")


def test_a_running_call_says_that_it_runs_and_on_which_try() -> None:
    assert cells(running_view(running(1), NOW))["status"] == "▸ …"
    assert cells(running_view(running(1, attempt=2), NOW))["status"] == "▸ 2."


def test_free_and_unpriced_and_unused_are_three_things() -> None:
    free = call(3, status=200, cost_nanos=0)
    assert cells(free)["cost"] == "free"
    assert cells(call(3, status=200, cost_nanos=0, rates=None))["cost"] == "no price"
    assert cells(call(3, cost_nanos=0, rates=None, usage_source="none"))["cost"] == "·"


def test_foreign_text_is_harmless_in_every_column() -> None:
    evil = "\x1b[2J\u202e[bold]"
    row = call(3, model=evil, channel=evil, token=evil, group=evil, app=evil, finish_reason=evil, id=evil)
    assert not any("\x1b" in text or "\u202e" in text for text in cells(row).values())


def test_the_line_above_fits_narrow_screens() -> None:
    for width in (20, 60, 150):
        assert listing().lead(width).cell_length <= max(width, 62)


def test_as_a_command_it_is_a_curl_without_a_key() -> None:
    twin = listing().twin(call(3, model="m'x"))
    assert "$OPENAI_API_KEY" in twin
    assert "http://127.0.0.1:8655/v1/chat/completions" in twin


def test_an_empty_page_says_what_to_do() -> None:
    made = listing()
    assert "Point a client at http://127.0.0.1:8655/v1" in made.empty().plain
    made.session.link = "starting"
    assert made.empty().plain == "Starting the server ..."
