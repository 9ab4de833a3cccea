"""Names for the shell to complete."""

import click
import pytest
from msgspec.structs import replace

from gateway.commands.base import Command
from gateway.commands.completion import CHANNELS, GROUPS, MODELS, TOKENS, Completer, several
from gateway.commands.session import Session
from gateway.domain.errors import Unavailable
from tests.commands.runner import Control
from tests.commands.samples import CHANNEL, GROUP, MODEL, TOKEN

ANSWERS = {"GET /tokens": [TOKEN], "GET /groups": [GROUP], "GET /channels": [CHANNEL], "GET /models": [MODEL]}
PARAM = click.Argument(["ref"])


def completed(completer: Completer, incomplete: str, control: Control) -> list[str]:
    return completer(click.Context(Command("x"), obj=Session(reach=control.reach)), PARAM, incomplete)


@pytest.mark.parametrize(
    ("completer", "begin", "name"),
    [(TOKENS, "la", "laptop"), (GROUPS, "", "default"), (CHANNELS, "open", "openai"), (MODELS, "gpt-", "gpt-4o")],
)
def test_names_are_those_of_the_running_server(completer: Completer, begin: str, name: str) -> None:
    assert completed(completer, begin, Control(ANSWERS)) == [name]
    assert completed(completer, "zzz", Control(ANSWERS)) == []


def test_the_last_of_several_names_is_completed() -> None:
    two = Control({"GET /groups": [GROUP, replace(GROUP, name="friends")]})
    assert completed(several(GROUPS), "fr", two) == ["friends"]
    assert completed(several(GROUPS), "friends,", two) == ["friends,default"]
    assert completed(several(GROUPS), "x,fr", two) == ["x,friends"]


def test_nothing_is_said_when_nobody_can_be_asked() -> None:
    assert completed(TOKENS, "", Control(ANSWERS, running=False)) == []
    assert completed(TOKENS, "", Control({"GET /tokens": Unavailable("gone")})) == []
