"""Means: what a call needs beside a way: money, a rate, a channel that takes it: the doctor's last four questions.

The first three ask the gateway what it would do with the call that the last one makes: nothing is judged here.
"""

from gateway.client.caller import kind_of
from gateway.client.case import Case, Ill
from gateway.domain.errors import QuotaExceeded, RateLimited
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain
from gateway.domain.why import LimitView, Obstacle, RouteView, Why

UNPRICED = "model_price_missing"
_LIMITS = {"concurrent": "calls at once", "streams": "streams at once"}


async def quota(case: Case) -> str:
    """Whether there is money, and a price."""
    for obstacle in _obstacles(case.why):
        if obstacle.code == UNPRICED or issubclass(kind_of(obstacle.status, obstacle.code), QuotaExceeded):
            raise _ill(obstacle)
    price = case.why.price
    if price is None:
        return "no price is set: the call will cost nothing here"
    if price.free or not case.why.multiplier:
        return f"'{plain(case.model)}' is free" + ("" if price.free else f" in group '{plain(case.why.group)}'")
    rates = f"{brief_dollars(price.input_nanos)} and {brief_dollars(price.output_nanos)}"
    return f"{brief_dollars(case.why.available_nanos)} are available; a million tokens cost {rates} (input, output)"


async def limits(case: Case) -> str:
    """Whether token and group may call now."""
    for obstacle in _obstacles(case.why):
        if issubclass(kind_of(obstacle.status, obstacle.code), RateLimited):
            raise _ill(obstacle)
    told = [
        f"{party.kind} '{plain(party.name)}' has {', '.join(map(_left, party.limits))}"
        for party in case.why.parties
        if party.limits
    ]
    return "; ".join(told) or "there are no limits of calls or tokens"


async def ready(case: Case) -> str:
    """Whether a channel takes calls now."""
    if not case.why.works:
        raise _ill(_obstacles(case.why)[0])
    asked = [route for route in case.why.routes if route.place]
    takes = ", ".join(plain(route.channel) for route in asked if not route.passed)
    if not takes:
        return case.why.message
    return f"{takes} takes calls" + "".join(f"; {_rest(route)}" for route in asked if route.passed)


async def calls(case: Case) -> str:
    """Whether a plain and a streamed call get through."""
    whole = await case.client.call(await case.door.plain_call(case.model))
    took = f"a plain call took {whole.duration_ms} ms"
    try:
        call_id = await case.door.streamed_call(case.model)
    except RateLimited as error:
        if error.code != RateLimited.default_code:
            raise
        cost = dollars(whole.cost_nanos)
        return f"{took}, by channel '{whole.channel}', for {cost}; after it a limit lets no second one pass yet"
    streamed = await case.client.call(call_id)
    cost = dollars(whole.cost_nanos + streamed.cost_nanos)
    return f"{took}, a streamed one {streamed.duration_ms} ms, by channel '{streamed.channel}', for {cost} together"


def _obstacles(why: Why) -> list[Obstacle]:
    """In the order in which the call meets them."""
    first = Obstacle(status=why.status, code=why.code, message=why.message, fix=why.fix)
    return ([] if why.works else [first]) + ([why.then] if why.then is not None else [])


def _ill(obstacle: Obstacle) -> Ill:
    return Ill(obstacle.message, obstacle.fix, code=obstacle.code, status=obstacle.status)


def _left(limit: LimitView) -> str:
    return f"{limit.left:,} of {limit.limit:,} {_LIMITS.get(limit.name, plain(limit.name))} left"


def _rest(route: RouteView) -> str:
    return f"{plain(route.channel)} does not ({plain(route.passed)})"
