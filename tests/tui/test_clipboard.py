from pathlib import Path

import pytest

from tui.terminal import program


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
    assert program(environ, platform)[0] == name


def test_without_a_screen_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program({}, "linux") == []
    assert program({"DISPLAY": ":0"}, "linux") == []
