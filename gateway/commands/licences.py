"""``licences``: what the executable carries, and under which terms."""

import sys
from pathlib import Path

import click

from gateway.commands.base import Command
from gateway.commands.output import out

NOT_FROZEN = "This is no executable: its packages are installed with their own licences ('pip show --files NAME')."


@click.command(cls=Command, examples=["tollkeeper licences | less"])
def licences() -> None:
    """Print the licences of everything this executable carries."""
    folder = getattr(sys, "_MEIPASS", None)
    out(NOT_FROZEN if folder is None else (Path(folder) / "licences.txt").read_text(encoding="utf-8"))
