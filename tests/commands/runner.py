"""Runs a command line against a control surface that answers from a table."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from click.testing import CliRunner

import cli
from gateway.client.control import ControlClient
from gateway.client.http import ClientRequest
from gateway.commands.exit_codes import Exit, Quit
from gateway.config import Config
from gateway.domain.errors import GatewayError, NotFound
from gateway.runfile import Endpoint

PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
"""Variables that the doctor looks at."""


@dataclass(frozen=True)
class Ran:
    """How a command ended, what it wrote, and what it asked of the control surface."""

    code: int
    out: str
    err: str
    asked: Sequence[tuple[str, Any]] = ()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def bodies(self) -> list[Any]:
        return _bodies(self.asked)


@dataclass
class Control:
    """A control surface: ``answers`` by method and path without parameters.

    An error is raised, an iterator gives one answer after the other, all else is encoded.
    """

    answers: Mapping[str, object]
    running: bool = True
    asked: list[tuple[str, Any]] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    """What each request says that the owner has confirmed."""

    @asynccontextmanager
    async def reach(
        self,
        config: Config,
        *,
        listen: bool = False,
        running: bool = False,
        create: bool = False,
        needs_data: bool = True,
    ) -> AsyncIterator[ControlClient]:
        if running and not self.running:
            raise Quit("no server is running", Exit.UNREACHABLE)
        yield _Client(self)

    @property
    def bodies(self) -> list[Any]:
        return _bodies(self.asked)


def _bodies(asked: Sequence[tuple[str, Any]]) -> list[Any]:
    return [body for _, body in asked if body is not None]


class _Client(ControlClient):
    def __init__(self, control: Control) -> None:
        super().__init__(Endpoint(instance="test", secret="test"))
        self._control = control

    async def send(self, message: ClientRequest, timeout_s: float = 0) -> bytes:
        asked = f"{message.method} {message.path.removeprefix('/control')}"
        self._control.asked.append((asked, msgspec.json.decode(message.body) if message.body else None))
        self._control.accepted.append(message.headers.get("X-Tollkeeper-Accept", ""))
        found = self._control.answers.get(asked.partition("?")[0], NotFound(f"nothing at {asked}"))
        if isinstance(found, Iterator):
            found = next(found)
        if isinstance(found, GatewayError):
            raise found
        return msgspec.json.encode(found)


def run(
    *args: str,
    answers: Mapping[str, object] | None = None,
    control: Control | None = None,
    stdin: str | bytes = "",
    env: Mapping[str, str] | None = None,
) -> Ran:
    """One command line in this process, against the table or (None) the real thing; its stdin is not a terminal."""
    control = Control(answers) if answers is not None else control
    reach = control.reach if control else None
    clean = dict.fromkeys(("TOLLKEEPER_TOKEN", "OPENAI_API_KEY", "TOLLKEEPER_HOME", "NO_COLOR", *PROXIES))
    with CliRunner().isolation(input=stdin, env={**clean, **(env or {})}) as (out, err, _):
        try:
            cli.main(list(args), reach)
        except SystemExit as end:
            code = end.code
        asked = control.asked if control else []
        return Ran(int(code or 0), out.getvalue().decode(), err.getvalue().decode(), asked)
