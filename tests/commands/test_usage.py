"""Calls listed, and the receipt of one."""

from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.output import json_value
from gateway.domain.units import Nanos
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import CALL, HOSTILE

URL = f"GET /calls/{CALL.id}"


def test_calls_are_listed() -> None:
    ran = run("usage", "list", control=Control({"GET /calls": CallPage(calls=[CALL])}))
    row = ran.out.splitlines()[1]
    assert CALL.id in row
    assert row.split()[-5:] == ["1.25s", "320ms", "1.2k", "150", "$0.00438"]


def test_the_json_of_a_call_has_the_promised_fields() -> None:
    ran = run("usage", "list", "--json", control=Control({"GET /calls": CallPage(calls=[CALL])}))
    promised = (
        *("id", "time", "token", "group", "model", "upstream_model", "channel", "status", "outcome", "stream"),
        *("duration_ms", "first_byte_ms", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
        *("usage_source", "cost_nanos", "attempts"),
    )
    assert set(promised) <= set(ran.json[0])
    assert ran.json == [json_value(CALL)]


def test_a_receipt_tells_how_the_cost_came_about() -> None:
    ran = run("usage", "show", CALL.id, control=Control({URL: CALL}))
    assert "1,000 input at $2.50 per million" in ran.out
    assert "cost            $0.00438\n" in ran.out
    assert "attempt 1  other  500  server: oops, possibly billed\n" in ran.out
    assert "attempt 2  openai  200  answered\n" in ran.out


def test_an_unpriced_call_says_so() -> None:
    ran = run("usage", "show", CALL.id, control=Control({URL: replace(CALL, rates=None, cost_nanos=Nanos(0))}))
    assert "cost            unpriced\n" in ran.out


def test_nothing_from_outside_reaches_the_terminal() -> None:
    fields = ("model", "upstream_model", "app", "error", "channel", "finish_reason", "upstream_id", "token")
    hostile = replace(CALL, **dict.fromkeys(fields, HOSTILE), marks=[HOSTILE])
    ran = run("usage", "show", CALL.id, control=Control({URL: hostile}))
    listed = run("usage", "list", control=Control({"GET /calls": CallPage(calls=[hostile])}))
    assert not set(ran.out + listed.out) & set("\x1b\x07\x9b\u202e")


def test_a_running_call_is_cancelled() -> None:
    control = Control({f"POST /calls/{CALL.id}/cancel": {"done": "cancelled"}})
    assert run("usage", "cancel", CALL.id, control=control).code == 0
    assert run("usage", "cancel", "req_other", control=control).code == Exit.NOT_FOUND
