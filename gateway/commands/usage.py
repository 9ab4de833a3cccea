"""``usage``: lists calls, shows one with its receipt, and cancels a running one."""

import re
from collections.abc import Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.call_filters import call_filters, filter_options, first_calls, newest_calls, no_match_note
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import WholeNumber, json_option
from gateway.commands.output import ListColumn, ProgressLine, more_text, notify, out, out_json, out_list, out_pairs
from gateway.commands.session import run
from gateway.commands.usage_reports import export, summary
from gateway.commands.usage_tail import tail
from gateway.domain.call import (
    EXPLAINED_MARKS,
    PASSED_MARK,
    Attempt,
    Outcome,
    is_call_id,
    mark_values,
    outcome_text,
    request_size,
    wait_of,
)
from gateway.domain.errors import NotFound
from gateway.domain.human_values import brief_count, count_text, plural
from gateway.domain.money import dollars
from gateway.domain.query import CallOrder
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.text import plain
from gateway.domain.usage import PART_WORDS
from gateway.domain.views import CallView

DEFAULT_LIMIT = 50
SORTS = ("cost", "duration", "first", "speed", "input", "cached", "output", "tries")
"""The numbers of a call that a list can be sorted by."""
NO_CALLS = "no calls yet; try: tollkeeper chat hello"
_PART_OF_ID = re.compile(r"[0-9a-z_]{4,}")
LAST = "last"

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
    "--limit", "-n", type=WholeNumber(min=1), default=DEFAULT_LIMIT, show_default=True, help="List at most this many."
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="List the calls with the highest values of this, instead of the newest; at most 5000.",
)
@json_option
def list_calls(limit: int, sort: str | None, *, as_json: bool, **values: Any) -> None:
    """List the newest calls, or with --sort the calls with the highest values.

    WORDS narrow the list, like the console's filter.
    Words: any text; tok: grp: ch: model: as: app: api: id: with * and ?, any of several as model:a,b;
    st:err st:ok st:4xx st:>=400 st:429,5xx;
    dur: and ttft: as >5s; in: and out: as >10k; cost: as >0.01; since: and until:; ! negates.
    An option with a name may be repeated: a call is listed if it matches any of the values.
    """
    filters = call_filters(values)

    async def work(client: ControlClient) -> tuple[list[CallView], str]:
        with ProgressLine(shown=not as_json) as progress:
            if sort:
                calls = await first_calls(client, filters, CallOrder(sort), limit, progress)
            else:
                calls = await newest_calls(client, filters, limit, progress)
        if not filters:
            return calls, NO_CALLS
        return calls, "" if calls else await no_match_note(client, filters)

    calls, note = run(work)
    out_list(calls, _columns(calls), as_json=as_json, empty=note)
    if len(calls) == limit == DEFAULT_LIMIT and not (as_json or sort):
        notify(more_text(DEFAULT_LIMIT, "calls"))


def _columns(calls: Sequence[CallView]) -> list[ListColumn]:
    """Returns the columns of a list, where the status of a call says whether the client retried it."""
    retried = set(repeated_calls(calls).values())
    status = ListColumn("Status", lambda c: formatting.status(c) + (", retried" if c.id in retried else ""), "state")
    return [status if column.heading == status.heading else column for column in COLUMNS]


