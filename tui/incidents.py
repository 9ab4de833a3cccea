"""Incidents as text: what failed and when, how long it was paused, and where its calls went instead."""

from collections.abc import Sequence

from textual.content import Content

from gateway.domain.call import CHAT_API, FailureKind
from gateway.domain.incidents import ALL_SPENT, STORE, Incident, cause_text, effects_text
from tui import format as fmt, glyphs
from tui.text import Part, TextCard, content, safe


def timeline(incidents: Sequence[Incident], now: int, width: int) -> Content:
    """Returns all incidents, one to three lines each."""
    if not incidents:
        return content(("None: every channel answered the calls loaded here.", "ok"))
    card = TextCard(width, label=15)
    for incident in incidents:
        lasts = incident.lasts(now)
        tone = "warn" if lasts else "dim"
        if incident.paused and incident.until is None:
            tone = "bad"
        mark = glyphs.WARNING if lasts else glyphs.OK
        place = "the store" if incident.channel == STORE else safe(incident.channel, 40)
        subject = f"{safe(incident.budget, 80)}:" if incident.budget else place
        text = f" {failure_text(incident, now)}"
        card.row(fmt.moment(incident.began, now), (f"{mark} ", tone), (subject, "bold"), text)
        if incident.reason and not incident.budget:
            card.row("", (safe(incident.reason), "dim"))
        if effect := effect_part(incident):
            card.row("", effect)
    return card.content()


def incident_line(incident: Incident, now: int) -> str:
    """Returns an incident in one line, without its channel."""
    effect = effect_part(incident)
    return f"{fmt.moment(incident.began, now).strip()} {failure_text(incident, now)}{f' {effect[0]}' if effect else ''}"


def failure_text(incident: Incident, now: int) -> str:
    """Returns ``rate-limited 30s``, ``errors, 4 failures, the last at 14:02:10; retry in 12s``."""
    if incident.budget:
        return _budget_text(incident, now)
    if incident.channel == STORE:
        duration = fmt.countdown(0, incident.length_ms or 0)
        return "failing: calls are rejected" if incident.paused else f"failed for {duration}"
    text = cause_text(incident)
    if not incident.paused and (length := incident.length_ms or 0) >= 1_000:
        text += f" {fmt.countdown(0, length)}"
    if incident.failures > 1:
        text += f", {incident.failures:,} failures, the last at {fmt.moment(incident.last, now).strip()}"
    if set(incident.apis) - {CHAT_API}:
        apis = sorted(incident.apis.items(), key=lambda item: -item[1])
        text += f" (API: {', '.join(f'{safe(api)} {count:,}' for api, count in apis)})"
    if not incident.paused and incident.lasts(now):
        return f"{text}; no success since"
    if not incident.paused or incident.kind is FailureKind.UNSET:
        return text
    if incident.until is None:
        return "paused until resumed" if incident.kind is None else f"{text}; paused until resumed"
    return f"{text}; retry {f'in {fmt.countdown(now, incident.until)}' if incident.until > now else 'now'}"


def _budget_text(incident: Incident, now: int) -> str:
    """Returns how much of a budget is spent, since when if all of it is, and when that ends or has ended."""
    text = safe(incident.reason)
    if incident.reason == ALL_SPENT and incident.lasts(now):
        text += f" since {fmt.moment(incident.last, now).strip()}"
    end = incident.ended if incident.ended is not None else incident.until
    if end:
        text += f"; {'resets' if incident.lasts(now) else 'over since'} {fmt.moment(end, now).strip()}"
    return text


def effect_part(incident: Incident) -> Part | None:
    """Returns ``→ 12 calls retried at b, 3 at c; 1 failed; 7 refused``; None if no call was affected."""
    if not (text := effects_text(incident)):
        return None
    return f"{glyphs.RIGHT} {safe(text)}", "warn" if incident.unanswered or incident.refused else "ok"
