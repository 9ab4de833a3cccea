"""Views: what the owner's API shows, built from configuration, books, health of channels and sums of calls.

Keys, digests and header values are masked or left out here, so no view contains a secret.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from gateway.control.usage import Tallies
from gateway.core.channel_health import HealthState
from gateway.core.engine import Engine
from gateway.core.incident_watch import budget_use
from gateway.core.model_entry import answering_model
from gateway.core.model_prices import different_prices
from gateway.core.price_change import OLD_MS
from gateway.domain.account import AccountFields
from gateway.domain.budget import Budget
from gateway.domain.call import ACCOUNT, Scope
from gateway.domain.channel import Channel, ChannelFields, ServedModel
from gateway.domain.group import Group, GroupFields
from gateway.domain.key_owners import keys_of
from gateway.domain.price import Price, PriceDraft, in_force, without_past
from gateway.domain.price_view import PriceView
from gateway.domain.text import mask
from gateway.domain.token import Token, TokenFields, state_of
from gateway.domain.units import Millis, Nanos
from gateway.domain.urls import shown_proxy
from gateway.domain.views import AccountView, BudgetView, ChannelView, GroupView, KeyView, ModelView, TokenView
from gateway.store.rollup import Counts
from gateway.upstream.request_rules import is_rule

EntityView = TokenView | GroupView | ChannelView
ModelOffers = dict[str, list[tuple[Channel, ServedModel]]]
"""The channels that serve each model, in the order they are tried."""


def account_view(engine: Engine) -> AccountView:
    """Returns the view of the account."""
    registry, books = engine.catalog.registry, engine.store.books
    return AccountView(
        **_copy_fields(registry.account, AccountFields, "budgets"),
        granted_nanos=registry.granted,
        spent_nanos=books.spent(ACCOUNT).nanos,
        held_nanos=books.held(ACCOUNT).nanos,
        balance_nanos=books.balance(),
        available_nanos=books.available(),
        budgets=budget_views(engine, ACCOUNT, registry.account.budgets),
        begun_ms=min((grant.time for grant in registry.grants.values()), default=None),
    )


def entity_views(engine: Engine, kind: str, tallies: Tallies) -> list[EntityView]:
    """Returns the views of all tokens, groups or channels, by name."""
    entities = sorted(getattr(engine.catalog.registry, kind).values(), key=lambda entity: str(entity.name))
    return [entity_view(engine, entity, tallies) for entity in entities]


def entity_view(engine: Engine, entity: Token | Group | Channel, tallies: Tallies) -> EntityView:
    """Returns the view of a token, group or channel. Only the view of a channel needs ``tallies``."""
    if isinstance(entity, Token):
        return token_view(engine, entity)
    if isinstance(entity, Group):
        return group_view(engine, entity)
    return channel_view(engine, entity, tallies)


def token_view(engine: Engine, token: Token) -> TokenView:
    """Returns the view of a token."""
    scope: Scope = ("token", token.id)
    spent = engine.store.books.spent(scope)
    return TokenView(
        **_copy_fields(token, TokenFields, "budgets"),
        id=token.id,
        hint=token.hint,
        state=state_of(token, engine.now()).value,
        created_ms=token.created,
        last_used_ms=engine.store.books.last_used(token.id),
        calls=spent.calls,
        spent_nanos=spent.nanos,
        held_nanos=engine.store.books.held(scope).nanos,
        budgets=budget_views(engine, scope, token.budgets),
        sees=list(engine.catalog.visible(token)),
        waiting=_waiting(engine, "token", token.id),
        temporary=token.temporary,
        keys=tuple(keys_of(token, engine.catalog.registry)),
    )


def group_view(engine: Engine, group: Group) -> GroupView:
    """Returns the view of a group."""
    registry, now = engine.catalog.registry, engine.now()
    scope: Scope = ("group", group.id)
    spent = engine.store.books.spent(scope)
    channels = [c for c in registry.channels.values() if group.name in c.groups]
    return GroupView(
        **_copy_fields(group, GroupFields, "budgets"),
        sees=list(engine.catalog.group_models(group.name)),
        budgets=budget_views(engine, scope, group.budgets),
        tokens=sorted(t.name for t in registry.tokens.values() if t.group == group.name and not t.program_ended(now)),
        channels=[c.name for c in sorted(channels, key=lambda c: (-c.priority, c.name))],
        calls=spent.calls,
        spent_nanos=spent.nanos,
        created_ms=group.created,
        waiting=_waiting(engine, "group", group.id),
        id=group.id,
    )


def channel_view(engine: Engine, channel: Channel, tallies: Tallies) -> ChannelView:
    """Returns the view of a channel."""
    state, sums = engine.channel_state(channel), tallies["channel"].get(channel.id, Counts())
    listed = engine.catalog.registry.lists.get(channel.id)
    missing = engine.health.missing(channel.id).items()
    return ChannelView(
        **_copy_fields(channel, ChannelFields, "key", "keys", "headers", "proxy"),
        id=channel.id,
        dialect=channel.dialect,
        key=mask(channel.key),
        keys=_key_views(engine, channel),
        headers={name: mask(value) for name, value in channel.headers.items()},
        proxy=shown_proxy(channel.proxy),
        state=state.name,
        reason=state.reason,
        until_ms=pause_end(engine, state),
        in_flight=sum(call.channel == channel.id for call in engine.store.books.running.values()),
        calls=sums.calls,
        errors=sums.failures,
        spent_nanos=Nanos(sums.cost),
        possible_nanos=Nanos(sums.possible),
        created_ms=channel.created,
        last_check=channel.last_check,
        untested=channel.dialect.info.needs_url
        and sums.calls <= sums.errors + sums.refused
        and not (channel.last_check is not None and channel.last_check.ok),
        waiting=_waiting(engine, "channel", channel.id),
        listed_ms=(listed.time or None) if listed else None,
        list_error=listed.error if listed else "",
        missing_variables=tuple(engine.upstreams.variables.missing(channel)),
        refused_params=_refused_params(engine, channel),
        missing_models={name: Millis(engine.now() + round(left_s * 1000)) for name, left_s in missing},
    )


def _refused_params(engine: Engine, channel: Channel) -> tuple[str, ...]:
    """Returns the names of the fields that are left out of requests for at least one of the channel's models."""
    learned = (engine.learned.of(channel.id, served, engine.now()) for served in channel.models)
    return tuple(sorted({name for refusals in learned for name in refusals.dropped if not is_rule(name)}))


