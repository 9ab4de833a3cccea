import csv
import json
import os
from pathlib import Path

import pytest

from gateway.domain.errors import BadRequest, Conflict
from tests.tui.owner import press, shown
from tests.tui.stage import call, calls
from tui.pages.list_page import export_path, write_rows


def test_csv_has_titles_and_a_line_a_row(tmp_path: Path) -> None:
    assert write_rows(tmp_path / "a.csv", calls(3)) == 3
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [one.id for one in calls(3)]
    assert rows[0]["cost_nanos"] == str(calls(3)[0].cost_nanos)


def test_json_lines_are_exact(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [call(1, model="=1+\x1b")])
    assert json.loads((tmp_path / "a.jsonl").read_text())["model"] == "=1+\x1b"


def test_csv_is_harmless_to_terminals_and_spreadsheets(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.csv", [call(1, model="=1+\x1b"), call(2, model="\uff1d1+1")])
    text = (tmp_path / "a.csv").read_text()
    assert "'=1+�" in text
    assert "'\uff1d1+1" in text
    assert "\x1b" not in text


def test_the_file_is_new_and_the_owners_alone(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.csv", [])
    assert os.stat(tmp_path / "a.csv").st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode is the point
    with pytest.raises(Conflict):
        write_rows(tmp_path / "a.csv", [])


@pytest.mark.parametrize("name", ["a.txt", "there.csv", "missing/a.csv"])
def test_only_a_new_file_with_a_known_ending_will_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "there.csv").touch()
    with pytest.raises(BadRequest):
        export_path(str(tmp_path / name))


def test_a_good_name_is_taken(tmp_path: Path) -> None:
    assert export_path(f" {tmp_path}/new.csv ") == tmp_path / "new.csv"


@pytest.mark.parametrize("name", ["tokens", "groups", "channels", "models", "settings"])
async def test_the_rows_of_every_list_can_be_exported(name: str, tmp_path: Path) -> None:
    async with shown(name) as (app, pilot, _):
        await press(app, pilot)
        page = app.page
        rows = [page.export_view(page.source.row(i)) for i in range(page.source.count)]
        assert rows
        assert write_rows(tmp_path / "a.csv", rows) == write_rows(tmp_path / "a.jsonl", rows) == len(rows)
