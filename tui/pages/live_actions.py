"""Live actions: pause, follow, errors, cancel, export, why, jump to a time or to an error."""

from asyncio import sleep
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from gateway.domain.call import Running
from gateway.domain.errors import NotFound
from gateway.domain.human_values import parse_past
from gateway.domain.query import FAILURE
from gateway.domain.units import Millis
from gateway.domain.views import RunningView, running_view
from tui.console_app import ConsoleApp
from tui.format import cost, count_text, duration
from tui.pages.base import AnyPage, Verb, no_selection, unmark
from tui.pages.list_page import export_rows, set_filter
from tui.pages.live_source import load_found, unloaded_count
from tui.text import safe
from tui.widgets import why as why_dialog
from tui.widgets.dialogs import notice, toast
from tui.widgets.form import Form, line_plan

ERRORS = "st:err"


def pause(page: AnyPage) -> None:
    """Pause the list, or resume it."""
    page.renew()  # so that it is paused with the newest calls
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
    """Open the Live page with the calls that match these filter words, the newest first."""
    app.session.state.view("live").filter = words  # a page that opens for the first time starts with it
    if "since:" in words or "until:" in words:
        app.session.temporary_filters["live"] = words
    await app.action_page("live")
    set_filter(app.page, words)
    follow(app.page)


def errors(page: AnyPage) -> None:
    """Show only failed calls, or all calls again."""
    set_filter(page, "" if page.view.filter == ERRORS else ERRORS)
    page.table.focus()


async def cancel(page: AnyPage) -> None:
    """Cancel the marked running calls, or without marks the selected one, after confirmation."""
    calls = _running_calls(page)
    if not calls:
        if page.table.current is None and not page.table.marks:
            raise no_selection(page, "No call selected.")
        raise NotFound("They have all finished." if page.table.marks else "This call has already finished.")
    await _confirm_cancel(page, calls)
    ended_ids = []
    for call in calls:
        with suppress(NotFound):  # it finished in the meantime
            await page.session.client.cancel(call.id)
            ended_ids.append(call.id)
    if page.table.marks:
        unmark(page)
    if not ended_ids:
        raise notice("It finished in the meantime." if len(calls) == 1 else "They finished in the meantime.")
    toast(page, f"Ended: {ended_ids[0]}" if len(ended_ids) == 1 else f"Ended {len(ended_ids)} calls.")


def _running_calls(page: AnyPage) -> list[Running]:
    """Returns the marked running calls, or the selected one; waiting ones first, as they would run when others end."""
    current = page.table.current
    ids = page.table.marks or ({current.id} if isinstance(current, RunningView) else ())
    running = page.session.board.calls.running
    return sorted((call for id_, call in running.items() if id_ in ids), key=lambda call: not call.waits_for)


async def _confirm_cancel(page: AnyPage, calls: Sequence[Running]) -> None:
    views = [running_view(call, page.session.now()) for call in calls[:5]]
    lines = [f"{view.id}, {duration(view.duration_ms)}, {cost(view.cost_nanos)} so far" for view in views]
    if len(calls) > 5:
        lines.append(f"and {len(calls) - 5} more")
    lines += ["", "The client keeps what has arrived so far. What was used is charged."]
    question, verb = f"End {len(calls)} calls?", f"End {len(calls)} calls"
    if len(calls) == 1:
        question = f"End the call to {safe(calls[0].model, 60)} by {safe(calls[0].token_name, 40)}?"
        verb = "End call"
    await page.confirm(question, "\n".join(lines), verb)


async def export(page: AnyPage) -> None:
    """Write the calls that match the filter to a file; without a filter, or if the list is sorted, the loaded ones."""
    calls, advice = page.calls, "'tollkeeper usage export' writes all"
    is_plain = not page.view.sort and not page.shows_marked
    if is_plain and calls.query is not None and not calls.search.done:
        await page.wait("Searching older calls", partial(_search_all, page))
    if unloaded_count(calls):
        await export_rows(page, f", those loaded of {count_text(calls.count, 'call')}; {advice}")
    elif calls.search.cut or calls.search.cursor:
        await export_rows(page, f", the first of more; {advice}")
    else:
        await export_rows(page)


async def _search_all(page: AnyPage) -> bool:
    """Search until all older calls that match the filter are found, or as many as are kept. Returns True."""
    while not page.calls.search.done:
        await load_found(page.calls)
        await sleep(0.02)  # leave the gateway time for calls
    return True


async def why(page: AnyPage) -> None:
    """Show what would happen now to a call like the selected one."""
    call = page.table.current
    if call is None:
        raise no_selection(page, "No call selected.")
    token_names = {token.id: token.name for token in page.session.board.tokens}
    token_name = token_names.get(call.token_id, call.token)
    if token_name not in token_names.values():
        raise NotFound("Its token is unknown. Page 2 lists the tokens, page 8 runs the doctor.")
    await page.ask(why_dialog.WhyScreen(page.session, token_name, call.model, call))


async def jump_to_time(page: AnyPage) -> None:
    """Ask for a time, and select the newest call before it. A time with seconds includes the calls of that second."""
    now = page.session.now()
    plan = line_plan("Jump to a time", "Time", "10m, 14:00, mon 9:00, 20 Nov", lambda text: parse_past(text, now))
    text = await page.ask(Form(plan))
    end = Millis(parse_past(text, now, end=True) + (1_000 if text.count(":") > 1 else 0))
    page.table.go(await index_before(page, end))
    page.renew()


async def index_before(page: AnyPage, end: Millis) -> int:
    """Returns the index of the newest row before a moment, or the last row. The server searches older records."""
    record_count = unloaded_count(page.calls)
    rows = [(index, row) for index in range(page.calls.count - record_count) if (row := page.calls.row(index))]
    before = [(row.time_ms, -index) for index, row in rows if row.time_ms < end]  # the list may be sorted
    if before:
        return -max(before)[1]
    left, cursor = 0, page.calls.calls.first_ended
    while record_count:  # a search may stop early; its cursor continues it
        results = await page.session.client.calls(until=end, limit=1, before=cursor)
        left, cursor = results.left, results.cursor
        if results.calls or cursor is None:
            break
    index: int = page.calls.count - 1 - left
    return max(0, index)


def go_to_error(page: AnyPage, step: int) -> None:
    """Go to the next older of the loaded calls that failed; with a ``step`` of -1, to the next newer one."""
    index = page.table.cursor + step
    while 0 <= index < page.calls.count:
        row = page.calls.row(index)
        if row is None:
            break
        if FAILURE.matches(row):
            page.table.go(index)
            page.renew()
            return
        index += step
    toast(page, f"No more errors among the loaded calls. Press {page.session.key('live.errors')} to show all errors.")


VERBS: Mapping[str, Verb] = {
    "pause": pause,
    "follow": follow,
    "errors": errors,
    "cancel": cancel,
    "when": jump_to_time,
    "why": why,
    "export": export,
    "next_error": partial(go_to_error, step=1),
    "previous_error": partial(go_to_error, step=-1),
}
