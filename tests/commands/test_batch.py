"""Commands that take several names change all of them in one step."""

from pathlib import Path

import pytest

from gateway.commands.exit_codes import Exit
from tests.commands.program import Served, tollkeeper
from tests.commands.runner import Ran


@pytest.fixture
def home(served: Served) -> Path:
    """With three tokens, two channels and a group; the tests share it and leave it as it was."""
    if "bot" not in tollkeeper(served.home, "token", "list").out:
        for line in ("token add laptop", "token add ci", "token add bot", "group add work"):
            assert tollkeeper(served.home, *line.split()).code == Exit.OK
        for name in ("a", "b"):
            made = tollkeeper(served.home, "channel", "add", name, "--dialect", "mock", "--models", f"m{name}")
            assert made.code == Exit.OK
    return served.home


def rows(home: Path, noun: str) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in tollkeeper(home, noun, "list", "--json").json}


def undone(home: Path) -> Ran:
    return tollkeeper(home, "undo", "--yes")


def test_several_tokens_are_edited_as_one_change(home: Path) -> None:
    ran = tollkeeper(home, "token", "edit", "laptop", "ci", "laptop", "--group", "work")
    assert ran.err.splitlines() == [
        "Moved 2 tokens to group 'work': 'laptop', 'ci'.",
        "note: token 'laptop' sees no models: its group 'work' has none; see: tollkeeper group show work",
        "note: token 'ci' sees no models: its group 'work' has none; see: tollkeeper group show work",
    ]
    assert [rows(home, "token")[name]["group"] for name in ("laptop", "ci", "bot")] == ["work", "work", "default"]
    undone(home)
    assert [rows(home, "token")[name]["group"] for name in ("laptop", "ci", "bot")] == ["default"] * 3


@pytest.mark.parametrize("noun", ["token", "channel"])
def test_several_are_switched_as_one_change(home: Path, noun: str) -> None:
    names = ("laptop", "ci") if noun == "token" else ("a", "b")
    ran = tollkeeper(home, noun, "disable", *names)
    assert ran.err == f"Disabled 2 {noun}s: '{names[0]}', '{names[1]}'.\n"
    assert [rows(home, noun)[name]["enabled"] for name in names] == [False, False]
    ran = tollkeeper(home, noun, "enable", *names, "--json")
    assert [row["enabled"] for row in ran.json] == [True, True]
    refused = tollkeeper(home, noun, "disable", names[0], "nobody")
    assert (refused.code, refused.err.partition("';")[0]) == (
        Exit.NOT_FOUND,
        f"tollkeeper: nothing was changed: no {noun} 'nobody",
    )
    assert tollkeeper(home, noun, "disable", "nobody").err.startswith(f"tollkeeper: no {noun} 'nobody'")
    assert rows(home, noun)[names[0]]["enabled"] is True


@pytest.mark.parametrize(("noun", "names"), [("token", ("laptop", "ci")), ("channel", ("a", "b"))])
def test_several_are_removed_as_one_change_after_one_question(home: Path, noun: str, names: tuple[str, str]) -> None:
    ran = tollkeeper(home, noun, "remove", *names)
    assert (ran.code, f"Remove 2 {noun}s: '{names[0]}', '{names[1]}'?" in ran.err) == (Exit.USAGE, True)
    ran = tollkeeper(home, noun, "remove", *names, "--yes")
    assert ran.err == f"Removed 2 {noun}s: '{names[0]}', '{names[1]}'.\n"
    undone(home)
    assert {*names} <= rows(home, noun).keys()


def test_several_channels_are_added_to_a_group_beside_their_others(home: Path) -> None:
    ran = tollkeeper(home, "channel", "edit", "a", "b", "--add-group", "work")
    assert (ran.code, ran.err) == (Exit.OK, "Changed groups of 2 channels: 'a', 'b'.\n")
    assert [rows(home, "channel")[name]["groups"] for name in ("a", "b")] == [["default", "work"]] * 2
    undone(home)


def test_keys_and_proxies_are_read_once_for_all(home: Path) -> None:
    for name in ("c", "d"):
        made = tollkeeper(home, "channel", "add", name, "--base-url", "http://127.0.0.1:9/v1", "--models", f"m{name}")
        assert made.code == Exit.OK
    ran = tollkeeper(
        home, "channel", "edit", "c", "d", "--key", "-", "--proxy", "none", stdin="sk-second-0123456789abcdef0123\n"
    )
    assert (ran.code, ran.err.count("note: other programs")) == (Exit.OK, 0)
    assert [row["key"] for row in tollkeeper(home, "channel", "list", "--json").json if row["name"] in "cd"] == [
        "\u20260123"
    ] * 2
    ran = tollkeeper(home, "channel", "edit", "c", "d", "--key", "sk-third-01234567")
    assert ran.err.count("note: other programs") == 1
    ran = tollkeeper(home, "channel", "edit", "c", "d", "--key", "env:NO_SUCH_KEY")
    assert ran.err.count("note: NO_SUCH_KEY is not set where the server runs") == 2
    assert tollkeeper(home, "channel", "remove", "c", "d", "--yes").code == Exit.OK
