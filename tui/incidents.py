"""Incidents as text: when a channel failed, how long it was paused, and where its calls went instead."""

from collections.abc import Sequence

from textual.content import Content

from gateway.domain.call import CHAT_API, FailureKind
from gateway.domain.incidents import ALL_SPENT, STORE, Incident, cause_text, reason_text
from tui import format as fmt
from tui import glyphs
from tui.text import Part, TextCard, safe


def timeline(incidents: Sequence[Incident], now: int, width: int) -> Content:
    """Returns all incidents, two or three lines each."""
    card = TextCard(width, label=15)
    for one in incidents:
        lasts = one.lasts(now)
        tone = "bad" if one.paused and one.until is None else "warn" if lasts else "dim"
        mark = glyphs.WARNING if lasts else glyphs.OK
        name = safe(one.budget, 80) or ("the store" if one.channel == STORE else safe(one.channel, 40))
        colon = ":" if one.budget else ""
        card.row(fmt.moment(one.began, now), (f"{mark} ", tone), (name, "bold"), f"{colon} {what_failed(one, now)}")
        if one.reason and not one.budget:
            card.row("", (safe(reason_text(one.reason)), "dim"))
        if moved := where_calls_went(one):
            card.row("", moved)
    return card.content()


def incident_line(one: Incident, now: int) -> str:
    """Returns an incident on one line, without its channel."""
    moved = where_calls_went(one)
    return f"{fmt.moment(one.began, now).strip()} {what_failed(one, now)}{f' {moved[0]}' if moved else ''}"


def what_failed(one: Incident, now: int) -> str:
    """Returns ``rate-limited 30s``, ``errors, 4 failures, the last at 14:02:10; retry in 12s``."""
    if one.budget:
        over = one.ended if one.ended is not None else one.until
        what = "resets" if one.lasts(now) else "over since"
        since = f" since {fmt.moment(one.last, now).strip()}" if one.reason == ALL_SPENT and one.lasts(now) else ""
        return f"{safe(one.reason)}{since}{f'; {what} {fmt.moment(over, now).strip()}' if over else ''}"
    if one.channel == STORE:
        return "failing: calls are rejected" if one.paused else f"failed for {fmt.countdown(0, one.length_ms or 0)}"
    text = cause_text(one)
    if not one.paused and (length := one.length_ms or 0) >= 1_000:
        text += f" {fmt.countdown(0, length)}"
    if one.failures > 1:
        text += f", {one.failures:,} failures, the last at {fmt.moment(one.last, now).strip()}"
    if set(one.apis) - {CHAT_API}:
        text += f" (API: {', '.join(f'{safe(api)} {count:,}' for api, count in _most(one.apis))})"
    if not one.paused and one.lasts(now):
        return f"{text}; no success since"
    if not one.paused or one.kind is FailureKind.UNSET:
        return text
    if one.until is None:
        return "paused until resumed" if one.kind is None else f"{text}; paused until resumed"
    return f"{text}; retry {f'in {fmt.countdown(now, one.until)}' if one.until > now else 'now'}"


def where_calls_went(one: Incident) -> Part | None:
    """Returns ``→ 12 calls retried at b, 3 at c; 1 failed; 7 refused``; None if no call was affected."""
    parts = []
    if one.moved:
        (first, count), *rest = _most(one.moved)
        also = "".join(f", {number:,} at {safe(name, 40)}" for name, number in rest[:3])
        parts.append(f"{fmt.count_text(count, 'call')} retried at {safe(first, 40)}{also}")
    if one.unanswered:
        parts.append(f"{one.unanswered:,} failed" if parts else f"{fmt.count_text(one.unanswered, 'call')} failed")
    if one.refused:
        parts.append(f"{one.refused:,} refused" if parts else f"{fmt.count_text(one.refused, 'call')} refused")
    return (f"{glyphs.RIGHT} {'; '.join(parts)}", "warn" if one.unanswered or one.refused else "ok") if parts else None


def _most(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])
