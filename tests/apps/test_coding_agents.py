"""Coding agents finish a task of thirty turns with file edits, through an upstream of each dialect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from gateway.v1.call import HttpClient
from gateway.v1.responses_socket import SocketClient
from tests.apps.installed import RUN_S, drive, driven, program
from tests.apps.scripted_agent import INPUT, MODEL, OUTPUT, UPSTREAM_MODELS, ScriptedAgent, ToolUse, serve, transports
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

TURNS = 30
LINES = [f"line {number}" for number in range(TURNS)]


@dataclass(frozen=True)
class Agent:
    """A program, how it gets its task, and the tools with which it writes files."""

    app: str
    executable: str
    arguments: Sequence[str]
    steps: Callable[[Path], Sequence[ToolUse]]
    model: str = MODEL
    responses: bool = False
    """The upstream of dialect openai has the Responses API, which the program speaks."""
    name: str = ""
    """Of its cases, if it is not the app's."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables beyond those of the app."""


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


def patches(_: Path) -> list[ToolUse]:
    """Codex's own tool for its own models, whose argument is not JSON but a patch."""
    added = "*** Begin Patch\n*** Add File: notes.txt\n+line 0\n*** End Patch\n"
    bodies = [
        f"*** Begin Patch\n*** Update File: notes.txt\n@@\n {before}\n+{after}\n*** End Patch\n"
        for before, after in pairwise(LINES)
    ]
    return [ToolUse("apply_patch", {"input": patch}) for patch in (added, *bodies)]


def commands(_: Path) -> list[ToolUse]:
    """Codex's tool for all models."""
    return [ToolUse("exec_command", {"cmd": f"echo '{line}' >> notes.txt"}) for line in LINES]


def shell_commands(_: Path) -> list[ToolUse]:
    """Copilot's tool."""
    return [ToolUse("bash", {"command": f"echo '{line}' >> notes.txt", "description": "Add a line"}) for line in LINES]


def command_lists(_: Path) -> list[ToolUse]:
    """Cline's tool."""
    return [ToolUse("run_commands", {"commands": [f"echo '{line}' >> notes.txt"]}) for line in LINES]


def bash_commands(_: Path) -> list[ToolUse]:
    """The tool of mini-swe-agent, which ends by a command."""
    lines = [f"echo '{line}' >> notes.txt" for line in LINES]
    return [ToolUse("bash", {"command": command}) for command in (*lines, f"echo {SUBMIT}; echo All is done.")]


CODEX = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Do it.")
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
COPILOT = ("-p", "Do it.", "--allow-all-tools")
RESPONSES = {"COPILOT_PROVIDER_WIRE_API": "responses"}
WEBSOCKET = {**RESPONSES, "COPILOT_PROVIDER_TRANSPORT": "websockets"}
AGENTS = [
    Agent(
        "claude",
        "claude",
        ("-p", "Do it.", "--allowedTools", "Write", "Edit"),
        edits("Write", "Edit", "file_path", "old_string", "new_string"),
    ),
    Agent("codex", "codex", CODEX, commands),
    Agent("codex", "codex", CODEX, patches, model="gpt-5.5", name="codex-patches"),
    Agent("codex", "codex", CODEX, commands, responses=True, name="codex-native"),
    Agent("codex", "codex", CODEX, patches, model="gpt-5.5", responses=True, name="codex-native-patches"),
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
    Agent("cline", "cline", ("Do it.",), command_lists),
    Agent("pi", "pi", ("-p", "Do it."), edits("write", "edit", "path", "oldText", "newText")),
    Agent("mini-swe-agent", "mini", ("-t", "Do it.", "--yolo", "--exit-immediately"), bash_commands),
    Agent("copilot", "copilot", COPILOT, shell_commands),
    Agent("copilot", "copilot", COPILOT, shell_commands, name="copilot-responses", more=RESPONSES),
    Agent("copilot", "copilot", COPILOT, shell_commands, name="copilot-websocket", more=WEBSOCKET),
    Agent("copilot", "copilot", COPILOT, shell_commands, name="copilot-native", more=RESPONSES, responses=True),
    Agent("copilot", "copilot", COPILOT, shell_commands, name="copilot-native-ws", more=WEBSOCKET, responses=True),
]


@driven
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize(
    ("agent", "dialect"),
    [
        pytest.param(agent, dialect, id=f"{agent.name or agent.app}-{dialect}")
        for agent in AGENTS
        for dialect in UPSTREAM_MODELS
        if dialect is Dialect.OPENAI or not agent.responses
    ],
)
async def test_a_task_of_thirty_turns(
    gateway: Gateway, provider: Provider, tmp_path: Path, agent: Agent, dialect: Dialect
) -> None:
    executable = program(agent.app, agent.executable)
    file = tmp_path / "work" / "notes.txt"
    script = ScriptedAgent(agent.steps(file), responses=agent.responses)
    serve(gateway, provider, dialect, script, agent.model)
    clients = transports(gateway, provider)
    ended = await drive(
        agent.app, gateway, [executable, *agent.arguments], tmp_path, model=agent.model, more=agent.more
    )
    assert (ended.code, script.final in ended.out) == (0, True), ended.out[-3000:]
    assert file.read_text().splitlines() == LINES, ended.out[-3000:]
    records = await gateway.settled(TURNS)
    assert {(record.outcome, record.input, record.output) for record in records} == {(Outcome.DONE, INPUT, OUTPUT)}
    native = agent.responses or (agent.app, dialect) == ("claude", Dialect.ANTHROPIC)
    assert clients == {SocketClient if agent.app == "codex" or agent.more == WEBSOCKET else HttpClient}
    assert {record.native for record in records} == {native}
    assert verify(gateway.engine.store).equal
