"""``usage``: the calls and what they cost. Listing them and the receipt of one."""

from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import show
from gateway.commands.base import Noun
from gateway.commands.call_filters import filter_options, found, wanted_of
from gateway.commands.options import json_option
from gateway.commands.output import ProgressLine, out, out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.commands.usage_export import export
from gateway.commands.usage_summary import summary
from gateway.commands.usage_tail import tail
from gateway.domain.money import dollars
from gateway.domain.text import plain
from gateway.domain.views import CallView
from gateway.domain.written import brief_count

COLUMNS = [
    ("Time", lambda c: show.moment(c.time_ms)),
    ("Id", lambda c: c.id),
    ("Token", lambda c: c.token),
    ("Model", lambda c: c.model),
    ("Channel", lambda c: c.channel),
    ("Status", show.status),
    (">Took", lambda c: show.span(c.duration_ms)),
    (">First", lambda c: show.span(c.first_byte_ms)),
    (">In", lambda c: brief_count(c.input_tokens)),
    (">Out", lambda c: brief_count(c.output_tokens)),
    (">Cost", show.cost),
]


@click.group(cls=Noun)
def usage() -> None:
    """The calls and what they cost."""


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
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@json_option
def list_calls(limit: int, *, as_json: bool, **given: Any) -> None:
    """List calls, newest first. WORDS narrow the list, as in the console's filter.

    Words: any text; tok: grp: ch: model: app: id: with * and ?; st:err st:ok st:4xx st:>=400;
    dur: and ttft: as >5s; in: and out: as >10k; cost: as >0.01; since: and until:; ! negates.
    """
    wanted = wanted_of(given)

    async def work(client: ControlClient) -> list[CallView]:
        with ProgressLine(shown=not as_json) as progress:
            return [call async for call in found(client, wanted, limit, progress)]

    out_list(run(work), COLUMNS, as_json=as_json, empty="no such calls")


@usage.command("show", examples=["tollkeeper usage show req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
@json_option
def show_call(call_id: str, *, as_json: bool) -> None:
    """Show one call: how it went, what was tried, what it cost and why."""
    view = run(lambda client: client.call(call_id))
    if as_json:
        out_json(view)
        return
    _print(view)


@usage.command("cancel", examples=["tollkeeper usage cancel req_019aa0c3d2f15b8e3c5e4d6a7b"])
@click.argument("call_id", metavar="ID")
def cancel_call(call_id: str) -> None:
    """End a running call; what came so far is charged. 'usage list st:running' shows those there are."""
    run(lambda client: client.cancel(call_id), running=True)
    words(f"call {call_id} was cancelled")


def _print(call: CallView) -> None:
    first = "" if call.first_byte_ms is None else f", first byte after {show.span(call.first_byte_ms)}"
    overhead = f"{call.overhead_us / 1000:.2f}ms before the upstream was asked"
    out_pairs(
        [
            ("id", call.id),
            ("time", show.moment(call.time_ms)),
            ("token", f"{call.token} in group {call.group}" if call.token else "none recognised"),
            ("app", call.app),
            (
                "model",
                call.model if call.upstream_model in ("", call.model) else f"{call.model} ({call.upstream_model})",
            ),
            ("channel", call.channel or "none"),
            ("status", f"{call.status} {call.outcome or call.state} {call.finish_reason}".rstrip()),
            ("error", f"{call.code}: {call.error}" if call.code else call.error),
            ("took", f"{show.span(call.duration_ms)}{first}{', streamed' if call.stream else ''}"),
            ("in the gateway", overhead if call.attempts else ""),
            ("usage", f"{_usage(call)} ({call.usage_source})"),
            *(("", line) for line in show.receipt(call)),
            ("cost", show.UNPRICED if show.cost(call) == show.UNPRICED else dollars(call.cost_nanos)),
            ("held", dollars(call.held_nanos) if call.held_nanos else ""),
            ("balance", f"{dollars(call.balance_nanos)} after it" if call.balance_nanos is not None else ""),
            ("possible", f"{dollars(call.possible_nanos)} at the upstream, not charged" if call.possible_nanos else ""),
            ("upstream id", call.upstream_id),
            ("marks", ", ".join(call.marks)),
        ]
    )
    for number, attempt in enumerate(call.attempts, start=1):
        how = f"{attempt.kind.value}: {attempt.reason}" if attempt.kind else "answered"
        billed = ", possibly billed" if attempt.billed else ""
        instead = f" as {attempt.model}" if attempt.model else ""
        key = f" (key {attempt.key})" if attempt.key else ""
        where = f"{attempt.channel}{instead}{key}"
        out(plain(f"attempt {number}  {where}  {attempt.status or 'no answer'}  {how}{billed}", limit=500))


def _usage(call: CallView) -> str:
    said = (
        (call.input_tokens, "input"),
        (call.cached_tokens, "of it cached"),
        (call.cache_write_tokens, "written to the cache"),
        (call.output_tokens, "output"),
        (call.reasoning_tokens, "of it reasoning"),
    )
    return ", ".join(f"{count:,} {what}" for count, what in said if count) or "no tokens"
