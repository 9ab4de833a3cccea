"""``service``: starts the gateway at login, with a systemd user unit, a launchd agent or a Windows task.

It writes only to the user's own folders, needs no special rights, and runs nothing as another user.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import click
import msgspec

from gateway.client.launch import command
from gateway.commands.base import Noun
from gateway.commands.options import json_option
from gateway.commands.output import notify, out_view
from gateway.commands.session import current_config
from gateway.config import Config, make_home
from gateway.domain.errors import Conflict, GatewayError

NAME = "tollkeeper"
LABEL = "local.tollkeeper"


class ServiceFailed(GatewayError):
    """The system's tool failed."""

    default_code = "service_failed"


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service."""

    system: str
    """``systemd``, ``launchd`` or ``task scheduler``."""
    installed: bool
    running: bool
    file: str
    """The file that describes the service; empty on Windows."""


class Systemd:
    """A unit of the user's systemd."""

    system = "systemd"

    def __init__(self) -> None:
        base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        self.file = Path(base).expanduser() / "systemd" / "user" / f"{NAME}.service"
        self.link = self.file.parent / "default.target.wants" / self.file.name
        """The link that makes systemd start the unit at login."""

    def install(self, config: Config) -> ServiceState:
        """Start the gateway now and at every login. Raises ServiceFailed."""
        with _write_unit(unit(command(config)), self.file, self.link):
            _run_or_fail("systemctl --user daemon-reload")
            _run_or_fail(f"systemctl --user enable --now {NAME}")
        return self.state()

    def remove(self) -> ServiceState:
        """Stop and remove the service. Raises ServiceFailed."""
        if self.file.exists():
            with _delete_unit(self.file, self.link):
                _run_or_fail(f"systemctl --user disable --now {NAME}")
            _run_or_fail("systemctl --user daemon-reload")
        return self.state()

    def state(self) -> ServiceState:
        return _state_of(self.file, self.system, f"systemctl --user is-active --quiet {NAME}")


class Launchd:
    """A user agent of launchd."""

    system = "launchd"

    def __init__(self) -> None:
        self.file = Path("~/Library/LaunchAgents").expanduser() / f"{LABEL}.plist"

    def install(self, config: Config) -> ServiceState:
        with _write_unit(plist(command(config), config), self.file):
            _run_or_fail("launchctl load -w", str(self.file))
        return self.state()

    def remove(self) -> ServiceState:
        if self.file.exists():
            with _delete_unit(self.file):
                _run_or_fail("launchctl unload -w", str(self.file))
        return self.state()

    def state(self) -> ServiceState:
        return _state_of(self.file, self.system, f"launchctl list {LABEL}")


class Scheduler:
    """A task of Windows that runs at logon."""

    system = "task scheduler"

    def install(self, config: Config) -> ServiceState:
        line = subprocess.list2cmdline(command(config))
        _run_or_fail(f"schtasks /Create /F /SC ONLOGON /RL LIMITED /TN {NAME} /TR", line)
        _run_or_fail(f"schtasks /Run /TN {NAME}")
        return self.state()

    def remove(self) -> ServiceState:
        if self.state().installed:
            _run_or_fail(f"schtasks /End /TN {NAME}")
            _run_or_fail(f"schtasks /Delete /F /TN {NAME}")
        return self.state()

    def state(self) -> ServiceState:
        result = _run(["schtasks", "/Query", "/TN", NAME, "/FO", "LIST"])
        running = b"Running" in result.stdout
        return ServiceState(system=self.system, installed=result.returncode == 0, running=running, file="")


def service_manager() -> Systemd | Launchd | Scheduler:
    """Returns this system's service manager."""
    if sys.platform == "win32":
        return Scheduler()
    return Launchd() if sys.platform == "darwin" else Systemd()


def unit(words: Sequence[str]) -> str:
    """Returns the systemd unit that runs this command line: systemd.service(5), quoted as in systemd.syntax(7)."""
    line = " ".join(_quote(word) for word in words)
    return f"""[Unit]
Description=Tollkeeper, a personal gateway to language models
After=network-online.target

[Service]
ExecStart={line}
Restart=on-failure
RestartSec=2
TimeoutStopSec=60
UMask=0077
# The output of the first start contains a key, which must not get into the journal.
StandardOutput=null

[Install]
WantedBy=default.target
"""


