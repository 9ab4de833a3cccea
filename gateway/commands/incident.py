"""``incident``: lists failures of channels with their causes, where their calls went, and spent budgets."""

import click

from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.completion import CHANNELS
from gateway.commands.options import SINCE, WholeNumber, now
from gateway.commands.output import ListColumn, out_list
from gateway.commands.session import run
from gateway.domain.budget import BALANCE_ID
from gateway.domain.call import FailureKind
from gateway.domain.incidents import STORE, Incident, cause_text, effects_text
from gateway.domain.text import plain
from gateway.domain.units import Millis


@click.group(cls=Noun, bare="list")
def incident() -> None:
    """What failed when, and which channels answered instead."""


@incident.command(
    "list", examples=["tollkeeper incident list", "tollkeeper incident list --channel openai --since today"]
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    help="List only incidents of this channel. May be repeated.",
    shell_complete=CHANNELS,
)
@click.option(
    "--since", type=SINCE, help="List only incidents that had not ended by then: 1h, 7d, 14:00, today, 2026-11-01."
)
@click.option("--limit", "-n", type=WholeNumber(min=1), metavar="N", help="List at most this many (default: all).")
def list_incidents(channels: tuple[str, ...], since: Millis | None, limit: int | None) -> None:
    """List incidents, newest first. Each cause of a channel is a separate incident; the last 200 are kept.

    An incident ends when a call succeeds, or two minutes after its last failure or after the end of its channel's
    pause; in JSON, ended_ms is null until then. If a rate limit or an error returns within two minutes, the incident
    continues. A renamed channel keeps its incidents.

    A budget is listed once in each window, when 80 % of it is spent, until it is raised or reset. A budget that was too
    small for a call is listed for ten minutes. 'Last' is the time of the last failure. 'Calls' says which channels
    answered the calls that failed here first, and how many calls failed or were refused. Calls that went to another
    channel because this one was paused are not counted.
    """
    incidents = run(lambda client: client.incidents(channels))
    ends = [(incident, max(incident.last, incident.ended or incident.quiet_from)) for incident in incidents]
    recent = [incident for incident, end in ends if incident.lasts(now()) or end >= (since or 0)]
    out_list(recent[:limit], COLUMNS, empty="no incidents")


def _subject(incident: Incident) -> str:
    if incident.budget:
        return incident.budget.partition(" of ")[2]
    return "the store" if incident.channel == STORE else incident.channel


def _state(incident: Incident) -> str:
    """Returns ``retry at 12:30:00``, ``paused until resumed``, ``until it is set``, ``no success since``, ``over``."""
    if not incident.lasts(now()):
        return "over"
    if incident.budget:
        no_reset = "until money is added" if incident.subject_id == BALANCE_ID else ""
        return f"resets {formatting.moment(incident.until)[5:16]}" if incident.until else no_reset
    if not incident.paused:
        return "no success since"
    if incident.kind is FailureKind.UNSET:
        return "until it is set"
    if incident.until is None:
        return "calls are rejected" if incident.channel == STORE else "paused until resumed"
    return f"retry at {formatting.moment(incident.until)[11:]}" if incident.until > now() else "retry now"


def _cause(incident: Incident) -> str:
    if incident.subject_id == BALANCE_ID:
        return "balance used up"
    if incident.budget:
        return incident.budget.partition(" of ")[0]
    return "failed" if incident.channel == STORE else cause_text(incident)


COLUMNS = [
    ListColumn("Began", lambda i: formatting.moment(i.began), "whole", drop=4),
    ListColumn("Last", lambda i: formatting.moment(i.last)[11:], drop=1),
    ListColumn("Where", _subject, "name"),
    ListColumn("Cause", _cause, "whole"),
    ListColumn("Failures", lambda i: f"{i.failures:,}" if i.failures else "", "number", drop=2),
    ListColumn("State", _state, "state", drop=5),
    ListColumn("Calls", effects_text, drop=3, below=True),
    ListColumn("Message", lambda i: plain(i.reason, 200), below=True),
]
