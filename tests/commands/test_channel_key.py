"""The commands about a channel's keys."""

import msgspec
import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import Conflict
from gateway.domain.history import Question
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.views import ChannelView
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, TWO_KEYS

TWO = replace(CHANNEL, keys=TWO_KEYS)


def test_keys_are_listed_with_their_states() -> None:
    control = Control({"GET /channels/openai": TWO})
    out = run("channel", "key", "list", "openai", control=control).out
    assert ("env:FIRST" in out, "paused until 2025-11-18" in out, "\x1b" in out) == (True, True, False)
    found = run("channel", "key", "list", "openai", "--json", control=control).json
    assert [(one["number"], one["key"], one["state"]) for one in found] == [
        (1, "env:FIRST", "ok"),
        (2, "…abcd", "cooling"),
    ]


def test_a_key_is_read_from_stdin() -> None:
    ran = run("channel", "key", "add", "openai", answers={"POST /channels/openai/keys": TWO}, stdin="sk-secret\n")
    assert ran.bodies == [{"key": "sk-secret"}]
    assert "2 keys: 1 env:FIRST (ok), 2 …abcd (paused until 2025-11-18" in ran.err
    assert "sk-secret" not in ran.out + ran.err


def test_a_key_is_rotated_and_removed_and_resumed() -> None:
    path = "/channels/openai/keys/2"
    control = Control({f"PATCH {path}": TWO, f"DELETE {path}": CHANNEL, f"POST {path}/clear": TWO})
    run("channel", "key", "rotate", "openai", "2", "--key", "env:NEW", control=control)
    ran = run("channel", "key", "remove", "openai", "2", "--yes", control=control)
    assert "0 keys." in ran.err
    run("channel", "key", "resume", "openai", "2", control=control)
    assert control.asked == [
        ("PATCH /channels/openai/keys/2", {"key": "env:NEW"}),
        ("DELETE /channels/openai/keys/2", None),
        ("POST /channels/openai/keys/2/clear", None),
    ]


def resumed(channel: ChannelView) -> dict[str, object]:
    return {"GET /channels/openai": channel, f"POST /channels/{channel.id}/clear": channel}


def keyless(preset: str) -> dict[str, object]:
    return {"DELETE /channels/openai/keys/1": replace(CHANNEL, keys=(), preset=preset)}


ENABLE = "note: channel 'openai' is disabled; enable it: tollkeeper channel enable openai"
NO_KEY = "note: the channel has no key now; if it needs one: tollkeeper channel key add"


@pytest.mark.parametrize(
    ("line", "answers", "code", "err", "noted"),
    [
        ("key remove openai 2", resumed(TWO), Exit.USAGE, "add --yes", True),
        ("key remove openai 3", resumed(TWO), Exit.NOT_FOUND, "add --yes", False),
        ("key remove openai 1 --yes", keyless("openai"), Exit.OK, NO_KEY, True),
        ("key remove openai 1 --yes", keyless(""), Exit.OK, NO_KEY, False),
        ("resume openai", resumed(replace(CHANNEL, enabled=False, state="off")), Exit.OK, ENABLE, True),
        ("resume openai", resumed(CHANNEL), Exit.OK, ENABLE, False),
        ("clear openai", {}, Exit.USAGE, "Did you mean 'tollkeeper channel resume'?", True),
        ("key clear openai 1", {}, Exit.USAGE, "Did you mean 'tollkeeper channel key resume'?", True),
    ],
)
def test_key_commands_print_notes(line: str, answers: dict[str, object], code: Exit, err: str, noted: bool) -> None:
    ran = run("channel", *line.split(), answers=answers)
    assert (ran.code, err in ran.err) == (code, noted), ran.err


def test_several_keys_are_given_when_a_channel_is_made() -> None:
    control = Control({"POST /channels": TWO})
    url = "https://api.openai.com/v1"
    run("channel", "add", "x", "--base-url", url, "--key", "env:A", "--key", "env:B", control=control)
    assert (control.bodies[0]["key"], control.bodies[0]["keys"]) == ("env:A", ["env:B"])


SAVED = SavedChannel(**{name: getattr(CHANNEL, name) for name in CHANNEL.__struct_fields__}, new_prices=(), unpriced=())
REASONS = ["The old key …abcd of channel 'openai' is used again."]
QUESTION = Question(text="Let it work again?", reasons=REASONS, verb="Let it work", answer="revives_key")
REVIVES = Conflict("old", code="needs_confirmation", details=msgspec.to_builtins(QUESTION))


@pytest.mark.parametrize(
    ("command", "route"),
    [
        (("channel", "key", "add", "openai", "--key", "sk-old"), "POST /channels/openai/keys"),
        (("channel", "key", "rotate", "openai", "1", "--key", "sk-old"), "PATCH /channels/openai/keys/1"),
        (("channel", "edit", "openai", "--key", "sk-old"), f"PATCH /channels/{CHANNEL.id}"),
    ],
)
def test_a_replaced_key_is_used_again_only_with_yes(command: tuple[str, ...], route: str) -> None:
    def control() -> Control:
        return Control({"GET /channels/openai": CHANNEL, route: iter([REVIVES, SAVED])})

    ran = run(*command, control=control())
    assert (ran.code, "The old key …abcd of channel 'openai' is used again." in ran.err) == (Exit.USAGE, True)
    assert "add --yes" in ran.err
    assert run(*command, "--yes", control=control()).code == Exit.OK
