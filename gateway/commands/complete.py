"""Complete: the names that a running server knows, for the shell to complete. Without a server there are none."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import click

from gateway.client.control import ControlClient
from gateway.commands.session import run
from gateway.domain.errors import GatewayError

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


def names_of(ask: Callable[[ControlClient], Awaitable[Sequence[Named]]]) -> Completer:
    """Completes the names of what a client is asked for; says nothing when it cannot."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            with ctx.scope(cleanup=False):
                found = run(ask, running=True)
        except (GatewayError, click.ClickException):
            return []
        return [named.name for named in found if named.name.startswith(incomplete)]

    return complete


def several(completer: Completer) -> Completer:
    """Completes the last of several names with commas between them."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = before.split(",")
        return [f"{before}{comma}{name}" for name in completer(ctx, param, last) if name not in there]

    return complete


TOKENS = names_of(lambda client: client.tokens())
GROUPS = names_of(lambda client: client.groups())
CHANNELS = names_of(lambda client: client.channels())
MODELS = names_of(lambda client: client.models())
PRESETS = names_of(lambda client: client.presets())
