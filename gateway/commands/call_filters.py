"""Call filters: the options and filter words that select calls, and the paged search for them.

The server applies the filters. Only ``usage tail``, which receives calls as they end, applies them in the client.
"""

from collections.abc import AsyncIterator, Callable
from itertools import chain
from typing import Any, TypeVar

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands.completion import CHANNELS, GROUPS, MODELS, TOKENS
from gateway.commands.options import SINCE, SOME, UNTIL, now
from gateway.commands.output import ProgressLine
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_text, local_time
from gateway.domain.patterns import is_pattern
from gateway.domain.present_names import PresentNames
from gateway.domain.query import CallOrder, FailureCondition, OneOf, Query, parse, shell_word, words_for
from gateway.domain.text import word
from gateway.domain.units import Millis
from gateway.domain.views import CallPage, CallView

Command = TypeVar("Command", bound=Callable[..., Any])


class CallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of calls: by options, each with alternative values, and by filter words."""

    token: tuple[str, ...] = ()
    """Names or ids."""
    group: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    app: tuple[str, ...] = ()
    api: tuple[str, ...] = ()
    """Names of inbound APIs."""
    failed: bool | None = None
    query: Query = Query()

    @property
    def fields(self) -> dict[str, object]:
        """Returns the parameters of the server's call list."""
        picked = {name: getattr(self, name) for name in self.__struct_fields__ if name != "query"}
        words = " ".join(self.query.words) or None
        return picked | {"since": self.query.since, "until": self.query.until, "words": words}

    def by_names(self, names: PresentNames) -> Query:
        """Returns the query for use in the client, with ids in place of the names of tokens, groups and channels."""
        conditions = [*names.widened(self.query).conditions, *([FailureCondition()] if self.failed else [])]
        for field, refs, known in (
            ("token_id", self.token, names.tokens),
            ("channel_id", self.channel, names.channels),
            ("group_id", self.group, names.groups),
            ("model", self.model, {}),
            ("app", self.app, {}),
            ("api", self.api, {}),
        ):
            if refs:
                ids = [[key for key, name in known.items() if name == ref] or [ref] for ref in refs]
                conditions.append(OneOf(field, frozenset(chain.from_iterable(ids))))
        return msgspec.structs.replace(self.query, conditions=tuple(conditions))


