"""Timeline: incidents as lines of text: what failed when, how long it rested, and where the calls went meanwhile."""

from collections.abc import Sequence

from textual.content import Content

from tui import format as fmt
from tui.card import Card
from tui.glyphs import Glyphs
from tui.incidents import STORE, WORDS, Incident
from tui.safe import safe
from tui.tones import Part

LABEL = 15


def timeline(incidents: Sequence[Incident], now: int, glyphs: Glyphs, width: int) -> Content:
    """All of them, two or three lines each."""
    card = Card(width, label=LABEL)
    for one in incidents:
        tone = "bad" if one.resting and one.until is None else "warn" if one.resting else "dim"
        mark = glyphs.warning if one.resting else glyphs.ok
        name = "the store" if one.channel == STORE else safe(one.channel, 40)
        card.row(fmt.moment(one.began, now), (f"{mark} ", tone), (name, "bold"), f" {what(one, now)}")
        if one.reason:
            card.row("", (reason(one), "dim"))
        if moved := where(one, glyphs):
            card.row("", moved)
    return card.content()


def brief(one: Incident, now: int, glyphs: Glyphs) -> str:
    """The same on one line, without the channel."""
    moved = where(one, glyphs)
    return f"{fmt.moment(one.began, now).strip()} {what(one, now)}{f' {moved[0]}' if moved else ''}"


def what(one: Incident, now: int) -> str:
    """``rate-limited 30s``, ``errors, 4 times until 14:02:10; asked again in 12s``."""
    if one.channel == STORE:
        return "failed: no calls are taken" if one.resting else f"failed for {fmt.left(0, one.rested_ms or 0)}"
    told = "out" if one.kind is None else WORDS.get(one.kind, "failed")
    if not one.resting and (rested := one.rested_ms) is not None:
        told += f" {fmt.left(0, rested)}"
    if one.failures > 1:
        told += f", {one.failures:,} times until {fmt.moment(one.last, now).strip()}"
    if not one.resting:
        return told
    if one.until is None:
        return f"{told}; out until it is cleared"
    return f"{told}; asked again {f'in {fmt.left(now, one.until)}' if one.until > now else 'now'}"


def where(one: Incident, glyphs: Glyphs) -> Part | None:
    """``→ 12 calls moved to b, 3 to c; 1 was not answered``; None if no call was touched."""
    told = []
    if one.moved:
        (first, count), *rest = one.moved.most_common()
        also = "".join(f", {number:,} to {safe(name, 40)}" for name, number in rest[:3])
        told.append(f"{count:,} call{'' if count == 1 else 's'} moved to {safe(first, 40)}{also}")
    if one.lost:
        told.append(f"{one.lost:,} {'was' if one.lost == 1 else 'were'} not answered")
    return (f"{glyphs.right} {'; '.join(told)}", "warn" if one.lost else "ok") if told else None


def reason(one: Incident) -> str:
    """Why, without the channel's name in front of it."""
    return safe(one.reason.removeprefix(f"channel '{one.channel}': "))
