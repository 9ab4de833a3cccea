"""``token``: adds, edits and shows tokens, the keys that clients present."""

import shlex
from collections.abc import Callable
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.completion import TOKENS
from gateway.commands.editing import (
    add_rename,
    body_of_new,
    change_together,
    field_options,
    find_each,
    named_text,
    names_argument,
    patch_of,
)
from gateway.commands.options import TEXT, confirm, now, says_yes, yes_option
from gateway.commands.output import ListColumn, notify, out_change, out_list, out_once, out_view, require_stdout
from gateway.commands.session import run
from gateway.domain.fields import TOKEN, details
from gateway.domain.human_values import count_text, expiry_time
from gateway.domain.key_owners import shown_part, since_text
from gateway.domain.limit_kinds import DOLLAR_BUDGETS
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.token import TokenFields
from gateway.domain.views import NewToken, TokenView

COLUMNS = [
    ListColumn("Name", lambda t: t.name, "name"),
    ListColumn("Group", lambda t: t.group, "name", drop=4),
    ListColumn("State", lambda t: t.state, "state"),
    ListColumn("Key", lambda t: t.hint, "whole", drop=1),
    ListColumn("Calls", lambda t: f"{t.calls:,}", "number"),
    ListColumn("Spent", lambda t: brief_dollars(t.spent_nanos), "number"),
    ListColumn("Budget", lambda t: DOLLAR_BUDGETS.show(t.budgets)),
    ListColumn("Expires", lambda t: "" if t.expires is None else expiry_time(t.expires), "whole", drop=3),
    ListColumn("Last used", lambda t: formatting.moment(t.last_used_ms), "whole", drop=2),
]


@click.group(cls=Noun, bare="list")
def token() -> None:
    """Tokens, the keys that clients present. A token belongs to one group."""


@token.command("list", examples=["tollkeeper token list --json", "tollkeeper token list --search laptop"])
@click.option(
    "--search",
    type=TEXT,
    metavar="WORDS",
    help="List only tokens with these words in their fields, or the token that has or had this key.",
)
@click.option("--all", "with_ended", is_flag=True, help="Include the tokens of ended programs, which 'run' started.")
def list_tokens(*, search: str | None, with_ended: bool) -> None:
    """List the tokens."""
    tokens = run(lambda client: client.tokens())
    if search is not None:
        words = search.casefold().split()
        tokens = [token for token in tokens if all(word in token.search_text.casefold() for word in words)]
    shown = [token for token in tokens if with_ended or not token.program_ended]
    empty = "no tokens yet; create one: tollkeeper token add NAME" if search is None else "no token matches"
    out_list(shown, COLUMNS, empty=empty)
    if hidden := len(tokens) - len(shown):
        notify(f"not listed: {count_text(hidden, 'token')} of ended programs; see tollkeeper token list --all")


