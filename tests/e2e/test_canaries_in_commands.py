"""What the real program prints, logs and keeps shows no secret, and no prompt, that an upstream has repeated."""

import asyncio
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.domain.channel import Dialect
from tests import fork_server
from tests.fakes.provider import Exchange, Provider
from tests.faults.canaries import PROMPT, leaks, quotes, secret_of
from tests.faults.canary_places import error_places
from tests.faults.canary_run import kept_in

PATIENCE_S = 90.0
KINDS = ("google", "mistral", "azure", "password")
PLACES = ("message", "field code", "field param", "html", "header x-request-id")


@pytest.mark.slow
@pytest.mark.long
async def test_commands(home: Path, provider: Provider) -> None:
    key, further, header, bearer = (secret_of(kind, 1) for kind in KINDS)
    secrets = itertools.cycle([key, further, header, bearer])
    places = itertools.cycle(PLACES)
    statuses = itertools.cycle((400, 500, 404, 429, 503, 422))

    async def script(exchange: Exchange) -> None:
        place = error_places(Dialect.OPENAI)[next(places)]
        prompt = PROMPT if b"WHALES" in exchange.body else ""
        await place(f"{next(secrets)} {prompt}".strip()).give(exchange, next(statuses))
        exchange.socket.close()

    provider.other = script
    out: dict[str, bytes] = {}
    server = await _start(home, "serve", "--port", "0")
    try:
        headers = ("--header", f"x-team={header}", "--header", f"x-pass=Bearer {bearer}")
        keys = ("--key", key, "--key", "env:UP_KEY")
        base = ("--base-url", provider.base_url, "--models", "m")
        out["add"] = await _run(home, "channel", "add", "up", *base, *keys, *headers)
        for number in range(7):
            words = ("chat", "--model", "m", PROMPT)
            await _run(home, *words)  # it may print the prompt: it is the client
            await _run(home, "channel", "resume", "up")
            out[f"test {number}"] = await _run(home, "channel", "test", "up", *(("--model", "m") if number % 2 else ()))
        commands = (
            *("usage list", "usage list --json", "usage export", "usage summary --by channel", "channel list"),
            *("channel list --json", "channel show up", "channel show up --json", "channel models up"),
            *("channel models up --refresh", "channel key list up", "doctor", "status", "why laptop m", "model list"),
        )
        for command in commands:
            out[command] = await _run(home, *command.split())
        newest = (await _run(home, "usage", "list", "--json")).split(b'"id"')[1].split(b'"')[1].decode()
        out["usage show"] = await _run(home, "usage", "show", newest)
    finally:
        server.terminate()
        _, out["server.log"] = await asyncio.to_thread(server.communicate, timeout=PATIENCE_S)
    out |= kept_in(home)
    assert b"HTTP 500" in out["usage list --json"]
    assert (leaks(out, [key, further, header, bearer]), quotes(out)) == ([], [])


async def _run(home: Path, *words: str) -> bytes:
    """What a command prints, errors too."""
    process = await _start(home, *words)
    printed, errors = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
    return printed + errors


async def _start(home: Path, *words: str) -> "subprocess.Popen[bytes]":
    process = fork_server.start(
        [sys.executable, fork_server.CLI, "--home", str(home), *words],
        env={**os.environ, "UP_KEY": secret_of(KINDS[1], 1)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if words[0] == "serve":
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"OPENAI_API_KEY" not in await asyncio.to_thread(process.stdout.readline):
                pass
    return process
