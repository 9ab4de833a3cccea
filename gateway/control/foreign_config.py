"""Foreign configuration: translates another gateway's configuration, and merges it into the present one.

A foreign configuration has only some of our fields, and often no prices. Both are completed here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.core.config_export import entity_table
from gateway.core.importers import litellm, oneapi
from gateway.core.importers.base import ImportedConfig
from gateway.core.model_prices import channel_price
from gateway.domain.channel import Channel
from gateway.domain.config_codec import SECTIONS
from gateway.domain.config_views import ConfigOrigin
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_text, first_of
from gateway.domain.registry import Change, Registry, with_changes
from gateway.domain.text import plain
from gateway.domain.units import Millis

Document = Mapping[str, Any]

UNPRICED = "their calls are counted but not charged, and no budget stops them"


def translate(text: str, origin: ConfigOrigin) -> ImportedConfig:
    """Returns another gateway's configuration in our form. Raises BadRequest if it is not one of that gateway's."""
    try:
        source = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError) as exc:
        message = f"the file is not valid JSON: {plain(str(exc))}"
        raise BadRequest(message, code="bad_configuration", param="text") from exc
    if origin is not ConfigOrigin.LITELLM:
        return oneapi.convert(source, oneapi.ONE_API if origin is ConfigOrigin.ONE_API else oneapi.NEW_API)
    if not isinstance(source, Mapping) or not isinstance(source.get("model_list"), list):
        raise BadRequest("the file has no model_list, so it is not a LiteLLM configuration", code="bad_configuration")
    return litellm.convert(source)


def merge_document(document: Document, registry: Registry) -> Document:
    """Returns the document, in which entities that already exist keep the fields that it does not name."""
    merged = dict(document)
    for section in SECTIONS:
        if section.title and section.name in document:
            present = {getattr(e, section.title): e for e in getattr(registry, section.name).values()}
            merged[section.name] = {
                title: _merge_fields(entity_table(present[title], section), values) if title in present else values
                for title, values in document[section.name].items()
            }
    return merged


def _merge_fields(present: Document, values: Document) -> Document:
    """Returns the present fields, overridden by ``values``. A fallback overrides only the one for the same model."""
    fallbacks = [*values.get("fallbacks", ())]
    models = [fallback["model"] for fallback in fallbacks]
    fallbacks = [
        *(fallback for fallback in present.get("fallbacks", ()) if fallback["model"] not in models),
        *fallbacks,
    ]
    return {**present, **values, **({"fallbacks": fallbacks} if fallbacks else {})}


async def find_known_prices(
    channels: Sequence[Channel], before: Registry, after: Registry, now: Millis
) -> tuple[list[Channel], list[str]]:
    """Returns the imported channels whose new models got known prices, and notes about these and missing prices."""
    changed, notes, advice = [], [], "'tollkeeper price set MODEL' sets one"
    effect = "their calls are refused" if after.settings.refuse_unpriced else UNPRICED
    for channel in channels:
        old = before.channels.get(channel.id)
        names = {model.name for model in channel.models} - {model.name for model in (old.models if old else ())}
        priced = await with_known_prices(channel, names, after, now) if channel.known_prices else channel
        if added_prices := new_prices(priced, channel):
            changed.append(priced)
            after = with_changes(after, [Change("channels", channel.id, priced)])
            notes.append(
                f"channel '{plain(channel.name)}': {count_text(len(added_prices), 'price')} known to the program"
            )
        new_models = [model for model in priced.models if model.name in names]
        if missing := sorted(plain(m.name, 60) for m in new_models if channel_price(priced, m, after.prices) is None):
            models = first_of(missing, 5)
            notes.append(f"channel '{plain(channel.name)}': no price is known for {models}: {effect}; {advice}")
    return changed, notes