def plist(words: Sequence[str], config: Config) -> str:
    """Returns the launchd agent that runs this command line: launchd.plist(5)."""
    arguments = "\n".join(f"    <string>{escape(word)}</string>" for word in words)
    log = escape(str(config.log))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>StandardOutPath</key><string>/dev/null</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


def _quote(word: str) -> str:
    """Returns a word of a command line as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or " " in word or not word else word


@contextmanager
def _write_unit(text: str, file: Path, *links: Path) -> Iterator[None]:
    """Write a unit before the block, which registers it. If that fails, restore the old file, or delete the new one.

    Raises Conflict if there is a file of another program.
    """
    before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else None
    if before is not None and NAME not in before.lower():
        raise Conflict(f"{file} exists already and was not created by Tollkeeper; move it away first")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    try:
        yield
    except ServiceFailed as error:
        if before is None:
            for new in (file, *links):
                new.unlink(missing_ok=True)
        else:
            file.write_text(before, encoding="utf-8")
        alternative = "'tollkeeper serve' runs the gateway without a service"
        raise ServiceFailed(f"{error.message}; nothing was installed. {alternative}") from error


@contextmanager
def _delete_unit(*files: Path) -> Iterator[None]:
    """Delete the files after the block, which stops the service, even if that fails."""
    try:
        yield
    except ServiceFailed as error:
        deleted = f"{files[0]} was deleted, so the gateway does not start again at login"
        advice = "if it is still running, 'tollkeeper stop' stops it"
        raise ServiceFailed(f"{error.message}; {deleted}; {advice}") from error
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _state_of(file: Path, system: str, test: str) -> ServiceState:
    """Returns the state of a service that has a file. ``test`` is a command line that succeeds if it is running."""
    installed = file.exists()
    running = installed and _run(test.split()).returncode == 0
    return ServiceState(system=system, installed=installed, running=running, file=str(file))


def _run_or_fail(line: str, *arguments: str) -> None:
    """Run a command line, with further arguments that may contain spaces. Raises ServiceFailed if it fails."""
    result = _run([*line.split(), *arguments])
    if result.returncode:
        lines = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
        reason = lines[-1][:200] if lines else f"exit code {result.returncode}"
        raise ServiceFailed(f"{line} failed: {reason}")


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Returns the result of the system's tool. Raises ServiceFailed if the tool is missing or takes too long."""
    program = shutil.which(words[0])
    if program is None:
        raise ServiceFailed(f"this system has no {words[0]}")
    try:
        return subprocess.run([program, *words[1:]], capture_output=True, timeout=20.0, check=False)
    except subprocess.TimeoutExpired as exc:
        raise ServiceFailed(f"{words[0]} did not answer within 20 s") from exc


@click.group(cls=Noun, bare="status")
def service() -> None:
    """Start the gateway at login, with the operating system's own tools."""


@service.command(examples=["tollkeeper service install"])
def install() -> None:
    """Start the gateway now and at every login, with a systemd user unit, a launchd agent or a Windows task."""
    config = current_config()
    make_home(config.home)
    state = service_manager().install(config)
    notify(f"{state.system} starts the gateway at every login")
    _print(state)


@service.command(examples=["tollkeeper service remove"])
def remove() -> None:
    """Stop the service and remove it. Data is kept."""
    _print(service_manager().remove())


@service.command(examples=["tollkeeper service status --json"])
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the gateway starts at login, and whether it runs as a service now."""
    _print(service_manager().state(), as_json=as_json)


def _print(state: ServiceState, *, as_json: bool = False) -> None:
    pairs = [
        ("system", state.system),
        ("installed", "yes" if state.installed else "no"),
        ("running", "yes" if state.running else "no"),
        ("file", state.file if state.installed else ""),
    ]
    out_view(state, pairs, as_json=as_json)
