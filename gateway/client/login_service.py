"""Service: the gateway at login, by the system's own means: a systemd user unit, a launchd agent or a Windows task.

Only the user's own folders are written to; nothing here needs rights, and nothing runs as another user.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

from gateway.client.launch import command
from gateway.config import Config
from gateway.domain.errors import Conflict, GatewayError

NAME = "tollkeeper"
LABEL = "local.tollkeeper"


class ServiceFailed(GatewayError):
    """The system's tool refused."""

    default_code = "service_failed"


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service."""

    system: str
    """``systemd``, ``launchd`` or ``task scheduler``."""
    installed: bool
    running: bool
    file: str
    """The file that describes it; empty if there is none."""


class Systemd:
    """A unit of the user's own systemd."""

    system = "systemd"

    def __init__(self) -> None:
        base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        self.file = Path(base).expanduser() / "systemd" / "user" / f"{NAME}.service"
        self.link = self.file.parent / "default.target.wants" / self.file.name
        """The link by which systemd knows that it is enabled."""

    def install(self, config: Config) -> ServiceState:
        """Start the gateway now and at every login. Raises ServiceFailed."""
        with _write_unit(unit(command(config)), self.file, self.link):
            _ask("systemctl --user daemon-reload")
            _ask(f"systemctl --user enable --now {NAME}")
        return self.state()

    def remove(self) -> ServiceState:
        """Stop and remove the service. Raises ServiceFailed."""
        if self.file.exists():
            with _delete_unit(self.file, self.link):
                _ask(f"systemctl --user disable --now {NAME}")
            _ask("systemctl --user daemon-reload")
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
            _ask("launchctl load -w", str(self.file))
        return self.state()

    def remove(self) -> ServiceState:
        if self.file.exists():
            with _delete_unit(self.file):
                _ask("launchctl unload -w", str(self.file))
        return self.state()

    def state(self) -> ServiceState:
        return _state_of(self.file, self.system, f"launchctl list {LABEL}")


class Scheduler:
    """A task of Windows that runs at logon."""

    system = "task scheduler"

    def install(self, config: Config) -> ServiceState:
        line = subprocess.list2cmdline(command(config))
        _ask(f"schtasks /Create /F /SC ONLOGON /RL LIMITED /TN {NAME} /TR", line)
        _ask(f"schtasks /Run /TN {NAME}")
        return self.state()

    def remove(self) -> ServiceState:
        if self.state().installed:
            _ask(f"schtasks /End /TN {NAME}")
            _ask(f"schtasks /Delete /F /TN {NAME}")
        return self.state()

    def state(self) -> ServiceState:
        done = _run(["schtasks", "/Query", "/TN", NAME, "/FO", "LIST"])
        running = b"Running" in done.stdout
        return ServiceState(system=self.system, installed=done.returncode == 0, running=running, file="")


def service_manager() -> Systemd | Launchd | Scheduler:
    """Returns this system's service manager."""
    if sys.platform == "win32":
        return Scheduler()
    return Launchd() if sys.platform == "darwin" else Systemd()


def unit(words: Sequence[str]) -> str:
    """Returns the systemd unit that runs this command line (systemd.service(5); quoting of systemd.syntax(7))."""
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
# What is printed at the first start holds a key: it must not get into the journal.
StandardOutput=null

[Install]
WantedBy=default.target
"""


def plist(words: Sequence[str], config: Config) -> str:
    """Returns the launchd agent that runs this command line (launchd.plist(5))."""
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
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if plain != word or " " in word or not word else word


@contextmanager
def _write_unit(text: str, file: Path, *links: Path) -> Iterator[None]:
    """Writes a unit while the block registers it. If that fails, the old file is restored, or the new one deleted.

    Raises Conflict if a foreign file is there.
    """
    before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else None
    if before is not None and NAME not in before.lower():
        raise Conflict(f"{file} already exists and was not created by Tollkeeper")
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
        way = "'tollkeeper serve' runs the gateway without a service"
        raise ServiceFailed(f"{error.message}; nothing was installed. {way}") from error


@contextmanager
def _delete_unit(*files: Path) -> Iterator[None]:
    """Deletes the files after the service was stopped, even if the system did not stop it."""
    try:
        yield
    except ServiceFailed as error:
        gone = f"{files[0]} was deleted, so it does not start again"
        running = "if it still runs, 'tollkeeper stop' stops it"
        raise ServiceFailed(f"{error.message}; {gone}; {running}") from error
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _state_of(file: Path, system: str, question: str) -> ServiceState:
    """Returns the state of a service with a file. ``question`` is the command line that succeeds while it runs."""
    installed = file.exists()
    running = installed and _run(question.split()).returncode == 0
    return ServiceState(system=system, installed=installed, running=running, file=str(file))


def _ask(line: str, *arguments: str) -> None:
    """Runs a command line, with arguments that may contain spaces. Raises ServiceFailed if it fails."""
    done = _run([*line.split(), *arguments])
    if done.returncode:
        raise ServiceFailed(f"{line} failed: {_last(done)}")


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Runs the system's tool. Raises ServiceFailed if it is missing or hangs."""
    program = shutil.which(words[0])
    if program is None:
        raise ServiceFailed(f"this system has no {words[0]}")
    try:
        return subprocess.run([program, *words[1:]], capture_output=True, timeout=20.0, check=False)
    except subprocess.TimeoutExpired as exc:
        raise ServiceFailed(f"{words[0]} did not answer within 20 s") from exc


def _last(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.returncode}"
