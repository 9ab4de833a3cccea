"""Why routes: the channels that could serve a planned call, and why each would be tried, passed over or not used."""

from collections.abc import Iterable, Iterator

import msgspec

from gateway.control.views import until_ms
from gateway.core.channel_limits import limit_check
from gateway.core.dry_run import DryRun, PlannedCall, native_channels
from gateway.core.engine import Engine
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.routing import NOTHING_TRIED, choose, place_text
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.diagnosis import RouteView
from gateway.domain.text import plain
from gateway.domain.views import conversion
from gateway.upstream.anthropic.cache_marks import marks_cache
from gateway.upstream.credentials import unset_text


def all_routes(engine: Engine, call: PlannedCall, entry: ModelEntry | None, outcome: DryRun) -> list[RouteView]:
    """Returns the channels of the model and of its fallbacks, then the unused ones, each with the conversion of the
    API's requests there. ``entry`` is the model, None if the token does not see it.
    """
    routes = list(_routes(engine, entry, outcome)) if entry is not None else []
    routes += _unused_routes(engine, call, {route.channel for route in routes})
    native = native_channels(call, engine.catalog, engine.now(), engine.pipeline.attempts.is_native)
    api = call.api.name
    return [
        msgspec.structs.replace(route, conversion=conversion(api, native=route.channel in native)) for route in routes
    ]


def without_unset(engine: Engine, entry: ModelEntry) -> ModelEntry:
    """Returns the model without the channels whose environment variables are not set, unless no others are left.

    A call skips such a channel without sending anything.
    """

    def usable(routes: Iterable[Route]) -> tuple[Route, ...]:
        return tuple(route for route in routes if not engine.upstreams.variables.blocking(route.channel))

    candidates = [msgspec.structs.replace(fallback, routes=usable(fallback.routes)) for fallback in entry.fallbacks]
    routes, fallbacks = usable(entry.routes), tuple(fallback for fallback in candidates if fallback.routes)
    if not (routes or fallbacks):
        return entry
    first_tier = usable(entry.first_tier) if len(routes) == len(entry.routes) else ()
    return msgspec.structs.replace(entry, routes=routes, fallbacks=fallbacks, first_tier=first_tier)


def _routes(engine: Engine, entry: ModelEntry, outcome: DryRun) -> Iterator[RouteView]:
    """Yields the channels of a model, then those of its fallbacks, with why a channel would be passed over."""
    need, first = outcome.need, outcome.choice.route if outcome.choice is not None else None
    tickets = limit_check(engine.limiter, need.rate_tokens if need is not None else 0)
    first_model = first.served.name if first is not None else ""
    for model in (entry, *entry.fallbacks):
        usable = without_unset(engine, model).routes
        choice = choose(usable, NOTHING_TRIED, engine.health, lambda _: 0, tickets)
        skip_reasons = {skipped.channel: skipped.reason for skipped in choice.skipped}
        chances = choice.chances() if model.name == first_model else {}
        for route in model.routes:
            passed = skip_reasons.get(route.channel.name, "")
            view = _route(engine, route.channel, model.name, route.served.upstream_name, passed)
            chance = round(chances.get(route.channel.id, 0.0), 4)
            last_resort = bool(chance and view.passed)
            yield msgspec.structs.replace(
                view, place=place_text(route, engine.health.latency), chance=chance, last_resort=last_resort
            )


def _unused_routes(engine: Engine, call: PlannedCall, listed: set[str]) -> Iterator[RouteView]:
    """Yields the channels that are not ``listed``, if they are in the token's group or offer the model."""
    model, token = call.model, call.token
    for channel in sorted(engine.catalog.registry.channels.values(), key=lambda c: (-c.priority, c.name)):
        upstream_model = next((served.upstream_name for served in channel.models if served.name == model), "")
        if channel.name not in listed and (upstream_model or token.group in channel.groups):
            yield _route(engine, channel, model, upstream_model, _exclusion_reason(channel, upstream_model, call))


def _exclusion_reason(channel: Channel, upstream_model: str, call: PlannedCall) -> str:
    """Returns why a channel is not one of the model's routes for this token."""
    if call.token.group not in channel.groups:
        return f"not in group '{plain(call.token.group)}'"
    if not channel.enabled:
        return "disabled"
    if not upstream_model:
        return "does not offer the model"
    return f"cannot answer {call.api.name}" if call.api.selective else "the model is hidden from the token"


def _route(engine: Engine, channel: Channel, model: str, upstream_model: str, passed: str) -> RouteView:
    """Returns a channel's view, without its place and chance. ``passed`` is why it is passed over; empty if it is
    not.
    """
    state = engine.channel_state(channel)
    served = ServedModel(name=model, upstream=upstream_model)
    return RouteView(
        channel=channel.name,
        model=model,
        upstream_model=upstream_model,
        priority=channel.priority,
        weight=channel.weight,
        place="",
        chance=0.0,
        state=state.name,
        reason=state.reason,
        until_ms=until_ms(engine, state),
        in_flight=engine.health.in_flight(channel.id),
        passed=passed or unset_text(engine.upstreams.variables.blocking(channel)),
        cache_marks=marks_cache(channel, engine.learned.of(channel.id, served, engine.now())),
        conversion="",
        last_resort=False,
    )
