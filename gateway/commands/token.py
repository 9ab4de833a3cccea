"""``token``: the keys that clients present."""

import shlex
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.completion import TOKENS
from gateway.commands.field_options import field_options, patch_of
from gateway.commands.options import confirm, json_option, yes_option
from gateway.commands.output import demand_stdout, json_text, out_json, out_list, out_once, out_pairs, words
from gateway.commands.session import run
from gateway.domain.fields import TOKEN, details
from gateway.domain.human_values import count_text, expiry_time
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain
from gateway.domain.token import TokenFields
from gateway.domain.views import NewToken, TokenView

COLUMNS = [
    ("Name", lambda t: t.name),
    ("Group", lambda t: t.group),
    ("State", lambda t: t.state),
    ("Key", lambda t: t.hint),
    (">Calls", lambda t: f"{t.calls:,}"),
    (">Spent", lambda t: brief_dollars(t.spent_nanos)),
    ("Budget", lambda t: formatting.budgets(t.budgets)),
    ("Expires", lambda t: "" if t.expires is None else expiry_time(t.expires)),
    ("Last used", lambda t: formatting.moment(t.last_used_ms)),
]
DROP = ("Key", "Last used", "Expires", "Group")
"""Columns that a narrow terminal does without, the first one first."""


@click.group(cls=Noun, bare="list")
def token() -> None:
    """The keys that clients present. A token belongs to one group."""


@token.command("list", examples=["tollkeeper token list --json"])
@click.option("--all", "every", is_flag=True, help="Also those of programs that 'run' started and that have ended.")
@json_option
def list_tokens(*, every: bool, as_json: bool) -> None:
    """List the tokens."""
    found = run(lambda client: client.tokens())
    shown = [token for token in found if every or not token.outlived]
    out_list(shown, COLUMNS, as_json=as_json, empty="no tokens yet; create one: tollkeeper token add NAME", drop=DROP)
    if hidden := len(found) - len(shown):
        words(f"and {count_text(hidden, 'token')} of programs that have ended: tollkeeper token list --all")


@token.command("show", examples=["tollkeeper token show laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@json_option
def show_token(ref: str, *, as_json: bool) -> None:
    """Show one token: budgets, limits, and the models it sees."""
    view = run(lambda client: client.token(ref))
    if as_json:
        out_json(view)
        return
    _print(view)


@token.command(
    "add",
    examples=[
        "tollkeeper token add laptop --budget day=5 --budget month=50",
        "KEY=$(tollkeeper token add ci --rpm 60 --expires 30d)",
    ],
)
@click.argument("name")
@field_options(TOKEN, "name")
@json_option
def add_token(name: str, *, as_json: bool, **given: Any) -> None:
    """Create a token. Its key is printed once and never stored."""
    demand_stdout()
    body = {"name": name} | patch_of(TOKEN, given, TokenFields(name=name, group=""))
    created = run(lambda client: client.add_token(body), create=True)
    _print_key(created, f"Token '{created.token.name}' created in group '{created.token.group}'", as_json=as_json)
    _note_if_blind(created.token)


@token.command("edit", examples=["tollkeeper token edit laptop --budget day=none --rpm 30"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@field_options(TOKEN)
@json_option
def edit_token(ref: str, *, as_json: bool, **given: Any) -> None:
    """Change a token. Only the given options change."""

    async def work(client: ControlClient) -> tuple[TokenView, str]:
        view = await client.token(ref)
        patch = options.something(patch_of(TOKEN, given, view))
        saved = await client.edit_token(view.id, patch)
        return saved, options.saved_text(patch, view, saved)

    saved, done = run(work)
    _print_saved(saved, done, as_json=as_json)
    _note_if_blind(saved)


@token.command("rename", examples=["tollkeeper token rename laptop desktop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@click.argument("new", metavar="NEW")
@json_option
def rename_token(ref: str, new: str, *, as_json: bool) -> None:
    """Give a token another name. Its key keeps working."""
    view = run(lambda client: client.edit_token(ref, {"name": new}))
    if as_json:
        out_json(view)
    words(f"Token '{plain(ref)}' renamed to '{view.name}'.")


@token.command("rotate", examples=["tollkeeper token rotate laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@yes_option
@json_option
def rotate_token(ref: str, *, yes: bool, as_json: bool) -> None:
    """Give a token a new key. The old one stops working immediately."""
    if not yes:
        name = run(lambda client: client.token(ref)).name
        confirm(f"Give token '{name}' a new key? The old one stops working immediately.", yes=yes)
    demand_stdout()
    rotated = run(lambda client: client.rotate_token(ref))
    _print_key(rotated, f"Token '{rotated.token.name}' has a new key; the old one stopped working", as_json=as_json)


@token.command("disable", examples=["tollkeeper token disable laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@json_option
def disable_token(ref: str, *, as_json: bool) -> None:
    """Reject calls with this token until it is enabled again."""
    _print_saved(run(lambda client: client.edit_token(ref, {"enabled": False})), "disabled", as_json=as_json)


@token.command("enable", examples=["tollkeeper token enable laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@json_option
def enable_token(ref: str, *, as_json: bool) -> None:
    """Accept calls with this token again."""
    _print_saved(run(lambda client: client.edit_token(ref, {"enabled": True})), "enabled", as_json=as_json)


@token.command("remove", examples=["tollkeeper token remove laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@yes_option
def remove_token(ref: str, *, yes: bool) -> None:
    """Remove a token. Its calls stay in the log."""
    if not yes:
        name = run(lambda client: client.token(ref)).name
        confirm(f"Remove token '{name}'? Its key stops working immediately; its calls stay in the log.", yes=yes)
    note = run(lambda client: client.remove_token(ref))
    words(f"Token '{ref}' removed.")
    if note:
        words(f"note: {plain(note)}; 'tollkeeper undo' restores both")


def _note_if_blind(view: TokenView) -> None:
    """A token that sees no models is allowed: its channel may come later."""
    if not view.sees:
        words(f"note: {run(lambda client: formatting.why_sees_none(client, view))}")


def _print_key(created: NewToken, text: str, *, as_json: bool) -> None:
    again = f"{text}, but its key is lost; for a new one: tollkeeper token rotate {shlex.quote(created.token.name)}"
    out_once(json_text(created) if as_json else created.key, again)
    words(f"{text}. The key is shown only this once.")


def _print_saved(view: TokenView, done: str, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
    expired = " It has expired." if view.state == "expired" else ""
    words(f"Token '{view.name}' {done}.{expired}")


def _print(view: TokenView) -> None:
    out_pairs(
        [
            ("name", view.name),
            ("id", view.id),
            ("key", view.hint),
            ("state", view.state),
            ("created", formatting.moment(view.created_ms)),
            ("last used", formatting.moment(view.last_used_ms) or "never"),
            ("calls", f"{view.calls:,}"),
            ("spent", dollars(view.spent_nanos)),
            ("held", dollars(view.held_nanos)),
            ("waiting", count_text(view.waiting, "call") if view.waiting else ""),
            *details(TOKEN, view, "name"),
            *formatting.outlook(view.budgets, view.created_ms),
            ("sees", ", ".join(view.sees) or "nothing: no enabled channel of its group offers an allowed model"),
        ]
    )
