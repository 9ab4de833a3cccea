"""``service``: starts the gateway at login, with a systemd user unit, a launchd agent or a Windows task.

It writes only to the user's own folders, needs no special rights, and runs nothing as another user.
"""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from gateway.client.launch import command
from gateway.commands.base import Noun
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import notify, out_view
from gateway.commands.session import current_config
from gateway.config import Config, make_home
from gateway.domain.errors import Conflict

NAME = "tollkeeper"
LABEL = "local.tollkeeper"


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the gateway starts at login, and whether it runs as a service now."""

    system: str
    """``systemd``, ``launchd`` or ``task scheduler``."""
    installed: bool
    running: bool
    file: str
    """The file that describes the service; empty on Windows."""


class FileService(msgspec.Struct, frozen=True, kw_only=True):
    """A service that is a file, which a tool of the system registers. Its methods raise Quit if that tool fails."""

    system: str
    file: Path
    link: Path | None = None
    """The link to the file that the tool makes."""
    text: Callable[[Config], str]
    """Returns the content of the file."""
    start: Sequence[str]
    """The command lines that start the service now and at every login."""
    stop: str
    reload: str = ""
    """The command line after the file was deleted; empty if none is needed."""
    test: str
    """The command line that succeeds if the service is running."""
    arguments: Sequence[str] = ()
    """The last arguments of ``start`` and ``stop``, which may contain spaces."""

    def install(self, config: Config) -> ServiceState:
        """Start the gateway now and at every login. If that fails, restore the old file, or delete the new one.

        Raises Conflict if there is a file of another program.
        """
        file = self.file
        before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else None
        if before is not None and NAME not in before.lower():
            raise Conflict(f"{file} exists already and was not created by Tollkeeper; move it away first")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text(config), encoding="utf-8")
        try:
            for line in self.start:
                _run_or_fail(line, *self.arguments)
        except Quit as error:
            if before is None:
                self._delete()
            else:
                file.write_text(before, encoding="utf-8")
            alternative = "'tollkeeper serve' runs the gateway without a service"
            raise Quit(f"{error.message}; nothing was installed. {alternative}", Exit.FAILED) from error
        return self.state()

    def remove(self) -> ServiceState:
        """Stop and remove the service. Its file is deleted even if it cannot be stopped."""
        if self.file.exists():
            try:
                _run_or_fail(self.stop, *self.arguments)
            except Quit as error:
                deleted = f"{self.file} was deleted, so the gateway does not start again at login"
                advice = "if it is still running, 'tollkeeper stop' stops it"
                raise Quit(f"{error.message}; {deleted}; {advice}", Exit.FAILED) from error
            finally:
                self._delete()
            if self.reload:
                _run_or_fail(self.reload)
        return self.state()

    def state(self) -> ServiceState:
        installed = self.file.exists()
        running = installed and _run(self.test.split()).returncode == 0
        return ServiceState(system=self.system, installed=installed, running=running, file=str(self.file))

    def _delete(self) -> None:
        for file in filter(None, (self.file, self.link)):
            file.unlink(missing_ok=True)


def systemd() -> FileService:
    """Returns the unit of the user's systemd."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    file = Path(base).expanduser() / "systemd" / "user" / f"{NAME}.service"
    return FileService(
        system="systemd",
        file=file,
        link=file.parent / "default.target.wants" / file.name,
        text=lambda config: unit(command(config), config.drain_s),
        start=("systemctl --user daemon-reload", f"systemctl --user enable --now {NAME}"),
        stop=f"systemctl --user disable --now {NAME}",
        reload="systemctl --user daemon-reload",
        test=f"systemctl --user is-active --quiet {NAME}",
    )


def launchd() -> FileService:
    """Returns the user agent of launchd."""
    file = Path("~/Library/LaunchAgents").expanduser() / f"{LABEL}.plist"
    return FileService(
        system="launchd",
        file=file,
        text=lambda config: plist(command(config), config),
        start=("launchctl load -w",),
        stop="launchctl unload -w",
        test=f"launchctl list {LABEL}",
        arguments=(str(file),),
    )


class Scheduler:
    """A task of Windows that runs at logon."""

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
        is_running = b"Running" in result.stdout
        return ServiceState(system="task scheduler", installed=result.returncode == 0, running=is_running, file="")


def service_manager() -> FileService | Scheduler:
    """Returns this system's service manager."""
    if sys.platform == "win32":
        return Scheduler()
    return launchd() if sys.platform == "darwin" else systemd()


def unit(words: Sequence[str], drain_s: float) -> str:
    """Returns the systemd unit that runs this command line: systemd.service(5), quoted as in systemd.syntax(7)."""
    line = " ".join(_quote(word) for word in words)
    return f"""[Unit]
Description=Tollkeeper, a personal gateway to language models
After=network-online.target

[Service]
ExecStart={line}
Restart=on-failure
RestartSec=2
TimeoutStopSec={drain_s + 30:.0f}
UMask=0077
# The output is for people at a terminal. Errors get into the journal.
StandardOutput=null

[Install]
WantedBy=default.target
"""


def plist(words: Sequence[str], config: Config) -> str:
    """Returns the launchd agent that runs this command line: launchd.plist(5)."""
    agent = {
        "Label": LABEL,
        "ProgramArguments": [*words],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": round(config.drain_s + 30),
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": str(config.log),
    }
    return plistlib.dumps(agent, sort_keys=False).decode()


def _quote(word: str) -> str:
    """Returns a word of a command line as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or " " in word or not word else word


def _run_or_fail(line: str, *arguments: str) -> None:
    """Run a command line, with more arguments that may contain spaces. Raises Quit if it fails."""
    result = _run([*line.split(), *arguments])
    if result.returncode:
        lines = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
        reason = lines[-1][:200] if lines else f"exit code {result.returncode}"
        raise Quit(f"{line} failed: {reason}", Exit.FAILED)


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Returns the result of the system's tool. Raises Quit if the tool is missing or takes too long."""
    program = shutil.which(words[0])
    if program is None:
        raise Quit(f"this system has no {words[0]}", Exit.FAILED)
    try:
        return subprocess.run([program, *words[1:]], capture_output=True, timeout=20.0, check=False)
    except subprocess.TimeoutExpired as exc:
        raise Quit(f"{words[0]} did not answer within 20 s", Exit.FAILED) from exc


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
def status() -> None:
    """Show whether the gateway starts at login, and whether it runs as a service now."""
    _print(service_manager().state())


def _print(state: ServiceState) -> None:
    pairs = [
        ("system", state.system),
        ("installed", "yes" if state.installed else "no"),
        ("running", "yes" if state.running else "no"),
        ("file", state.file if state.installed else ""),
    ]
    out_view(state, pairs)
