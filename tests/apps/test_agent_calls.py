"""How often Claude Code and Codex call: once for each turn where all is well, and for an error as often as intended."""

from pathlib import Path

import pytest

from gateway.domain.call import REPEATED_MARK, Outcome
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, Driven, drive, driven, program
from tests.apps.scripted_agent import INPUT, MODEL, OUTPUT, ScriptedAgent, ToolUse, serve
from tests.apps.test_coding_agents import CODEX
from tests.fakes.agents import GeminiAgent
from tests.fakes.audit import verify
from tests.fakes.gateway import GRANTED, Gateway, running
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import fail, reply, speak, speak_after

pytestmark = [driven, pytest.mark.timeout(2 * RUN_S + 60)]

CLAUDE = ("-p", "Do it.", "--allowedTools", "Write", "Edit")
PATCH = "*** Begin Patch\n*** Add File: notes.txt\n+line 0\n*** End Patch\n"


async def claude(gateway: Gateway, folder: Path, *arguments: str) -> Driven:
    return await drive("claude", gateway, [program("claude", "claude"), *(arguments or CLAUDE)], folder)


async def codex(gateway: Gateway, folder: Path, model: str = MODEL) -> Driven:
    return await drive("codex", gateway, [program("codex", "codex"), *CODEX], folder, model=model)


def calls_of(gateway: Gateway) -> int:
    """How many calls were made, those counted that are recorded together."""
    marks = [mark for record in gateway.records for mark in record.marks if mark.startswith(REPEATED_MARK)]
    return len(gateway.records) + sum(int(mark.removeprefix(REPEATED_MARK)) for mark in marks)


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])
async def test_claude_code_makes_one_call_a_turn(
    gateway: Gateway, provider: Provider, tmp_path: Path, dialect: Dialect
) -> None:
    file = tmp_path / "work" / "notes.txt"
    edit = {"file_path": str(file), "old_string": "line 0\n", "new_string": "line 1\n"}
    script = ScriptedAgent([ToolUse("Write", {"file_path": str(file), "content": "line 0\n"}), ToolUse("Edit", edit)])
    serve(gateway, provider, dialect, script)
    ended = await claude(gateway, tmp_path)
    assert (ended.code, file.read_text()) == (0, "line 1\n"), ended.out[-3000:]
    assert script.asked == [0, 1, 2]
    records = await gateway.settled(3)
    assert [(one.outcome, one.retry, len(one.attempts)) for one in records] == [(Outcome.DONE, 0, 1)] * 3
    assert [one.upstream_id for one in records] == [f"answer-{one.number}" for one in provider.exchanges if one.bill]
    assert {(one.input, one.output) for one in records} == {(INPUT, OUTPUT)}
    assert verify(gateway.engine.store).equal


async def test_googles_signatures_come_back_from_claude_code_after_a_restart(
    gateway: Gateway, provider: Provider, tmp_path: Path
) -> None:
    file = tmp_path / "work" / "notes.txt"
    script = GeminiAgent(turns=2, tool="Write", arguments={"file_path": str(file), "content": "line 0\n"})

    async def guarded(exchange: Exchange) -> None:
        await (script if exchange.json.get("tools") else GeminiAgent(turns=0))(exchange)
        exchange.bill = exchange.bill if script.turns == 2 else None  # the other gateway's records are elsewhere

    async def asks(at: Gateway, *arguments: str) -> None:
        at.channel(provider.base_url.removesuffix("/v1"), MODEL, dialect=Dialect.GEMINI)
        ended = await claude(at, tmp_path, *arguments)
        assert (ended.code, "All done." in ended.out, script.refusals) == (0, True, []), ended.out[-3000:]

    provider.other = guarded
    await asks(gateway)
    assert script.turn == 2
    script.turns = 4
    async with running(tmp_path / "another") as another:
        await asks(another, "-c", *CLAUDE)
    assert script.turn == 4


