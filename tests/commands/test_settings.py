"""Settings on the command line."""

from gateway.commands.exits import Exit
from gateway.domain.settings import Settings
from tests.commands.runner import Control, run

CONTROL = {"GET /settings": Settings(), "PATCH /settings": Settings()}


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
