"""The account on the command line."""

from collections.abc import Sequence

import msgspec
import pytest

from gateway.commands.exit_codes import Exit
from gateway.domain.account import Grant
from gateway.domain.budget import Window
from gateway.domain.units import Millis, Nanos
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, BUDGET, NOW, SUMMARY


def test_the_account_is_shown_to_the_last_nano_dollar() -> None:
    ran = run("account", "show", answers={"GET /account": ACCOUNT})
    lines = [line.split(maxsplit=1) for line in ran.out.splitlines()]
    assert ["available", "$9.99562"] in lines
    assert ["budget", "$1.20 of $5.00 and 12.3k of 1M tokens a day"] in lines


@pytest.mark.parametrize("command", [("show",), ("grant", "1"), ("set", "--budget", "month=5")], ids=" ".join)
def test_every_answer_has_the_same_forecasts(command: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.commands.formatting.now", lambda: NOW)
    budgets = [msgspec.structs.replace(BUDGET, window=Window.MONTH, resets_at_ms=Millis(NOW + 20 * 86_400_000))]
    account = msgspec.structs.replace(ACCOUNT, budgets=budgets, begun_ms=Millis(NOW - 2 * 86_400_000))
    week = msgspec.structs.replace(SUMMARY, first_ms=Millis(NOW - 2 * 86_400_000))
    answers = dict.fromkeys(("GET /account", "POST /account/grants", "PATCH /account"), account)
    out = run("account", *command, answers={**answers, "GET /usage": week}).out
    assert "at this pace used up on" in out
    assert "at the pace of the last 2 days" in out or "lasts over a year" in out


def test_the_account_in_json_has_the_fields_of_the_view() -> None:
    ran = run("account", "show", "--json", answers={"GET /account": ACCOUNT})
    assert list(ran.json) == [*ACCOUNT.__struct_fields__, "used_up_ms"]


@pytest.mark.parametrize(
    ("amount", "nanos"), [("25", 25_000_000_000), ("$0.10", 100_000_000), ("-1.5", -1_500_000_000)]
)
def test_a_grant_is_exact_and_may_correct(amount: str, nanos: int) -> None:
    control = Control({"POST /account/grants": ACCOUNT})
    assert run("account", "grant", amount, "--note", "why", control=control).code == 0
    assert control.bodies == [{"nanos": nanos, "note": "why"}]


def test_a_grant_of_nonsense_is_refused_before_any_question() -> None:
    ran = run("account", "grant", "1e3", answers={})
    assert (ran.code, ran.asked) == (Exit.USAGE, [])


def test_grants_are_listed() -> None:
    grant = Grant(id="grant_1", nanos=Nanos(10_000_000_000), time=NOW, note="first")
    ran = run("account", "grants", answers={"GET /account/grants": [grant]})
    assert "$10.00" in ran.out
    assert "first" in ran.out


def test_setting_merges_budgets() -> None:
    control = Control({"GET /account": ACCOUNT, "PATCH /account": ACCOUNT})
    run("account", "set", "--status", "suspended", "--budget", "day=none", control=control)
    tokens_only = {"window": "day", "nanos": None, "tokens": 1_000_000}
    assert control.bodies == [{"status": "suspended", "budgets": [tokens_only]}]
