"""Plain mode: the console without a screen, for dumb terminals and screen readers: one line for each call, until
ctrl+c.
"""

import asyncio
import sys
from collections.abc import Iterator

from gateway.domain.errors import GatewayError
from gateway.domain.events import AnyEvent, CallSettled, Snapshot, Stopping, StoreChanged
from gateway.domain.money import dollars
from gateway.domain.views import CallView
from tui import format as fmt
from tui.exit_status import after_leaving
from tui.glyphs import ascii_of
from tui.receipt import mark_of
from tui.session import ServerLink
from tui.text import safe


def run(link: ServerLink, reason: str, program: str = "tollkeeper") -> int:
    """Attach to the server, or start one, and print lines. Returns the exit code. Raises if no server is available."""
    _print_line(
        f"{reason}, so no screen is drawn: each finished call is one line. Ctrl+C quits; every command has --help."
    )
    try:
        asyncio.run(follow(link))
    except KeyboardInterrupt:
        _print_line(after_leaving("", program).sentence)
    return 0


async def follow(link: ServerLink) -> None:
    """Write events as lines until the server ends. Raises GatewayError if no server runs."""
    attached = await link.ensure()
    try:
        async for event in attached.client.events(recent=10):
            for line in console_line(event):
                _print_line(line)
    except GatewayError as error:
        _print_line(error.message)


def console_line(event: AnyEvent) -> Iterator[str]:
    """Yields the lines about an event."""
    if isinstance(event, Snapshot):
        yield f"serving {event.status.address}, {fmt.count_text(len(event.running), 'call')} running"
        yield f"available {dollars(event.account.available_nanos)}"
        if event.status.store_error:
            yield store_line(event.status.store_error)
        yield from map(call_line, reversed(event.recent))
    elif isinstance(event, CallSettled):
        yield call_line(event.call)
    elif isinstance(event, StoreChanged):
        yield store_line(event.status.store_error)
    elif isinstance(event, Stopping):
        yield "the server is stopping"


def store_line(error: str) -> str:
    """Returns the state of the store in words."""
    return f"the store failed, and calls are rejected: {safe(error)}" if error else "the store works again"


def call_line(call: CallView) -> str:
    """Returns one finished call in words."""
    where = f" at {call.channel}" if call.channel else ""
    used = f", {call.input_tokens} in, {call.output_tokens} out, {dollars(call.cost_nanos)}"
    why = f", {call.code}" if call.code else ""
    text = f"{fmt.clock(call.time_ms)} {ascii_of(mark_of(call))} {call.status} {call.model or 'no model'}{where}"
    return safe(f"{text}, token {call.token or 'none'}, {fmt.seconds(call.duration_ms)}{used}{why}, {call.id}")


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
