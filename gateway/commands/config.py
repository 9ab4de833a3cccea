"""``config``: the configuration as a file to keep, compare and take elsewhere."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from gateway.commands.base import Noun
from gateway.commands.options import confirm, json_option, yes_option
from gateway.commands.output import harmless, out, out_json, words
from gateway.commands.session import run
from gateway.domain.config_file import Difference, ImportView
from gateway.domain.text import plain

MARKS = {"added": "+", "changed": "~", "removed": "-"}
COLOURS = {"added": "green", "changed": "yellow", "removed": "red"}


@click.group(cls=Noun)
def config() -> None:
    """The whole configuration as one file, without secrets: settings, groups, channels, tokens, prices."""


@config.command(
    "export",
    examples=["tollkeeper config export tollkeeper.toml", "tollkeeper config export | git diff --no-index ..."],
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@json_option
def export(file: str | None, *, as_json: bool) -> None:
    """Write the configuration to FILE, or to stdout. The same configuration is the same text, byte by byte.

    Keys of channels become references to environment variables, tokens are without their keys.
    """
    found = run(lambda client: client.export_config())
    if as_json:
        out_json(found)
    elif file in (None, "-"):
        out(harmless(found.text), end="")
    if file not in (None, "-"):
        Path(str(file)).write_text(found.text, encoding="utf-8")
    for note in found.notes:
        words(f"note: {note}")


@config.command(
    "import",
    examples=["tollkeeper config import tollkeeper.toml --dry-run", "tollkeeper config import tollkeeper.toml --prune"],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--prune", is_flag=True, help="Remove what the file does not name, too.")
@yes_option
@json_option
def import_(file: str, *, dry_run: bool, prune: bool, yes: bool, as_json: bool) -> None:
    """Make the configuration as FILE says, all of it or nothing.

    What the file names becomes as it says there; what it does not name is left alone. A file that holds anything that
    is not understood is refused with the place. New tokens get keys, which are shown once.
    """
    text = _content(file)
    found = run(lambda client: client.import_config(text, prune=prune))
    if not as_json:
        _print(found.differences)
    if not dry_run:
        if any(difference.what == "removed" for difference in found.differences):
            confirm("Remove what is marked with '-'?", yes=yes)
        found = run(lambda client: client.import_config(text, apply=True, prune=prune))
    _tell(found, as_json=as_json)


def _content(file: str) -> str:
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise click.BadParameter(f"the file is no UTF-8 text ({exc.reason} at byte {exc.start})") from exc


def _print(differences: Sequence[Difference]) -> None:
    """The changes, a line a field; what is left alone is counted."""
    for difference in differences:
        if difference.what in MARKS:
            line = f"{MARKS[difference.what]} {difference.noun} {plain(difference.name, 80)}".rstrip()
            out(click.style(line, fg=COLOURS[difference.what]))
            for field in difference.fields:
                before = f"{plain(field.before, 300)} → " if field.before else ""
                out(f"    {plain(field.field, 80)} = {before}{plain(field.after, 300) or 'as it comes'}")


def _tell(found: ImportView, *, as_json: bool) -> None:
    if as_json:
        out_json(found)
    else:
        for name, key in found.keys.items():
            out(f"{plain(name, 80)}  {key}")
        if found.keys:
            words("keep these keys now: they are shown this once")
    for note in found.notes:
        words(f"note: {note}")
    changes = sum(difference.what != "kept" for difference in found.differences)
    kept = len(found.differences) - changes
    rest = f"; {kept} not named in the file and left alone" if kept else ""
    words(f"{changes} change{'' if changes == 1 else 's'} {'made' if found.applied else 'to make'}{rest}")
