"""The model that a program begins with."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.client.model_choice import ProgramStart, best_model, choose_model, recent_calls
from gateway.domain.views import CallPage, CallView
from gateway.runfile import Endpoint
from tests.commands.samples import CALL

MODELS = (
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
    "gpt-4.1",
    "gpt-5",
    "gpt-5-mini",
)
CLAUDE = ("sonnet", "claude")
START = ProgramStart(program="claude", folder="proj")


def call(token: str, model: str, **fields: Any) -> CallView:
    return replace(CALL, token=token, token_id=f"tok_{token}", model=model, **fields)


class Calls(ControlClient):
    """A gateway with these calls, newest first."""

    def __init__(self, *calls: CallView) -> None:
        super().__init__(Endpoint(instance="test", secret="test"))
        self._calls = calls

    async def calls(self, **filters: object) -> CallPage:
        start = str(filters.get("words", "")).removeprefix('tok:"').removesuffix('*"')
        token = filters.get("token")
        found = [one for one in self._calls if one.token.startswith(start) and token in (None, one.token_id)]
        return CallPage(calls=found[: int(str(filters["limit"]))])


def chosen(*calls: CallView, names: Sequence[str] = MODELS, family: Sequence[str] = (), **options: Any) -> str:
    recent = asyncio.run(recent_calls(Calls(*calls), **options))
    return choose_model(names, recent, family)[0]


def test_a_program_goes_on_with_the_model_of_its_own_runs() -> None:
    busy = [call("laptop", "gpt-5"), call("codex-proj-1a2b3c", "gpt-4.1")]
    assert chosen(*busy, call("claude-proj-1a2b3c", "claude-opus-4-5"), start=START, family=CLAUDE) == "claude-opus-4-5"


def test_runs_in_the_same_folder_come_first() -> None:
    calls = [call("claude-other-1a2b3c", "claude-haiku-4-5"), call("claude-proj-1a2b3c", "claude-opus-4-5")]
    assert chosen(*calls, start=START) == "claude-opus-4-5"
    assert chosen(calls[0], start=START) == "claude-haiku-4-5"


def test_programs_with_longer_names_are_others() -> None:
    assert chosen(call("claudette-proj-1a2b3c", "gpt-4.1"), start=START, family=CLAUDE) == "claude-sonnet-4-5"


def test_a_token_goes_on_with_its_own_model() -> None:
    calls = [call("codex", "gpt-5"), call("laptop", "claude-haiku-4-5")]
    assert chosen(*calls, token="tok_laptop") == "claude-haiku-4-5"


def test_refused_calls_embeddings_and_models_that_are_not_seen_do_not_count() -> None:
    calls = [
        call("laptop", "gpt-5", outcome="error"),
        call("laptop", "text-embedding-3-small"),
        call("laptop", "gpt-9"),
        call("laptop", "gpt-4.1"),
    ]
    assert chosen(*calls, names=(*MODELS, "text-embedding-3-small"), token="tok_laptop") == "gpt-4.1"


@pytest.mark.parametrize(
    ("family", "names", "model"),
    [
        (CLAUDE, MODELS, "claude-sonnet-4-5"),
        (CLAUDE, ("claude-3-haiku", "claude-opus-4-1", "gpt-5"), "claude-opus-4-1"),
        (CLAUDE, ("claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514"), "claude-sonnet-4-20250514"),
        ((r"gpt-\d",), MODELS, "gpt-5"),
        ((r"gpt-\d",), ("gpt-4o-2024-11-20", "gpt-5-2025-08-07", "gpt-5.2", "gpt-5.2-2025-12-11"), "gpt-5.2"),
        (("qwen.*coder", "qwen"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-Coder-30B"), "Qwen/Qwen3-Coder-30B"),
        (CLAUDE, ("Claude-Haiku-4-5", "Claude-Opus-4-1"), "Claude-Opus-4-1"),
        ((r"gpt-\d",), ("gpt-oss-120b", "qwen3-coder"), "qwen3-coder"),
        ((), MODELS, "gemini-2.5-flash"),
    ],
)
def test_a_program_begins_with_its_vendors_model(family: Sequence[str], names: Sequence[str], model: str) -> None:
    busy = [call("bot", "gemini-2.5-flash"), call("bot", "qwen3-coder")]
    assert chosen(*busy, names=names, start=START, family=family) == model


def test_among_the_models_of_its_vendor_the_one_called_last_comes_first() -> None:
    assert chosen(call("laptop", "claude-haiku-4-5"), start=START, family=CLAUDE) == "claude-haiku-4-5"


def test_the_first_model_is_one_that_chats_and_is_not_built_in() -> None:
    assert best_model(["a-embed", "demo-echo", "gpt"]) == "gpt"
    assert best_model(["a-embed", "demo-echo"]) == "demo-echo"
    assert best_model([]) == ""
    assert chosen(names=["a-embed", "demo-echo", "gpt"]) == "gpt"


@pytest.mark.parametrize(
    ("arguments", "models"),
    [
        (("--model", "x", "--weak-model", "gpt-5"), ["x"]),
        (("-m", "gpt-5", "hi"), ["gpt-5"]),
        (("-m", "aider", "--model", "gpt-4o"), ["gpt-4o", "aider"]),
        (("--model=gpt-5",), ["gpt-5"]),
        (("exec", "gpt-5"), []),
        (("-p", "explain --model=gpt-5"), []),
        (("--fallback-model", "gpt-5", "--model"), []),
        ((), []),
    ],
)
def test_only_a_programs_own_option_names_its_model(arguments: Sequence[str], models: list[str]) -> None:
    assert ProgramStart(program="p", folder="f", arguments=arguments).model_arguments == models
