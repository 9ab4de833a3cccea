"""``verify`` and ``licences``: what the owner runs now and then."""

import sys
from pathlib import Path

import click

from gateway.commands.base import Command
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import json_option
from gateway.commands.output import out, out_view
from gateway.commands.session import run
from gateway.domain.diagnosis import Verdict
from gateway.domain.human_values import count_text
from gateway.domain.money import dollars


@click.command(cls=Command, examples=["tollkeeper verify && echo fine"])
@json_option
def verify(*, as_json: bool) -> None:
    """Recompute every balance and sum from the call log; they must be equal to the last nano-dollar.

    Also reports what is missing from the call log, or was damaged when the store was opened.
    """
    verdict = run(lambda client: client.verify())
    pairs = [
        ("result", _result(verdict)),
        ("granted", dollars(verdict.granted_nanos)),
        ("spent", f"{dollars(verdict.cost_nanos)} by {count_text(verdict.calls, 'call')}"),
        ("balance", dollars(verdict.balance_nanos)),
        ("comparisons", f"{verdict.checks:,}"),
        ("difference", verdict.difference),
        *(("damage", text) for text in verdict.damage),
    ]
    out_view(verdict, pairs, as_json=as_json)
    if not verdict.equal:
        raise Quit(f"the books do not balance: {verdict.difference}; keep a copy of the data folder", Exit.STORE)
    if verdict.damage:
        raise Quit("the sums are right, but the call log is damaged; keep a copy of the data folder", Exit.STORE)


def _result(verdict: Verdict) -> str:
    if not verdict.equal:
        return "DIFFERENT"
    return "DAMAGED" if verdict.damage else "equal"


NOT_FROZEN = (
    "This is not a packaged executable: its packages are installed with their own licences ('pip show --files NAME')."
)


@click.command(cls=Command, examples=["tollkeeper licences | less"])
def licences() -> None:
    """Print the licences of everything bundled in this executable."""
    folder = getattr(sys, "_MEIPASS", None)
    out(NOT_FROZEN if folder is None else (Path(folder) / "licences.txt").read_text(encoding="utf-8"))
