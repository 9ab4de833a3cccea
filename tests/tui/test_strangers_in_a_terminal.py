"""Five hundred hostile strings on every page of the console: what reaches the terminal is the console's own."""

import re
import unicodedata
from pathlib import Path

import pytest

from tests.tui.hostile import strings
from tests.tui.terminal import Terminal
from tests.tui.test_in_a_terminal import console

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P_^X].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)
DRAWING = re.compile(r"\x1b\[(?:[0-9;]*m|[0-9]+;[0-9]+H)")
FOREIGN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ROWS = 75
PAGES = ("live", "tokens", "groups", "channels", "models", "account", "usage")


def kinds(raw: bytes) -> set[str]:
    """The escape sequences that are more than colours and places."""
    return {found for found in SEQUENCE.findall(raw.decode()) if not DRAWING.fullmatch(found)}


def foreign(raw: bytes) -> set[str]:
    """Characters that are not text, outside of escape sequences."""
    text = SEQUENCE.sub("", raw.decode())
    return {char for char in set(text) - {"\r", "\n"} if unicodedata.category(char) in FOREIGN}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What the console sends to a terminal when nothing is strange."""
    with console(tmp_path_factory.mktemp("home")) as shown:
        shown.wait("✓200").keys("\r").wait("tokens      in").keys("2").wait("first").keys("?").wait("Keys: ")
        shown.keys("qq")
        shown.ended()
        return kinds(bytes(shown.raw))


def walk(shown: Terminal, key: str) -> None:
    """Through the whole table, with the pane open; a page of the table has more than fifty rows."""
    shown.keys(key).keys("\r")
    for _ in range(len(strings()) // 50):
        shown.keys("\x06").drained()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.long
def test_nothing_of_them_reaches_the_terminal(tmp_path: Path, known: set[str], page: str) -> None:
    with console(tmp_path, "hostile", rows=ROWS) as shown:
        shown.wait("Time", "Quit", "✗500")
        walk(shown, str(PAGES.index(page) + 1))
        shown.keys("?").wait("Keys: ").keys("q").drained()
        shown.keys("q")
        assert shown.ended() == 0
        raw = bytes(shown.raw)
    assert kinds(raw) - known == set()
    assert foreign(raw) == set()
