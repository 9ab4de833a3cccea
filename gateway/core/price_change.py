"""Price change: how a new price differs from the current one, and whether it is plausible. Pure."""

from collections.abc import Iterator

import msgspec

from gateway.domain.money import dollars
from gateway.domain.price import RATE_WORDS, TEXT_RATES, Price, Rates, rates
from gateway.domain.units import DAY_MS, DOLLAR, MILLION, Millis
from gateway.domain.usage import UNITS

UNIT_FACTOR = 10
"""A rate that changes by this factor, up or down, is probably in another unit."""
MIN_RATE, MAX_RATE = DOLLAR // 10_000, 1_000 * DOLLAR
"""The least and the most that a million tokens cost, if they cost anything."""
OLD_MS = 90 * DAY_MS
"""A list of this age is reported as old."""

_LABELS = {name: name.replace("_", " ") for name in TEXT_RATES} | {"long_write": "long cache write"}
_UNIT_LABELS = ("the call itself", *(RATE_WORDS[name] for name in UNITS))
"""The labels of rates that are not for a million tokens."""


def change_kind(now: Price | None, new: Price) -> str:
    """Returns ``new``, ``up`` if a rate rises or is added, ``down`` if rates only fall or are removed, or ``same``."""
    if now is None:
        return "new"
    pairs = [(before, after) for _, before, after in _pairs(now, new)]
    if any(after > before for before, after in pairs):
        return "up"
    if any(after < before for before, after in pairs):
        return "down"
    if new.extras.keys() - now.extras.keys() or len(new.rules) > len(now.rules):
        return "up"
    return "down" if differs(now, new) else "same"


def differs(now: Price | None, new: Price) -> bool:
    """Returns whether calls would cost something else."""
    return now is None or _amounts_only(now) != _amounts_only(new)


def implausibility(now: Price | None, new: Price) -> str:
    """Returns why the owner should check a new price before it is imported; empty if it looks plausible."""
    shortest = _rates_at(new, 0)
    amounts = {label: getattr(shortest, name) for name, label in _LABELS.items()}
    amounts |= {RATE_WORDS[name]: rate for name, rate in new.extras.items() if name not in UNITS}
    for label, amount in amounts.items():
        if amount and not MIN_RATE <= amount <= MAX_RATE:
            return f"{label} at {dollars(amount)} a million tokens looks like another unit"
    for name, before, after in _pairs(now, new) if now is not None else ():
        if jump := _jump_text(before, after):
            each = "each" if name in _UNIT_LABELS else "a million tokens"
            return f"{name} {jump}: from {dollars(before)} to {dollars(after)} {each}"
    return ""


def _jump_text(before: int, after: int) -> str:
    """Returns why a change of a rate is implausible; empty if it is not."""
    if before and not after:
        return "becomes free"
    if after and not before:
        return "was free"
    if after >= UNIT_FACTOR * before > 0 or before >= UNIT_FACTOR * after > 0:
        return "looks like another unit"
    return "rises steeply" if after > 2 * before else ""


def _pairs(now: Price, new: Price) -> Iterator[tuple[str, int, int]]:
    """Yields the name and the current and new amount of each rate, at each input length where either price changes."""
    for above in sorted({0, *(tier.above for tier in now.tiers), *(tier.above for tier in new.tiers)}):
        before, after = _rates_at(now, above), _rates_at(new, above)
        length = f" above {above} tokens" if above else ""
        for name, label in _LABELS.items():
            yield label + length, getattr(before, name), getattr(after, name)
        for name in sorted(now.extras):  # a rate that is only new is not a jump
            yield RATE_WORDS[name] + length, before.part(name), after.part(name)
    yield "the call itself", now.per_call, new.per_call


def _rates_at(price: Price, above: int) -> Rates:
    return rates(price, above + 1, MILLION)


def _amounts_only(price: Price) -> Price:
    """Returns the price without what does not change the cost of a call."""
    about = {"source": "", "updated": Millis(0), "as_of": Millis(0), "context": None, "context_source": ""}
    fees = (price.per_call if rule.per_call is None else rule.per_call for rule in price.rules)
    rules = (msgspec.structs.replace(rule, per_call=fee) for rule, fee in zip(price.rules, fees, strict=True))
    return msgspec.structs.replace(price, model="", rules=tuple(rules), **about)
