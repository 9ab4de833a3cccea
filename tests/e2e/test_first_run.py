"""The first minutes of a new user: one command starts it, what it prints works as printed, an SDK needs two lines."""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import fork_server
from tests.house import ROOT

PATIENCE_S = 90.0

SDK = """
import asyncio, json, openai
said = {}
with openai.OpenAI() as client:
    said["models"] = [model.id for model in client.models.list()]
    answer = client.chat.completions.create(model="demo-echo", messages=[{"role": "user", "content": "Hello there"}])
    said["plain"] = answer.choices[0].message.content
    said["usage"] = answer.usage.total_tokens
    stream = client.chat.completions.create(
        model="demo-story", messages=[{"role": "user", "content": "Tell me"}], stream=True
    )
    said["chunks"] = sum(1 for _ in stream)
print(json.dumps(said))
"""


@asynccontextmanager
async def started(home: Path) -> AsyncIterator[str]:
    """What ``serve`` prints on an empty home, up to its last line; stopped by a signal at the end, with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "cli.py", "--home", str(home), "serve", "--port", "0"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    printed = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while "OPENAI_API_KEY" not in printed:
                line = await process.stdout.readline()
                assert line, "it ended before it had said everything"
                printed += line.decode()
        yield printed
    finally:
        process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def ran(*command: str, **environ: str) -> str:
    """What a command prints; it must go well."""
    variables = {**os.environ, **environ}
    run = await asyncio.to_thread(fork_server.run, command, cwd=ROOT, env=variables, timeout=PATIENCE_S)
    assert run.returncode == 0, run.stderr
    return str(run.stdout)


@pytest.mark.slow
@pytest.mark.long
async def test_what_a_first_start_prints_works_as_it_is(home: Path) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not here: the printed command cannot be run as printed")
    async with started(home) as printed:
        curl = re.search(r"^curl .*?'$", printed, re.MULTILINE | re.DOTALL)
        assert curl is not None, printed
        answer = json.loads(await ran("bash", "-c", curl[0].replace("curl ", "curl --silent --show-error ", 1)))
        assert answer["choices"][0]["message"]["content"]
        exports = dict(re.findall(r"^export (\w+)='(.*)'$", printed, re.MULTILINE))
        said = json.loads(await ran(sys.executable, "-W", "error", "-c", SDK, **exports))
        assert said["models"] == ["demo-echo", "demo-flaky", "demo-story"]
        assert "Hello there" in said["plain"]
        assert said["usage"] > 0
        assert said["chunks"] > 3
        calls = json.loads(await ran(sys.executable, "cli.py", "--home", str(home), "usage", "list", "--json"))
        rows = calls if isinstance(calls, list) else calls["calls"]
        assert [row["model"] for row in rows] == ["demo-story", "demo-echo", "demo-echo"]
        assert all(row["cost_nanos"] > 0 and row["usage_source"] == "reported" for row in rows)
    assert "equal" in await ran(sys.executable, "cli.py", "--home", str(home), "verify")
