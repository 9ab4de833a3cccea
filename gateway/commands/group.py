"""``group``: what ties tokens to channels."""

from collections.abc import Sequence

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.completion import GROUPS
from gateway.commands.options import (
    MULTIPLIER,
    PAIR,
    SOME,
    Amounts,
    budget_options,
    confirm,
    json_option,
    limit_options,
    names,
    once,
    patterns_option,
    stream_option,
    yes_option,
)
from gateway.commands.output import out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.domain.group import Policy
from gateway.domain.limits import Limits
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import word
from gateway.domain.views import GroupView

Limit = tuple[int | None] | None
Pairs = Sequence[tuple[str, str]]

COLUMNS = [
    ("Name", lambda g: g.name),
    (">Price", lambda g: formatting.multiplier(g.multiplier)),
    ("Tokens", lambda g: formatting.some(g.tokens)),
    ("Channels", lambda g: formatting.some(g.channels)),
    ("Models", lambda g: formatting.some(g.sees)),
    (">Calls", lambda g: str(g.calls)),
    (">Spent", lambda g: brief_dollars(g.spent_nanos)),
    ("Budget", lambda g: formatting.budgets(g.budgets)),
]


POLICIES = {
    Policy.PRIORITY: "the highest priority",
    Policy.CHEAPEST: "the cheapest",
    Policy.FASTEST: "the fastest, as measured",
    Policy.LOCAL: "local servers, while not busy",
}

policy_option = click.option(
    "--policy", type=click.Choice([p.value for p in Policy]), help="Which of its channels is asked first."
)

sticky_option = click.option(
    "--sticky/--not-sticky", default=None, help="A conversation stays at the channel that has its prompt in the cache."
)
fallback_option = click.option(
    "--fallback",
    "fallbacks",
    type=PAIR,
    multiple=True,
    metavar="MODEL=OTHERS",
    help="Other models that may answer when no channel can serve one: gpt-4o=claude-sonnet,qwen3:8b; patterns too. "
    "They replace those there are.",
)
no_fallbacks_option = click.option("--no-fallbacks", is_flag=True, help="No other model may answer.")


@click.group(cls=Noun)
def group() -> None:
    """What ties tokens to channels: it decides which models a token sees, and at which multiple of the price."""


@group.command("list", examples=["tollkeeper group list"])
@json_option
def list_groups(*, as_json: bool) -> None:
    """List all groups."""
    found = run(lambda client: client.groups())
    out_list(found, COLUMNS, as_json=as_json, empty="no groups yet; make one: tollkeeper group add NAME")


@group.command("show", examples=["tollkeeper group show default"])
@click.argument("name", shell_complete=GROUPS)
@json_option
def show_group(name: str, *, as_json: bool) -> None:
    """Show one group: its tokens, channels and models."""
    view = run(lambda client: client.group(name))
    if as_json:
        out_json(view)
        return
    _print(view)


@group.command("add", examples=["tollkeeper group add friends --multiplier 1.5 --budget month=20"])
@click.argument("name")
@click.option("--multiplier", type=MULTIPLIER, help="Multiple of the price: 1.5. 0 makes it free.")
@patterns_option("Only these models of its channels: 'gpt-*,demo-*'.")
@policy_option
@sticky_option
@fallback_option
@no_fallbacks_option
@click.option("--note", default="", help="A line for you.")
@budget_options
@limit_options
@stream_option
@json_option
def add_group(
    *,
    name: str,
    multiplier: int | None,
    models: tuple[str, ...],
    policy: str | None,
    sticky: bool | None,
    fallbacks: Pairs,
    no_fallbacks: bool,
    note: str,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    as_json: bool,
    **limits: Limit,
) -> None:
    """Make a group."""
    body = options.budgets([], dollar_budgets, token_budgets) | options.limits(Limits(), limits)
    body |= fallback_patch(fallbacks, none=no_fallbacks)
    body |= options.given(multiplier=multiplier, policy=policy, sticky=sticky) | {
        "name": name,
        "models": names(models),
        "note": note,
    }
    view = run(lambda client: client.add_group(body))
    if as_json:
        out_json(view)
    command = f"tollkeeper channel edit CHANNEL --group {word(f'default,{view.name}')}"
    words(f"group '{view.name}' was made; give it channels: {command}")


