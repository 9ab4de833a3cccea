"""Programs for the terminal that ask one thing get its answer, through an upstream of each dialect."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, drive, driven, program
from tests.apps.scripted_agent import INPUT, MODEL, OUTPUT, UPSTREAM_MODELS, ScriptedAgent, serve
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider


@dataclass(frozen=True)
class ChatProgram:
    app: str
    executable: str
    arguments: Sequence[str]
    installed: str = ""
    """The folder it is in, if that is not called like the app."""


QUIET = ("--yes-always", "--no-git", "--no-check-update", "--no-show-release-notes", "--analytics-disable")
PROGRAMS = [
    ChatProgram("aider", "aider", (*QUIET, "--no-stream", "--message", "Hello")),
    ChatProgram("llm", "llm", ("Hello",)),
    ChatProgram("shell-gpt", "sgpt", ("--no-md", "--no-cache", "Hello")),
    ChatProgram("ollama", "llm", ("-m", f"ollama/{MODEL}", "Hello"), installed="llm"),
    ChatProgram("gptme", "gptme", ("--non-interactive", "--no-stream", "Hello")),
]


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("dialect", UPSTREAM_MODELS)
@pytest.mark.parametrize("chat", PROGRAMS, ids=lambda chat: chat.app)
async def test_an_answer_is_shown(
    gateway: Gateway, provider: Provider, tmp_path: Path, chat: ChatProgram, dialect: Dialect
) -> None:
    executable = program(chat.installed or chat.app, chat.executable)
    serve(gateway, provider, dialect, ScriptedAgent([], final="The answer is 42."))
    ended = await drive(chat.app, gateway, [executable, *chat.arguments], tmp_path)
    assert "The answer is 42." in ended.out
    assert ended.code == 0, ended.out[-3000:]
    records = await gateway.settled(1)
    assert {(record.outcome, record.input, record.output) for record in records} == {(Outcome.DONE, INPUT, OUTPUT)}


@dataclass
class Editor(ScriptedAgent):
    """Answers with the whole file, which has the number of the turn in it."""

    def next_step(self, results: int, *, tools: bool) -> str:
        self.asked.append(results)
        return f"greet.py\n```\nprint({len(self.asked)})\n```\n"


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("dialect", UPSTREAM_MODELS)
async def test_aider_edits_a_file_six_times(
    gateway: Gateway, provider: Provider, tmp_path: Path, dialect: Dialect
) -> None:
    executable, work = program("aider", "aider"), tmp_path / "work"
    work.mkdir()
    (work / "greet.py").write_text("print(0)\n")
    (work / "tasks.txt").write_text("".join(f"/code Say {turn}.\n" for turn in range(1, 7)))
    serve(gateway, provider, dialect, Editor([]))
    ended = await drive("aider", gateway, [executable, *QUIET, "--load", "tasks.txt", "greet.py"], tmp_path)
    assert (work / "greet.py").read_text() == "print(6)\n", ended.out[-3000:]
    records = await gateway.settled(6)
    assert [(record.outcome, record.input, record.output) for record in records] == [(Outcome.DONE, INPUT, OUTPUT)] * 6
    assert verify(gateway.engine.store).equal
