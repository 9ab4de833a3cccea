"""The command lines of a page of the documents work as they are written, in order, in a fresh home.

The vendors' addresses lead to a fake upstream. Other programs are stubs that end well.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.program import serving
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import speak
from tests.house import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE_S = 150.0

PROGRAMS = (
    *("aider", "claude", "cline", "cn", "codex", "copilot", "crush", "droid", "git", "goose", "gptme", "grok", "kilo"),
    *("kimi", "llm", "mini", "node", "ollama", "open-webui", "openclaw", "opencode", "openhands", "oterm", "pi"),
    *("python", "qwen", "sgpt", "vibe"),
)

ELSEWHERE = re.compile(
    r"(?:pipx|make|\.ci/run|\.venv/bin/python|set -g)\b"  # installs, develops, is tmux's own
    r"|tollkeeper (?:serve|usage tail|service \w+)\b|tollkeeper$"  # do not end, or change the system
)
"""Lines that no test can run."""

LITELLM = """
model_list:
  - {model_name: gpt-4o, litellm_params: {model: openai/gpt-4o, api_key: os.environ/SECOND_KEY}}
"""
NEW_API = [{"name": "first", "type": 1, "key": "sk-upstream", "models": "gpt-4o", "group": "default", "status": 1}]

MODELS = ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "qwen3:8b", "claude-opus-4-5", "claude-sonnet-4-5", "openai/gpt-4o")


def lines_of(text: str) -> Iterator[str]:
    """What its blocks for a shell contain, without the lines that no test can run."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not ELSEWHERE.match(line):
                yield line


LINES = {page: list(lines_of(page.read_text(encoding="utf-8"))) for page in PAGES}


async def vendor(exchange: Exchange) -> None:
    """Lists models, and answers chat completions."""
    if not exchange.body:
        await exchange.answer(json.dumps({"object": "list", "data": [{"id": model} for model in MODELS]}).encode())
    else:
        await speak()(exchange)


def folder_of(path: Path, home: Path) -> Path:
    """A folder to work in, with the files that pages name, and with programs in its ``bin``."""
    programs = path / "bin"
    programs.mkdir(parents=True)
    bodies = {name: "cat >/dev/null; echo something" if name == "git" else "exit 0" for name in PROGRAMS}
    bodies["tollkeeper"] = f"exec '{sys.executable}' '{ROOT / 'cli.py'}' --home '{home}' \"$@\""
    for name, body in bodies.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    (path / "config.yaml").write_text(LITELLM, encoding="utf-8")
    (path / "channels.json").write_text(json.dumps(NEW_API), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if LINES[page]], ids=lambda page: page.name)
async def test_the_commands_of_a_page_work_in_order(page: Path, home: Path, provider: Provider, tmp_path: Path) -> None:
    lines, folder = LINES[page], folder_of(tmp_path / "work", home)
    provider.other = vendor
    upstream_keys = ("OPENAI_UPSTREAM_KEY", "ANTHROPIC_API_KEY", "SECOND_KEY", "OPENROUTER_API_KEY")
    environ = dict.fromkeys(upstream_keys, "sk-upstream")
    environ |= {"OUTGOING_PROXY": "http://127.0.0.1:9", "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    with serving(home, "serve", environ=environ) as server:
        url, key = server.address.removesuffix("/v1"), server.key
        script = "\n".join(f"{{ {as_run(line, url, key, provider.base_url)}\n}} <<<sk-upstream" for line in lines)
        process = await asyncio.create_subprocess_exec(
            *("bash", "-eo", "pipefail", "-c", f"trap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n{script}"),
            cwd=folder,
            env={**os.environ, **environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(PATIENCE_S):
            out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()[-2000:]


def as_run(line: str, url: str, key: str, upstream: str) -> str:
    """The line with the addresses and the key of this test."""
    if "demo-flaky '!500'" in line:  # fails, as the page says
        return f"! {line}"
    line = line.replace("http://127.0.0.1:8655", url).replace("sk-tk-...", key)
    line = line.replace("http://127.0.0.1:11434/v1", upstream)
    return re.sub(r"(--preset \w+)", rf"\1 --base-url {upstream}", line)