@usage.command("show", examples=["tollkeeper usage show last", "tollkeeper usage show req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="[ID]", default=LAST)
@json_option
def show_call(call_id: str, *, as_json: bool) -> None:
    """Show one call: how it ended, how long such calls usually take, what was tried, what it cost and why.

    Without ID, or with 'last', the newest call is shown, which is the first one in 'usage list'. A part of an id is
    enough if only one call has it.
    """
    if as_json:
        out_json(run(lambda client: find_call(client, call_id)))
        return

    async def work(client: ControlClient) -> tuple[CallView, list[tuple[str, str]]]:
        call = await find_call(client, call_id)
        typical, retry_text = await _fetch_typical_times(client, call), await _fetch_retry_text(client, call)
        outlook = await formatting.find_balance_outlook(client)
        results = _result_pairs(call, outlook.text() if outlook else "")
        return call, [*_request_pairs(call, retry_text), *_time_pairs(call, typical), *results]

    call, pairs = run(work)
    out_pairs(pairs)
    for number, attempt in enumerate(call.attempts, start=1):
        out(plain(f"attempt {number}  {_attempt_text(call, attempt)}", limit=500))


async def find_call(client: ControlClient, call_id: str) -> CallView:
    """Returns the call with this id or part of an id; for ``last``, the newest one. Raises NotFound or Quit."""
    if call_id != LAST:
        try:
            return await client.call(call_id)
        except NotFound:
            if (call := await _find_by_part(client, call_id)) is None:
                raise
            return call
    if not (newest := await newest_calls(client, {}, 1)):
        raise Quit(NO_CALLS, Exit.NOT_FOUND)
    return await client.call(newest[0].id)


async def _find_by_part(client: ControlClient, part: str) -> CallView | None:
    """Returns the only call with this in its id, or None. Raises Quit if several match."""
    if is_call_id(part) or not _PART_OF_ID.fullmatch(part):
        return None
    with ProgressLine() as progress:
        calls = await newest_calls(client, {"words": f"id:{part}"}, 5, progress)
    if len(calls) > 1:
        ids = ", ".join(call.id for call in calls[:4])
        more = " and more" if len(calls) > 4 else ""
        raise Quit(f"several calls have '{part}' in their ids: {ids}{more}", Exit.NOT_FOUND)
    return await client.call(calls[0].id) if calls else None


async def _fetch_retry_text(client: ControlClient, call: CallView) -> str:
    """Returns which retry of the client it is: ``1 of the same call; before it: ...``; empty if it is none."""
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


async def _fetch_typical_times(client: ControlClient, call: CallView) -> str:
    """Returns ``duration avg 2.10s, p50 1.80s, p95 6.02s; first token ...`` of the answered calls of its model in the
    week before it; empty if none was answered.
    """
    if not call.model:
        return ""
    since, until = call.time_ms - 7 * 86_400_000, call.time_ms
    answered = {"model": call.model, "words": "st:done"}  # failures have no typical duration
    row = (await client.summary(since=since, until=until, percentiles=True, **answered)).total
    times = (
        ("duration", row.mean_duration_ms, row.duration_p50_ms, row.duration_p95_ms),
        ("first token", row.mean_first_byte_ms, row.first_byte_p50_ms, row.first_byte_p95_ms),
    )
    texts = [
        f"{name} avg {formatting.mean(average)}, p50 {formatting.span(p50)}, p95 {formatting.span(p95)}"
        for name, average, p50, p95 in times
        if average is not None and p50 is not None
    ]
    if not (row.calls and texts):
        return ""
    return f"{'; '.join(texts)} ({row.calls:,} answered {plural(row.calls, 'call')} of this model in 7 days)"


@usage.command("cancel", examples=["tollkeeper usage cancel req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
def cancel_call(call_id: str) -> None:
    """Cancel a running call. What it has used so far is charged. 'usage list st:running' lists running calls."""
    run(lambda client: client.cancel(call_id), running=True)
    notify(f"Call {call_id} cancelled.")


def _request_pairs(call: CallView, retry_text: str) -> list[tuple[str, str]]:
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
        ("retry", retry_text),
        ("channel", call.channel or "none"),
        ("status", status),
        ("error", f"{call.code}: {call.error}" if call.code else call.error),
    ]


def _time_pairs(call: CallView, typical: str) -> list[tuple[str, str]]:
    wait = wait_of(call.marks)
    first = "" if call.first_byte_ms is None else f", first token after {formatting.span(call.first_byte_ms)}"
    tries, retry_wait = count_text(call.failed_tries, "try"), ""
    if call.between_tries_ms:
        retry_wait = f"{formatting.span(call.between_tries_ms)} of it after {tries} that failed"
    overhead_ms = max(0.0, call.overhead_us / 1000 - (wait.ms if wait else 0))
    return [
        ("duration", f"{formatting.duration(call) or 'not known'}{first}{', streamed' if call.stream else ''}"),
        ("usual", typical),
        ("waited", f"{formatting.span(wait.ms)} of it for {plain(wait.place)}" if wait else ""),
        ("" if wait else "waited", retry_wait),  # may be a second line of "waited"
        ("stayed", call.stay),
        *(("passed over", plain(text)) for text in mark_values(call.marks, PASSED_MARK)),
        ("in the gateway", f"{overhead_ms:.2f}ms before the upstream request" if call.attempts else ""),
    ]


def _result_pairs(call: CallView, balance_now: str) -> list[tuple[str, str]]:
    size, balance = request_size(call.marks), call.balance_nanos
    more = call.count - 1  # identical refusals, which have no record of their own
    repeated = f"{more:,} more like this {'was' if more == 1 else 'were'} not listed" if more else ""
    return [
        ("asked for", size.text() if size is not None else ""),
        ("usage", _usage_text(call)),
        *(("", line) for line in formatting.receipt(call)),
        ("cost", _cost_text(call)),
        ("held", dollars(call.held_nanos) if call.held_nanos else ""),
        ("balance", f"{dollars(balance)} after the call" if balance is not None else ""),
        ("", f"now {balance_now}" if balance_now and balance is not None else ""),
        ("possible", f"{dollars(call.possible_nanos)} at the upstream, not charged" if call.possible_nanos else ""),
        ("upstream id", call.upstream_id),
        ("repeated", repeated),
        ("marks", ", ".join(mark for mark in call.marks if not mark.startswith(EXPLAINED_MARKS))),
    ]


def _attempt_text(call: CallView, attempt: Attempt) -> str:
    """Returns an attempt's channel, status and result: ``openai as gpt-5  503  server: overloaded``."""
    model = f" as {attempt.model}" if attempt.model else ""
    key = f" (key {attempt.key})" if attempt.key else ""
    result = f"{attempt.kind.value}: {attempt.reason}" if attempt.kind else attempt.reason or "answered"
    billed = ", possibly billed" if attempt.billed else ""
    return f"{attempt.channel}{model}{key}  {call.attempt_status(attempt)}  {result}{billed}"


def _cost_text(call: CallView) -> str:
    if call.state == "running":
        return f"at most {dollars(call.cost_nanos)} so far"
    if formatting.cost(call) != formatting.UNPRICED:
        return dollars(call.cost_nanos)
    return formatting.price_words(None, call.model)


def _usage_text(call: CallView) -> str:
    if call.state == "running":
        return f"at most {call.input_tokens:,} input, {call.output_tokens:,} output so far (estimated)"
    counts = (
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
    return (", ".join(f"{count:,} {unit}" for count, unit in counts if count) or "no tokens") + source + tier
