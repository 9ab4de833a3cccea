"""Price news: how old the price list is, what an import would change, which prices rise, and which upstreams publish
others than those in use.
"""

import msgspec

from gateway.domain.human_values import count_text, first_of
from gateway.domain.money import dollars
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos

NAMED = 3
"""Models that a line names."""


class PriceRise(msgspec.Struct, frozen=True, kw_only=True):
    """A price that goes up on a known day; nano-dollars per million tokens."""

    model: str
    since_ms: Millis
    day: str
    """``2026-12-01``, in UTC."""
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
    """Why a channel's model has no list price, and the closest names that have one."""

    model: str
    channel: str
    text: str


class PriceNews(msgspec.Struct, frozen=True, kw_only=True):
    """All that the owner should know of the prices."""

    as_of_ms: Millis | None = None
    """When the price list was last brought up to date; None without a list."""
    as_of: str = ""
    """The same as a day in UTC."""
    stale: bool = False
    raised: int = 0
    """Prices that an import would raise."""
    lowered: int = 0
    added: int = 0
    rises: list[PriceRise] = []
    published: list[PublishedPrice] = []
    hints: list[PriceHint] = []


def news_lines(news: PriceNews) -> list[str]:
    """What is worth a line, with the command that changes it."""
    lines = []
    if news.stale:
        lines.append(f"the price list of {news.as_of} is old; a newer tollkeeper has a newer one")
    counts = (("raise", news.raised), ("lower", news.lowered), ("add", news.added))
    if changes := [f"{verb} {count_text(count, 'price')}" for verb, count in counts if count]:
        lines.append(
            f"an import would {first_of(changes, len(changes))}: 'tollkeeper price import --dry-run' shows them"
        )
    lines += [
        f"'{plain(one.model)}' costs more from {one.day} on: {_pair(one.next_input_nanos, one.next_output_nanos)} "
        f"instead of {_pair(one.input_nanos, one.output_nanos)}"
        for one in news.rises[:NAMED]
    ]
    lines += [
        f"channel '{plain(one.channel)}' publishes {_pair(one.published_input_nanos, one.published_output_nanos)} for "
        f"'{plain(one.model)}'; in use is {_pair(one.input_nanos, one.output_nanos)}"
        for one in news.published[:NAMED]
    ]
    for what, found in (("rises", news.rises), ("published prices that differ", news.published)):
        if len(found) > NAMED:
            lines.append(f"{len(found) - NAMED:,} more {what}: 'tollkeeper price news'")
    return lines


def _pair(first: Nanos, second: Nanos) -> str:
    return f"{dollars(first)} / {dollars(second)}"
