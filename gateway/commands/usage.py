"""``usage``: calls and their receipts, ``usage summary``: sums."""

import re
from collections.abc import Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.call_filters import (
    CallQuery,
    call_query,
    filter_options,
    first_calls,
    newest_calls,
    no_match_note,
)
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import WholeNumber, json_option, now
from gateway.commands.output import ListColumn, ProgressLine, more_text, out, out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.commands.usage_export import export
from gateway.commands.usage_summary import summary
from gateway.commands.usage_tail import tail
from gateway.domain.call import (
    EXPLAINED_MARKS,
    Outcome,
    is_call_id,
    outcome_text,
    passed_channels,
    request_size,
    wait_of,
)
from gateway.domain.errors import NotFound
from gateway.domain.human_values import brief_count, count_text, plural
from gateway.domain.money import dollars
from gateway.domain.query import CallOrder, parse
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.text import plain
from gateway.domain.usage import PART_WORDS
from gateway.domain.views import CallView, SumRow

ANSWERED = "st:done"
"""The filter of what a call is compared with: failures have no typical duration."""

SHOWN = 50
"""How many calls are listed by default."""
SORTS = ("cost", "duration", "first", "speed", "input", "cached", "output", "tries")
"""The numbers of a call by which a list may be sorted."""
NO_CALLS = "no calls yet; try: tollkeeper chat hello"
_PART_OF_ID = re.compile(r"[0-9a-z_]{4,}")
LAST = "last"
"""Instead of an id: the first call of the list."""

COLUMNS = [
    ListColumn("Time", lambda c: formatting.moment(c.time_ms), "whole"),
    ListColumn("Token", lambda c: c.token, "name", drop=5),
    ListColumn("Model", formatting.what, "name", least=16),
    ListColumn("API", lambda c: c.api, drop=1),
    ListColumn("Channel", lambda c: c.channel, "name", drop=4),
    ListColumn("Status", formatting.status, "state"),
    ListColumn("Duration", formatting.duration, "number", drop=8),
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
    "--limit", "-n", type=WholeNumber(min=1), default=SHOWN, show_default=True, help="Show at most this many."
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="List the calls with the highest values of this, instead of the newest; at most 5000.",
)
@json_option
def list_calls(limit: int, sort: str | None, *, as_json: bool, **given: Any) -> None:
    """List the newest calls, or with --sort those with the highest values.

    WORDS narrow the list, as in the console's filter.
    Words: any text; tok: grp: ch: model: as: app: api: id: with * and ?, any of several as model:a,b;
    st:err st:ok st:4xx st:>=400 st:429,5xx;
    dur: and ttft: as >5s; in: and out: as >10k; cost: as >0.01; since: and until:; ! negates.
    An option with a name may be repeated: a call is listed if it matches any of the values.
    """
    wanted = call_query(given)

    async def work(client: ControlClient) -> tuple[list[CallView], str]:
        with ProgressLine(shown=not as_json) as progress:
            if sort:
                calls = await first_calls(client, wanted, CallOrder(sort), limit, progress)
            else:
                calls = await newest_calls(client, wanted, limit, progress)
        return calls, NO_CALLS if wanted == CallQuery() else "" if calls else await no_match_note(client, wanted)

    calls, note = run(work)
    out_list(calls, _columns(calls), as_json=as_json, empty=note)
    if len(calls) == limit == SHOWN and not (as_json or sort):
        words(more_text(SHOWN, "calls"))


def _columns(calls: Sequence[CallView]) -> list[ListColumn]:
    """Returns the columns of a list; the status of a call says whether the client tried again."""
    again = set(repeated_calls(calls).values())
    status = ListColumn("Status", lambda c: formatting.status(c) + (", retried" if c.id in again else ""), "state")
    return [status if column.heading == status.heading else column for column in COLUMNS]


