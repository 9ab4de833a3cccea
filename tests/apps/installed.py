"""Installed: client programs as ``.ci/apps`` brings them, and how they are run against a gateway.

They run only with TOLLKEEPER_FULL=1, as ``make nightly`` sets it, and are skipped if they are not installed.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gateway.client.app import KEY_VARIABLE, AppTarget, Launch
from gateway.client.apps import APPS
from tests.apps.scripted_agent import MODEL
from tests.fakes.gateway import Gateway
from tests.house import ROOT

FOLDER = ROOT / ".apps"
RUN_S = 240
"""A coding agent takes a second or two for each of its turns."""

driven = pytest.mark.skipif(
    not os.environ.get("TOLLKEEPER_FULL"), reason="real programs run with TOLLKEEPER_FULL=1, as in make nightly"
)
"""For every test that starts one."""


@dataclass(frozen=True)
class Driven:
    """How a program ended."""

    code: int
    out: str
    """What it wrote to stdout and stderr."""


def program(name: str, executable: str) -> Path:
    """An executable of an installed app. Skips the test if it is not there."""
    for folder in ("bin", "node_modules/.bin"):
        path = FOLDER / name / folder / executable
        if path.exists():
            return path
    pytest.skip(f"{name} is not installed; '.ci/apps {name}' installs it")


def node_folder(name: str) -> Path:
    """The folder whose ``node_modules`` holds a package. Skips the test if it is not there."""
    folder = FOLDER / name
    if shutil.which("node") is None or not (folder / "node_modules").is_dir():
        pytest.skip(f"{name} is not installed; '.ci/apps {name}' installs it")
    return folder


def target(gateway: Gateway, model: str = MODEL) -> AppTarget:
    """What every program is pointed at."""
    return AppTarget(base_url=gateway.base_url, model=model, models={model: None}, key=gateway.client.key)


def launch_of(app: str, gateway: Gateway, folder: Path, model: str) -> Launch:
    """How ``tollkeeper run`` would start it; its files are written into the folder."""
    folder.mkdir(exist_ok=True)
    launch = APPS[app].launch_for(target(gateway, model), folder)
    for name, text in launch.files.items():
        (folder / name).write_text(text)
    return launch


async def drive(
    app: str,
    gateway: Gateway,
    command: Sequence[str | Path],
    folder: Path,
    *,
    model: str = MODEL,
    more: Mapping[str, str] | None = None,
) -> Driven:
    """Run a program in ``folder/work`` with the settings of its app and a home of its own, to its end.

    ``more`` are variables beyond those of the app.
    """
    launch = launch_of(app, gateway, folder / "settings", model)
    work, home = folder / "work", folder / "user"
    for each in (work, home):
        each.mkdir(exist_ok=True)
    variables = {**launch.defaults, **(more or {}), KEY_VARIABLE: gateway.client.key, **launch.variables}
    if launch.folder_variable:
        variables[launch.folder_variable] = str(folder / "settings")
    path = os.pathsep.join((str(Path(command[0]).parent), os.environ["PATH"]))  # pi brings its own Node.js
    base = {"HOME": str(home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1"}
    base["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it tries to fetch one, several times
    process = await asyncio.create_subprocess_exec(
        command[0],
        *launch.arguments,
        *command[1:],
        cwd=work,
        env=base | {name: value for name, value in variables.items() if value},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(RUN_S):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        out, _ = await process.communicate()
        pytest.fail(f"{app} did not end in {RUN_S} s: {out.decode(errors='replace')[-2000:]}")
    finally:
        end_processes_of(home)
    return Driven(process.returncode or 0, out.decode(errors="replace"))


def end_processes_of(home: Path) -> None:
    """End what a program has left running, such as Cline's hub: every process with this home."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(home):
                process.kill()