async def test_claude_code_repeats_an_empty_answer_no_more_than_once(
    gateway: Gateway, provider: Provider, tmp_path: Path
) -> None:
    """It does so in whatever form the answer is empty, with the vendor's own API too."""
    serve(gateway, provider, Dialect.OPENAI, ScriptedAgent([], final=""))
    ended = await claude(gateway, tmp_path)
    await gateway.settled(1)
    assert ended.code == 0, ended.out[-3000:]
    assert calls_of(gateway) <= 2, [(one.code, one.status, one.marks) for one in gateway.records]


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC])
async def test_claude_code_waits_for_an_upstream_that_is_silent_for_twenty_seconds(
    gateway: Gateway, provider: Provider, tmp_path: Path, dialect: Dialect
) -> None:
    script = ScriptedAgent([])
    serve(gateway, provider, dialect, script)
    provider.other = speak_after(20.0, script)
    ended = await claude(gateway, tmp_path)
    assert (ended.code, script.final in ended.out) == (0, True), ended.out[-3000:]
    assert [one.outcome for one in await gateway.settled(1)] == [Outcome.DONE]


async def test_codex_makes_one_call_a_turn_and_its_patch_arrives(
    gateway: Gateway, provider: Provider, tmp_path: Path
) -> None:
    steps = [
        ToolUse("exec_command", {"cmd": "echo begun > begun.txt"}),
        ToolUse("apply_patch", {"input": PATCH}),
        ToolUse("exec_command", {"cmd": "echo done >> notes.txt"}),
    ]
    script = ScriptedAgent(steps)
    serve(gateway, provider, Dialect.ANTHROPIC, script, "gpt-5.5")
    ended = await codex(gateway, tmp_path, "gpt-5.5")
    assert ended.code == 0, ended.out[-3000:]
    assert (tmp_path / "work" / "notes.txt").read_text() == "line 0\ndone\n"
    records = await gateway.settled(4)
    assert [(one.outcome, one.retry, len(one.attempts)) for one in records] == [(Outcome.DONE, 0, 1)] * 4
    assert verify(gateway.engine.store).equal


async def too_long(exchange: Exchange) -> None:
    error = {"message": "This model's maximum context length is 8 tokens.", "code": "context_length_exceeded"}
    await reply({"error": {**error, "type": "invalid_request_error", "param": "messages"}}, status=400)(exchange)


ERRORS: dict[str, Script] = {
    "quota": speak(),
    "model": speak(),
    "bad request": fail(400, "tools[0] is not understood"),
    "context": too_long,
}


@pytest.mark.parametrize("error", ERRORS)
async def test_codex_asks_once_where_asking_again_is_useless(
    gateway: Gateway, provider: Provider, tmp_path: Path, error: str
) -> None:
    asked: list[str] = []

    async def script(exchange: Exchange) -> None:
        asked.append(exchange.path)
        if exchange.path.endswith("/responses"):
            await reply({"detail": "Not Found"}, status=404)(exchange)
        else:
            await ERRORS[error](exchange)

    provider.other = script
    gateway.channel(provider.base_url, "other" if error == "model" else MODEL)
    gateway.price(MODEL)
    if error == "quota":
        gateway.grant(-GRANTED)
    ended = await codex(gateway, tmp_path)
    assert ended.code != 0, ended.out[-3000:]
    records = gateway.records
    warm_up = error == "model"  # its request that only warms the connection up is refused as well
    assert calls_of(gateway) == 1 + warm_up, [(one.code, one.status, one.marks) for one in records]
    codes = {"quota": "insufficient_quota", "model": "model_not_found", "context": "context_length_exceeded"}
    assert records[0].code == codes.get(error, records[0].code)
    assert sum(path.endswith("/chat/completions") for path in asked) == (error in ("bad request", "context"))


@pytest.mark.parametrize("status", [402, 403, 413, 429, 500])
async def test_claude_code_asks_once_where_asking_again_is_useless(
    gateway: Gateway, provider: Provider, tmp_path: Path, status: int
) -> None:
    """429 stands for money that is gone."""
    provider.other = fail(status, "no")
    gateway.channel(provider.base_url, MODEL)
    gateway.price(MODEL)
    if status == 429:
        gateway.grant(-GRANTED)
    ended = await claude(gateway, tmp_path)
    assert ended.code != 0, ended.out[-3000:]
    asked = calls_of(gateway)
    assert asked == 1, [(one.code, one.status, one.marks) for one in gateway.records]
