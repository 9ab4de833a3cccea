"""Price list: what vendors charge beside what is booked here, as a preview of which some is taken over."""

from collections.abc import Collection, Sequence

from gateway.domain.upstream_views import PriceProposal
from gateway.domain.views import PriceView
from tui import format as fmt
from tui.safe import safe

WORDS = {"new": "new", "up": "dearer", "down": "cheaper"}
ORDER = ("new", "up", "down")


def changes(found: Sequence[PriceProposal]) -> list[PriceProposal]:
    """Those that would change something, prices set by hand left out: new ones first."""
    wanted = [one for one in found if one.differs and not one.kept]
    return sorted(wanted, key=lambda one: (ORDER.index(one.change) if one.change in ORDER else 9, one.model))


def options(found: Sequence[PriceProposal]) -> list[tuple[str, str]]:
    """Ids, and what each would change."""
    return [(one.model, _said(one)) for one in found]


def usual(found: Sequence[PriceProposal]) -> list[str]:
    """Those that are taken over unless one decides otherwise: what looks wrong is not among them."""
    return [one.model for one in found if not one.guard]


def about(found: Sequence[PriceProposal]) -> str:
    """How many there are of each kind, and what to know of the list."""
    rows = changes(found)
    same = sum(not one.differs for one in found)
    kept = sum(one.kept and one.differs for one in found)
    told = [f"{len(rows)} would change, {same} are as listed"]
    if kept:
        told.append(f"{kept} that you set yourself stay{'s' if kept == 1 else ''}")
    text = f"{'; '.join(told)}. Dollars per million tokens, in / out."
    if any(one.listed.stale for one in found):
        text += "\nThe list is old: a newer tollkeeper has a newer one."
    return text


def guarded(found: Sequence[PriceProposal], on: Collection[str]) -> bool:
    """Whether something is chosen that is only taken over if it is accepted."""
    return any(one.guard for one in found if one.model in on)


def _said(one: PriceProposal) -> str:
    now = "no price" if one.now is None else _rates(one.now)
    tiers = f", {one.listed.tiers} for longer inputs" if one.listed.tiers else ""
    guard = f"   ! {safe(one.guard, 120)}" if one.guard else ""
    change = WORDS.get(one.change, safe(one.change, 12))
    return f"{change:<8}{safe(one.model)}   {now} > {_rates(one.listed)}{tiers}   {safe(one.channel, 24)}{guard}"


def _rates(price: PriceView) -> str:
    return "free" if price.free else f"{fmt.price(price.input_nanos)} / {fmt.price(price.output_nanos)}"
