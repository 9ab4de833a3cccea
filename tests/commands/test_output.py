"""What is written is aligned, harmless, and ends quietly when nobody reads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.commands.output import cells, harmless, json_value, out_json, out_json_list, out_pairs, table
from tests.commands.samples import CALL, HOSTILE, TOKEN
from tests.house import ROOT

PROGRAM = [sys.executable, "cli.py", "completion", "zsh"]
COLUMNS = [("Name", lambda row: row[0]), (">Count", lambda row: row[1])]


def test_columns_are_aligned() -> None:
    assert table([("a", "1"), ("long", "1000")], COLUMNS) == "Name  Count\na         1\nlong   1000"


def test_an_empty_cell_keeps_its_place() -> None:
    assert table([("", "1")], COLUMNS).splitlines()[1] == "-         1"


def test_wide_and_combining_characters_count_as_they_are_shown() -> None:
    assert (cells("日本"), cells("e\u0301"), cells("ab")) == (4, 1, 2)


def test_cells_and_pairs_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    out_pairs([("name", HOSTILE)])
    text = capsys.readouterr().out + table([(HOSTILE, HOSTILE)], COLUMNS)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text.splitlines()) == 3


def test_text_of_several_lines_keeps_its_lines_and_tabs() -> None:
    assert harmless("a\tb\r\nc\x1b[2J\n") == "a\tb\nc\ufffd[2J\n"


def test_json_is_ascii_and_exact(capsys: pytest.CaptureFixture[str]) -> None:
    out_json({"name": HOSTILE})
    text = capsys.readouterr().out
    assert text.isascii()
    assert "\\u001b" in text


def test_a_list_is_an_array_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    out_json_list([TOKEN, TOKEN])
    out_json_list([])
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-2], lines[-1], len(lines)) == ("[", "]", "[]", 5)


def test_every_field_is_there_also_with_its_default() -> None:
    assert json_value(TOKEN)["limits"] == {  # type: ignore[index]
        **dict.fromkeys(("rpm", "tpm", "rpd", "tpd", "concurrent", "streams", "queue", "queue_s")),
        "rpm": 60,
    }
    assert json_value(CALL)["rates"]["output"] == 10_000_000_000  # type: ignore[index]
    assert json_value(CALL)["attempts"][1]["kind"] is None  # type: ignore[index]


def test_nothing_is_said_when_the_reader_has_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        run = subprocess.run(PROGRAM, stdout=gone, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(PROGRAM, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert (run.returncode, run.stderr) == (1, b"tollkeeper: the output cannot be written: No space left on device\n")
