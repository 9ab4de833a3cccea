"""What is written is aligned, harmless, and ends quietly when nobody reads."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

from gateway.commands.output import ListColumn, coloured_state, out_json, out_json_list, out_pairs, plain_lines, table
from gateway.domain.field_kinds import json_value
from tests import fork_server
from tests.commands.program import PROGRAM as PYTHON, Served, environment
from tests.commands.samples import CALL, HOSTILE, TOKEN
from tests.house import ROOT

PROGRAM = [sys.executable, "cli.py", "completion", "zsh"]
COLUMNS = [ListColumn("Name", lambda row: row[0], "name"), ListColumn("Count", lambda row: row[1], "number")]


def test_columns_are_aligned() -> None:
    assert table([("a", "1"), ("long", "1000")], COLUMNS, None)[0] == "Name  Count\na         1\nlong   1000"


def test_an_empty_cell_keeps_its_place() -> None:
    assert table([("", "1")], COLUMNS, None)[0].splitlines()[1] == "-         1"


def test_cells_and_pairs_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    out_pairs([("name", HOSTILE)])
    text = capsys.readouterr().out + table([(HOSTILE, HOSTILE)], COLUMNS, None)[0]
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text.splitlines()) == 3


def test_text_of_several_lines_keeps_its_lines_and_tabs() -> None:
    assert plain_lines("a\tb\r\nc\x1b[2J\n") == "a\tb\nc\ufffd[2J\n"


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
    assert json_value(TOKEN)["limits"] == {
        **dict.fromkeys(("rpm", "tpm", "rpd", "tpd", "concurrent", "streams", "queue", "queue_s")),
        "rpm": 60,
    }
    assert json_value(CALL)["rates"]["output"] == 10_000_000_000
    assert json_value(CALL)["attempts"][1]["kind"] is None


def test_nothing_is_printed_when_the_reader_has_gone() -> None:
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


def test_a_table_is_as_wide_as_the_terminal_and_numbers_stay_whole() -> None:
    rows = [("a" * 40, "1234567890"), ("b" * 20, "1")]
    lines = table(rows, COLUMNS, 30)[0].splitlines()
    assert lines[1] == "a" * 9 + "…" + "a" * 8 + "  1234567890"
    assert max(map(cell_len, lines)) == 30
    assert max(map(cell_len, table(rows, COLUMNS, None)[0].splitlines())) == 52
    assert max(map(cell_len, table(rows, COLUMNS, 10)[0].splitlines())) == 22  # nothing gets narrower than ten places


def test_a_narrow_table_does_without_columns_and_cuts_no_id() -> None:
    ids = ListColumn("Id", lambda _row: "req_" + "0" * 26, "whole", drop=1)
    columns = [*COLUMNS, ids, ListColumn("Note", lambda _row: "n" * 30, drop=2)]
    row = [("a" * 40, "7")]
    assert [len(table(row, columns, width)[0].splitlines()[0].split()) for width in (120, 80, 50, 20)] == [4, 4, 3, 2]
    assert "req_" + "0" * 26 in table(row, columns, 80)[0]


def test_a_narrow_table_keeps_an_empty_column_that_may_not_be_omitted() -> None:
    lines = table([("a" * 40, "")], [*COLUMNS, ListColumn("Note", lambda _row: "", drop=1)], 30)[0].splitlines()
    assert [line.split()[1:] for line in lines] == [["Count"], ["-"]]


def test_columns_are_left_out_before_the_first_one_gets_too_short() -> None:
    columns = [*COLUMNS, ListColumn("p50", lambda _row: "1234567890", "number", drop=1)]
    rows = [("claude-sonnet-4-5", "7"), ("claude-sonnet-4-6", "8")]
    lines = table(rows, columns, 35)[0].splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["claude-sonnet-4-5", "claude-sonnet-4-6"]


def test_no_moment_is_cut() -> None:
    columns = [ListColumn("Began", lambda row: row[0], "whole"), ListColumn("Message", lambda row: row[1])]
    lines = table([("2026-11-22 20:38:16", "m" * 60)], columns, 40)[0].splitlines()
    assert lines[1] == "2026-11-22 20:38:16  " + "m" * 18 + "…"


def test_names_that_begin_alike_stay_distinct() -> None:
    columns = [
        ListColumn("Time", lambda _row: "2026-11-22 20:38:16", "whole"),
        ListColumn("Token", lambda row: row, "name"),
        ListColumn("Note", lambda _row: "n" * 40),
    ]
    lines = table(["claude-proj-a12b97", "claude-proj-76d973"], columns, 46)[0].splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["claud…12b97", "claud…6d973"]


def test_states_have_colours_and_keep_their_places() -> None:
    columns = [ListColumn("State", lambda row: row[0], "state"), ListColumn("Count", lambda row: row[1], "number")]
    lines = table([("ok", "1"), ("needs attention", "2"), ("new", "3")], columns, None)[0].splitlines()
    assert lines[1] == "\x1b[32mok             \x1b[0m      1"
    assert lines[2].startswith("\x1b[31mneeds attention\x1b[0m")
    assert lines[3] == "new                  3"
    assert [coloured_state(state)[:5] for state in ("200", "404, retried", "502", "off")] == [
        *("\x1b[32m", "\x1b[33m", "\x1b[31m"),
        "\x1b[90m",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("environ", "colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_and_its_width_and_a_pipe_neither(
    served: Served, environ: dict[str, str], colours: bool
) -> None:
    argv = [*PYTHON, "channel", "list"]
    env = {**environment(served.home), "COLUMNS": "60", **environ}
    piped = fork_server.run(argv, env=env, timeout=90).stdout.encode()
    assert b"\x1b" not in piped
    assert len(piped.splitlines()[0]) > 60
    ours, theirs = os.openpty()
    with fork_server.start(argv, env=env, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end is closed when the program ends
            while part := os.read(ours, 4096):
                shown += part
        assert process.wait(30) == 0
    os.close(ours)
    assert (b"\x1b[32mok" in shown) is colours
    assert max(len(line) for line in re.sub(rb"\x1b\[[0-9]*m", b"", shown).splitlines()) < len(piped.splitlines()[0])


def test_a_cell_that_is_cut_keeps_its_end() -> None:
    rows = ["claude-sonnet-4-5 as gpt-4o x7", "claude-sonnet-4-5-20250929"]
    columns = [
        ListColumn("Model", lambda row: row, "name", min_width=16),
        ListColumn("Count", lambda _: "12345678", "number"),
    ]
    _, first, second = table(rows, columns, 36)[0].splitlines()
    assert (first, second) == ("claude-sonnet…as gpt-4o x7  12345678", "claude-sonnet-4-5-20250929  12345678")


def test_columns_are_left_out_before_a_model_gets_too_short() -> None:
    columns = [
        ListColumn("Time", lambda _: "2026-11-23 05:00:00", "whole"),
        ListColumn("Token", lambda _: "claude-proj-549233", "name"),
        ListColumn("Model", lambda row: row, "name", min_width=16),
        ListColumn("API", lambda _: "chat", drop=1),
    ]
    rows = ["gpt-4o-mini", "claude-sonnet-4-5-20250929"]
    head, first, second = table(rows, columns, 50)[0].splitlines()
    assert (head.split(), first.split()[-1]) == (["Time", "Token", "Model"], "gpt-4o-mini")
    assert second.split()[-2:] == ["claud…49233", "claude-s…0250929"]
    rows[0] = "claude-sonnet-4-5 as gpt-4o-mini"
    assert table(rows, columns, 54)[0].splitlines()[1].endswith("claude-s…4o-mini")