@group.command("edit", examples=["tollkeeper group edit friends --multiplier 1.2 --rename family"])
@click.argument("name", shell_complete=GROUPS)
@click.option("--rename", metavar="NAME", help="The new name; its tokens and channels follow.")
@click.option("--multiplier", type=MULTIPLIER, help="Multiple of the price: 1.5. 0 makes it free.")
@patterns_option("Only these models of its channels; '*' for all.")
@policy_option
@sticky_option
@fallback_option
@no_fallbacks_option
@click.option("--note", help="A line for you.")
@budget_options
@limit_options
@stream_option
@json_option
def edit_group(
    *,
    name: str,
    rename: str | None,
    multiplier: int | None,
    models: tuple[str, ...],
    policy: str | None,
    sticky: bool | None,
    fallbacks: Pairs,
    no_fallbacks: bool,
    note: str | None,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    as_json: bool,
    **limits: Limit,
) -> None:
    """Change a group; only what is named changes."""

    async def work(client: ControlClient) -> GroupView:
        view = await client.group(name)
        patch = options.budgets(view.budgets, dollar_budgets, token_budgets) | options.limits(view.limits, limits)
        patch |= options.given(name=rename, multiplier=multiplier, policy=policy, sticky=sticky, note=note)
        patch |= fallback_patch(fallbacks, none=no_fallbacks)
        if models:
            patch["models"] = [pattern for pattern in names(models) if pattern != "*"]
        return await client.edit_group(name, options.something(patch))

    view = run(work)
    if as_json:
        out_json(view)
    words(f"group '{view.name}' was changed")


@group.command("remove", examples=["tollkeeper group remove friends --move default"])
@click.argument("name", shell_complete=GROUPS)
@click.option(
    "--move",
    type=SOME,
    metavar="GROUP",
    shell_complete=GROUPS,
    help="Where its tokens and channels go; needed if it has any.",
)
@yes_option
def remove_group(name: str, move: str | None, *, yes: bool) -> None:
    """Remove a group."""
    confirm(f"Remove group '{name}'?", yes=yes)
    run(lambda client: client.remove_group(name, move=move or ""))
    words(f"group '{name}' was removed")


def fallback_patch(pairs: Pairs, *, none: bool) -> options.Patch:
    """The fallbacks that the options say; no field at all when nothing was said."""
    options.one_of("--no-fallbacks", "--fallback", both=none and bool(pairs))
    if not (pairs or none):
        return {}
    return {"fallbacks": [{"model": m, "to": names((others,))} for m, others in once(pairs, "--fallback").items()]}


def _print(view: GroupView) -> None:
    out_pairs(
        [
            ("name", view.name),
            ("price", formatting.multiplier(view.multiplier)),
            ("tokens", ", ".join(view.tokens) or "none"),
            ("channels", ", ".join(view.channels) or "none: its tokens see no models"),
            ("asked first", POLICIES[Policy(view.policy)] + ("; conversations stay" if view.sticky else "")),
            *(("fallback", f"{one.model}: {', '.join(one.to)}") for one in view.fallbacks),
            ("shown models", ", ".join(view.models) or "all that its channels offer"),
            ("sees", ", ".join(view.sees) or "nothing"),
            ("created", formatting.moment(view.created_ms)),
            ("calls", str(view.calls)),
            ("spent", dollars(view.spent_nanos)),
            *(("budget", formatting.budget(budget)) for budget in view.budgets),
            ("limits", formatting.limits(view.limits)),
            ("waiting", f"{formatting.count(view.waiting, 'call')} for a place" if view.waiting else ""),
            ("note", view.note),
        ]
    )
