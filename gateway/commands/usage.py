"""``usage``: lists calls, shows one with its receipt, and cancels a running one."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.client.receipt import lacked_price, receipt_rows, timing_facts
from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.call_filters import call_filters, filter_options, first_calls, newest_calls, no_match_note
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import WholeNumber
from gateway.commands.output import ListColumn, ProgressLine, limit_note, notify, out_list, out_view, wants_json
from gateway.commands.session import run
from gateway.commands.usage_reports import export, summary
from gateway.commands.usage_tail import tail
from gateway.domain.call import is_call_id, outcome_text
from gateway.domain.errors import NotFound
from gateway.domain.human_values import brief_count, call_duration
from gateway.domain.query import CallOrder
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.views import CallView

DEFAULT_LIMIT = 50
NO_CALLS = "no calls yet; try: tollkeeper chat hello"
LAST = "last"

COLUMNS = [
    ListColumn("Time", lambda c: formatting.moment(c.time_ms), "whole"),
    ListColumn("Token", lambda c: c.token, "name", drop=5),
    ListColumn("Model", formatting.subject, "name", min_width=16),
    ListColumn("API", lambda c: c.api, drop=1),
    ListColumn("Channel", lambda c: c.channel, "name", drop=4),
    ListColumn("Status", formatting.status, "state"),
    ListColumn("Duration", lambda c: formatting.span(c.known_duration_ms), "number", drop=8),
    ListColumn("First token", lambda c: formatting.span(c.first_byte_ms), "number", drop=2),
    ListColumn("In", lambda c: formatting.at_most(brief_count(c.input_tokens), c), "number", drop=7),
    ListColumn("Out", lambda c: brief_count(c.output_tokens), "number", drop=6),
    ListColumn("Cost", formatting.cost, "number"),
    ListColumn("Id", lambda c: c.id, "whole", drop=3),
]


@click.group(cls=Noun, bare="list")
def usage() -> None:
    """Calls and what they cost."""


usage.add_command(tail)
usage.add_command(summary)
usage.add_command(export)


@usage.command(
    "list",
    examples=[
        "tollkeeper usage list --token laptop --since 1h",
        "tollkeeper usage list st:err 'dur:>5s' '!model:demo-*'",
        "tollkeeper usage list --sort cost --since 7d --limit 10",
    ],
)
@filter_options
@click.option(
    "--limit", "-n", type=WholeNumber(min=1), default=DEFAULT_LIMIT, show_default=True, help="List at most this many."
)
@click.option(
    "--sort",
    type=click.Choice(("cost", "duration", "first", "speed", "input", "cached", "output", "tries")),
    help="List the calls with the highest values of this, instead of the newest; at most 5000.",
)
def list_calls(limit: int, sort: str | None, **values: Any) -> None:
    """List the newest calls, or with --sort the calls with the highest values.

    WORDS narrow the list, like the console's filter.
    Words: any text; tok: grp: ch: model: as: app: api: id: with * and ?, any of several as model:a,b;
    st:err st:ok st:4xx st:>=400 st:429,5xx;
    dur: and ttft: as >5s; in: and out: as >10k; cost: as >0.01; since: and until:; ! negates.
    An option with a name may be repeated: a call is listed if it matches any of the values.
    """
    filters = call_filters(values)

    async def work(client: ControlClient) -> tuple[list[CallView], str]:
        with ProgressLine(shown=not wants_json()) as progress:
            if sort:
                calls = await first_calls(client, filters, CallOrder(sort), limit, progress)
            else:
                calls = await newest_calls(client, filters, limit, progress)
        if not filters:
            return calls, NO_CALLS
        return calls, "" if calls else await no_match_note(client, filters)

    calls, note = run(work)
    out_list(calls, _columns(calls), empty=note)
    if len(calls) == limit == DEFAULT_LIMIT and not (wants_json() or sort):
        notify(limit_note(DEFAULT_LIMIT, "calls"))


def _columns(calls: Sequence[CallView]) -> list[ListColumn]:
    """Returns the columns of a list, where the status of a call says whether the client retried it."""
    retried = set(repeated_calls(calls).values())
    status = ListColumn("Status", lambda c: formatting.status(c) + (", retried" if c.id in retried else ""), "state")
    return [status if column.heading == status.heading else column for column in COLUMNS]


@usage.command("show", examples=["tollkeeper usage show last", "tollkeeper usage show req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="[ID]", default=LAST)
def show_call(call_id: str) -> None:
    """Show one call: how it ended, how long it took, what was tried, what it cost and why.

    Without ID, or with 'last', the newest call is shown, which is the first one in 'usage list'. A part of an id is
    enough if only one call has it.
    """

    async def work(client: ControlClient) -> tuple[CallView, list[tuple[str, str]]]:
        call = await find_call(client, call_id)
        if wants_json():
            return call, []
        earlier = await _fetch_earlier_calls(client, call)
        outlook = await formatting.find_balance_outlook(client)
        results = _result_pairs(call, earlier, outlook.text() if outlook else "")
        return call, [*_request_pairs(call), *_time_pairs(call), *results]

    out_view(*run(work))


async def find_call(client: ControlClient, call_id: str) -> CallView:
    """Returns the call with this id or part of an id; for ``last``, the newest one. Raises NotFound or Quit."""
    if call_id != LAST:
        try:
            return await client.call(call_id)
        except NotFound:
            if (call := await _find_by_part(client, call_id)) is None:
                raise
            return call
    if not (newest := await newest_calls(client, {}, 1, ProgressLine(shown=False))):
        raise Quit(NO_CALLS, Exit.NOT_FOUND)
    return await client.call(newest[0].id)


async def _find_by_part(client: ControlClient, part: str) -> CallView | None:
    """Returns the only call with this in its id, or None. Raises Quit if several match."""
    if is_call_id(part) or not re.fullmatch(r"[0-9a-z_]{4,}", part):
        return None
    with ProgressLine() as progress:
        calls = await newest_calls(client, {"words": f"id:{part}"}, 5, progress)
    if len(calls) > 1:
        ids = ", ".join(call.id for call in calls[:4])
        more = " and more" if len(calls) > 4 else ""
        raise Quit(f"several calls have '{part}' in their ids: {ids}{more}", Exit.NOT_FOUND)
    return await client.call(calls[0].id) if calls else None


async def _fetch_earlier_calls(client: ControlClient, call: CallView) -> str:
    """Returns the calls that the client retried by this one, with their statuses; empty if it was not a retry."""
    if not call.retry:
        return ""
    page = await client.calls(
        model=call.model,
        since=call.time_ms - call.retry * 600_000,  # ten minutes before each retry
        until=call.time_ms + 1,
        limit=500,
    )
    return ", ".join(f"{earlier.id} ({formatting.status(earlier)})" for earlier in earlier_attempts(call, page.calls))


@usage.command("cancel", json_help="", examples=["tollkeeper usage cancel req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
def cancel_call(call_id: str) -> None:
    """Cancel a running call. What it has used so far is charged. 'usage list st:running' lists running calls."""
    run(lambda client: client.cancel(call_id), running=True)
    notify(f"Call {call_id} cancelled.")


def _request_pairs(call: CallView) -> list[tuple[str, str]]:
    upstream_model = "" if call.upstream_model in ("", call.model) else f" ({call.upstream_model})"
    status = f"{call.status or ''}, {outcome_text(call.outcome, call.finish_reason)}".removeprefix(", ")
    if call.state == "running":
        status = call.state
    return [
        ("id", call.id),
        ("time", formatting.moment(call.time_ms)),
        ("token", f"{call.token} in group {call.group}" if call.token else "none recognised"),
        ("app", call.app),
        ("request", call.request),
        ("api", f"{call.api} {call.conversion}".rstrip()),
        ("model", f"{call.model}{upstream_model}"),
        ("channel", call.channel or "none"),
        ("status", status),
        ("error", f"{call.code}: {call.error}" if call.code else call.error),
    ]


def _time_pairs(call: CallView) -> Iterator[tuple[str, str]]:
    first = "" if call.first_byte_ms is None else f", first token after {call_duration(call.first_byte_ms)}"
    duration = "not known" if call.lost else call_duration(call.duration_ms)
    yield "duration", f"{duration}{first}{', streamed' if call.stream else ''}"
    yield from (("", fact) for fact in timing_facts(call))


def _result_pairs(call: CallView, earlier: str, balance_now: str) -> Iterator[tuple[str, str]]:
    """Yields the rows of the receipt, and then what is left now."""
    for label, parts in receipt_rows(call, unpriced=lacked_price(call), earlier=earlier):
        yield label, "".join(text for text, _ in parts)
    if call.balance_nanos is not None:
        yield "balance now", balance_now
