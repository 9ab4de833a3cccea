import os
import pty

import pytest

from tui.app import has_few_colours, is_gone


@pytest.mark.parametrize(
    ("environ", "few"),
    [
        ({"TERM": "linux"}, True),
        ({"TERM": "xterm-16color"}, True),
        ({"TERM": "xterm-mono"}, True),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "tmux-256color"}, False),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, False),
    ],
)
def test_the_environment_says_how_many_colours_there_are(environ: dict[str, str], *, few: bool) -> None:
    assert has_few_colours(environ) == few


def test_a_terminal_is_gone_when_its_other_end_is_closed() -> None:
    master, slave = pty.openpty()
    try:
        assert not is_gone(slave)
        os.close(master)
        assert is_gone(slave)
    finally:
        os.close(slave)
