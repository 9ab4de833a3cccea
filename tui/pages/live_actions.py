"""Live actions: pause, follow, errors, cancel, jump to a time."""

from asyncio import sleep
from collections.abc import Mapping, Sequence
from functools import partial

from gateway.domain.call import Running
from gateway.domain.errors import NotFound
from gateway.domain.human_values import parse_past
from gateway.domain.query import FailureCondition
from gateway.domain.units import Millis
from tui.calls import RunningView, running_view
from tui.console_app import ConsoleApp
from tui.format import cost, count_text, seconds
from tui.pages.base import AnyPage, Verb, report_no_selection, unmark
from tui.pages.list_page import export_rows, set_filter
from tui.pages.live_source import load_found
from tui.text import safe
from tui.widgets import why as why_dialog
from tui.widgets.dialogs import toast
from tui.widgets.form import Form, line_plan

ERRORS = "st:err"
FAILED = FailureCondition()
"""The condition that this filter word stands for."""


def pause(page: AnyPage) -> None:
    """Pause the list, or resume it."""
    page.renew()
    page.calls.pause(on=not page.calls.paused)
    page.renew()


def follow(page: AnyPage) -> None:
    """Jump to the newest call, and follow new ones."""
    page.calls.pause(on=False)
    page.sort_by("", reverse=False)
    page.renew()
    page.table.action_cursor("first")
    page.renew()


async def show_calls(app: ConsoleApp, words: str) -> None:
    """Open the Live page with the calls that match a filter, the newest first."""
    app.session.state.view("live").filter = words  # a page that opens for the first time starts with it
    if "since:" in words or "until:" in words:
        app.session.passing_filters["live"] = words
    await app.action_page("live")
    set_filter(app.page, words)
    follow(app.page)


def errors(page: AnyPage) -> None:
    """Show only failed calls, or all calls again."""
    set_filter(page, "" if page.view.filter == ERRORS else ERRORS)
    page.table.focus()


async def cancel(page: AnyPage) -> None:
    """Cancel the marked running calls, or without marks the selected one, after confirmation."""
    marks, running = page.table.marks, page.session.board.calls.running
    current = page.table.current
    chosen = marks or ({current.id} if isinstance(current, RunningView) else ())
    rows = sorted((call for id_, call in running.items() if id_ in chosen), key=lambda call: not call.waits_for)
    if not rows and current is None and not marks:
        report_no_selection(page, "No call selected.")
        return
    if not rows:
        toast(page, "None of them is running." if marks else "This call has already finished.", bad=True)
        return
    consequences = f"{_calls_text(page, rows)}\n\nThe client keeps what has arrived so far. What was used is charged."
    call = f"the call to {safe(rows[0].model, 60)} by {safe(rows[0].token_name, 40)}"
    question = f"End {call}?" if len(rows) == 1 else f"End {len(rows)} calls?"
    if not await page.confirm(question, consequences, "End call" if len(rows) == 1 else f"End {len(rows)} calls"):
        return
    ended = [
        call.id for call in rows if await _ended(page, call.id)
    ]  # waiting ones first, so that none of them gets a place
    if marks:
        unmark(page)
    if not ended:
        toast(page, "It finished in the meantime." if len(rows) == 1 else "They finished in the meantime.")
        return
    toast(page, f"Ended: {ended[0]}" if len(ended) == 1 else f"Ended {len(ended)} calls.")


def _calls_text(page: AnyPage, calls: Sequence[Running]) -> str:
    """Returns which calls they are, how long each has been running, and what it has cost so far."""
    now = page.session.now()
    shown = [running_view(call, now) for call in calls[:5]]
    lines = [f"{running.id}, {seconds(running.duration_ms)}, {cost(running.cost_nanos)} so far" for running in shown]
    return "\n".join([*lines, *([f"and {len(calls) - 5} more"] if len(calls) > 5 else [])])


async def _ended(page: AnyPage, call: str) -> bool:
    """Cancel a call. Returns whether it was still running."""
    try:
        await page.session.client.cancel(call)
    except NotFound:
        return False
    return True