def _copy_fields(entity: msgspec.Struct, fields: type[msgspec.Struct], *omit: str) -> dict[str, Any]:
    """Returns the values of an entity's fields, except for those that the view shows in another form."""
    return {name: getattr(entity, name) for name in fields.__struct_fields__ if name not in omit}


def _key_views(engine: Engine, channel: Channel) -> tuple[KeyView, ...]:
    """Returns the views of a channel's keys. An only key has the state of the channel."""
    keys = zip(channel.all_keys, engine.key_states(channel), strict=True)
    return tuple(
        KeyView(number=number, key=mask(key), state=state.name, reason=state.reason, until_ms=pause_end(engine, state))
        for number, (key, state) in enumerate(keys, start=1)
    )


def pause_end(engine: Engine, state: HealthState) -> Millis | None:
    """Returns when the pause ends, by the wall clock; None if it is not paused."""
    return Millis(engine.now() + round(state.left_s * 1000)) if state.left_s else None


def _waiting(engine: Engine, kind: str, key: str) -> int:
    queues = engine.limiter.concurrency
    return queues.waiting((kind, key)) + queues.waiting((f"{kind} streams", key))


def price_view(price: Price, now: Millis, model: str = "", *, channel: str = "") -> PriceView:
    """Returns the view of a price. ``model`` is another name with that price, ``channel`` the only one that has it."""
    model = model or price.model
    price = without_past(price, now)
    return PriceView(
        **_copy_fields(price, PriceDraft),
        model=model,
        inherited_from=price.model if price.model != model else "",
        free=price.free,
        source=price.source,
        updated_ms=price.updated,
        tier_count=len(price.tiers),
        as_of_ms=price.as_of or None,
        stale=bool(price.as_of) and now - price.as_of > OLD_MS,
        context=price.context,
        channel=channel,
    )


def model_views(engine: Engine, tallies: Tallies, token: Token | None = None, *, only: str = "") -> list[ModelView]:
    """Returns the views of all models, by name: those that channels serve, and aliases in groups.

    With ``token`` these are only the models that it sees, at the prices that it pays; with ``only``, one model.
    """
    catalog, offers = engine.catalog, ModelOffers()
    for channel in sorted(catalog.registry.channels.values(), key=lambda c: (-c.priority, c.name)):
        for model in channel.models:
            offers.setdefault(model.name, []).append((channel, model))
    if token is not None:
        names = {*catalog.visible(token)}
    else:
        names = {*offers, *chain(*map(catalog.group_models, catalog.registry.groups))}
    return [
        _model_view(engine, name, offers, tallies["model"].get(name, Counts()), token)
        for name in ([only] if only else sorted(names))
    ]


def _model_view(engine: Engine, name: str, all_offers: ModelOffers, sums: Counts, token: Token | None) -> ModelView:
    """Returns the view of a model. An alias has the channels and the price of the model that it stands for."""
    catalog = engine.catalog
    groups = [group for group in sorted(catalog.registry.groups) if name in catalog.group_models(group)]
    visible = catalog.group_models(groups[0]) if groups else {}
    if token is not None:
        visible = catalog.visible(token)
    entry = visible.get(name)
    answering = answering_model(entry) if entry is not None else None
    target = answering.name if answering is not None and answering is not entry and name not in all_offers else ""
    offers = all_offers.get(target or name, ())
    if token is None or entry is None:
        payer, price = None, catalog.price(target or name)
    else:
        payer, price = catalog.registry.groups.get(token.group), catalog.price_for(entry, token)
    context = next((model.context for _, model in offers if model.context), None)
    prices = [in_force(other, engine.now()) for other in answering.effects.prices] if answering is not None else []
    return ModelView(
        name=name,
        channels=[] if target else [channel.name for channel, _ in offers],
        stands_for=target,
        groups=groups,
        context=catalog.context(target or name, context),
        context_source=catalog.context_source(target or name, context),
        published=next((model.published for _, model in offers if model.published), None),
        price=price_view(price, engine.now(), name) if price is not None else None,
        prices=[price_view(other, engine.now(), name) for other in different_prices(prices, payer)],
        calls=sums.admitted,
        spent_nanos=Nanos(sums.cost),
    )


def budget_views(engine: Engine, scope: Scope, budgets: Iterable[Budget]) -> tuple[BudgetView, ...]:
    """Returns the views of budgets, with the amounts used in their current windows."""
    return tuple(budget_use(engine.store.books, scope, budgets, engine.now()))
