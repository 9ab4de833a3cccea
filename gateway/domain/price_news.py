"""Price news: how old the price list is, what an import would change, which prices will rise, and which upstreams
publish prices that differ from those in use.
"""

import msgspec

from gateway.domain.human_values import count_text, first_of
from gateway.domain.money import dollars
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos

LINES_PER_KIND = 3
"""How many rises, and how many published prices, get a line each."""


class PriceRise(msgspec.Struct, frozen=True, kw_only=True):
    """A price that rises on a known day, in nano-dollars per million tokens."""

    model: str
    since_ms: Millis
    day: str
    """The day in UTC: ``2026-12-01``."""
    input_nanos: Nanos
    output_nanos: Nanos
    next_input_nanos: Nanos
    next_output_nanos: Nanos


class PublishedPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A price that an upstream publishes and that differs from the one in use."""

    model: str
    channel: str
    input_nanos: Nanos
    output_nanos: Nanos
    published_input_nanos: Nanos
    published_output_nanos: Nanos


class PriceHint(msgspec.Struct, frozen=True, kw_only=True):
    """Why a channel's model has no list price."""

    model: str
    channel: str
    text: str
    """The reason, and the closest names that have a price."""


class PriceNews(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner should know about the prices."""

    as_of_ms: Millis | None = None
    """When the price list was last updated; None if there is none."""
    as_of: str = ""
    """The day of ``as_of_ms`` in UTC."""
    stale: bool = False
    raised: int = 0
    """The number of prices that an import would raise."""
    lowered: int = 0
    added: int = 0
    rises: list[PriceRise] = []
    published: list[PublishedPrice] = []
    hints: list[PriceHint] = []


def news_lines(news: PriceNews) -> list[str]:
    """Returns the news as lines, without the hints. Lines about many prices name the command that shows them."""
    lines = []
    if news.stale:
        lines.append(f"the price list of {news.as_of} is old; a newer tollkeeper has a newer one")
    counts = (("raise", news.raised), ("lower", news.lowered), ("add", news.added))
    if changes := [f"{verb} {count_text(count, 'price')}" for verb, count in counts if count]:
        lines.append(
            f"an import would {first_of(changes, len(changes))}: 'tollkeeper price import --dry-run' shows them"
        )
    lines += [
        f"'{plain(row.model)}' costs more from {row.day} on: {_amounts(row.next_input_nanos, row.next_output_nanos)} "
        f"instead of {_amounts(row.input_nanos, row.output_nanos)}"
        for row in news.rises[:LINES_PER_KIND]
    ]
    lines += [
        f"channel '{plain(row.channel)}' publishes {_amounts(row.published_input_nanos, row.published_output_nanos)} "
        f"for '{plain(row.model)}'; in use is {_amounts(row.input_nanos, row.output_nanos)}"
        for row in news.published[:LINES_PER_KIND]
    ]
    for kind, rows in (("rises", news.rises), ("published prices that differ", news.published)):
        if len(rows) > LINES_PER_KIND:
            lines.append(f"{len(rows) - LINES_PER_KIND:,} more {kind}: 'tollkeeper price news'")
    return lines


def _amounts(input_nanos: Nanos, output_nanos: Nanos) -> str:
    return f"{dollars(input_nanos)} / {dollars(output_nanos)}"
