"""Serving, looking, stopping."""

import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.server import bar_line
from gateway.domain.account import AccountStatus
from gateway.domain.budget import BALANCE_ID
from gateway.domain.incidents import ALL_SPENT, STORE, Incident
from gateway.domain.units import Millis, Nanos
from tests.commands.program import Served, serving, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, STATUS, SUMMARY, sum_row


def test_a_first_start_prints_the_address_the_key_and_a_curl_line(served: Served) -> None:
    address = re.search(r"http://127\.0\.0\.1:\d+/v1", served.greeting)
    assert address
    assert len(served.key) == 49
    assert f"curl '{address[0]}/chat/completions'" in served.greeting


def test_the_status_of_a_server(served: Served) -> None:
    ran = tollkeeper(served.home, "status", "--json")
    assert (ran.code, ran.json["address"] in served.greeting) == (0, True)
    assert "address         http://127.0.0.1:8655/v1\n" in run("status", answers={"GET /status": STATUS}).out


NOT_WRITTEN = {"GET /status": replace(STATUS, state="store_failed", store_error="the disk is full")}
WAITS = {"channel 'a' (32 calls at once)": 27, "its next try": 1}
BUSY = {"GET /status": replace(STATUS, in_flight=33, queued=27, waits=WAITS)}
SUSPENDED = {"GET /account": replace(ACCOUNT, status=AccountStatus.SUSPENDED)}
EMPTY = {"GET /account": replace(ACCOUNT, balance_nanos=Nanos(-21_850_000), available_nanos=Nanos(-21_850_000))}


@pytest.mark.parametrize(
    ("changes", "told", "untold"),
    [
        ({}, "store           works\n", "\naccount "),
        (NOT_WRITTEN, "store           FAILED: the disk is full; calls are rejected\n", "works"),
        (BUSY, "32 running · 28 waiting\n", "queued"),
        (BUSY, "27 waiting for channel 'a' (32 calls at once)\n", "account"),
        (
            SUSPENDED,
            "account         suspended: all calls are rejected; 'tollkeeper account set --status active' ",
            "used up",
        ),
        (
            EMPTY,
            "account         balance used up: all calls that cost something are rejected; top up: 'tollkeeper",
            "lasts",
        ),
    ],
)
def test_the_status_says_what_is_wrong(changes: dict[str, object], told: str, untold: str) -> None:
    answers = {"GET /status": STATUS, "GET /account": ACCOUNT, "GET /usage": SUMMARY, **changes}
    out = run("status", answers=answers).out
    assert (told in out, untold in out) == (True, False), out


def test_a_balance_that_is_used_up_needs_attention() -> None:
    bar = run("status", "--line", "--json", answers={"GET /status": STATUS, "GET /usage": SUMMARY, **EMPTY}).json
    assert (bar["class"], bar["text"].endswith(", balance used up")) == ("attention", True)


def test_budgets_that_are_used_up_need_attention() -> None:
    now = int(time.time() * 1000)
    spent = Incident(
        id=1,
        channel=STORE,
        subject_id="day:tok_1",
        budget="daily budget of token 'editor'",
        reason=ALL_SPENT,
        began=Millis(now - 1000),
        last=Millis(now - 1000),
        until=Millis(now + 60_000),
        refusing=True,
    )
    near = {"reason": "85% is spent", "refusing": False}
    others = [
        replace(spent, subject_id="day:tok_2", budget="daily budget of token 'ci'", **near),
        replace(spent, subject_id="day:tok_3", budget="daily budget of token 'old'", ended=Millis(now)),
        replace(spent, subject_id=BALANCE_ID, budget="balance", until=None),
    ]
    small = replace(
        spent, subject_id="day:tok_4", budget="weekly budget of group 'x'", reason="99% is spent", refused=3
    )
    others += [small]
    answers = {
        "GET /status": STATUS,
        "GET /account": ACCOUNT,
        "GET /usage": SUMMARY,
        "GET /incidents": [spent, *others],
    }
    assert run("status", "--json", answers=answers).json["used_up"] == ["daily budget of token 'editor'", small.budget]
    assert f"refusing        daily budget of token 'editor', {small.budget}\n" in run("status", answers=answers).out
    bar = run("status", "--line", "--json", answers=answers).json
    assert (bar["class"], bar["text"].endswith(f"editor' refusing, {small.budget} refusing")) == ("attention", True)


