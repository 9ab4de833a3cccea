"""Settings on the command line."""

import re
import shlex
from typing import Any

import msgspec
import pytest

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import Conflict
from gateway.domain.field_kinds import Number
from gateway.domain.fields import SETTINGS
from gateway.domain.history import Question
from gateway.domain.settings import Settings
from tests.commands.runner import Control, run
from tests.commands.samples import STATUS

LIMITS = [field.name for field in SETTINGS if isinstance(field.kind, Number) and field.name != "keep_days"]
CONTROL = {
    "GET /settings": Settings(),
    "PATCH /settings": Settings(),
    "GET /status": STATUS,
}


def test_what_was_changed_is_printed_and_nothing_else() -> None:
    control = Control({**CONTROL, "PATCH /settings": Settings(refuse_unpriced=True)})
    ran = run("settings", "set", "--refuse-unpriced", control=control)
    assert re.fullmatch(r"[a-z ]+  \S+ -> \S+\n", ran.out)
    same = run("settings", "set", "--refuse-unpriced", answers=CONTROL).out
    assert same.split(maxsplit=1) == ["settings", "as before: nothing was changed\n"]


def test_records_are_deleted_only_if_confirmed() -> None:
    reason = "6,596 records of 21 days are deleted for good."
    question = Question(text="Keep records for 10 days?", reasons=[reason], verb="Delete", answer="keep_days=10")
    refusal = Conflict("asks", code="needs_confirmation", details=msgspec.to_builtins(question))
    control = Control({**CONTROL, "PATCH /settings": iter([refusal, refusal, Settings(keep_days=10)])})
    ran = run("settings", "set", "--keep-days", "10", control=control)
    assert (ran.code, control.accepted.pop()) == (Exit.USAGE, "")
    assert ran.err.startswith(f"{reason}\ntollkeeper: cannot ask without a terminal")
    assert ran.err.endswith(" Keep records for 10 days?\n")
    assert run("settings", "set", "--keep-days", "10", "--yes", control=control).code == 0
    assert control.accepted[-1] == "keep_days=10"


def test_all_settings_are_shown_also_those_that_are_as_usual() -> None:
    ran = run("settings", "show", "--json", answers=CONTROL)
    assert list(ran.json) == list(Settings.__struct_fields__)


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (
            "--durability call --refuse-unpriced --hosts 'a.lan, b.lan'",
            {"durability": "call", "refuse_unpriced": True, "hosts": ["a.lan", "b.lan"]},
        ),
        ("--origins '' --keep-days 30 --refresh-models-h 6", {"origins": [], "keep_days": 30, "refresh_models_h": 6}),
        # One more than there are.
        ("--add-host b.lan --app-origins", {"app_origins": True, "hosts": ["c.lan", "b.lan"]}),
        ("--hosts a.lan --add-host b.lan", {"hosts": ["a.lan", "b.lan"]}),
        ("--remove-host c.lan", {"hosts": []}),
        ("--add-origin null --add-origin https://a.example", {"origins": ["https://a.example", "null"]}),
        ("--ollama-token apps --ollama-port 11434", {"ollama_token": "apps", "ollama_port": 11434}),
        ("--ollama-port off", {"ollama_port": 0}),
    ],
)
def test_only_named_settings_change(line: str, body: dict[str, object]) -> None:
    control = Control({**CONTROL, "GET /settings": Settings(hosts=("c.lan",), origins=("https://a.example",))})
    assert run("settings", "set", *shlex.split(line), control=control).code == 0
    assert control.bodies == [body]


def test_every_limit_can_be_set() -> None:
    control = Control(CONTROL)
    args = (word for name in LIMITS for word in (f"--{name.replace('_', '-')}", "0"))
    assert run("settings", "set", *args, control=control).code == 0
    assert control.bodies == [dict.fromkeys(LIMITS, 0)]
    assert len(LIMITS) == 12


def test_limits_are_shown() -> None:
    usual = run("settings", "show", answers=CONTROL).out
    assert "longest wait      10 s " in usual
    assert "connections       2048 " in usual
    assert "256 MiB together" in usual
    none: dict[str, Any] = dict.fromkeys(LIMITS, 0)
    lifted = run("settings", "show", answers={**CONTROL, "GET /settings": Settings(**none)}).out
    assert "longest wait      none " in lifted
    assert "connections       no limit " in lifted
    assert "responses kept    none " in lifted


def test_fewer_connections_than_set_are_explained() -> None:
    status = msgspec.structs.replace(STATUS, most_connections=96, open_files=256)
    shown = run("settings", "show", answers={**CONTROL, "GET /status": status}).out
    assert "connections now   96; the system allows this server 256 open files" in shown


def test_an_ollama_port_that_is_off_is_shown_so() -> None:
    assert "Ollama's port     off " in run("settings", "show", answers=CONTROL).out


def test_an_ollama_port_that_cannot_be_opened_is_reported_at_once() -> None:
    taken = msgspec.structs.replace(STATUS, ollama_error="cannot listen on 127.0.0.1:11434")
    control = Control({**CONTROL, "GET /status": taken})
    ran = run("settings", "set", "--ollama-port", "11434", control=control)
    assert (ran.code, ran.err) == (0, "note: Ollama's port is closed: cannot listen on 127.0.0.1:11434\n")
    assert run("settings", "set", "--refuse-unpriced", control=control).err == ""


def test_each_setting_names_its_option() -> None:
    lines = run("settings", "show", answers=CONTROL).out.splitlines()
    assert [line.split("  ")[-1].split()[0] for line in lines[: len(SETTINGS)]] == [
        field.flags.split("/")[0] for field in SETTINGS
    ]
