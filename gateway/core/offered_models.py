"""Which models a channel offers, given what its upstream lists. Pure.

Models that the owner named are offered whether listed or not. A pattern selects only what the upstream lists.
"""

import msgspec

from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.patterns import NOT, matches
from gateway.domain.units import Millis


def offered_models(channel: Channel, listed: tuple[ServedModel, ...], now: Millis) -> Channel:
    """Returns the channel with the listed models that match its patterns, and with its owner's models as listed."""
    by_name = {model.name: model for model in listed}
    named = [
        _with_reported(model, by_name.get(model.upstream_name, model)) for model in channel.models if not model.live
    ]
    owner_names = {model.name for model in named}
    earlier = {model.name: model for model in channel.models}
    selected = [
        _selected_model(model, earlier.get(model.name, model), now)
        for model in listed
        if channel.patterns and model.name not in owner_names and matches(model.name, channel.patterns)
    ]
    return msgspec.structs.replace(channel, models=(*named, *selected))


def chosen_by_hand(before: Channel, after: Channel, *, sends_patterns: bool = False) -> Channel:
    """Returns the edited channel. Models that patterns had selected and the owner removed stay excluded.

    If more of them were removed than kept, the models that are left become a fixed list. ``sends_patterns``: the edit
    sets patterns; if it lists none of the models that patterns had selected, the patterns decide about all of them.
    """
    names_after = {model.name for model in after.models}
    if sends_patterns and after.patterns and not any(model.live for model in after.models):
        candidates = [model for model in before.models if model.live and model.name not in names_after]
        selected = [model for model in candidates if matches(model.name, after.patterns)]
        return msgspec.structs.replace(after, models=(*after.models, *selected))
    removed = [model.name for model in before.models if model.live and model.name not in names_after]
    selected = [model for model in after.models if model.live]
    if not removed or after.patterns != before.patterns:
        return after
    if len(removed) > len(selected):
        return fix_models(msgspec.structs.replace(after, patterns=()))
    return msgspec.structs.replace(after, patterns=(*after.patterns, *(NOT + name for name in removed)))


def fix_models(channel: Channel) -> Channel:
    """Returns the channel with models fixed that no pattern selects, or that have another name than the upstream's."""
    if not any(model.live for model in channel.models):
        return channel
    has_patterns = bool(channel.patterns)
    models = tuple(msgspec.structs.replace(m, live=m.live and has_patterns and not m.upstream) for m in channel.models)
    return msgspec.structs.replace(channel, models=models)


def newly_listed(
    before: UpstreamModels | None, channel: Channel, models: tuple[ServedModel, ...], now: Millis, unnamed: int = 0
) -> UpstreamModels:
    """Returns the new list, with the models that are new or gone since the last change. In a first list none is new."""
    if before is None or not before.time:
        return UpstreamModels(channel=channel.id, time=now, models=models, unnamed=unnamed)
    names_before, names = {model.name for model in before.models}, {model.name for model in models}
    new = tuple(model.name for model in models if model.name not in names_before)
    gone = tuple(model.name for model in before.models if model.name not in names)
    if not new and not gone:
        new, gone = before.new, before.gone
    return UpstreamModels(channel=channel.id, time=now, models=models, new=new, gone=gone, unnamed=unnamed)


def _selected_model(model: ServedModel, before: ServedModel, now: Millis) -> ServedModel:
    created = before.created or model.created or now
    return msgspec.structs.replace(model, live=True, created=created, price=before.price)


def _with_reported(model: ServedModel, listed: ServedModel) -> ServedModel:
    return msgspec.structs.replace(
        model,
        context=listed.context or model.context,
        max_output=listed.max_output or model.max_output,
        published=listed.published or model.published,
    )
