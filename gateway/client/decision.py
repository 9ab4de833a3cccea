"""Decision: what would happen to a call and why, as labelled rows, which the console and ``why`` print above channels.

The texts contain names from outside: make them safe before they are drawn.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from gateway.client.receipt import DOT, FAILED, OK, WARNING, Part, ReceiptRow, price_parts
from gateway.domain.call import RequestSize
from gateway.domain.diagnosis import Obstacle, PartyView, Why
from gateway.domain.human_values import brief_multiplier, pause_text
from gateway.domain.money import dollars
from gateway.domain.price_view import price_range
from gateway.domain.text import word
from gateway.domain.units import MILLION
from gateway.domain.views import BudgetView

BudgetLines = Callable[[BudgetView], Iterable[Sequence[Part]]]
"""Returns the lines of a budget, one for dollars and one for tokens."""


def decision_rows(answer: Why, budget_lines: BudgetLines) -> Iterator[ReceiptRow]:
    """Yields the rows. ``budget_lines`` writes the budgets, which the console draws."""
    yield from _verdict_rows(answer)
    yield "visible", [(OK, "ok") if answer.visible else (FAILED, "bad"), (answer.rule, "")]
    if answer.fallbacks:
        yield "fallbacks", [(", ".join(answer.fallbacks), "")]
    for unused in answer.unused_fallbacks:
        yield "fallback", [(FAILED, "bad"), (f"{unused.model}: {unused.rule}", "")]
        yield from _fix_rows(unused.fix)
    yield from _cost_rows(answer)
    if answer.sticky and sum(bool(route.place) for route in answer.routes) > 1:
        yield "sticky", [("a conversation stays at the channel that answered it, although others come first", "")]
    if marked := [route.channel for route in answer.routes if route.cache_marks and route.chance]:
        effect = "prompts are marked for it where the client sets no marks: reading costs less, writing more"
        yield "cache", [(f"{effect}; 'tollkeeper channel edit {word(marked[0])} --no-cache-marks' stops that", "")]
    for party in answer.parties:
        yield from _party_rows(answer, party, budget_lines)


def _verdict_rows(answer: Why) -> Iterator[ReceiptRow]:
    if answer.works:
        resort = next((route.channel for route in answer.routes if route.last_resort), "")
        verdict = (f"{OK}it would be sent", "ok")
        if resort:
            verdict = (f"{WARNING}it would be sent to {resort}, although it is not healthy", "warn")
        yield "verdict", [verdict]
        yield from [("", [(answer.message, "dim")])] if answer.message else ()
        return
    first, *others = answer.obstacles
    yield from _obstacle_rows("verdict", first)
    if answer.retry_after_s is not None:
        yield "", [(f"retry in {pause_text(answer.retry_after_s)}", "warn")]
    for other in others:
        yield from _obstacle_rows("after that", other)


def _obstacle_rows(label: str, obstacle: Obstacle) -> Iterator[ReceiptRow]:
    """Yields an obstacle and what to do about it, with which the message may already end."""
    yield label, [(f"{FAILED}{obstacle.status} {obstacle.code}", "bad")]
    yield "", [(obstacle.message.removesuffix(obstacle.fix).rstrip("; "), "")]
    yield from _fix_rows(obstacle.fix)


def _fix_rows(fix: str) -> Iterator[ReceiptRow]:
    if fix:
        yield "", [(f"→ {fix}", "key")]


def _cost_rows(answer: Why) -> Iterator[ReceiptRow]:
    """Yields the price, and what is held for the call or how large it is."""
    times = f"   group {answer.group} {brief_multiplier(answer.multiplier)}" if answer.multiplier != MILLION else ""
    price = price_parts(answer.price, answer.model, refused=answer.refuses_unpriced)
    yield "price", [*price, (times if answer.price else "", "")]
    if answer.prices:
        yield "", [(f"{price_range(answer.prices)} at its channels", "dim")]
    if answer.hold_nanos is not None:
        highest = "; the highest of the model and its fallbacks" if answer.fallbacks else ""
        yield "held", [(f"{dollars(answer.hold_nanos)} for {answer.hold_text}{highest}", "")]
    elif answer.visible:
        yield "size", [(RequestSize(input=answer.prompt_tokens, max_output=answer.max_tokens).text(), "")]


def _party_rows(answer: Why, party: PartyView, budget_lines: BudgetLines) -> Iterator[ReceiptRow]:
    """Yields what is left of a party's money and limits."""
    bare = "no budgets, no limits" if not (party.budgets or party.limits) else ""
    if party.kind == "account":
        yield party.kind, [(f"{dollars(answer.available_nanos)} available", "")]
    else:
        yield party.kind, [(DOT.join(filter(None, (party.name, bare))), "")]
    yield from (("", line) for budget in party.budgets for line in budget_lines(budget))
    for limit in party.limits:
        again = f", all again in {pause_text(limit.whole_in_ms / 1000)}" if limit.whole_in_ms else ""
        text = f"{limit.left:,} of {limit.limit:,} {limit.name} left{again}"
        yield "", [(text, "" if limit.left > 0 else "bad")]
