"""``selftest``, ``verify`` and ``licences``: checks of the program and its books, and the licences in it."""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from gateway.client import doctor, launch
from gateway.client.control import ControlClient
from gateway.commands.base import CONSOLE, Command
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import out, out_view
from gateway.commands.session import run
from gateway.config import Config, load
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import count_text
from gateway.domain.money import dollars


@click.command(cls=Command, json_help="", examples=["tollkeeper selftest && echo it works here"])
def selftest() -> None:
    """Check that this program works on this machine.

    Starts a server on a free port with a temporary folder, sends a plain and a streamed call to its built-in channel,
    verifies the books, and draws the console once. Needs no network, and leaves nothing behind.
    """
    draw: Callable[[Config], str] = click.get_current_context().meta[CONSOLE]
    with tempfile.TemporaryDirectory(prefix="tollkeeper-", ignore_cleanup_errors=True) as folder:
        config = load(home=str(Path(folder) / "home"), host="127.0.0.1", port=0)
        asyncio.run(_check_server(config))
        screen = draw(config)
    if "tollkeeper" not in screen:
        raise Quit("selftest: the console drew nothing", Exit.FAILED)
    _print_ok("the console draws", f"{len(screen.splitlines())} lines")
    out("everything works")


async def _check_server(config: Config) -> None:
    """Check a server, its calls and its books. Raises Quit at the first failure."""
    endpoint = await launch.start(config)
    client = ControlClient(endpoint)
    try:
        _print_ok("a server starts", (await client.status()).address)
        await client.add_token({"name": "selftest", "group": "default"})
        async for step in doctor.examine_call(doctor.Case(client)):
            if step.result != "ok":
                raise Quit(f"selftest: {step.name} failed: {step.text}", Exit.FAILED)
            _print_ok(step.name, step.text)
        verdict = await client.verify()
        if not verdict.equal:
            raise Quit(f"selftest: the books do not balance: {verdict.difference}", Exit.STORE)
        _print_ok("the books are right", f"{verdict.checks} comparisons were equal")
    finally:
        with suppress(GatewayError):
            await launch.stop(endpoint, now=True, wait_s=15)


def _print_ok(name: str, text: str) -> None:
    out(f"ok  {name:<22}  {text}")


@click.command(cls=Command, examples=["tollkeeper verify && echo fine"])
def verify() -> None:
    """Recompute every balance and sum from the call log, and check that they are equal to the last nano-dollar.

    Also reports what is missing from the call log, and what was damaged when the store was opened.
    """
    verdict = run(lambda client: client.verify())
    result = "DAMAGED" if verdict.damage else "equal"
    pairs = [
        ("result", result if verdict.equal else "DIFFERENT"),
        ("granted", dollars(verdict.granted_nanos)),
        ("spent", f"{dollars(verdict.cost_nanos)} by {count_text(verdict.calls, 'call')}"),
        ("balance", dollars(verdict.balance_nanos)),
        ("comparisons", f"{verdict.checks:,}"),
        ("difference", verdict.difference),
        *(("damage", text) for text in verdict.damage),
    ]
    out_view(verdict, pairs)
    if not verdict.equal:
        raise Quit(f"the books do not balance: {verdict.difference}; keep a copy of the data folder", Exit.STORE)
    if verdict.damage:
        raise Quit("the sums are right, but the call log is damaged; keep a copy of the data folder", Exit.STORE)


@click.command(cls=Command, json_help="", examples=["tollkeeper licences | less"])
def licences() -> None:
    """Print the licences of everything bundled in this executable."""
    if (folder := getattr(sys, "_MEIPASS", None)) is not None:
        out((Path(folder) / "licences.txt").read_text(encoding="utf-8"))
        return
    packages = "its packages are installed with their own licences ('pip show --files NAME')"
    out(f"This is not a packaged executable: {packages}.")
