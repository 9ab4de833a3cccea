"""Reasons: what a call would get and why, as a text: the verdict, the rules one after the other, then the channels."""

from collections.abc import Iterator

from textual.content import Content

from gateway.domain.diagnosis import LimitView, PartyView, RouteView, Why
from gateway.domain.human_values import brief_multiplier
from gateway.domain.money import dollars
from gateway.domain.units import MILLION
from tui import format as fmt
from tui.alerts import used
from tui.budgets import brief, tone
from tui.card import Card
from tui.glyphs import Glyphs
from tui.pages.models_listing import price_text
from tui.safe import safe
from tui.tones import Part

GAUGE = 8
LABEL = 11
LONG = 1_000
"""Characters of a message that is to be read whole."""


def reasons(found: Why, now: int, glyphs: Glyphs, width: int) -> Content:
    """All of it, in lines of at most ``width`` cells."""
    card = Card(width, label=LABEL)
    _verdict(card, found, glyphs)
    card.line("")
    seen: Part = (glyphs.ok, "ok") if found.visible else (glyphs.failed, "bad")
    card.row("visible", seen, f" {safe(found.rule)}")
    factor = f"   group {safe(found.group, 40)} {brief_multiplier(found.multiplier)}"
    card.row("price", *price_text(found.price), factor if found.multiplier != MILLION else "")
    if found.hold_nanos is not None:
        most = f"{found.max_tokens:,}" if found.max_tokens else "as many as there may be"
        asked = f"   for {found.prompt_tokens:,} tokens in and {most} out"
        card.row("held", f"{dollars(found.hold_nanos)}", (asked, "dim"))
    for party in found.parties:
        _party(card, found, party, glyphs)
    card.line("")
    _routes(card, found, now, glyphs)
    return card.content()


def _verdict(card: Card, found: Why, glyphs: Glyphs) -> None:
    if found.works:
        card.row("verdict", (f"{glyphs.ok} it would be sent", "ok"))
        return
    card.row("verdict", (f"{glyphs.failed} {found.status} {safe(found.code)}", "bad"))
    card.row("", safe(found.message, LONG))
    if found.fix:
        card.row("", (f"{glyphs.right} {safe(found.fix, LONG)}", "key"))
    if found.retry_after_s is not None:
        card.row("", (f"waiting helps: {fmt.left(0, round(found.retry_after_s * 1000))}", "warn"))
    if found.then is not None:
        card.row("after that", (f"{glyphs.failed} {found.then.status} {safe(found.then.code)}", "bad"))
        card.row("", safe(found.then.message, LONG))
        if found.then.fix:
            card.row("", (f"{glyphs.right} {safe(found.then.fix, LONG)}", "key"))


def _party(card: Card, found: Why, party: PartyView, glyphs: Glyphs) -> None:
    """Its budgets, then its limits, a line each."""
    bare = "   no budget, no limit" if not (party.budgets or party.limits) else ""
    if party.kind == "account":
        card.row(party.kind, f"{dollars(found.available_nanos)} available")
    else:
        card.row(party.kind, safe(party.name, 40), (bare, "dim"))
    for budget in party.budgets:
        card.row("", (f"{budget.window.value:<5} {brief(budget, GAUGE, glyphs)}", tone(used(budget))))
    for limit in party.limits:
        card.row("", *_limit(limit))


def _limit(limit: LimitView) -> Iterator[Part]:
    yield f"{limit.left:,} of {limit.limit:,} {safe(limit.name)} left", "bad" if limit.left <= 0 else ""
    if limit.whole_in_ms:
        yield f", all again in {fmt.left(0, limit.whole_in_ms)}", "dim"


def _routes(card: Card, found: Why, now: int, glyphs: Glyphs) -> None:
    """Who would be asked, in order, and who not, with the reason."""
    label = "channels"
    for route in found.routes:
        asked = not route.passed
        mark: Part = (glyphs.on, "ok") if asked else (glyphs.failed, "warn")
        card.row(label, mark, (f" {safe(route.channel, 40)}", "bold"), *_route(route, found.model, now))
        label = ""
    if not found.routes:
        card.row(label, ("none: no channel is of this group, and none offers the model", "warn"))


def _route(route: RouteView, model: str, now: int) -> Iterator[Part]:
    if route.chance:
        yield f"   asked first {fmt.share(route.chance)}", "ok"
    if route.place:
        yield f"   {safe(route.place, 60)}", "dim"
    if route.state != "ok":
        rest = f" {fmt.left(now, route.until_ms)}" if route.until_ms is not None else ""
        yield f"   {safe(route.state.replace('_', ' '), 12)}{rest}", "warn"
    if route.in_flight:
        yield f"   {route.in_flight} running", "live"
    if route.model != model:
        yield f"   for {safe(route.model, 60)} instead", "dim"
    if route.upstream_model not in ("", route.model):
        yield f"   as {safe(route.upstream_model, 60)}", "dim"
    if route.passed:
        yield f"   {safe(route.passed, LONG)}", "warn"
