"""Copying: through the terminal, by a program, or by hand if neither can work."""

import os
import shlex
from pathlib import Path

import pytest
from textual.app import App

from tests.tui.owner import press, screen, shown
from tests.tui.stage import words
from tui import clipboard
from tui.clipboard import accepts_osc52, clipboard_programs, copy_text

PROGRAMS = ("pbcopy", "clip.exe", "wl-copy", "xclip", "tmux")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for known in PROGRAMS:
        (tmp_path / known).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "environ", "names"),
    [
        ("darwin", {}, ["pbcopy"]),
        ("win32", {}, ["clip.exe"]),
        ("linux", {"WSL_DISTRO_NAME": "x"}, ["clip.exe"]),
        ("linux", {"WAYLAND_DISPLAY": "x", "DISPLAY": "y"}, ["wl-copy"]),
        ("linux", {"DISPLAY": ":0"}, ["xclip"]),
        ("linux", {"DISPLAY": ":0", "TMUX": "/tmp/x,1,0"}, ["xclip", "tmux"]),
        ("linux", {"TMUX": "/tmp/x,1,0"}, ["tmux"]),
        ("linux", {}, []),
    ],
)
@pytest.mark.usefixtures("programs")
def test_each_system_has_its_program(platform: str, environ: dict[str, str], names: list[str]) -> None:
    assert [command[0] for command in clipboard_programs(environ, platform)] == names


def test_without_programs_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clipboard_programs({"DISPLAY": ":0", "TMUX": "x"}, "linux") == []


@pytest.mark.parametrize(
    ("environ", "accepts"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM": "xterm-256color", "WT_SESSION": "1"}, True),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "TMUX": "x", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "screen", "STY": "1.pts"}, False),
    ],
)
def test_terminals_are_known_by_their_environment(environ: dict[str, str], accepts: bool | None) -> None:
    assert accepts_osc52(environ) is accepts


def environment(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """As if the console ran in such a terminal, with no program beside it."""
    monkeypatch.setattr(os, "environ", {"PATH": "/nowhere", **values})
    monkeypatch.setattr(App, "is_headless", False)


@pytest.mark.parametrize(("terminal", "note"), [("xterm-kitty", ""), ("xterm-256color", f"\n{clipboard.NOTE}")])
async def test_where_a_terminal_may_not_take_it_the_way_out_is_named(
    terminal: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown("live") as (app, pilot, _):
        environment(monkeypatch, TERM=terminal)
        copy_text(app.page, "text", "Copied: text")
        await press(app, pilot)
        assert (app.clipboard, words(app)) == ("text", [f"Copied: text{note}"])


async def test_uncopied_text_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown("live") as (app, pilot, _):
        environment(monkeypatch, TERM="linux")
        copy_text(app.page, "some text", "Copied")
        await press(app, pilot)
        assert app.screen.is_modal
        assert "this terminal does not accept copied text" in screen(app)
        assert "some text" in screen(app)
        assert words(app) == []
        await press(app, pilot, "escape")
        assert not app.screen.is_modal


@pytest.mark.parametrize(("keys", "copied"), [("shift+home ctrl+c", "st:err"), ("ctrl+x", "")])
async def test_selected_text_is_copied_like_any_other(keys: str, copied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown("live") as (app, pilot, _):
        environment(monkeypatch, TERM="xterm-256color")
        await press(app, pilot, "/", "=st:err", *keys.split())
        said = f"Copied what is selected.\n{clipboard.NOTE}"
        assert (app.clipboard, words(app)) == (copied, [said] if copied else [])


@pytest.mark.parametrize("key", ["c", "Y"])
async def test_a_call_gives_the_curl_line_that_makes_it(key: str) -> None:
    async with shown("live") as (app, pilot, owner):
        await press(app, pilot, "j", "j", "j", key)
        row = app.page.table.current
        assert f'"model":"{row.model}"' in app.clipboard
        assert app.clipboard.startswith("curl -N 'http://127.0.0.1:8655/v1/chat/completions'")
        assert '"stream":true' in app.clipboard
        assert "$OPENAI_API_KEY" in app.clipboard
        assert shlex.split(app.clipboard)[0] == "curl"
        assert owner.did == []
