"""Which models a channel offers, given what its upstream lists. Pure.

Those the owner named are offered whether they are listed or not. A pattern lets in only what the upstream lists: names
are never made up.
"""

import msgspec

from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.patterns import NOT, matches
from gateway.domain.units import Millis


def offered_models(channel: Channel, listed: tuple[ServedModel, ...], now: Millis) -> Channel:
    """The channel with the models that match its patterns, and with what the upstream reports of the others."""
    there = {model.name: model for model in listed}
    named = [_with_reported(model, there.get(model.upstream_name)) for model in channel.models if not model.live]
    taken = {model.name for model in named}
    known = {model.name: model for model in channel.models}
    live = [
        _let_in(model, known.get(model.name), now)
        for model in listed
        if channel.patterns and model.name not in taken and matches(model.name, channel.patterns)
    ]
    return msgspec.structs.replace(channel, models=(*named, *live))


def chosen_by_hand(before: Channel, after: Channel, *, sends_patterns: bool = False) -> Channel:
    """The edited channel, where the owner took models away that patterns had let in: they stay out.

    Who took away more than stayed has chosen, and has the rest as a fixed list. ``sends_patterns``: the edit has
    patterns of its own; if it lists none of the models that patterns selected, the patterns decide on all of them.
    """
    kept = {model.name for model in after.models}
    if sends_patterns and after.patterns and not any(model.live for model in after.models):
        selected = [m for m in before.models if m.live and m.name not in kept and matches(m.name, after.patterns)]
        return msgspec.structs.replace(after, models=(*after.models, *selected))
    out = [model.name for model in before.models if model.live and model.name not in kept]
    live = [model for model in after.models if model.live]
    if not out or after.patterns != before.patterns:
        return after
    if len(out) > len(live):
        return fix_models(msgspec.structs.replace(after, patterns=()))
    return msgspec.structs.replace(after, patterns=(*after.patterns, *(NOT + name for name in out)))


def fix_models(channel: Channel) -> Channel:
    """The channel with its models for good: all if it has no patterns, else those that were given another name."""
    if not any(model.live for model in channel.models):
        return channel
    live = bool(channel.patterns)
    models = tuple(msgspec.structs.replace(m, live=m.live and live and not m.upstream) for m in channel.models)
    return msgspec.structs.replace(channel, models=models)


def newly_listed(
    before: UpstreamModels | None, channel: Channel, models: tuple[ServedModel, ...], now: Millis, unnamed: int = 0
) -> UpstreamModels:
    """The list that has just come, with what is new and gone since the last change. Nothing is new in a first list."""
    if before is None or not before.time:
        return UpstreamModels(channel=channel.id, time=now, models=models, unnamed=unnamed)
    was, names = {model.name for model in before.models}, {model.name for model in models}
    new = tuple(model.name for model in models if model.name not in was)
    gone = tuple(model.name for model in before.models if model.name not in names)
    if not new and not gone:
        new, gone = before.new, before.gone
    return UpstreamModels(channel=channel.id, time=now, models=models, new=new, gone=gone, unnamed=unnamed)


def _let_in(model: ServedModel, before: ServedModel | None, now: Millis) -> ServedModel:
    """A listed model with what is this home's own."""
    if before is None:
        return msgspec.structs.replace(model, live=True, created=model.created or now)
    created = before.created or model.created or now
    return msgspec.structs.replace(model, live=True, created=created, price=before.price)


def _with_reported(model: ServedModel, there: ServedModel | None) -> ServedModel:
    if there is None:
        return model
    return msgspec.structs.replace(
        model,
        context=there.context or model.context,
        max_output=there.max_output or model.max_output,
        told=there.told or model.told,
    )
