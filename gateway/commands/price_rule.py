"""Options and texts of conditional prices: for one channel, certain hours, from a date on, or a service tier."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click
import msgspec

from gateway.commands.completion import CHANNELS
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import price_hours_of
from gateway.domain.money import dollars
from gateway.domain.price import RATE_WORDS, VARIANTS, PriceRule
from gateway.domain.price_view import PriceView, draft_of
from gateway.domain.rule_text import moment_of, written_rule
from gateway.domain.usage import UNITS

F = TypeVar("F", bound=Callable[..., Any])

NAMES = ("channel", "during", "since", "variant")
"""The parameters of these options."""


def rule_options(command: F) -> F:
    """Adds the options of ``price set`` that say where and when a price holds."""
    for option in reversed(
        (
            click.option("--channel", shell_complete=CHANNELS, help="Only for the calls that this channel answers."),
            click.option(
                "--during",
                multiple=True,
                metavar="HOURS",
                help="Only for calls that begin in these hours: 'mon-fri 01:00-04:00 UTC'. May be repeated. "
                "The price at other times stays.",
            ),
            click.option(
                "--since", metavar="DATE", help="From this day on (UTC): 2026-12-01. The price until then stays."
            ),
            click.option(
                "--variant",
                type=click.Choice(VARIANTS),
                help="Only for calls that the upstream reports as processed so. The usual price stays.",
            ),
        )
    ):
        command = option(command)
    return command


def conditions_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the conditions that a command's options set; empty: the price always holds. Raises UsageError."""
    try:
        during = [msgspec.to_builtins(price_hours_of(text)) for text in given["during"]]
        since = 0 if given["since"] is None else moment_of(given["since"])
    except BadRequest as error:
        raise click.UsageError(error.message) from error
    found = {"during": during, "since": since, "variant": given["variant"] or ""}
    return {name: value for name, value in found.items() if value}


def with_rule(view: PriceView, conditions: Mapping[str, Any], amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the body of a price with one more rule, which replaces one with the same conditions."""
    new = msgspec.convert({**conditions, **amounts}, PriceRule)
    kept = [one for one in view.rules if (one.since, one.during, one.variant) != (new.since, new.during, new.variant)]
    body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(draft_of(view), rules=(*kept, new)))
    return {name: value for name, value in body.items() if value is not None}


def extra_rows(view: PriceView) -> Iterator[tuple[str, str]]:
    """Returns the rates of a price beside the usual ones, and its rules, as rows to show."""
    for name, nanos in view.extras.items():
        yield RATE_WORDS[name], dollars(nanos) + (" each" if name in UNITS else "")
    for rule in view.rules:
        yield "and", written_rule(rule)
