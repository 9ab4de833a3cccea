import os
from pathlib import Path

import pytest

from tui.exit_status import REPORT, CrashSafe, report


class Failing(CrashSafe[None]):
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
    sentence = report(tmp_path, caught.value)
    text = (tmp_path / REPORT).read_text()
    assert "test_crash.py" in text
    assert "sk-tk-hidden" not in text.replace('secret = "sk-tk-hidden"', "")
    assert sentence == f"the console failed (RuntimeError); the server goes on, and {tmp_path / REPORT} tells more"
    assert os.stat(tmp_path / REPORT).st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode is the point


def test_a_report_that_cannot_be_written_is_no_second_crash(tmp_path: Path) -> None:
    assert "no report could be written" in report(tmp_path / "missing", ValueError("x"))
