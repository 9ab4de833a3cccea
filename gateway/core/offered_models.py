"""Offered models: selects the models of a channel from those that its upstream lists. Pure.

Models that the owner named are offered whether listed or not. A pattern selects only what the upstream lists.
"""

import msgspec

from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.patterns import NOT, matches
from gateway.domain.units import Millis


def offered_models(channel: Channel, listed: tuple[ServedModel, ...], now: Millis) -> Channel:
    """Returns the channel with the listed models that match its patterns, and with its owner's models as listed."""
    by_name = {model.name: model for model in listed}
    owners_models = (model for model in channel.models if not model.live)
    named = [_with_reported(model, by_name.get(model.upstream_name, model)) for model in owners_models]
    owner_names = {model.name for model in named}
    earlier = {model.name: model for model in channel.models}
    selected = [
        _selected_model(model, earlier.get(model.name, model), now)
        for model in listed
        if channel.patterns and model.name not in owner_names and matches(model.name, channel.patterns)
    ]
    return msgspec.structs.replace(channel, models=(*named, *selected))


def fit_to_patterns(before: Channel, after: Channel, *, sends_patterns: bool) -> Channel:
    """Returns the edited channel. Models are fixed if it has no patterns, or if they have names of their own.

    If the edit leaves out models that patterns had selected, the patterns that it sends may select them again. An edit
    without patterns excludes them.
    """
    names_after = {model.name for model in after.models}
    left_out = [model for model in before.models if model.live and model.name not in names_after]
    models, patterns = after.models, after.patterns
    if not sends_patterns:
        patterns = (*patterns, *(NOT + model.name for model in left_out))
    elif patterns:
        models = (*models, *(model for model in left_out if matches(model.name, patterns)))
    fixed = (msgspec.structs.replace(m, live=bool(m.live and patterns and not m.upstream)) for m in models)
    return msgspec.structs.replace(after, models=tuple(fixed), patterns=patterns)


def newly_listed(
    before: UpstreamModels | None, channel: Channel, models: tuple[ServedModel, ...], now: Millis, unnamed: int = 0
) -> UpstreamModels:
    """Returns the new list, with the models that came or went at the last change. In a first list no model is new."""
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
