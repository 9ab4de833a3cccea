"""Channel fields: the special fields of a channel's form: models, headers, mock options, overrides; and the states of
its keys.

Models are typed as names and patterns, or chosen from a list. Header values are secret unless they are references: they
are never shown.
"""

from collections.abc import Collection, Mapping

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_context, plural
from gateway.domain.incidents import reason_text
from gateway.domain.offering import Offering, offering_of, offering_words
from gateway.domain.pair_kinds import HEADERS_EXAMPLE
from gateway.domain.patterns import NOT, is_pattern, matches
from gateway.domain.text import REFERENCE
from gateway.domain.upstream_views import ListedModel, ListingView, SavedChannel
from gateway.domain.views import ChannelView, KeyView
from tui import format as fmt
from tui.session import ConsoleSession
from tui.text import safe

ORDER = ("new", "gone", "kept_out", "offered")
"""The states of models, the most interesting first."""

STATE_NAMES = {"new": "new", "gone": "gone", "kept_out": "not offered", "offered": "offered"}


def offering_text(found: Offering) -> str:
    """Returns the text that a user would type for it."""
    return ", ".join(offering_words(found))


def models_options(found: Offering) -> list[str]:
    """Returns the option that offers the same. Raises BadRequest if none can."""
    if odd := next((model.name for model in found.models if is_pattern(model.name) and not model.upstream), None):
        raise BadRequest(f"'{odd}' is a model name, but the command line would read it as a pattern")
    return ["--models", ",".join(offering_words(found)) or "*"]


def listing_options(listing: ListingView) -> list[tuple[str, str]]:
    """Returns ids and texts of all listed models, new and gone ones first."""
    rows = sorted(listing.models, key=lambda one: (ORDER.index(one.state) if one.state in ORDER else 9, one.name))
    return [(one.name, _listed_text(one)) for one in rows]


def listing_summary(listing: ListingView) -> str:
    """Returns ``2 new, 1 gone, 12 not offered, 40 offered, 3 left out (names not usable)``."""
    states = [one.state for one in listing.models]
    parts = [f"{states.count(state):,} {STATE_NAMES[state]}" for state in ORDER if state in states]
    if listing.unnamed:
        parts.append(f"{listing.unnamed:,} left out ({plural(listing.unnamed, 'name')} not usable)")
    return ", ".join(parts)


def offering_with(view: ChannelView, listing: ListingView, on: Collection[str]) -> Offering:
    """Returns the offering if exactly these models of the list are selected; models outside the list stay.

    If patterns select a name that is not wanted, a pattern for that name excludes it. The list says what is offered,
    not ``view``, which may be older: patterns also select new models.
    """
    now, rows = offering_of(view), {one.name: one for one in listing.models}
    models = [one for one in now.models if one.upstream_name not in rows or one.upstream_name in on]
    kept_out = {pattern.removeprefix(NOT) for pattern in now.patterns if pattern.startswith(NOT)}
    there = {one.upstream_name for one in models}
    models += [
        ServedModel(name=one.name, context=one.context, max_output=one.max_output, told=one.told)
        for one in listing.models
        if one.name in on and not one.served and one.state != "gone" and one.name not in kept_out | there
    ]
    selected = {one.name for one in listing.models if one.served and one.state != "gone"} if now.patterns else set()
    out = sorted(name for name in selected - set(on) if matches(name, view.patterns))
    patterns = [p for p in now.patterns if not (p.startswith(NOT) and p.removeprefix(NOT) in on)]
    return Offering(models, [*patterns, *(f"{NOT}{name}" for name in out)])


def _listed_text(one: ListedModel) -> str:
    public = f" as {safe(one.public)}" if one.public not in ("", one.name) else ""
    size = brief_context(one.known_context or one.context, one.context_source, " tokens")
    context = f"   {size}" if size else ""
    price = f"   {fmt.price(one.told.input)} / {fmt.price(one.told.output)} $/M list price" if one.told else ""
    return f"{STATE_NAMES.get(one.state, one.state):<12}{safe(one.name)}{public}{context}{price}"


HEALTHY = ("ok", "off")
"""The states of channels that are not paused."""


def is_used_again(before: ChannelView, saved: SavedChannel) -> bool:
    """Returns whether the only effect is that a paused channel is tried again, because its key was entered again."""
    return saved.unchanged and before.state not in HEALTHY and saved.state in HEALTHY


def price_news(*saved: SavedChannel) -> str:
    """Returns sentences about the known prices that new models got, and about new models without a price."""
    priced = [price for one in saved for price in one.new_prices]
    unpriced = [name for one in saved if one.dialect is not Dialect.MOCK for name in one.unpriced]
    text = ""
    if priced:
        sources = ", ".join(dict.fromkeys(safe(price.source, 40) for price in priced))
        first = priced[0]
        rates = "free" if first.free else f"${fmt.price(first.input_nanos)} / ${fmt.price(first.output_nanos)}"
        more = f", and {len(priced) - 1} more" if len(priced) > 1 else ""
        text += f"\nPrices from {sources}: {safe(first.model, 40)} {rates}{more}. Page 5 changes them."
    if unpriced:
        verb = "has" if len(unpriced) == 1 else "have"
        effect = "calls are refused" if any(one.refuses_unpriced for one in saved) else "counted, not charged"
        text += f"\n{fmt.count_text(len(unpriced), 'model')} {verb} no price: {effect}. Page 5 sets prices."
    return text


def has_secrets(headers: Mapping[str, str]) -> bool:
    """Returns whether some values are not references to variables: these are masked."""
    return not all(value.startswith(REFERENCE) for value in headers.values())


def headers_hint(headers: Mapping[str, str], *, copy: bool) -> str:
    """Returns what an empty input means: secret values stay, but a copy cannot have them."""
    if not has_secrets(headers):
        return f"none, or {HEADERS_EXAMPLE}"
    names = ", ".join(safe(name, 40) for name in headers)
    return f"{names}: secret, not copied; enter all, or none" if copy else f"{names} kept; or enter all again, or none"


def key_trouble(key: KeyView, session: ConsoleSession) -> str:
    """Returns why a key is not in use, and until when; empty if it is in use."""
    if key.state == "ok":
        return ""
    state = safe(fmt.channel_state(key.state, key.until_ms, session.now()))
    return f"{state}: {session.advice(safe(reason_text(key.reason)))}" if key.reason else state
