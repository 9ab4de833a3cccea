"""Settings on the command line."""

from typing import Any

import msgspec

from gateway.commands.exit_codes import Exit
from gateway.commands.settings import LIMITS
from gateway.domain.settings import Settings
from tests.commands.runner import Control, run
from tests.commands.samples import STATUS

CONTROL = {"GET /settings": Settings(), "PATCH /settings": Settings(), "GET /status": STATUS}


def test_all_settings_are_shown_also_those_that_are_as_usual() -> None:
    ran = run("settings", "show", "--json", control=Control(CONTROL))
    assert list(ran.json) == list(Settings.__struct_fields__)


def test_what_is_named_changes() -> None:
    control = Control(CONTROL)
    args = (
        "--durability",
        "call",
        "--refuse-unpriced",
        "--hosts",
        "a.lan, b.lan",
        "--origins",
        "",
        "--keep-days",
        "30",
        "--refresh-models-h",
        "6",
    )
    assert run("settings", "set", *args, control=control).code == 0
    assert control.bodies == [
        {
            "durability": "call",
            "refuse_unpriced": True,
            "hosts": ["a.lan", "b.lan"],
            "origins": [],
            "keep_days": 30,
            "refresh_models_h": 6,
        }
    ]


def test_naming_nothing_is_a_usage_error() -> None:
    assert run("settings", "set", control=Control(CONTROL)).code == Exit.USAGE


def test_every_limit_can_be_set() -> None:
    control = Control(CONTROL)
    assert run("settings", "set", *(word for name, _ in LIMITS for word in (name, "0")), control=control).code == 0
    assert control.bodies == [{name.removeprefix("--").replace("-", "_"): 0 for name, _ in LIMITS}]


def test_limits_are_shown() -> None:
    usual = run("settings", "show", control=Control(CONTROL)).out
    assert "64 calls for 10 s" in usual
    assert "2048, 256 of one address" in usual
    assert "256 MiB together" in usual
    none: dict[str, Any] = dict.fromkeys((name.removeprefix("--").replace("-", "_") for name, _ in LIMITS), 0)
    lifted = run("settings", "show", control=Control({**CONTROL, "GET /settings": Settings(**none)})).out
    assert "nobody" in lifted
    assert "any number, any number of one address" in lifted


def test_fewer_connections_than_set_are_explained() -> None:
    status = msgspec.structs.replace(STATUS, most_connections=96, open_files=256)
    shown = run("settings", "show", control=Control({**CONTROL, "GET /status": status})).out
    assert "2048, 256 of one address; now 96; the system allows this server 256 open files" in shown
