"""Node.js: the JavaScript SDKs, installed once into the user's cache folder and run against a gateway.

A test that cannot have them is skipped, and says why.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gateway import Gateway

PACKAGES = ("openai@7.55.0", "ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92")
INSTALL_S = 90
RUN_S = 40
may_wait = pytest.mark.timeout(INSTALL_S + RUN_S + 20)
"""For every test that runs them: the first one may have to install them."""

DRIVER = Path(__file__).parent / "node" / "driver.mjs"


def workshop() -> Path:
    """The folder with the SDKs and our driver in it. Skips the test if there is no npm or it cannot install."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not here: the JavaScript SDKs cannot be run")
    driver = DRIVER.read_bytes()
    name = hashlib.sha256(" ".join(PACKAGES).encode() + driver).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tollkeeper-tests" / f"node-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _install(npm, folder)
            (folder / "driver.mjs").write_bytes(driver)
            (folder / "ready").touch()
    return folder


def _install(npm: str, folder: Path) -> None:
    command = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        said = (failure.stderr or b"").decode(errors="replace").strip().splitlines()
        pytest.skip(f"npm could not install the JavaScript SDKs: {said[-1] if said else failure}")


async def run(gateway: Gateway, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of these jobs, all at once in one process (see ``driver.mjs``)."""
    folder = await asyncio.to_thread(workshop)
    task = {"baseURL": gateway.base_url, "key": gateway.client.key, "jobs": jobs}
    process = await asyncio.create_subprocess_exec(
        "node",
        "driver.mjs",
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_S):
            out, errors = await process.communicate(json.dumps(task).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, errors.decode(errors="replace")
    results: list[dict[str, Any]] = json.loads(out)
    return results
