"""``usage``: calls and their receipts, ``usage summary``: sums."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Command, Noun
from gateway.commands.call_filters import CallQuery, filter_options, newest_calls, wanted_of
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import SINCE, UNTIL, WholeNumber, json_option, now
from gateway.commands.output import Columns, ProgressLine, more_text, out, out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.commands.usage_export import export
from gateway.commands.usage_tail import tail
from gateway.domain.budget import Window, window_start
from gateway.domain.call import TOLD_MARKS, Outcome, outcome_text, request_size, wait_of
from gateway.domain.human_values import brief_count, count_text, local_time
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import CallView, ModelView, Summary, SumRow

MONTH_MS = 30 * 86_400_000

USUAL_MS = 7 * 86_400_000
"""What a call is compared with: so long before it."""

STEPS = ("day", "hour")
DIMENSIONS = ("token", "model", "channel", "group", "app", "api", *STEPS)

SUMMARY_COLUMNS = (
    (">Calls", lambda r: f"{r.calls:,}"),
    (">Errors", lambda r: f"{r.errors:,}"),
    (">In", lambda r: brief_count(r.input_tokens)),
    (">Cached", lambda r: brief_count(r.cached_tokens)),
    (">Out", lambda r: brief_count(r.output_tokens)),
    (">Duration", lambda r: mean(r.mean_duration_ms)),
    (">p50", lambda r: formatting.span(r.duration_p50_ms)),
    (">p95", lambda r: formatting.span(r.duration_p95_ms)),
    (">First", lambda r: mean(r.mean_first_byte_ms)),
    (">p50", lambda r: formatting.span(r.first_byte_p50_ms)),
    (">p95", lambda r: formatting.span(r.first_byte_p95_ms)),
    (">Cost", lambda r: brief_dollars(r.cost_nanos)),
)
SUMMARY_DROP = ("p95", "p50", "Cached", "First", "Duration")
"""Columns that a narrow terminal does without, the first one first."""


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage summary",
        "tollkeeper usage summary --by day --since 7d",
        "tollkeeper usage summary --by token --json",
    ],
)
@click.option("--by", type=click.Choice(DIMENSIONS), default="model", show_default=True, help="Group by this.")
@click.option("--since", type=SINCE, help="From when: 1h, 7d (168 hours), today, 2026-11-01 (default: 30d).")
@click.option("--until", type=UNTIL, help="Until when; a day counts to its end.")
@json_option
def summary(by: str, since: int | None, until: int | None, *, as_json: bool) -> None:
    """Sum up calls, tokens and cost.

    'Duration' and 'First' (the time to the first token) are averages; beside each are the times that half of the calls
    (p50) and 95 % of them (p95) did not exceed, from the records that are kept. Of many alike refusals one is recorded
    in a second; all of them are counted.

    With --by day the first day is whole, and with --by hour the first hour, whenever --since is.
    """
    start = _whole_step(now() - MONTH_MS if since is None else since, by)
    over_time = by in STEPS
    view = run(
        lambda client: client.summary(
            by="" if over_time else by, since=start, until=until, step=by if over_time else "", percentiles=True
        )
    )
    if as_json:
        out_json(msgspec.structs.replace(view, by=by, rows=list(rows_of(view, by))))
        return
    rows = [*rows_of(view, by), msgspec.structs.replace(view.total, name="total")]
    out_list(
        rows,
        [("API" if by == "api" else by.capitalize(), lambda r: r.name), *SUMMARY_COLUMNS],
        as_json=False,
        empty="",
        drop=SUMMARY_DROP,
    )
    words(f"from {local_time(view.since_ms)} to {local_time(view.until_ms)}{_old_refusals(view)}")


HOUR_MS = 3_600_000


def _whole_step(since: int, by: str) -> int:
    """Where the day or hour begins whose row would else be of a part of it."""
    if by == "day":
        return window_start(Window.DAY, Millis(since))
    return since // HOUR_MS * HOUR_MS if by == "hour" else since


def _old_refusals(view: Summary) -> str:
    if view.refusals_from_ms is None:
        return ""
    return f"; before {local_time(view.refusals_from_ms)}, of many alike refusals one in a second was counted"


def mean(ms: float | None) -> str:
    """An average as a cell."""
    return formatting.span(None if ms is None else round(ms))


def rows_of(view: Summary, by: str) -> Sequence[SumRow]:
    """The lines: by value, the most expensive first; or by time, the oldest first."""
    if by not in STEPS:
        return view.rows
    length = len("2026-11-20") if by == "day" else len("2026-11-20 22:00")
    return [
        msgspec.structs.replace(point.row, key=str(point.start_ms), name=local_time(point.start_ms)[:length])
        for point in view.series
        if point.row.calls
    ]


RETRY_MS = 600_000
"""How long before a call the one may have begun that it repeats."""
NEAR_CALLS = 500
SHOWN = 50
"""Calls in a list, unless ``--limit`` says another number."""
NO_CALLS = "no calls yet; try: tollkeeper chat hello"
LAST = "last"
"""Instead of an id: the first call of the list."""

COLUMNS = [
    ("Time", lambda c: formatting.moment(c.time_ms)),
    ("Token", lambda c: c.token),
    ("Model", formatting.what),
    ("API", lambda c: c.api),
    ("Channel", lambda c: c.channel),
    ("Status", formatting.status),
    (">Duration", formatting.duration),
    (">First token", lambda c: formatting.span(c.first_byte_ms)),
    (">In", lambda c: formatting.at_most(brief_count(c.input_tokens), c)),
    (">Out", lambda c: brief_count(c.output_tokens)),
    (">Cost", formatting.cost),
    ("Id", lambda c: c.id),
]
DROP = ("API", "First token", "Id", "Channel", "Token", "Out", "In", "Duration")
"""Columns that a narrow terminal does without, the first one first."""


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
    ],
)
@filter_options
@click.option("--limit", type=WholeNumber(min=1), default=SHOWN, show_default=True, help="Show at most this many.")
@json_option
def list_calls(limit: int, *, as_json: bool, **given: Any) -> None:
    """List the calls that began last, the newest first.

    WORDS narrow the list, as in the console's filter.
    Words: any text; tok: grp: ch: model: app: api: id: with * and ?; st:err st:ok st:4xx st:>=400;
    dur: and ttft: as >5s; in: and out: as >10k; cost: as >0.01; since: and until:; ! negates.
    """
    wanted = wanted_of(given)

    async def work(client: ControlClient) -> tuple[list[CallView], str]:
        with ProgressLine(shown=not as_json) as progress:
            calls = await newest_calls(client, wanted, limit, progress)
        if calls or wanted.model is None:
            return calls, NO_CALLS if wanted == CallQuery() else f"no matching calls{_names_note(wanted)}"
        return calls, f"no matching calls{_models_there(wanted.model, await client.models())}"

    calls, note = run(work)
    out_list(calls, _columns(calls), as_json=as_json, empty=note, drop=DROP)
    if len(calls) == limit == SHOWN and not as_json:
        words(more_text(SHOWN, "calls"))


def _names_note(wanted: CallQuery) -> str:
    """A note about words that look at names."""
    options = {"tok:": "--token", "ch:": "--channel"}
    named = [option for word, option in options.items() for one in wanted.query.words if one.startswith(word)]
    return f"; words look at the names of that time, {' and '.join(named)} also at later ones" if named else ""


def _models_there(name: str, models: Sequence[ModelView]) -> str:
    """A note if no channel offers a model of that name; there may have been one."""
    names = [model.name for model in models]
    return "" if name in names else f"; no channel offers model '{name}' now: there are {', '.join(names) or 'none'}"


def _columns(calls: Sequence[CallView]) -> Columns[CallView]:
    """Those of a list; the status of a call says whether the client tried again."""
    again = set(repeated_calls(calls).values())
    return [
        (
            name,
            (lambda c: f"{formatting.status(c)}{', retried' if c.id in again else ''}") if name == "Status" else cell,
        )
        for name, cell in COLUMNS
    ]


@usage.command("show", examples=["tollkeeper usage show last", "tollkeeper usage show req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
@json_option
def show_call(call_id: str, *, as_json: bool) -> None:
    """Show one call: how it went, how long such calls usually take, what was tried, what it cost and why.

    ID 'last' is the call that began last, which 'usage list' shows first.
    """
    if as_json:
        out_json(run(lambda client: _call(client, call_id)))
        return

    async def work(client: ControlClient) -> tuple[CallView, str, SumRow | None, str]:
        return *await _with_usual(client, call_id), await formatting.balance_outlook(client)

    _print(*run(work))


async def _call(client: ControlClient, call_id: str) -> CallView:
    """The call with that id, or the one that began last. Raises NotFound or Quit."""
    if call_id != LAST:
        return await client.call(call_id)
    if not (listed := await newest_calls(client, CallQuery(), 1)):
        raise Quit(NO_CALLS, Exit.NOT_FOUND)
    return await client.call(listed[0].id)


async def _earlier(client: ControlClient, call: CallView) -> str:
    """Which retry it is, and the calls before it."""
    if not call.retry:
        return ""
    page = await client.calls(
        model=call.model, since=call.time_ms - call.retry * RETRY_MS, until=call.time_ms + 1, limit=NEAR_CALLS
    )
    before = ", ".join(f"{one.id} ({formatting.status(one)})" for one in earlier_attempts(call, page.calls))
    return f"{call.retry} of the same call{f'; before it: {before}' if before else ''}"


async def _with_usual(client: ControlClient, call_id: str) -> tuple[CallView, str, SumRow | None]:
    """The call, what it repeats, and the sums of its model in the days before it; None if there were no other calls."""
    view = await _call(client, call_id)
    summary = await client.summary(by="model", since=view.time_ms - USUAL_MS, until=view.time_ms + 1, percentiles=True)
    row = next((one for one in summary.rows if view.model and one.key == view.model), None)
    return view, await _earlier(client, view), row if row is not None and row.calls > 1 else None


def _usual(row: SumRow | None) -> str:
    """``duration avg 2.10s, p50 1.80s, p95 6.02s; first token ...``."""
    if row is None:
        return ""
    times = (
        ("duration", row.mean_duration_ms, row.duration_p50_ms, row.duration_p95_ms),
        ("first token", row.mean_first_byte_ms, row.first_byte_p50_ms, row.first_byte_p95_ms),
    )
    texts = [
        f"{what} avg {mean(average)}, p50 {formatting.span(p50)}, p95 {formatting.span(p95)}"
        for what, average, p50, p95 in times
        if average is not None and p50 is not None
    ]
    return f"{'; '.join(texts)} ({count_text(row.calls, 'call')} of this model in 7 days)" if texts else ""


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
            ("marks", ", ".join(mark for mark in call.marks if not mark.startswith(TOLD_MARKS))),
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
    """``200, finished (stop)``, ``lost (gateway stopped)`` or ``running``."""
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
    """``2.43s of it after 1 try that failed``; empty if it did not wait after one."""
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
    )
    if call.outcome == Outcome.LOST and call.usage_source == "none":
        return "not known"
    source = f" ({call.usage_source})" if call.usage_source != "none" else ""
    return (", ".join(f"{count:,} {what}" for count, what in said if count) or "no tokens") + source
