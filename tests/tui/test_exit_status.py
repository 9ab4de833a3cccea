import os
from pathlib import Path

import pytest

from tui import exit_status
from tui.console_app import ConsoleApp
from tui.exit_status import REPORT, write_report


def test_leaving_says_that_the_server_goes_on_and_how_to_end_it() -> None:
    left = exit_status.left_status("http://127.0.0.1:8655/v1")
    assert left.code == 0
    assert "still serving http://127.0.0.1:8655/v1" in left.sentence
    assert "'tollkeeper stop'" in left.sentence


def test_each_way_of_leaving_says_what_happens_to_the_server() -> None:
    assert "the server stops when" in exit_status.DRAINING.sentence
    assert "the server keeps running" in exit_status.left_status("").sentence


class Failing(ConsoleApp):
    def on_mount(self) -> None:
        secret = "sk-tk-hidden"
        raise RuntimeError(f"a bug of length {len(secret)}")


async def test_a_crash_is_kept_and_nothing_of_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    app = Failing()
    await app.run_async(headless=True)
    assert isinstance(app.crash, RuntimeError)
    assert capsys.readouterr() == ("", "")


def test_the_report_holds_the_place_but_no_values(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        Failing().on_mount()
    sentence = write_report(tmp_path, caught.value)
    text = (tmp_path / REPORT).read_text()
    assert "test_exit_status.py" in text
    assert "sk-tk-hidden" not in text.replace('secret = "sk-tk-hidden"', "")
    assert (
        sentence
        == f"the console crashed (RuntimeError); the server keeps running, and details are in {tmp_path / REPORT}"
    )
    assert os.stat(tmp_path / REPORT).st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode is the point


def test_a_report_that_cannot_be_written_does_not_crash_again(tmp_path: Path) -> None:
    assert "no report could be written" in write_report(tmp_path / "missing", ValueError("x"))
