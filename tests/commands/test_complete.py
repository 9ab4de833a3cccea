"""Names for the shell to complete."""

import click
import pytest

from gateway.commands.base import Command
from gateway.commands.complete import CHANNELS, GROUPS, MODELS, TOKENS, Completer
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


def test_nothing_is_said_when_nobody_can_be_asked() -> None:
    assert completed(TOKENS, "", Control(ANSWERS, running=False)) == []
    assert completed(TOKENS, "", Control({"GET /tokens": Unavailable("gone")})) == []
