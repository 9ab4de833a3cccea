"""``token``: the keys that clients present."""

import shlex
from collections.abc import Sequence

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.completion import GROUPS, TOKENS
from gateway.commands.options import (
    EXPIRY,
    Amounts,
    Patch,
    budget_options,
    confirm,
    json_option,
    limit_options,
    names,
    patterns_option,
    stream_option,
    yes_option,
)
from gateway.commands.output import demand_stdout, json_text, out_json, out_list, out_once, out_pairs, words
from gateway.commands.session import run
from gateway.domain.limits import Limits
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.views import BudgetView, NewToken, TokenView

Limit = tuple[int | None] | None

COLUMNS = [
    ("Name", lambda t: t.name),
    ("Group", lambda t: t.group),
    ("State", lambda t: t.state),
    ("Key", lambda t: t.hint),
    (">Calls", lambda t: str(t.calls)),
    (">Spent", lambda t: brief_dollars(t.spent_nanos)),
    ("Budget", lambda t: formatting.budgets(t.budgets)),
    ("Expires", lambda t: formatting.moment(t.expires)),
    ("Last used", lambda t: formatting.moment(t.last_used_ms)),
]


@click.group(cls=Noun)
def token() -> None:
    """The keys that clients present. A token belongs to one group."""


@token.command("list", examples=["tollkeeper token list --json"])
@json_option
def list_tokens(*, as_json: bool) -> None:
    """List all tokens."""
    found = run(lambda client: client.tokens())
    out_list(found, COLUMNS, as_json=as_json, empty="no tokens yet; make one: tollkeeper token add NAME")


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
@click.option(
    "--group", shell_complete=GROUPS, help="The group it belongs to; 'default', or the only one there is, if not given."
)
@patterns_option("Only these models of the group: 'gpt-*,claude-*'.")
@click.option("--expires", type=EXPIRY, help="30d, 2026-12-31 (to its end), never.")
@click.option("--stop-when-empty", is_flag=True, help="End running streams when its budget is gone.")
@click.option("--note", default="", help="A line for you.")
@budget_options
@limit_options
@stream_option
@json_option
def add_token(
    *,
    name: str,
    group: str | None,
    models: tuple[str, ...],
    expires: Limit,
    note: str,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    stop_when_empty: bool,
    as_json: bool,
    **limits: Limit,
) -> None:
    """Make a token. Its key is printed once and stored nowhere."""
    demand_stdout()
    body = _body([], Limits(), dollar_budgets, token_budgets, limits)
    body |= {"name": name, "models": names(models), "note": note, "stop_when_empty": stop_when_empty}
    body |= options.given(group=group)
    if expires is not None:
        body["expires"] = expires[0]
    made = run(lambda client: client.add_token(body))
    _print_key(made, f"token '{made.token.name}' was made in group '{made.token.group}'", as_json=as_json)


@token.command("edit", examples=["tollkeeper token edit laptop --budget day=none --rpm 30"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@click.option("--rename", metavar="NAME", help="The new name.")
@click.option("--group", shell_complete=GROUPS, help="The group it belongs to.")
@patterns_option("Only these models of the group; '*' for all.")
@click.option("--expires", type=EXPIRY, help="30d, 2026-12-31 (to its end), never.")
@click.option("--stop-when-empty/--finish-when-empty", default=None, help="What happens to running streams then.")
@click.option("--note", help="A line for you.")
@budget_options
@limit_options
@stream_option
@json_option
def edit_token(
    *,
    ref: str,
    rename: str | None,
    group: str | None,
    models: tuple[str, ...],
    expires: Limit,
    note: str | None,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    stop_when_empty: bool | None,
    as_json: bool,
    **limits: Limit,
) -> None:
    """Change a token; only what is named changes."""

    async def work(client: ControlClient) -> TokenView:
        view = await client.token(ref)
        patch = _body(view.budgets, view.limits, dollar_budgets, token_budgets, limits)
        patch |= options.given(name=rename, group=group, note=note, stop_when_empty=stop_when_empty)
        if models:
            patch["models"] = [pattern for pattern in names(models) if pattern != "*"]
        if expires is not None:
            patch["expires"] = expires[0]
        return await client.edit_token(view.id, options.something(patch))

    _changed(run(work), as_json=as_json)


@token.command("rotate", examples=["tollkeeper token rotate laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@yes_option
@json_option
def rotate_token(ref: str, *, yes: bool, as_json: bool) -> None:
    """Give a token a new key; the old one stops working at once."""
    confirm(f"Give token '{ref}' a new key? The old one stops working at once.", yes=yes)
    demand_stdout()
    made = run(lambda client: client.rotate_token(ref))
    _print_key(made, f"token '{made.token.name}' has a new key; the old one works no more", as_json=as_json)


@token.command("disable", examples=["tollkeeper token disable laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@json_option
def disable_token(ref: str, *, as_json: bool) -> None:
    """Refuse calls with this token until it is enabled again."""
    _changed(run(lambda client: client.edit_token(ref, {"enabled": False})), as_json=as_json)


@token.command("enable", examples=["tollkeeper token enable laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@json_option
def enable_token(ref: str, *, as_json: bool) -> None:
    """Accept calls with this token again."""
    _changed(run(lambda client: client.edit_token(ref, {"enabled": True})), as_json=as_json)


@token.command("remove", examples=["tollkeeper token remove laptop"])
@click.argument("ref", metavar="NAME", shell_complete=TOKENS)
@yes_option
def remove_token(ref: str, *, yes: bool) -> None:
    """Remove a token. Its calls stay in the log."""
    confirm(f"Remove token '{ref}'? Its key stops working at once; its calls stay in the log.", yes=yes)
    run(lambda client: client.remove_token(ref))
    words(f"token '{ref}' was removed")


def _body(
    budgets: Sequence[BudgetView],
    limits: Limits,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    changes: dict[str, Limit],
) -> Patch:
    return options.budgets(budgets, dollar_budgets, token_budgets) | options.limits(limits, changes)


def _print_key(made: NewToken, text: str, *, as_json: bool) -> None:
    again = f"{text}, but its key is lost; for another: tollkeeper token rotate {shlex.quote(made.token.name)}"
    out_once(json_text(made) if as_json else made.key, again)
    words(f"{text}; its key is shown this once")


def _changed(view: TokenView, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
    words(f"token '{view.name}' was changed (it is {view.state})")


def _print(view: TokenView) -> None:
    out_pairs(
        [
            ("name", view.name),
            ("id", view.id),
            ("key", view.hint),
            ("group", view.group),
            ("state", view.state),
            ("created", formatting.moment(view.created_ms)),
            ("expires", formatting.moment(view.expires) or "never"),
            ("last used", formatting.moment(view.last_used_ms) or "never"),
            ("calls", str(view.calls)),
            ("spent", dollars(view.spent_nanos)),
            ("held", dollars(view.held_nanos)),
            *(("budget", formatting.budget(budget)) for budget in view.budgets),
            ("limits", formatting.limits(view.limits)),
            ("waiting", f"{formatting.count(view.waiting, 'call')} for a place" if view.waiting else ""),
            ("allowed models", ", ".join(view.models) or "all that the group shows"),
            ("sees", ", ".join(view.sees) or "nothing: no enabled channel of its group offers an allowed model"),
            ("when empty", "running streams are stopped" if view.stop_when_empty else "running streams may finish"),
            ("note", view.note),
        ]
    )
