import os
import pty
from pathlib import Path

import pytest

from tui.terminal import clipboard_program, is_gone, plain_reason


def test_an_open_terminal_is_there() -> None:
    master, slave = pty.openpty()
    try:
        assert not is_gone(slave)
    finally:
        os.close(master)
        os.close(slave)


def test_a_closed_terminal_has_vanished() -> None:
    master, slave = pty.openpty()
    os.close(master)
    try:
        assert is_gone(slave)
    finally:
        os.close(slave)


def test_a_dumb_terminal_gets_no_screen() -> None:
    assert plain_reason({"TERM": "xterm"}) == ""
    assert plain_reason({"TERM": "dumb"}) == "TERM is dumb"
    assert plain_reason({"TERM": "xterm", "TOLLKEEPER_PLAIN": "1"}) == "TOLLKEEPER_PLAIN is set"
    assert plain_reason({"TOLLKEEPER_PLAIN": "0"}) == ""


@pytest.mark.parametrize(
    ("platform", "environ", "name"),
    [
        ("darwin", {}, "pbcopy"),
        ("win32", {}, "clip.exe"),
        ("linux", {"WSL_DISTRO_NAME": "x"}, "clip.exe"),
        ("linux", {"WAYLAND_DISPLAY": "x", "DISPLAY": "y"}, "wl-copy"),
        ("linux", {"DISPLAY": ":0"}, "xclip"),
    ],
)
def test_each_system_has_its_program(
    platform: str, environ: dict[str, str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("pbcopy", "clip.exe", "wl-copy", "xclip"):
        (tmp_path / known).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clipboard_program(environ, platform)[0] == name


def test_without_a_screen_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clipboard_program({}, "linux") == []
    assert clipboard_program({"DISPLAY": ":0"}, "linux") == []