@token.command("show", examples=["tollkeeper token show laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
def show_token(ref: str) -> None:
    """Show one token: its budgets, its limits, and the models that it sees."""
    view = run(lambda client: client.token(ref))
    out_view(view, _pairs(view))


@token.command(
    "add",
    examples=[
        "tollkeeper token add laptop --budget day=5 --budget month=50",
        "KEY=$(tollkeeper token add ci --rpm 60 --expires 30d)",
        "tollkeeper token add phone --like laptop --budget month=10",
    ],
)
@click.argument("name")
@field_options(TOKEN, "name")
@click.option(
    "--like",
    metavar="NAME",
    type=TEXT,
    shell_complete=TOKENS,
    help="Copy the fields of this token; the new one has its own key.",
)
def add_token(name: str, *, like: str | None, **values: Any) -> None:
    """Create a token. Its key is printed once and never stored."""
    require_stdout()

    async def work(client: ControlClient) -> NewToken:
        other = None if like is None else await client.token(like)
        return await client.add_token(body_of_new(TOKEN, values, TokenFields(name=name, group=""), other))

    created = run(work, create=True)
    _print_key(created, f"Token '{created.token.name}' created in group '{created.token.group}'")
    _note_if_no_models(created.token)


@token.command(
    "edit",
    examples=[
        "tollkeeper token edit laptop --budget day=none --rpm 30",
        "tollkeeper token edit laptop ci --group work",
    ],
)
@names_argument(TOKENS)
@field_options(TOKEN)
def edit_token(refs: tuple[str, ...], **values: Any) -> None:
    """Change a token, or several in one step. Only the given options change.

    With --json, several tokens are printed as an array.
    """
    for view in _change(refs, lambda view: options.require_changes(patch_of(TOKEN, values, view))):
        _note_if_no_models(view)


add_rename(token, TOKENS, "laptop desktop", "Give a token another name. Its key keeps working.")


@token.command("rotate", examples=["tollkeeper token rotate laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@yes_option()
def rotate_token(ref: str) -> None:
    """Give a token a new key. The old one stops working at once."""
    if not says_yes():
        name = run(lambda client: client.token(ref)).name
        confirm(f"Give token '{name}' a new key? The old one stops working at once.")
    require_stdout()
    rotated = run(lambda client: client.rotate_token(ref))
    _print_key(rotated, f"Token '{rotated.token.name}' has a new key; the old one stopped working")


@token.command("disable", examples=["tollkeeper token disable laptop"])
@names_argument(TOKENS)
def disable_token(refs: tuple[str, ...]) -> None:
    """Reject calls with one or more tokens until they are enabled again."""
    _change(refs, lambda _: {"enabled": False})


@token.command("enable", examples=["tollkeeper token enable laptop"])
@names_argument(TOKENS)
def enable_token(refs: tuple[str, ...]) -> None:
    """Accept calls with one or more tokens again."""
    _change(refs, lambda _: {"enabled": True})


@token.command("remove", json_help="", examples=["tollkeeper token remove laptop"])
@names_argument(TOKENS)
@yes_option()
def remove_token(refs: tuple[str, ...]) -> None:
    """Remove a token, or several in one step. Their calls stay in the log."""
    views = run(lambda client: find_each(client.token, refs))
    confirm(f"Remove {named_text('token', views)}? Keys stop working at once; calls stay in the log.")
    notify(run(lambda client: change_together(client, "tokens", {view.id: None for view in views})))


def _change(refs: tuple[str, ...], patch: Callable[[TokenView], options.Patch]) -> list[TokenView]:
    """Edit the tokens in one step, print them, and return them."""

    async def work(client: ControlClient) -> tuple[list[TokenView], str]:
        patches = {view.id: patch(view) for view in await find_each(client.token, refs)}
        message = await change_together(client, "tokens", patches)
        return await find_each(client.token, patches), message

    views, message = run(work)
    out_change(views if len(views) > 1 else views[0], message)
    for view in views:
        if view.state == "expired":
            notify(f"note: token '{view.name}' has expired")
    return views


def _note_if_no_models(view: TokenView) -> None:
    """Print a note if a token sees no models. That is allowed, because a channel may be added later."""
    if not view.sees:
        notify(f"note: {run(lambda client: formatting.no_models_reason(client, view))}")


def _print_key(new: NewToken, message: str) -> None:
    lost_text = f"{message}, but its key is lost; for a new one: tollkeeper token rotate {shlex.quote(new.token.name)}"
    out_once(new, new.key, lost_text)
    notify(f"{message}. The key is shown only this once.")


def _pairs(view: TokenView) -> list[tuple[str, str]]:
    ends = [(key, since_text(key.since, now())) for key in view.keys if key.since is not None]
    return [
        ("name", view.name),
        ("id", view.id),
        ("key", view.hint),
        *(("former key", f"{shown_part(key.handle)} until {end}") for key, end in ends),
        ("state", view.state),
        ("created", formatting.moment(view.created_ms)),
        ("last used", formatting.moment(view.last_used_ms) or "never"),
        ("calls", f"{view.calls:,}"),
        ("spent", dollars(view.spent_nanos)),
        ("held", dollars(view.held_nanos)),
        ("waiting", count_text(view.waiting, "call") if view.waiting else ""),
        *details(TOKEN, view, "name"),
        *formatting.budget_outlooks(view.budgets, view.created_ms),
        ("sees", ", ".join(view.sees) or "nothing: no enabled channel of its group offers an allowed model"),
    ]