@usage.command("show", examples=["tollkeeper usage show last", "tollkeeper usage show req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="[ID]", default=LAST)
@json_option
def show_call(call_id: str, *, as_json: bool) -> None:
    """Show one call: how it went, how long such calls usually take, what was tried, what it cost and why.

    Without ID, or with 'last', it shows the newest call, which is the first of 'usage list'. A part of an id is enough
    if only one call has it.
    """
    if as_json:
        out_json(run(lambda client: _call(client, call_id)))
        return

    async def work(client: ControlClient) -> tuple[CallView, str, SumRow | None, str]:
        return *await _with_usual(client, call_id), await formatting.balance_outlook(client)

    _print(*run(work))


async def _call(client: ControlClient, call_id: str) -> CallView:
    """Returns the call with that id, the only one that contains it, or the one that began last. Raises NotFound or
    Quit.
    """
    if call_id != LAST:
        try:
            return await client.call(call_id)
        except NotFound:
            if (call := await _by_part(client, call_id)) is None:
                raise
            return call
    if not (listed := await newest_calls(client, CallQuery(), 1)):
        raise Quit(NO_CALLS, Exit.NOT_FOUND)
    return await client.call(listed[0].id)


async def _by_part(client: ControlClient, part: str) -> CallView | None:
    """Returns the only call with this in its id; None if none has it, or it cannot be part of one. Raises Quit for
    several.
    """
    if is_call_id(part) or not _PART_OF_ID.fullmatch(part):
        return None
    wanted = CallQuery(query=parse(f"id:{part}", now()))
    with ProgressLine() as progress:
        calls = await newest_calls(client, wanted, 5, progress)
    if len(calls) > 1:
        named = ", ".join(call.id for call in calls[:4])
        more = " and more" if len(calls) > 4 else ""
        raise Quit(f"several calls have '{part}' in their ids: {named}{more}", Exit.NOT_FOUND)
    return await client.call(calls[0].id) if calls else None


async def _earlier(client: ControlClient, call: CallView) -> str:
    """Returns which retry it is, and the calls before it."""
    if not call.retry:
        return ""
    page = await client.calls(
        model=call.model,
        since=call.time_ms - call.retry * 600_000,  # ten minutes before each retry
        until=call.time_ms + 1,
        limit=500,
    )
    before = ", ".join(f"{earlier.id} ({formatting.status(earlier)})" for earlier in earlier_attempts(call, page.calls))
    return f"{call.retry} of the same call{f'; before it: {before}' if before else ''}"


async def _with_usual(client: ControlClient, call_id: str) -> tuple[CallView, str, SumRow | None]:
    """Returns the call, what it repeats, and the sums of the answered calls of its model in the preceding
    days, if any.
    """
    view = await _call(client, call_id)
    usual = None
    if view.model:
        since, until = view.time_ms - 7 * 86_400_000, view.time_ms  # the week before it
        answered = await client.summary(since=since, until=until, percentiles=True, model=view.model, words=ANSWERED)
        usual = answered.total if answered.total.calls else None
    return view, await _earlier(client, view), usual


def _usual(row: SumRow | None) -> str:
    """Returns ``duration avg 2.10s, p50 1.80s, p95 6.02s; first token ...``."""
    if row is None:
        return ""
    times = (
        ("duration", row.mean_duration_ms, row.duration_p50_ms, row.duration_p95_ms),
        ("first token", row.mean_first_byte_ms, row.first_byte_p50_ms, row.first_byte_p95_ms),
    )
    texts = [
        f"{what} avg {formatting.mean(average)}, p50 {formatting.span(p50)}, p95 {formatting.span(p95)}"
        for what, average, p50, p95 in times
        if average is not None and p50 is not None
    ]
    return (
        f"{'; '.join(texts)} ({row.calls:,} answered {plural(row.calls, 'call')} of this model in 7 days)"
        if texts
        else ""
    )


@usage.command("cancel", examples=["tollkeeper usage cancel req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
def cancel_call(call_id: str) -> None:
    """Cancel a running call. What it used so far is charged. 'usage list st:running' lists running calls."""
    run(lambda client: client.cancel(call_id), running=True)
    words(f"Call {call_id} cancelled.")


def _print(call: CallView, repeats: str, usual: SumRow | None, balance_now: str) -> None:
    first = "" if call.first_byte_ms is None else f", first token after {formatting.span(call.first_byte_ms)}"
    wait = wait_of(call.marks)
    overhead = f"{max(0.0, call.overhead_us / 1000 - (wait.ms if wait else 0)):.2f}ms before the upstream request"
    out_pairs(
        [
            ("id", call.id),
            ("time", formatting.moment(call.time_ms)),
            ("token", f"{call.token} in group {call.group}" if call.token else "none recognised"),
            ("app", call.app),
            ("request", call.request),
            ("api", f"{call.api} {call.conversion}".rstrip()),
            (
                "model",
                call.model if call.upstream_model in ("", call.model) else f"{call.model} ({call.upstream_model})",
            ),
            ("retry", repeats),
            ("channel", call.channel or "none"),
            ("status", _ending(call)),
            ("error", f"{call.code}: {call.error}" if call.code else call.error),
            ("duration", f"{formatting.duration(call) or 'not known'}{first}{', streamed' if call.stream else ''}"),
            ("usual", _usual(usual)),
            ("waited", f"{formatting.span(wait.ms)} of it for {plain(wait.place)}" if wait else ""),
            ("" if wait else "waited", _retry_wait(call)),
            ("stayed", call.stay),
            *(("passed over", plain(text)) for text in passed_channels(call.marks)),
            ("in the gateway", overhead if call.attempts else ""),
            ("asked for", size.text() if (size := request_size(call.marks)) is not None else ""),
            ("usage", _usage(call)),
            *(("", line) for line in formatting.receipt(call)),
            ("cost", _cost(call)),
            ("held", dollars(call.held_nanos) if call.held_nanos else ""),
            ("balance", f"{dollars(call.balance_nanos)} after the call" if call.balance_nanos is not None else ""),
            ("", f"now {balance_now}" if balance_now and call.balance_nanos is not None else ""),
            ("possible", f"{dollars(call.possible_nanos)} at the upstream, not charged" if call.possible_nanos else ""),
            ("upstream id", call.upstream_id),
            ("repeated", _repeated_text(call)),
            ("marks", ", ".join(mark for mark in call.marks if not mark.startswith(EXPLAINED_MARKS))),
        ]
    )
    for number, attempt in enumerate(call.attempts, start=1):
        how = f"{attempt.kind.value}: {attempt.reason}" if attempt.kind else attempt.reason or "answered"
        billed = ", possibly billed" if attempt.billed else ""
        instead = f" as {attempt.model}" if attempt.model else ""
        key = f" (key {attempt.key})" if attempt.key else ""
        where = f"{attempt.channel}{instead}{key}"
        out(plain(f"attempt {number}  {where}  {call.attempt_status(attempt)}  {how}{billed}", limit=500))


def _ending(call: CallView) -> str:
    """Returns ``200, finished (stop)``, ``lost (gateway stopped)`` or ``running``."""
    if call.state == "running":
        return call.state
    return f"{call.status or ''}, {outcome_text(call.outcome, call.finish_reason)}".removeprefix(", ")


def _repeated_text(call: CallView) -> str:
    more = call.count - 1
    return f"{more:,} more like this {'was' if more == 1 else 'were'} not listed" if more else ""


def _cost(call: CallView) -> str:
    if call.state == "running":
        return f"at most {dollars(call.cost_nanos)} so far"
    if formatting.cost(call) != formatting.UNPRICED:
        return dollars(call.cost_nanos)
    return formatting.price_words(None, call.model)


def _retry_wait(call: CallView) -> str:
    """Returns ``2.43s of it after 1 try that failed``; empty if it did not wait after one."""
    waited = call.between_tries_ms
    return f"{formatting.span(waited)} of it after {count_text(call.failed_tries, 'try')} that failed" if waited else ""


def _usage(call: CallView) -> str:
    if call.state == "running":
        return f"at most {call.input_tokens:,} input, {call.output_tokens:,} output so far (estimated)"
    said = (
        (call.input_tokens, "input"),
        (call.cached_tokens, "of them cached"),
        (call.cache_write_tokens, "written to the cache"),
        (call.cache_write_long_tokens, "of it for an hour or more"),
        (call.output_tokens, "output"),
        (call.reasoning_tokens, "of them reasoning"),
        *((count, PART_WORDS[name]) for name, count in call.parts.items() if name in PART_WORDS),
    )
    if call.outcome == Outcome.LOST and call.usage_source == "none":
        return "not known"
    source = f" ({call.usage_source})" if call.usage_source != "none" else ""
    tier = f", {call.variant} processing" if call.variant else ""
    return (", ".join(f"{count:,} {what}" for count, what in said if count) or "no tokens") + source + tier
