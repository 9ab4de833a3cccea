"""The gateway at login. A script that notes how it was called replaces the systems' own tools."""

import json
import os
import plistlib
import sys
from pathlib import Path

import msgspec
import pytest

from gateway.client.launch import command
from gateway.commands import service
from gateway.commands.exit_codes import Quit
from gateway.commands.service import launchd, plist, systemd, unit
from gateway.config import Config
from gateway.domain.errors import Conflict
from tests.commands.runner import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in tool is a shell script")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-ins write a line a call; a file ``refuse`` beside it makes them fail."""
    log = tmp_path / "calls"
    log.touch()
    for name in ("systemctl", "launchctl"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ ! -e {tmp_path}/refuse ] || {{ echo no >&2; exit 1; }}\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return log


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(home=tmp_path / "a home")


def test_a_unit_is_written_enabled_and_started(calls: Path, config: Config) -> None:
    state = systemd().install(config)
    assert calls.read_text().splitlines()[:2] == ["--user daemon-reload", "--user enable --now tollkeeper"]
    assert (state.installed, state.running) == (True, True)
    assert f'"{config.home}"' in Path(state.file).read_text()


def test_a_removed_unit_is_stopped_and_gone(calls: Path, config: Config) -> None:
    systemd().install(config)
    state = systemd().remove()
    assert "--user disable --now tollkeeper" in calls.read_text()
    assert (state.installed, Path(state.file).exists()) == (False, False)


def test_nothing_installed_is_removed_in_silence(calls: Path) -> None:
    assert not systemd().remove().installed
    assert calls.read_text() == ""


def test_a_tool_that_refuses_is_quoted_and_leaves_nothing_behind(calls: Path, config: Config) -> None:
    (calls.parent / "refuse").touch()
    for keeper, words in ((systemd(), "daemon-reload failed: no"), (launchd(), "load -w failed: no")):
        with pytest.raises(Quit, match=f"{words}; nothing was installed"):
            keeper.install(config)
        assert not keeper.file.exists()
        assert not keeper.remove().installed


def test_a_service_that_was_installed_stays_as_it_was_if_the_tool_refuses(calls: Path, config: Config) -> None:
    before = Path(systemd().install(config).file).read_text()
    (calls.parent / "refuse").touch()
    with pytest.raises(Quit):
        systemd().install(Config(home=config.home / "another"))
    assert systemd().file.read_text() == before


def test_a_service_is_removed_although_the_tool_refuses(calls: Path, config: Config) -> None:
    for keeper in (systemd(), launchd()):
        keeper.install(config)
        wants = keeper.file.parent / "default.target.wants" / keeper.file.name
        wants.parent.mkdir()
        wants.symlink_to(keeper.file)
        (calls.parent / "refuse").touch()
        with pytest.raises(Quit, match=r"failed: no; .* was deleted, so the gateway does not start again"):
            keeper.remove()
        assert not keeper.file.exists()
        assert wants.is_symlink() is (keeper.system == "launchd")
        assert not keeper.state().installed
        (calls.parent / "refuse").unlink()


def test_somebody_elses_file_is_not_overwritten(calls: Path, config: Config) -> None:
    keeper = systemd()
    keeper.file.parent.mkdir(parents=True)
    keeper.file.write_text("[Unit]\n")
    with pytest.raises(Conflict):
        keeper.install(config)
    assert keeper.file.read_text() == "[Unit]\n"


def test_a_system_without_the_tool_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Config) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(Quit, match="no systemctl"):
        systemd().install(config)


def test_an_agent_of_launchd_is_loaded_and_unloaded(calls: Path, config: Config) -> None:
    file = Path(launchd().install(config).file)
    assert file.exists()
    launchd().remove()
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["load", "list", "unload"]
    assert not file.exists()


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/t", "/usr/bin/t"),
        ("/a b/t", '"/a b/t"'),
        ("100%", '"100%%"'),
        ('a"b', '"a\\"b"'),
        ("$HOME", '"$$HOME"'),
    ],
)
def test_words_of_a_unit_mean_themselves(word: str, written: str) -> None:
    assert f"ExecStart={written} serve\n" in unit([word, "serve"], 30)


def test_words_of_an_agent_are_escaped(config: Config) -> None:
    assert "<string>/a&amp;b</string>" in plist(["/a&b"], config)
    assert plistlib.loads(plist(["/a&b"], config).encode())["ProgramArguments"] == ["/a&b"]


def test_the_system_waits_longer_than_the_server_does_for_running_calls(config: Config) -> None:
    """systemd kills after ``TimeoutStopSec``, launchd after ``ExitTimeOut``, which is 20 seconds without the key."""
    slow = msgspec.structs.replace(config, drain_s=90.0)
    assert "TimeoutStopSec=120\n" in systemd().text(slow)
    assert plistlib.loads(plist(["serve"], slow).encode())["ExitTimeOut"] == 120
    assert command(slow)[-3:-1] == ["--drain", "90"]


def test_the_first_key_gets_into_no_journal(config: Config) -> None:
    assert "StandardOutput=null" in unit(["serve"], 30)
    assert plistlib.loads(plist(["serve"], config).encode())["StandardOutPath"] == "/dev/null"


class Stand:
    """A system on which everything works."""

    def __init__(self) -> None:
        self.installed = False

    def install(self, _config: object) -> service.ServiceState:
        self.installed = True
        return self.state()

    def remove(self) -> service.ServiceState:
        self.installed = False
        return self.state()

    def state(self) -> service.ServiceState:
        return service.ServiceState(
            system="systemd", installed=self.installed, running=self.installed, file="/u/tollkeeper.service"
        )


@pytest.fixture(autouse=True)
def _stand(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    monkeypatch.setattr(service, "service_manager", lambda: stand)


def test_installed_shown_and_removed() -> None:
    assert "at every login" in run("service", "install").err
    assert json.loads(run("service", "status", "--json").out)["running"] is True
    assert run("service", "remove").code == 0
    assert "no" in run("service", "status").out.splitlines()[1]