def filter_options(command: Command) -> Command:
    """Adds the words and options that filter calls; the command gets them as ``**given`` for ``call_query``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def call_query(given: dict[str, Any]) -> CallQuery:
    """Returns the options as one value. Raises BadRequest for a word that is not understood."""
    status = given.pop("status")
    typed = [*given.pop("words"), *words_for("as", given.pop("answered_by"))]
    typed += [*words_for("st", status), "!st:running"] if status else []
    for name, field in _PATTERN_FIELDS.items():
        if any(map(is_pattern, given[name])):
            typed += words_for(field, given[name])
            given[name] = ()
    words = parse(" ".join(map(shell_word, typed)), now())
    since = _narrower(max, given.pop("since"), words.since)
    until = _narrower(min, given.pop("until"), words.until)
    if since is not None and until is not None and until <= since:
        ended, began = local_time(until), local_time(since)
        raise BadRequest(f"--until is before --since: from {began} to {ended}", param="until")
    failed = given.pop("errors") or None
    return CallQuery(failed=failed, query=msgspec.structs.replace(words, since=since, until=until), **given)


_PATTERN_FIELDS = {"token": "tok", "group": "grp", "model": "model", "channel": "ch", "app": "app", "api": "api"}
"""The filter words that take a pattern, by the options for exact names."""


async def find_calls(client: ControlClient, wanted: CallQuery, progress: ProgressLine) -> AsyncIterator[CallView]:
    """Yields matching calls: running ones first, then finished ones, newest end first.

    ``progress`` shows how far back the search has come.
    """
    before = None
    while True:
        page = await _page(client, progress, limit=500, before=before, **wanted.fields)
        for call in page.calls:
            yield call
        if page.cursor is None:
            return
        before = page.cursor


async def newest_calls(
    client: ControlClient, wanted: CallQuery, limit: int, progress: ProgressLine | None = None
) -> list[CallView]:
    """Returns the matching calls that began last, the newest first.

    The server lists calls by their ends. Once there are enough, only calls that began
    after the oldest of them are asked for.
    """
    newest: list[CallView] = []
    before, fields = None, wanted.fields
    while True:
        page = await _page(client, progress, limit=min(limit - len(newest) or 500, 500), before=before, **fields)
        calls = {call.id: call for call in (*newest, *page.calls)}.values()  # a running one may have ended meanwhile
        newest = sorted(calls, key=lambda call: call.time_ms, reverse=True)[:limit]
        if page.cursor is None:
            return newest
        before = page.cursor
        if len(newest) == limit:
            fields["since"] = newest[-1].time_ms + 1


async def first_calls(
    client: ControlClient, wanted: CallQuery, order: CallOrder, limit: int, progress: ProgressLine | None = None
) -> list[CallView]:
    """Returns the first ``limit`` matching calls in this order, without running ones."""
    first: list[CallView] = []
    before, fields = None, {"sort": order.key, "ascending": order.ascending or None, **wanted.fields}
    while True:
        page = await _page(client, progress, limit=limit, before=before, **fields)
        first = order.best([*first, *page.calls], limit)
        if page.cursor is None:
            return first
        before = page.cursor


async def _page(client: ControlClient, progress: ProgressLine | None, **asked: object) -> CallPage:
    page = await client.calls(**asked)
    if progress is not None and page.cursor is not None:
        progress.show(f"searched back to {local_time(page.back_to_ms)}, {count_text(page.left, 'call')} to go")
    return page


async def no_match_note(client: ControlClient, wanted: CallQuery) -> str:
    """Returns the note for an empty result, with the probable reason."""
    models = [model.name for model in await client.models()] if wanted.model else []
    missing = [name for name in wanted.model if name not in models]
    if wanted == CallQuery(model=wanted.model) and wanted.model and not missing:
        others = f"usage list {' '.join(f'--as {word(name)}' for name in wanted.model)}"
        return f"no matching calls; this model may have answered calls for other names: tollkeeper {others}"
    if not missing:
        return "no matching calls"
    return f"no matching calls; no channel offers model '{missing[0]}' now; there are: {', '.join(models) or 'none'}"


def _narrower(pick: Callable[..., Millis], *moments: Millis | None) -> Millis | None:
    """Returns the narrower of two bounds, either of which may be missing."""
    there = [moment for moment in moments if moment is not None]
    return pick(there) if there else None


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("words", nargs=-1),
    click.option(
        "--token",
        type=SOME,
        multiple=True,
        shell_complete=TOKENS,
        help="Calls with this token. Names may be patterns ('ci-*'), and may be repeated: --token a --token b.",
    ),
    click.option("--group", type=SOME, multiple=True, shell_complete=GROUPS, help="Calls in this group."),
    click.option("--model", type=SOME, multiple=True, shell_complete=MODELS, help="Calls for this model."),
    click.option(
        "--as",
        "answered_by",
        type=SOME,
        multiple=True,
        metavar="MODEL",
        help="Calls that went to this upstream model, whatever model they asked for.",
    ),
    click.option(
        "--channel", type=SOME, multiple=True, shell_complete=CHANNELS, help="Calls answered by this channel."
    ),
    click.option("--app", type=SOME, multiple=True, help="Calls by this client program."),
    click.option(
        "--api", type=SOME, multiple=True, help="Calls of this API: chat, messages, responses, embeddings, ..."
    ),
    click.option(
        "--status",
        type=SOME,
        multiple=True,
        metavar="STATUS",
        help="Calls that ended with this HTTP status: 429, 4xx, '>=400'.",
    ),
    click.option("--errors", is_flag=True, help="Calls that failed."),
    click.option(
        "--since",
        type=SINCE,
        help="1h, 7d, 14:00, today, yesterday, month, last-month, 2026-11, 2026-11-01, 2026-11-01T14:00 (local time).",
    ),
    click.option("--until", type=UNTIL, help="As --since; a day or a month counts to its end."),
)
