"""Coding agents finish a task of thirty turns with file edits, through an upstream of each dialect."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from tests.apps.installed import RUN_S, drive, driven, program
from tests.apps.scripted_agent import INPUT, OUTPUT, UPSTREAM_MODELS, ScriptedAgent, ToolUse, serve
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

TURNS = 30
LINES = [f"line {number}" for number in range(TURNS)]


@dataclass(frozen=True)
class Agent:
    """A program, how it is told its task, and the tools with which it writes files."""

    app: str
    executable: str
    arguments: Sequence[str]
    steps: Callable[[Path], Sequence[ToolUse]]


def edits(
    write: str, edit: str, path: str, old: str, new: str, *, read: str = "", other_path: str = ""
) -> Callable[[Path], list[ToolUse]]:
    """Steps that write a file and then add one line a turn.

    ``read`` is a tool that has to look at the file first; it and ``write`` may have another word for the path.
    """

    def steps(file: Path) -> list[ToolUse]:
        done = [ToolUse(write, {other_path or path: str(file), "content": "line 0\n"})]
        done += [ToolUse(read, {other_path or path: str(file)})] if read else []
        for before, after in pairwise(LINES):
            done.append(ToolUse(edit, {path: str(file), old: f"{before}\n", new: f"{before}\n{after}\n"}))
        return done

    return steps


AGENTS = [
    Agent("opencode", "opencode", ("run", "Do it."), edits("write", "edit", "filePath", "oldString", "newString")),
    Agent(
        "qwen-code",
        "qwen",
        ("--yolo", "-p", "Do it."),
        edits("write_file", "edit", "file_path", "old_string", "new_string"),
    ),
    Agent(
        "continue",
        "cn",
        ("--auto", "-p", "Do it."),
        edits("Write", "Edit", "file_path", "old_string", "new_string", read="Read", other_path="filepath"),
    ),
]


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("dialect", UPSTREAM_MODELS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.app)
async def test_a_task_of_thirty_turns(
    gateway: Gateway, provider: Provider, tmp_path: Path, agent: Agent, dialect: Dialect
) -> None:
    executable = program(agent.app, agent.executable)
    file = tmp_path / "work" / "notes.txt"
    script = ScriptedAgent(agent.steps(file))
    serve(gateway, provider, dialect, script)
    ended = await drive(agent.app, gateway, [executable, *agent.arguments], tmp_path)
    assert (ended.code, script.final in ended.out) == (0, True), ended.out[-3000:]
    assert file.read_text().splitlines() == LINES, ended.out[-3000:]
    records = await gateway.settled(TURNS)
    assert {(record.outcome, record.input, record.output) for record in records} == {(Outcome.DONE, INPUT, OUTPUT)}
