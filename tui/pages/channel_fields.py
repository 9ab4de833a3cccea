"""Channel fields: texts about a channel's models, prices, headers and keys, for its forms, dialogs and messages.

Models are typed as names and patterns, or chosen from the upstream's list. The values of headers are secret and never
shown, unless they are references to variables.
"""

from collections.abc import Collection, Mapping

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_context, plural, state_word
from gateway.domain.incidents import reason_text
from gateway.domain.pair_kinds import HEADERS_EXAMPLE
from gateway.domain.patterns import NOT, is_pattern, matches
from gateway.domain.quoting import Offering, offering_of, offering_words
from gateway.domain.text import REFERENCE
from gateway.domain.upstream_views import ListedModel, ListingView, SavedChannel
from gateway.domain.views import ChannelView, KeyView
from tui import format as fmt
from tui.session import ConsoleSession
from tui.text import safe

STATES = ("new", "gone", "kept_out", "offered")
"""The states of listed models, the most interesting first."""


def offering_text(offering: Offering) -> str:
    """Returns the text that a user would type for an offering."""
    return ", ".join(offering_words(offering))


def models_options(offering: Offering) -> list[str]:
    """Returns the option of the command line for an offering. Raises BadRequest if the option cannot express it."""
    if ambiguous := next(
        (model.name for model in offering.models if is_pattern(model.name) and not model.upstream), None
    ):
        raise BadRequest(f"'{ambiguous}' is a model name, but the command line would read it as a pattern")
    return ["--models", ",".join(offering_words(offering)) or "*"]


def listing_options(listing: ListingView) -> list[tuple[str, str]]:
    """Returns the names and texts of all listed models, new and gone ones first."""
    rows = sorted(
        listing.models, key=lambda model: (STATES.index(model.state) if model.state in STATES else 9, model.name)
    )
    return [(model.name, _listed_text(model)) for model in rows]


def listing_summary(listing: ListingView) -> str:
    """Returns ``2 new, 1 gone, 12 not offered, 40 offered, 3 left out (names not usable)``."""
    states = [model.state for model in listing.models]
    parts = [f"{states.count(state):,} {state_word(state)}" for state in STATES if state in states]
    if listing.unnamed:
        parts.append(f"{listing.unnamed:,} left out ({plural(listing.unnamed, 'name')} not usable)")
    return ", ".join(parts)


def offering_with(view: ChannelView, listing: ListingView, chosen: Collection[str]) -> Offering:
    """Returns the offering of a channel with exactly the chosen models of its list; models outside the list stay. What
    is offered now is taken from the list, because ``view`` may be older. Exclusions keep patterns from selecting models
    that are not chosen.
    """
    offering = offering_of(view)
    listed_names = {model.name for model in listing.models}
    models = [m for m in offering.models if m.upstream_name not in listed_names or m.upstream_name in chosen]
    excluded = {pattern.removeprefix(NOT) for pattern in offering.patterns if pattern.startswith(NOT)}
    skipped = excluded | {model.upstream_name for model in models}
    available = [model for model in listing.models if model.state != "gone"]
    models += [
        ServedModel(name=model.name, context=model.context, max_output=model.max_output, told=model.told)
        for model in available
        if model.name in chosen and not model.served and model.name not in skipped
    ]
    patterns = [p for p in offering.patterns if not (p.startswith(NOT) and p.removeprefix(NOT) in chosen)]
    if offering.patterns:
        rejected = {model.name for model in available if model.served} - set(chosen)
        patterns += [f"{NOT}{name}" for name in sorted(rejected) if matches(name, view.patterns)]
    return Offering(models, patterns)


def _listed_text(model: ListedModel) -> str:
    public = f" as {safe(model.public)}" if model.public not in ("", model.name) else ""
    size = brief_context(model.known_context or model.context, model.context_source, " tokens")
    context = f"   {size}" if size else ""
    price = f"   {fmt.price(model.told.input)} / {fmt.price(model.told.output)} $/M list price" if model.told else ""
    return f"{state_word(model.state):<12}{safe(model.name)}{public}{context}{price}"


HEALTHY = ("ok", "off")
"""The states of channels that are not paused."""


def is_used_again(before: ChannelView, saved: SavedChannel) -> bool:
    """Returns whether the only effect is that a paused channel is tried again, because its key was entered again."""
    return saved.unchanged and before.state not in HEALTHY and saved.state in HEALTHY


def price_news(*saved: SavedChannel) -> str:
    """Returns lines about the known prices that new models got, and about new models without a price."""
    priced = [price for channel in saved for price in channel.new_prices]
    unpriced = [name for channel in saved if channel.dialect is not Dialect.MOCK for name in channel.unpriced]
    text = ""
    if priced:
        sources = ", ".join(dict.fromkeys(safe(price.source, 40) for price in priced))
        first = priced[0]
        rates = "free" if first.free else f"${fmt.price(first.input_nanos)} / ${fmt.price(first.output_nanos)}"
        more = f", and {len(priced) - 1} more" if len(priced) > 1 else ""
        text += f"\nPrices from {sources}: {safe(first.model, 40)} {rates}{more}. Page 5 changes them."
    if unpriced:
        verb = "has" if len(unpriced) == 1 else "have"
        effect = "calls are refused" if any(channel.refuses_unpriced for channel in saved) else "counted, not charged"
        text += f"\n{fmt.count_text(len(unpriced), 'model')} {verb} no price: {effect}. Page 5 sets prices."
    return text


def has_secrets(headers: Mapping[str, str]) -> bool:
    """Returns whether some values are secret, because they are not references to variables."""
    return not all(value.startswith(REFERENCE) for value in headers.values())


def headers_hint(headers: Mapping[str, str], *, copy: bool) -> str:
    """Returns the hint of the empty input: secret values stay, but a copy cannot have them."""
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
