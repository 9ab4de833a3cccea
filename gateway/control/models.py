"""Models: the public models, with the channels that serve them, the tokens that see them, and their prices."""

from collections.abc import Iterator

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.control.usage import tallies
from gateway.control.views import model_views, price_view
from gateway.core.channel_health import HealthState
from gateway.core.engine import Engine
from gateway.core.group_models import known_limit
from gateway.core.model_entry import ModelEntry, answering_model
from gateway.core.model_prices import channel_price, in_order
from gateway.core.routing import place_text
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import NotFound
from gateway.domain.human_values import pause_text
from gateway.domain.patterns import near_names
from gateway.domain.registry import Registry
from gateway.domain.text import plain
from gateway.domain.upstream_views import ModelDetail, ModelRoute
from gateway.domain.views import ModelView


async def list_models(edits: ConfigEdits, request: web.Request) -> list[ModelView]:
    """GET /models[?token=REF]: all models, or those that a token sees, with the prices it pays and its calls."""
    engine, ref = edits.engine, query(request.query, {"token": str}).get("token")
    token = engine.catalog.token(ref) if ref else None
    return model_views(engine, await tallies(engine, token.id if token else None), token)


async def show_model(edits: ConfigEdits, request: web.Request) -> ModelDetail:
    """GET /models/{model}: one model with its channels, in the order of use, the tokens that see it, and its prices."""
    engine, name = edits.engine, request.match_info["model"]
    catalog, registry = engine.catalog, engine.catalog.registry
    offers = [(c, m) for c in in_order(registry.channels.values()) for m in c.models if m.name == name]
    in_groups = {group: catalog.group_models(group).get(name) for group in sorted(registry.groups)}
    entries = {group: entry for group, entry in in_groups.items() if entry is not None}
    if not entries and not offers and name not in registry.prices:
        raise _unknown_model(registry, name)
    (view,) = model_views(engine, await tallies(engine), only=name)
    routes = [route for group, entry in entries.items() for route in _routes_in_order(engine, group, entry)]
    listed = {route.channel for route in routes}
    routes += [_model_route(engine, channel, served) for channel, served in offers if channel.name not in listed]
    tokens = [token for token in registry.tokens.values() if not token.program_ended(edits.now)]
    return ModelDetail(
        **{field: getattr(view, field) for field in view.__struct_fields__},
        max_output=next((answering_model(entry).max_output for entry in entries.values()), None),
        fallbacks={group: [other.name for other in entry.fallbacks] for group, entry in entries.items()},
        tokens=sorted(token.name for token in tokens if name in catalog.visible(token)),
        routes=routes,
        refuses_unpriced=registry.settings.refuse_unpriced,
    )


def _unknown_model(registry: Registry, name: str) -> NotFound:
    known = {model.name for channel in registry.channels.values() for model in channel.models}
    near = ", ".join(f"'{plain(other)}'" for other in near_names(name, tuple(known)))
    hint = f"did you mean {near}?" if near else "'tollkeeper model list' lists the models"
    return NotFound(f"no model '{plain(name)}'; {hint}", param="model")


def _routes_in_order(engine: Engine, group: str, entry: ModelEntry) -> Iterator[ModelRoute]:
    tiers = sorted({route.rank.tier for route in entry.routes})
    for route in entry.routes:
        view = _model_route(engine, route.channel, route.served)
        order, place = tiers.index(route.rank.tier) + 1, place_text(route, engine.health.latency)
        yield msgspec.structs.replace(view, group=group, order=order, place=place)


def _model_route(engine: Engine, channel: Channel, served: ServedModel) -> ModelRoute:
    """Returns the view of a channel that serves a model, without a group and its order."""
    price = channel_price(channel, served, engine.catalog.registry.prices)
    state, missing_s = engine.channel_state(channel), engine.health.missing(channel.id).get(served.name, 0.0)
    if state.name == "ok" and missing_s:
        state = HealthState("cooling", f"does not have the model, is tried again in {pause_text(missing_s)}")
    return ModelRoute(
        channel=channel.name,
        dialect=channel.dialect.value,
        upstream_model=served.upstream_name,
        state=state.name,
        reason=state.reason,
        weight=channel.weight,
        limits=channel.limits,
        context=engine.catalog.context(served.name, served.context),
        context_source=engine.catalog.context_source(served.name, served.context),
        max_output=known_limit(channel, next(model for model in channel.models if model.name == served.name)),
        price=None if price is None else price_view(price, engine.now(), served.name),
    )
