"""``history``, ``undo`` and ``redo``: shows what was changed, when and by whom, and undoes it."""

from typing import Any

import click

from gateway.commands.base import Command, Noun
from gateway.commands.options import SINCE, UNTIL, WholeNumber, confirm, now, yes_option
from gateway.commands.output import ListColumn, json_text, limit_note, notify, out, out_list, out_view, wants_json
from gateway.commands.session import run
from gateway.domain.history import UndoView, undo_text
from gateway.domain.human_values import local_time
from gateway.domain.registry import NOUNS
from gateway.domain.text import plain

_COLUMNS = (
    ListColumn("Id", lambda entry: str(entry.id), "number"),
    ListColumn("Time", lambda entry: local_time(entry.time_ms), "whole"),
    ListColumn("By", lambda entry: entry.source.brief(), drop=1, min_width=19),
    ListColumn("Change", lambda entry: entry.text, "name", min_width=28),
    ListColumn("Fields", lambda entry: plain(entry.edit_text, 80), drop=3),
    ListColumn("State", lambda entry: f"undone by {entry.undone_by}" if entry.undone_by else "", "state", drop=2),
)

DEFAULT_LIMIT = 20


@click.group(cls=Noun, bare="list")
def history() -> None:
    """What was changed, when and by whom. Any change can be undone.

    Keys are never shown. The last 500 changes are kept.
    """


@history.command(
    name="list",
    examples=[
        "tollkeeper history",
        "tollkeeper history list --kind token --since 7d",
        "tollkeeper history list --name ci --json",
    ],
)
@click.option("--kind", type=click.Choice([*NOUNS.values()]), multiple=True, help="List only changes of these kinds.")
@click.option(
    "--name",
    "names",
    metavar="NAME",
    multiple=True,
    help="List only changes of the token, group, channel or model with this name or id.",
)
@click.option("--since", type=SINCE, metavar="WHEN", help="List only changes since then: 2h, 7d, 2026-11-20.")
@click.option("--until", type=UNTIL, metavar="WHEN", help="List only changes before then.")
@click.option(
    "--limit", "-n", type=WholeNumber(1, 1000), default=DEFAULT_LIMIT, show_default=True, help="List at most this many."
)
def list_history(limit: int, names: tuple[str, ...], **filters: Any) -> None:
    """List the changes, newest first."""
    entries = run(lambda client: client.history(**filters, name=names, limit=limit))
    out_list(entries, _COLUMNS, empty="no changes")
    if len(entries) == limit == DEFAULT_LIMIT and not wants_json():
        notify(limit_note(DEFAULT_LIMIT, "changes"))


@history.command(examples=["tollkeeper history show 12"])
@click.argument("number", metavar="ID", type=WholeNumber(1))
def show(*, number: int) -> None:
    """Show one change: the values before and after it."""
    entry = run(lambda client: client.history_entry(number))
    pairs = [
        ("change", f"{entry.id}: {entry.text}"),
        ("time", local_time(entry.time_ms)),
        ("by", entry.source.text()),
        ("state", f"undone by change {entry.undone_by}" if entry.undone_by else ""),
        ("undoes", str(entry.undoes or "")),
    ]
    out_view(entry, pairs)
    for difference in () if wants_json() else entry.differences:
        out(plain(f"{difference.action} {difference.noun} {difference.name}".rstrip(), 400))
        for field in difference.fields:
            value = field.after or field.before
            if difference.action == "changed":
                value = f"{field.before or 'default'} -> {field.after or 'default'}"
            out(plain(f"  {field.field}: {value}", 400))


@history.command(json_help="", examples=["tollkeeper history clear --yes"])
@yes_option()
def clear() -> None:
    """Delete the history, including the removed keys in it."""
    confirm("Delete the whole history? Its changes cannot be undone then.")
    run(lambda client: client.clear_history())
    notify("history deleted")


@click.command(cls=Command, examples=["tollkeeper undo", "tollkeeper history undo 12"])
@click.argument("number", metavar="[ID]", type=WholeNumber(1), required=False)
@yes_option()
def undo(number: int | None) -> None:
    """Undo the last change of the configuration, or the one with this ID, and say what it was.

    Asks first if the change was made elsewhere, if what the undo removes has been used, or if it overwrites a newer
    change. 'tollkeeper redo', or undoing the undo, redoes the change.
    """
    _print_revert(run(lambda client: client.undo(number or 0)))


history.add_command(undo)


@click.command(cls=Command, examples=["tollkeeper redo"])
@yes_option()
def redo() -> None:
    """Redo the change that was undone last."""
    _print_revert(run(lambda client: client.redo(0)))


def _print_revert(result: UndoView) -> None:
    out(json_text(result) if wants_json() else undo_text(result, now()))
    notify(*result.notes)
