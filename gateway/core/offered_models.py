"""Which models a channel offers, given what its upstream lists. Pure.

Models that the owner named are offered whether listed or not. A pattern selects only what the upstream lists: names are
never invented.
"""

import msgspec

from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.patterns import NOT, matches
from gateway.domain.units import Millis


def offered_models(channel: Channel, listed: tuple[ServedModel, ...], now: Millis) -> Channel:
    """Returns the channel with the models that match its patterns, and with what the upstream reports of the others."""
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
    """Returns the edited channel. Models that patterns had selected and the owner removed stay excluded.

    If more were removed than kept, the rest becomes a fixed list. ``sends_patterns``: the edit sets patterns; if it
    lists none of the models that patterns selected, the patterns decide on all of them.
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
    """Returns the channel with a fixed list of models: all if it has no patterns, else those with another name."""
    if not any(model.live for model in channel.models):
        return channel
    live = bool(channel.patterns)
    models = tuple(msgspec.structs.replace(m, live=m.live and live and not m.upstream) for m in channel.models)
    return msgspec.structs.replace(channel, models=models)


def newly_listed(
    before: UpstreamModels | None, channel: Channel, models: tuple[ServedModel, ...], now: Millis, unnamed: int = 0
) -> UpstreamModels:
    """Returns the new list, with what is new and gone since the last change. In a first list nothing is new."""
    if before is None or not before.time:
        return UpstreamModels(channel=channel.id, time=now, models=models, unnamed=unnamed)
    was, names = {model.name for model in before.models}, {model.name for model in models}
    new = tuple(model.name for model in models if model.name not in was)
    gone = tuple(model.name for model in before.models if model.name not in names)
    if not new and not gone:
        new, gone = before.new, before.gone
    return UpstreamModels(channel=channel.id, time=now, models=models, new=new, gone=gone, unnamed=unnamed)


def _let_in(model: ServedModel, before: ServedModel | None, now: Millis) -> ServedModel:
    """Returns a listed model with what belongs to this home."""
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
