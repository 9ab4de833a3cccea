"""Tiers as people write them: ``200k=6/22.50`` is 6 dollars in and 22.50 out for inputs of more than 200,000 tokens.

Two more amounts may follow: cached input and cache write; without them the tier's input price applies.
"""

from gateway.domain.errors import BadRequest
from gateway.domain.money import dollars, nanos_of
from gateway.domain.price import Tier
from gateway.domain.units import Nanos
from gateway.domain.written import brief_count, count_of

AMOUNTS = (2, 3, 4)
"""How many a tier may have."""


def tier_of(text: str) -> Tier:
    """The tier of ``200k=6/22.50`` or ``200k=6/22.50/0.60/7.50``; raises BadRequest for anything else."""
    above, equals, rest = text.strip().partition("=")
    amounts = rest.split("/")
    if not equals or len(amounts) not in AMOUNTS:
        raise BadRequest(f"{text!r} is no price for longer inputs such as 200k=6/22.50, which is input/output")
    input_, output, *more = map(_amount, amounts)
    cached, write = [*more, None, None][:2]
    return Tier(above=count_of(above), input=input_, output=output, cached_input=cached, cache_write=write)


def tiers_of(text: str) -> list[Tier]:
    """Those of a text with spaces between them, shortest inputs first."""
    return sorted(map(tier_of, text.split()), key=lambda tier: tier.above)


def written_tier(tier: Tier) -> str:
    """As it is typed."""
    brief = brief_count(tier.above)
    above = brief if count_of(brief) == tier.above else str(tier.above)
    given = [tier.input, tier.output]
    if tier.cached_input is not None or tier.cache_write is not None:
        given.append(tier.input if tier.cached_input is None else tier.cached_input)
    if tier.cache_write is not None:
        given.append(tier.cache_write)
    return f"{above}={'/'.join(map(_plain, given))}"


def _amount(text: str) -> Nanos:
    nanos = nanos_of(text)
    if nanos < 0:
        raise BadRequest("a price is not negative")
    return nanos


def _plain(nanos: int) -> str:
    return dollars(nanos).replace("$", "").replace(",", "").removesuffix(".00")