def bulk(page: AnyPage) -> None:
    """Say how to end marked calls: they are records, and only running ones can be changed."""
    toast(page, f"Press {page.session.key('live.cancel')} to end the marked calls that run.")


async def export(page: AnyPage) -> None:
    """Write the calls that match the filter to a file; without a filter, or if sorted, the loaded ones."""
    calls, all_of_them = page.calls, "'tollkeeper usage export' writes all"
    plain = not page.view.sort and not page.shows_marked
    searches = plain and calls.query is not None and not calls.search.done
    if searches and await page.wait("Searching older calls", partial(_search_all, page)) is None:
        return
    if calls.query is None and plain and calls.records:
        await export_rows(page, f", those loaded of {count_text(calls.count, 'call')}; {all_of_them}")
    elif calls.search.cut or calls.search.cursor:
        await export_rows(page, f", the first of more; {all_of_them}")
    else:
        await export_rows(page)


async def _search_all(page: AnyPage) -> bool:
    """Find all older calls that match the filter, up to the number that is kept."""
    while not page.calls.search.done:
        await load_found(page.calls)
        await sleep(0.02)  # leave the gateway time for calls
    return True


async def why(page: AnyPage) -> None:
    """Show what would happen to such a call now, with the token and model of the call under the cursor."""
    call = page.table.current
    names = {token.id: token.name for token in page.session.board.tokens}
    if call is None:
        toast(page, "No call selected.")
    elif (name := names.get(call.token_id) or (call.token if call.token in names.values() else None)) is None:
        toast(page, "Its token is unknown. Page 2 lists the tokens, page 8 runs the doctor.", bad=True)
    else:
        await page.ask(why_dialog.WhyScreen(page.session, name, call.model, call))


async def jump_to_time(page: AnyPage) -> None:
    """Jump to a moment; one with seconds, as the list shows it, selects the newest call within that second."""
    now = page.session.now()
    plan = line_plan("Jump to a time", "Time", "10m, 14:00, 2026-11-20T14:00", lambda text: parse_past(text, now))
    text = await page.ask(Form(plan))
    if not text:
        return
    moment = Millis(parse_past(text, now, end=True) + (1_000 if text.count(":") > 1 else 0))
    index = await locate(page, moment)
    page.table.go(index)
    page.renew()


async def locate(page: AnyPage, moment: Millis) -> int:
    """Returns the index of the newest row that began before a moment.

    It searches the loaded rows first, then fetches older records one by one, halving the rest: they are ordered by
    time.
    """
    calls = page.calls
    first = calls.count - (calls.records if calls.query is None else 0)
    if first == 0 or (row := calls.row(first - 1)) is None or row.time_ms < moment or calls.query is not None:
        return next((i for i in range(first) if (row := calls.row(i)) and row.time_ms < moment), max(0, first - 1))
    low, high = 0, calls.records
    while low < high:
        middle = (low + high + 1) // 2
        page_of_calls = await page.session.client.numbered_calls(middle, 1)
        low, high = (middle, high) if page_of_calls and page_of_calls[0].time_ms < moment else (low, middle - 1)
    return int(first + calls.records - max(1, low))


def go_to_error(page: AnyPage, step: int) -> None:
    """Go to the next older loaded call that failed; with a ``step`` of -1, to the next newer one."""
    table, index = page.table, page.table.cursor + step
    while 0 <= index < page.calls.count:
        row = page.calls.row(index)
        if row is None:
            break
        if FAILED.matches(row):
            table.go(index)
            page.renew()
            return
        index += step
    toast(page, f"No more errors among the loaded calls. Press {page.session.key('live.errors')} to show all errors.")


VERBS: Mapping[str, Verb] = {
    "pause": pause,
    "follow": follow,
    "errors": errors,
    "cancel": cancel,
    "bulk": bulk,
    "when": jump_to_time,
    "why": why,
    "export": export,
    "next_error": partial(go_to_error, step=1),
    "previous_error": partial(go_to_error, step=-1),
}
