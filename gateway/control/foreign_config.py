"""Foreign configuration: another gateway's, translated and merged into the present one.

It has few fields, and no prices if its gateway looks them up elsewhere. Both are completed here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.core.config_export import form
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

UNPRICED = "counted, not charged, and no budget stops them"


def translate(text: str, origin: ConfigOrigin) -> ImportedConfig:
    """Returns the translated configuration of another gateway. Raises BadRequest."""
    try:
        source = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadRequest(
            f"the file is not valid JSON: {plain(str(exc))}", code="bad_configuration", param="text"
        ) from exc
    if origin is not ConfigOrigin.LITELLM:
        return oneapi.convert(source, oneapi.ONE_API if origin is ConfigOrigin.ONE_API else oneapi.NEW_API)
    if not isinstance(source, Mapping) or not isinstance(source.get("model_list"), list):
        raise BadRequest("the file has no model_list, so it is not a LiteLLM configuration", code="bad_configuration")
    return litellm.convert(source)


def merge_document(document: Document, registry: Registry) -> Document:
    """Returns the document with the present fields of entities that already exist."""
    out = dict(document)
    for section in SECTIONS:
        if section.title and section.name in document:
            present = {getattr(e, section.title): e for e in getattr(registry, section.name).values()}
            out[section.name] = {
                title: _merge_fields(form(present[title], section), values) if title in present else values
                for title, values in document[section.name].items()
            }
    return out


def _merge_fields(present: Document, values: Document) -> Document:
    """Returns the present fields, replaced by the given ones. A fallback replaces only the fallback for the
    same model.
    """
    rules = [*values.get("fallbacks", ())]
    named = [rule["model"] for rule in rules]
    rules = [*(rule for rule in present.get("fallbacks", ()) if rule["model"] not in named), *rules]
    return {**present, **values, **({"fallbacks": rules} if rules else {})}


async def find_known_prices(
    channels: Sequence[Channel], before: Registry, after: Registry, now: Millis
) -> tuple[list[Channel], list[str]]:
    """Returns the imported channels that got known prices for their new models, and a note for each channel."""
    changed, notes, advice = [], [], "'tollkeeper price set MODEL' sets one"
    effect = "their calls are refused" if after.settings.refuse_unpriced else UNPRICED
    for channel in channels:
        old = before.channels.get(channel.id)
        names = {model.name for model in channel.models} - {model.name for model in (old.models if old else ())}
        priced = await with_known_prices(channel, names, after, now) if channel.known_prices else channel
        if new := new_prices(priced, channel):
            changed.append(priced)
            after = with_changes(after, [Change("channels", channel.id, priced)])
            notes.append(f"channel '{plain(channel.name)}': {count_text(len(new), 'price')} known to the program")
        new_ones = [model for model in priced.models if model.name in names]
        if missing := sorted(plain(m.name, 60) for m in new_ones if channel_price(priced, m, after.prices) is None):
            models = first_of(missing, 5)
            notes.append(f"channel '{plain(channel.name)}': no price is known for {models}: {effect}; {advice}")
    return changed, notes