def test_the_status_as_json_has_the_account_and_when_its_balance_is_used_up() -> None:
    now = int(time.time() * 1000)
    spending = replace(SUMMARY, first_ms=Millis(now - 2 * 86_400_000))
    answers = {"GET /status": STATUS, "GET /account": replace(ACCOUNT, status=AccountStatus.SUSPENDED)}
    found = run("status", "--json", answers={**answers, "GET /usage": spending}).json["account"]
    assert (found["status"], found["available_nanos"]) == ("suspended", ACCOUNT.available_nanos)
    left = round(2 * 86_400_000 * ACCOUNT.available_nanos / spending.total.cost_nanos)
    assert abs(found["used_up_ms"] - now - left) < left / 100
    shown = run("account", "show", "--json", answers={**answers, "GET /usage": spending}).json
    assert abs(shown["used_up_ms"] - found["used_up_ms"]) < left / 100
    assert run("status", "--json", answers={"GET /status": STATUS}).json["account"] is None


def test_without_a_server(home: Path) -> None:
    status, stop = tollkeeper(home, "status"), tollkeeper(home, "stop")
    assert (status.code, status.err.count("\n")) == (Exit.UNREACHABLE, 1)
    in_json = tollkeeper(home, "status", "--json")
    assert (in_json.code, in_json.json["running"], in_json.json["home"]) == (Exit.UNREACHABLE, False, str(home))
    assert (stop.code, "no server" in stop.err) == (0, True)
    assert not home.exists()


def test_stopping_waits_until_it_is_gone(home: Path) -> None:
    with serving(home, "serve") as server:
        ran = tollkeeper(home, "stop")
        assert (ran.code, ran.err) == (0, "Server stopped.\n")
        assert server.process.wait(5) == 0
    assert tollkeeper(home, "status").code == Exit.UNREACHABLE


def test_a_second_server_on_the_same_home_is_refused(served: Served) -> None:
    for args in (("serve",), ("--port", "9"), ()):
        ran = tollkeeper(served.home, *args)
        last = ran.err.splitlines()[-1]
        assert ran.code == Exit.STORE
        assert last.startswith(f"tollkeeper: already serving at {served.address} (pid {served.process.pid}); ")
        assert ran.out == f"export OPENAI_BASE_URL='{served.address}'\n"
        assert "for a new one: tollkeeper token rotate first" in ran.err


def test_a_second_start_names_the_token_used_last(served: Served) -> None:
    assert tollkeeper(served.home, "token", "add", "aider").code == 0
    assert tollkeeper(served.home, "chat", "--token", "first", "hi").code == 0
    ran = tollkeeper(served.home, "serve")
    assert tollkeeper(served.home, "token", "remove", "--yes", "aider").code == 0
    assert ("token rotate first" in ran.err, "aider" in ran.err) == (True, False)


@pytest.mark.parametrize("port", ["http", "99999"])
def test_what_is_not_a_port_is_answered_with_the_range_of_ports(home: Path, port: str) -> None:
    ran = tollkeeper(home, "serve", "--port", port)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert f"port '{port}' is not a number from 0 to 65535" in ran.err


@pytest.mark.parametrize(
    ("options", "command"), [([], "tollkeeper serve"), (["--no-token"], "tollkeeper")], ids=["serve", "console"]
)
def test_a_port_in_use_says_by_whom_and_the_line_that_helps(
    home: Path, tmp_path: Path, options: list[str], command: str
) -> None:
    with serving(tmp_path / "first", "serve", start=subprocess.Popen) as first:  # a fork has its parent's command line
        port = first.address.rpartition(":")[2][:-3]
        ran = tollkeeper(home, "serve", "--port", port, *options)
        assert (ran.code, ran.err.count("\n")) == (Exit.CONFLICT, 1)
        assert "in use" in Exit.CONFLICT.meaning
        line = re.search(rf"already listens there; use another port: ({command} --.*)$", ran.err.strip())
        assert line
        if Path("/proc/net/tcp").exists():
            assert f"python cli.py (pid {first.process.pid}) already" in ran.err.replace("python3", "python")
        with serving(home, *shlex.split(line[1])[1:]) as other:
            assert "Tollkeeper is running at" in other.greeting


