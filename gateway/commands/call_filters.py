"""Call filters: the options and filter words that select calls, and the search for them, page by page."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands.completion import CHANNELS, GROUPS, MODELS, TOKENS, Completer
from gateway.commands.options import SINCE, TEXT, UNTIL, now, with_options
from gateway.commands.output import ProgressLine
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_text, local_time
from gateway.domain.patterns import is_pattern
from gateway.domain.query import FILTER_WORDS, CallOrder, parse, shell_word, words_for
from gateway.domain.text import word
from gateway.domain.views import CallPage, CallView

CallFilters = dict[str, Any]
"""What options and words select: the parameters of the server's lists of calls, without those that are not given."""


def call_filters(values: dict[str, Any]) -> CallFilters:
    """Returns the selection that the words and options make. Raises BadRequest for an unknown word."""
    status = values.pop("status")
    typed = [*values.pop("words"), *words_for("as", values.pop("as"))]
    typed += [*words_for("st", status), "!st:running"] if status else []
    for name, field in FILTER_WORDS.items():  # an option takes exact names, the word takes patterns too
        if any(map(is_pattern, values.get(name, ()))):
            typed += words_for(field, values[name])
            values[name] = ()
    words = parse(" ".join(map(shell_word, typed)), now())
    # the option and the words may both have a bound: the narrower one counts
    since = max(filter(None, (values.pop("since"), words.since)), default=None)
    until = min(filter(None, (values.pop("until"), words.until)), default=None)
    if since is not None and until is not None and until <= since:
        start, end = local_time(since), local_time(until)
        raise BadRequest(f"--until ({end}) is not after --since ({start})", param="until")
    if since is not None and since > now():
        raise BadRequest(f"--since ({local_time(since)}) is in the future", param="since")
    filters = {"failed": values.pop("errors") or None, "since": since, "until": until, "words": " ".join(words.words)}
    return {name: value for name, value in {**values, **filters}.items() if value not in (None, "", ())}


async def find_calls(client: ControlClient, filters: CallFilters, progress: ProgressLine) -> AsyncIterator[CallView]:
    """Yields matching calls: the running ones, then the others in the order of their ends, newest first."""
    async for page in _pages(client, progress, {"limit": 500, **filters}):
        for call in page.calls:
            yield call


async def newest_calls(
    client: ControlClient, filters: CallFilters, limit: int, progress: ProgressLine
) -> list[CallView]:
    """Returns the matching calls that began last, newest first.

    The server lists calls by their ends, so a later page may have calls that began later. Once there are enough, only
    calls that began after the oldest of them are requested.
    """
    newest: list[CallView] = []
    fields = {"limit": min(limit, 500), **filters}
    async for page in _pages(client, progress, fields):
        calls = {call.id: call for call in (*newest, *page.calls)}  # one that ended in between may be on both pages
        newest = sorted(calls.values(), key=lambda call: call.time_ms, reverse=True)[:limit]
        fields["limit"] = min(limit - len(newest) or 500, 500)
        if len(newest) == limit:
            fields["since"] = newest[-1].time_ms + 1
    return newest


async def first_calls(
    client: ControlClient, filters: CallFilters, order: CallOrder, limit: int, progress: ProgressLine
) -> list[CallView]:
    """Returns the first ``limit`` matching calls in this order, without running ones."""
    first: list[CallView] = []
    fields = {"limit": limit, "sort": order.key, "ascending": order.ascending or None, **filters}
    async for page in _pages(client, progress, fields):
        first = order.best([*first, *page.calls], limit)
    return first


async def _pages(client: ControlClient, progress: ProgressLine, query: Mapping[str, object]) -> AsyncIterator[CallPage]:
    """Yields pages of calls, and shows the progress. ``query`` goes into the next request: it may change."""
    cursor = None
    while True:
        page = await client.calls(before=cursor, **query)
        cursor = page.cursor
        if cursor is not None:
            progress.show(f"searched back to {local_time(page.back_to_ms)}, {count_text(page.left, 'call')} to go")
        yield page
        if cursor is None:
            return


async def no_match_note(client: ControlClient, filters: CallFilters) -> str:
    """Returns the message for an empty result, with the probable reason."""
    wanted = filters.get("model", ())
    models = [model.name for model in await client.models()] if wanted else []
    missing = [name for name in wanted if name not in models]
    if filters.keys() == {"model"} and not missing:
        command = f"usage list {' '.join(f'--as {word(name)}' for name in wanted)}"
        return f"no matching calls; the model may have answered calls to other names: tollkeeper {command}"
    if not missing:
        return "no matching calls"
    names = ", ".join(models) or "none"
    return f"no matching calls; no channel offers model '{missing[0]}' now; the offered models are: {names}"


def _names_option(name: str, text: str, complete: Completer | None = None, **more: Any) -> Callable[[Any], Any]:
    """Returns an option that may be repeated. ``text``: its help; ``complete``: completes its value."""
    return click.option(f"--{name}", type=TEXT, multiple=True, shell_complete=complete, help=text, **more)


filter_options = with_options(
    click.argument("words", nargs=-1),
    _names_option(
        "token", "Calls with this token. It may be a pattern ('ci-*'). May be repeated: --token a --token b.", TOKENS
    ),
    _names_option("group", "Calls in this group.", GROUPS),
    _names_option("model", "Calls for this model.", MODELS),
    _names_option("as", "Calls that this upstream model answered, whatever model they named.", metavar="MODEL"),
    _names_option("channel", "Calls answered by this channel.", CHANNELS),
    _names_option("app", "Calls of this client program."),
    _names_option("api", "Calls of this API: chat, messages, responses, embeddings, ..."),
    _names_option("status", "Calls that ended with this HTTP status: 429, 4xx, '>=400'.", metavar="STATUS"),
    click.option("--errors", is_flag=True, help="Calls that failed."),
    click.option(
        "--since",
        type=SINCE,
        help="1h, 7d, 14:00, today, monday, '25 Nov 14:00', week, last-month, 2026-11, 2026-11-01 (local time).",
    ),
    click.option("--until", type=UNTIL, help="Like --since; a day or a month includes its end."),
)
"""Adds the words and options that filter calls. The command passes their values to ``call_filters``."""
