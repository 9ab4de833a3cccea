"""What the real program prints, logs and keeps shows no secret, and no prompt, that an upstream has repeated."""

import asyncio
import itertools
import subprocess
from functools import partial
from pathlib import Path

import pytest

from gateway.domain.channel import Dialect
from tests import fork_server
from tests.commands.program import PATIENCE_S, serving, tollkeeper
from tests.fakes.provider import Exchange, Provider
from tests.faults.canaries import PROMPT, leaks, quotes, secret_of
from tests.faults.canary_places import error_places
from tests.faults.canary_run import kept_in

KINDS = ("google", "mistral", "azure", "password")
PLACES = ("message", "field code", "field param", "html", "header x-request-id")


@pytest.mark.slow
@pytest.mark.long
async def test_no_command_prints_a_secret(home: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    key, further, header, bearer = (secret_of(kind, 1) for kind in KINDS)
    monkeypatch.setenv("UP_KEY", further)
    secrets = itertools.cycle([key, further, header, bearer])
    places = itertools.cycle(PLACES)
    statuses = itertools.cycle((400, 500, 404, 429, 503, 422))

    async def script(exchange: Exchange) -> None:
        is_response = exchange.path.endswith("/responses")
        place = error_places(Dialect.OPENAI)[PLACES[0] if is_response else next(places)]
        prompt = PROMPT if b"WHALES" in exchange.body else ""
        status = 404 if is_response else next(statuses)
        await place(f"{next(secrets)} {prompt}".strip()).give(exchange, status)
        exchange.socket.close()

    provider.other = script
    out: dict[str, bytes] = {}
    with serving(home, "serve", start=partial(fork_server.start, stderr=subprocess.PIPE)) as server:
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
        server.process.terminate()
        _, log = await asyncio.to_thread(server.process.communicate, timeout=PATIENCE_S)
    out |= {"server.log": log.encode(), **kept_in(home)}
    assert b"HTTP 500" in out["usage list --json"]
    assert (leaks(out, [key, further, header, bearer]), quotes(out)) == ([], [])


async def _run(home: Path, *words: str) -> bytes:
    """What a command prints, errors too."""
    ran = await asyncio.to_thread(tollkeeper, home, *words)
    return f"{ran.out}{ran.err}".encode()