@pytest.mark.parametrize(("command", "option"), [("serve", "--drain"), ("stop", "--wait")])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "x", "86401"])
def test_what_is_not_a_number_of_seconds_is_a_usage_error(home: Path, command: str, option: str, value: str) -> None:
    ran = run(command, option, value, env={"TOLLKEEPER_HOME": str(home)})
    assert (ran.code, ran.err.count("\n")) == (Exit.USAGE, 1)


def test_one_line_for_a_status_bar() -> None:
    answers = {"GET /status": STATUS, "GET /account": ACCOUNT, "GET /usage": SUMMARY}
    control = Control(answers)
    ran = run("status", "--line", control=control)
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.out.startswith(f"{STATUS.in_flight} running, ")
    assert ran.out.endswith(" today, $9.9956 left\n")
    shown = run("status", "--line", "--json", control=control)
    assert (shown.json["text"] + "\n", shown.out.count("\n")) == (ran.out, 1)
    assert shown.json["tooltip"].startswith("http://127.0.0.1:8655/v1: ")


def test_a_status_bar_counts_errors_as_the_summary_does() -> None:
    today = replace(SUMMARY, total=replace(SUMMARY.total, errors=3, aborts=2))
    assert bar_line(STATUS, ACCOUNT, today)["tooltip"].endswith(": 5 calls today, 3 errors")


def test_a_status_bar_shows_what_needs_attention() -> None:
    status = replace(STATUS, state="draining", queued=2, channels={"ok": 1, "attention": 1, "cooling": 2, "off": 1})
    found = bar_line(status, replace(ACCOUNT, status=AccountStatus.SUSPENDED), SUMMARY)
    assert found["class"] == "attention"
    assert f"{STATUS.in_flight} running, 2 waiting, " in found["text"]
    assert found["text"].endswith("1 channel needs attention, 2 channels paused, account suspended, draining")
    assert bar_line(replace(STATUS, channels={"ok": 1}), ACCOUNT, SUMMARY)["class"] == "ok"


def test_a_status_bar_without_a_server() -> None:
    off = Control({}, running=False)
    ran = run("status", "--line", control=off)
    assert (ran.code, ran.out, ran.err) == (0, "off\n", "")
    assert run("status", "--line", "--json", control=off).json["class"] == "off"


def test_a_server_may_print_its_calls(home: Path) -> None:
    with serving(home, "serve", "--log") as server:
        assert server.process.stdout is not None
        assert tollkeeper(home, "chat", "hi", "--model", "demo-echo").code == 0
        assert tollkeeper(home, "stop").code == 0
        lines = server.process.stdout.read().splitlines()
        assert server.process.wait(10) == 0
    (line,) = [line for line in lines if "demo-echo" in line]
    assert re.match(r"\d\d:\d\d:\d\d  200 +demo-echo +first +demo ", line)


def test_keys_that_need_attention_are_counted() -> None:
    view = replace(STATUS, keys={"attention": 1, "unset": 2}, channels={"attention": 2, "ok": 1})
    assert bar_line(view, ACCOUNT, SUMMARY)["text"].endswith("1 key needs attention, 2 keys not set")
    assert bar_line(replace(view, keys={"attention": 2}), ACCOUNT, SUMMARY)["text"].endswith("2 keys need attention")
    out = run("status", answers={"GET /status": view, "GET /account": ACCOUNT, "GET /usage": SUMMARY}).out
    assert "keys            1 key needs attention, 2 keys not set" in out
    assert "channels        2 need attention, 1 ok\n" in out


def test_the_status_says_how_long_the_balance_lasts() -> None:
    week = replace(SUMMARY, total=sum_row("", cost=5_000_000_000), first_ms=Millis(0))
    answers = {"GET /status": STATUS, "GET /account": ACCOUNT, "GET /usage": week}
    out = run("status", answers=answers).out
    assert re.search(r"balance         \$9.99562 available; at the pace of the last 7 days used up on .+\n", out)
    lasting = run("account", "show", answers={**answers, "GET /account/grants": []}).out
    assert re.search(r"available +\$9.99562; at the pace of the last 7 days used up on .+\n", lasting)
