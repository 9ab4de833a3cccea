"""Codex finishes a task of thirty turns in which it compacts its conversation once.

As ``tollkeeper env`` sets it up, it has the model write a summary. Its built-in provider, and any that is named like
it, asks the API for a compaction instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from gateway.v1.call import HttpClient
from gateway.v1.responses_socket import SocketClient
from tests.apps.installed import RUN_S, drive, driven, program
from tests.apps.scripted_agent import INPUT, OUTPUT, SEALED, ScriptedAgent, ToolUse, serve, transports
from tests.apps.test_coding_agents import CODEX, LINES, commands
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

SUMMARY = "Half of the lines are written."
FULL, LIMIT = 50_000, 20_000
"""Input tokens of the answer after which the conversation is too long for Codex, and the most it allows."""
FULL_AT = 15
"""The turn with that answer."""
WAYS: Mapping[str, Mapping[str, str]] = {
    "websocket": {},
    "http": {"model_providers.tollkeeper.supports_websockets": "false"},
    "built-in": {"model_provider": '"openai"', "openai_base_url": '"{base_url}"'},
    "named-openai": {"model_providers.tollkeeper.name": '"OpenAI"'},
    "named-openai-http": {
        "model_providers.tollkeeper.name": '"OpenAI"',
        "model_providers.tollkeeper.supports_websockets": "false",
    },
}
"""How Codex is set up, beyond what ``tollkeeper env`` prints."""
CHANNELS = {
    "chat": Dialect.OPENAI,
    "native": Dialect.OPENAI,
    "compacts": Dialect.OPENAI,
    "anthropic": Dialect.ANTHROPIC,
    "gemini": Dialect.GEMINI,
}


@dataclass
class LongTask(ScriptedAgent):
    """Counts its turns by itself, for a compacted conversation does not show how many there were."""

    turn: int = 0

    def next_step(self, results: int, *, tools: bool) -> ToolUse | str:
        self.input = INPUT
        if not tools:
            return SUMMARY
        self.asked.append(results)
        self.input = FULL if self.turn == FULL_AT else INPUT
        step = self.steps[self.turn] if self.turn < len(self.steps) else self.final
        self.turn += 1
        return step


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_task_goes_on_after_a_compaction(
    gateway: Gateway, provider: Provider, tmp_path: Path, way: str, channel: str
) -> None:
    script = LongTask(commands(tmp_path), responses=channel in ("native", "compacts"))
    serve(gateway, provider, CHANNELS[channel], script, preset="openai" if channel == "compacts" else "")
    clients = transports(gateway, provider)
    settings = {**WAYS[way], "model_auto_compact_token_limit": str(LIMIT)}
    options = [f"{name}={value.format(base_url=gateway.base_url)}" for name, value in settings.items()]
    command: list[str | Path] = [program("codex", "codex")]
    command += [*(part for option in options for part in ("-c", option)), *CODEX]
    ended = await drive("codex", gateway, command, tmp_path, more={"CODEX_API_KEY": gateway.client.key})
    assert (ended.code, script.final in ended.out) == (0, True), ended.out[-3000:]
    assert (tmp_path / "work" / "notes.txt").read_text().splitlines() == LINES
    assert script.asked == [*range(FULL_AT + 1), *range(len(LINES) - FULL_AT)]
    assert clients == {HttpClient if "http" in way else SocketClient}

    calls_after = len(LINES) - FULL_AT
    records = await gateway.settled(FULL_AT + 2 + calls_after)
    assert {(record.outcome, record.output, record.retry, len(record.attempts)) for record in records} == {
        (Outcome.DONE, OUTPUT, 0, 1)
    }
    assert [record.input for record in records] == [INPUT] * FULL_AT + [FULL] + [INPUT] * (1 + calls_after)
    asks_api = way not in ("websocket", "http")
    marked = ["compaction" in record.marks for record in records]
    assert marked == [False] * (FULL_AT + 1) + [asks_api] + [False] * calls_after
    summary = SEALED if asks_api and channel == "compacts" else SUMMARY
    shown = [summary in exchange.body.decode() for exchange in provider.exchanges if exchange.bill]
    assert shown == [False] * (FULL_AT + 2) + [True] * calls_after
    assert verify(gateway.engine.store).equal
