"""The token commands say what they should and print what they got."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import Conflict, NotFound
from gateway.domain.key_owners import KeyOwner, digest, handle, hint
from gateway.domain.units import Millis
from gateway.domain.views import CallPage, NewToken, TokenView
from tests import fork_server
from tests.commands.program import PATIENCE_S, PROGRAM, environment, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import BUDGET, CALL, HOSTILE, NOW, TOKEN

KEY = "sk-tk-" + "a" * 43
NEW = NewToken(key=KEY, token=TOKEN)
HELD_BY_RULE = "without one 4096 tokens \\(of Claude models up to their limit, 1,024 at least\\), or what"


def edits(token: TokenView) -> Control:
    """A server that has only this token, as ``x``."""
    found = dict.fromkeys(("GET /tokens/x", f"GET /tokens/{token.id}"), token)
    return Control({**found, "POST /batch": {"done": f"changed token '{token.name}'"}})


def sent(control: Control) -> Any:
    """The fields of the only edit."""
    (body,) = control.bodies
    (edit,) = body["edits"]
    assert (body["kind"], edit["ref"]) == ("tokens", "tok_1")
    return edit["patch"]


def test_a_listing_is_a_table_that_says_which_budgets_are_used_up() -> None:
    spent = replace(BUDGET, spent_tokens=BUDGET.tokens)
    control = Control({"GET /tokens": [TOKEN, replace(TOKEN, budgets=(spent, BUDGET))]})
    head, row, used_up = run("token", "list", control=control).out.splitlines()
    assert head.split()[:4] == ["Name", "Group", "State", "Key"]
    assert ("laptop" in row, "$1.20 of $5.00 and 12.3k of 1M tokens a day" in row) == (True, True)
    assert ("1M of 1M tokens a day, used up" in used_up, used_up.count("used up")) == (True, 1)
    rows = run("token", "list", "--json", control=control).json
    assert [list(row) for row in rows] == [list(TOKEN.__struct_encode_fields__)] * 2


def test_an_empty_listing_says_what_to_do_on_stderr() -> None:
    ran = run("token", "list", answers={"GET /tokens": []})
    assert (ran.code, ran.out) == (0, "")
    assert "tollkeeper token add" in ran.err


def test_a_name_from_outside_cannot_reach_the_terminal() -> None:
    hostile = msgspec.structs.replace(TOKEN, name=HOSTILE, note=HOSTILE)
    listed = run("token", "list", answers={"GET /tokens": [hostile]})
    shown = run("token", "show", "x", answers={"GET /tokens/x": hostile})
    edited = run("token", "disable", "x", control=edits(hostile))
    text = listed.out + shown.out + edited.err
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_adding_prints_the_key_alone_on_stdout() -> None:
    control = Control({"POST /tokens": NEW})
    ran = run("token", "add", "laptop", control=control)
    assert (ran.out, KEY in ran.err) == (KEY + "\n", False)
    assert run("token", "add", "laptop", "--json", control=control).json["key"] == KEY


@pytest.mark.parametrize("args", [("add", "y"), ("rotate", "x", "--yes"), ("add", "y", "--json")])
def test_a_key_that_nobody_reads_is_a_failure_with_a_way_out(args: tuple[str, ...], home: Path) -> None:
    tollkeeper(home, "token", "add", "x")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        ran = fork_server.run([*PROGRAM, "token", *args], env=environment(home), stdout=gone, timeout=PATIENCE_S)
    assert (ran.returncode, ran.stderr.count("\n")) == (Exit.FAILED, 1)
    assert f"tollkeeper token rotate {args[1]}" in ran.stderr


def test_without_a_stdout_no_key_is_made(home: Path) -> None:
    tollkeeper(home, "token", "add", "x")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM]
    for args in (("add", "y"), ("rotate", "x", "--yes")):
        ran = subprocess.run([*closed, "token", *args], env=environment(home), capture_output=True, check=False)
        assert (ran.returncode, b"nothing was changed" in ran.stderr) == (Exit.FAILED, True)
    assert [token["name"] for token in tollkeeper(home, "token", "list", "--json").json] == ["x"]


def test_a_token_like_another_one_has_its_fields_but_those_that_are_given() -> None:
    control = Control({"GET /tokens/laptop": TOKEN, "POST /tokens": NEW})
    run("token", "add", "phone", "--like", "laptop", "--budget", "month=10", "--rpm", "5", control=control)
    (body,) = control.bodies
    assert (body["name"], body["group"], body["models"], body["note"]) == ("phone", "default", ["demo-*"], "")
    assert [budget["window"] for budget in body["budgets"]] == [TOKEN.budgets[0].window.value, "month"]
    assert (body["limits"]["rpm"], "id" in body, "spent_nanos" in body["budgets"][0]) == (5, False, False)


def test_adding_sends_exact_amounts() -> None:
    ran = run(
        *("token", "add", "ci", "--group", "work", "--budget", "day=5", "--budget", "month=0.000000001"),
        *("--tokens-budget", "day=1M", "--rpm", "60", "--models", "gpt-*,demo-*", "--expires", "2026-12-31"),
        answers={"POST /tokens": NEW},
    )
    body = ran.bodies[0]
    assert body["budgets"] == [
        {"window": "day", "nanos": 5_000_000_000, "tokens": 1_000_000},
        {"window": "month", "nanos": 1, "tokens": None},
    ]
    assert (body["name"], body["group"], body["models"]) == ("ci", "work", ["gpt-*", "demo-*"])
    assert body["limits"]["rpm"] == 60
    assert isinstance(body["expires"], int)


def test_an_edit_keeps_what_it_does_not_name_and_removes_limits() -> None:
    control = edits(TOKEN)
    run("token", "edit", "x", "--budget", "month=50", "--tpm", "1k", control=control)
    body = sent(control)
    assert [budget["window"] for budget in body["budgets"]] == ["day", "month"]
    assert (body["limits"]["rpm"], body["limits"]["tpm"]) == (60, 1000)
    control = edits(TOKEN)
    args = ("--budget", "day=none", "--tokens-budget", "day=none", "--rpm", "none", "--expires", "never")
    run("token", "edit", "x", *args, "--models", "*", control=control)
    body = sent(control)
    assert (body["budgets"], body["limits"]["rpm"], body["expires"], body["models"]) == ([], None, None, [])


@pytest.mark.parametrize("models", ["", ",,,"])
def test_an_empty_list_of_models_does_not_mean_all(models: str) -> None:
    control = Control({"GET /tokens/laptop": TOKEN})
    for args in (("add", "x"), ("edit", "laptop")):
        ran = run("token", *args, "--models", models, control=control)
        assert (ran.code, control.bodies) == (Exit.USAGE, [])
        assert "'*' for all" in ran.err


@pytest.mark.parametrize("command", ["rotate", "remove"])
def test_what_cannot_be_undone_needs_a_confirmation(command: str) -> None:
    control = Control(
        {"GET /tokens/laptop": TOKEN, "POST /tokens/laptop/rotate": NEW, "POST /batch": {"done": "removed it"}}
    )
    assert run("token", command, "laptop", control=control).code == Exit.USAGE
    assert control.asked == [("GET /tokens/laptop", None)]
    assert run("token", command, "nope", control=control).code == Exit.NOT_FOUND
    assert run("token", command, "laptop", "--yes", control=control).code == Exit.OK


def test_what_ends_with_a_removed_token_is_reported() -> None:
    done = "removed token 'laptop'; port 11434 for Ollama, which used it, is closed"
    control = Control({"GET /tokens/x": TOKEN, "POST /batch": {"done": done}})
    assert run("token", "remove", "x", "--yes", control=control).err == f"R{done[1:]}.\n"
    assert sent(control) is None


@pytest.mark.parametrize(("command", "enabled"), [("enable", True), ("disable", False)])
def test_a_token_is_switched(command: str, enabled: bool) -> None:
    control = edits(TOKEN)
    ran = run("token", command, "x", control=control)
    assert (ran.code, ran.err) == (Exit.OK, "Changed token 'laptop'.\n")
    assert sent(control) == {"enabled": enabled}


def test_the_servers_refusals_are_one_line_and_an_exit_code() -> None:
    missing = run("token", "show", "x", answers={"GET /tokens/x": NotFound("no token 'x'")})
    taken = run("token", "add", "x", answers={"POST /tokens": Conflict("there is already a token 'x'")})
    assert (missing.code, missing.err) == (Exit.NOT_FOUND, "tollkeeper: no token 'x'\n")
    assert (taken.code, taken.out) == (Exit.CONFLICT, "")


@pytest.mark.parametrize("flag", ["--rpm", "--tpm", "--concurrent"])
def test_a_limit_of_nothing_says_how_to_have_no_limit(flag: str) -> None:
    ran = run("token", "add", "t", flag, "0", answers={})
    name = flag.removeprefix("--")
    assert (ran.code, f"'{flag}': {name} must be above 0; use 'none' for no limit" in ran.err) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("hold", "shown"),
    [
        (0, "sees +demo-echo, demo-story"),
        (0, "limits +60 requests a minute"),
        (0, f"held output +.*{HELD_BY_RULE}"),
        (8000, "held output +.*8k tokens of a call"),
    ],
)
def test_a_token_is_shown(hold: int, shown: str) -> None:
    token = replace(TOKEN, hold_output=hold)
    ran = run("token", "show", "laptop", answers={"GET /tokens/laptop": token})
    assert re.search(rf"\n{shown}", ran.out)


def test_tokens_of_programs_that_have_ended_are_hidden_and_counted() -> None:
    ended = msgspec.structs.replace(TOKEN, name="claude-src-1a2b3c", temporary=True, state="expired")
    control = Control({"GET /tokens": [TOKEN, ended, ended]})
    ran = run("token", "list", control=control)
    assert "claude-src" not in ran.out
    assert "not listed: 2 tokens of ended programs; see tollkeeper token list --all" in ran.err
    everything = run("token", "list", "--all", control=control)
    assert (everything.out.count("claude-src"), everything.err) == (2, "")
    assert [row["name"] for row in run("token", "list", "--json", control=control).json] == ["laptop"]


LEAKED = "sk-tk-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2q"
FORMER = KeyOwner(
    noun="token", id="tok_1", name="laptop", handle=handle(hint(LEAKED), digest(LEAKED)), since=Millis(NOW - 86_400_000)
)


def key_control() -> Control:
    path = quote(FORMER.handle, safe="")
    tokens = [replace(TOKEN, keys=(FORMER,)), replace(TOKEN, id="tok_2", name="other")]
    return Control(
        {
            f"GET /keys/{path}": FORMER,
            "GET /tokens": tokens,
            f"GET /tokens/{path}": tokens[0],
            "GET /calls": CallPage(calls=[CALL]),
        }
    )


@pytest.mark.parametrize(
    "command",
    [
        ("token", "list", "--search", LEAKED),
        ("token", "list", "--search", f"Bearer {LEAKED}"),
        ("token", "show", LEAKED),
        ("usage", "list", LEAKED),
        ("usage", "list", f"tok:{LEAKED}"),
        ("usage", "list", "--token", LEAKED),
    ],
)
def test_a_key_that_is_searched_for_is_never_sent_or_printed_and_its_owner_is_named(command: tuple[str, ...]) -> None:
    control = key_control()
    ran = run(*command, control=control)
    assert "sk-tk-aB3d…nO2q was the key of token 'laptop' until " in ran.err
    assert LEAKED not in ran.out + ran.err + str(control.asked)


def test_a_search_lists_the_token_that_had_the_key() -> None:
    ran = run("token", "list", "--search", LEAKED, "--json", control=key_control())
    assert [token["name"] for token in ran.json] == ["laptop"]
    ran = run("token", "list", "--search", "OTHER", "--json", control=key_control())
    assert [token["name"] for token in ran.json] == ["other"]


@pytest.mark.parametrize(
    "command", [("token", LEAKED), ("token", "edit", "--nope", LEAKED), (LEAKED,), ("usage", "list", f"x:{LEAKED}")]
)
def test_no_error_repeats_a_key(command: tuple[str, ...]) -> None:
    ran = run(*command, control=key_control())
    assert ran.code != 0
    assert LEAKED not in ran.out + ran.err
