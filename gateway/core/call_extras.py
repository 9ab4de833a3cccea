"""Call extras: what a call may be billed for in addition to plain text, read from its request before it is sent."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect, Overrides, ServedModel
from gateway.domain.cost import CallExtras, highest_cost
from gateway.domain.json_text import plain_escapes
from gateway.domain.media_size import NO_MEDIA
from gateway.domain.price import Price
from gateway.domain.units import MILLION, Nanos
from gateway.domain.usage import LONGEST_WRITE
from gateway.inbound.api import InboundRequest

_SEARCH_OPTIONS = ("web_search_options", "search_parameters", "plugins")
"""Fields that let a vendor search the web. A tool with ``search`` in its type or name does too."""
SEARCHES_HELD = 10
"""How many searches to hold for if a request allows them without a limit."""
_MAX_USES = re.compile(rb'"max_uses"\s*:\s*(\d{1,4})')


def call_extras(request: InboundRequest, offers: Iterable[tuple[Channel, ServedModel]], price: Price) -> CallExtras:
    """Returns what a call may be billed for in addition to text, given its request and its channels' parameters."""
    media = request.media is not NO_MEDIA or request.remote_input
    cached_12h = LONGEST_WRITE in price.extras and _may_cache_for_12h(request)
    variants: dict[str, None] = {}
    searches = _searches(request.fields)
    for channel, served in offers:
        variants |= dict.fromkeys(_variants_at(channel, request.fields))
        searches = searches or (SEARCHES_HELD if _always_searches(channel, served) else 0)
        cached_12h = cached_12h or "12h" in str(channel.overrides)
    pictures = request.media.pictures
    return CallExtras(media, cached_12h, searches, pictures, tuple(variants))


def _may_cache_for_12h(request: InboundRequest) -> bool:
    """Returns whether a request may ask for a cache lifetime of 12 hours. A large one is not searched, and may."""
    if request.input_estimate is not None:
        return True
    text = request.body or b"".join(map(bytes, request.fields.values()))
    return b'"12h"' in plain_escapes(text)


def _searches(fields: Mapping[str, msgspec.Raw]) -> int:
    tools = bytes(fields.get("tools", b""))
    if not any(name in fields for name in _SEARCH_OPTIONS) and b"search" not in tools.lower():
        return 0
    uses = [int(number) for number in _MAX_USES.findall(tools)]
    return sum(uses) if uses else SEARCHES_HELD


def _always_searches(channel: Channel, served: ServedModel) -> bool:
    name = served.upstream_name
    is_search_model = "search" in name or name.endswith(":online") or name.rpartition("/")[2].startswith("sonar")
    return is_search_model or ".perplexity.ai" in channel.base_url


def advice_cost(
    tools: bytes | msgspec.Raw,
    input_tokens: int,
    prices_of: Callable[[str], Iterable[Price]],
    variants: tuple[str, ...] = (),
) -> Nanos:
    """Returns the most that the advisor models among a request's tools may cost. They read the whole conversation.

    A tool without a number of uses counts as used three times, and one without an output limit as 4,096 tokens of
    output. ``variants`` are the price variants that may apply, beside the standard one.
    """
    if b'"advisor' not in plain_escapes(tools):
        return Nanos(0)
    try:
        tool_fields = rawjson.objects(tools)
    except ValueError:
        return Nanos(0)  # no vendor accepts such tools
    extras = CallExtras(variants=variants)
    total = 0
    for fields in tool_fields:
        if str(rawjson.maybe(fields.get("type"))).startswith("advisor"):
            uses, output = _count(fields, "max_uses", 3), _count(fields, "max_tokens", 4096)
            prices = prices_of(str(rawjson.maybe(fields.get("model"))))
            costs = (highest_cost(price, input_tokens, output, MILLION, extras) for price in prices)
            total += uses * max(costs, default=0)
    return Nanos(total)


def _count(fields: Mapping[str, msgspec.Raw], name: str, default: int) -> int:
    """Returns a count in a tool's fields, or the default if it is missing or malformed."""
    value = rawjson.maybe(fields.get(name))
    return value if type(value) is int and value >= 0 else default


_ANY_TIER = ("flex", "priority", "fast")
_TIERS_OF_ANSWER = {
    **dict.fromkeys(("default", "standard", "standard_only", "scale"), ()),
    **dict.fromkeys(("priority", "fast", "ultrafast"), ("priority", "fast")),
    "flex": ("flex",),
    "batch": ("batch",),
}
"""For each service tier in a request, the tiers that an upstream may report in its answer, beside the standard one. If
a request names none of these, or none at all, an OpenAI project's setting decides, which may be any."""


def _variants_at(channel: Channel, fields: Mapping[str, object]) -> Sequence[str]:
    tier, speed = (_outgoing_text(name, channel.overrides, fields) for name in ("service_tier", "speed"))
    if speed == "fast":
        return _ANY_TIER
    return _TIERS_OF_ANSWER.get(tier, _ANY_TIER if tier or channel.dialect is Dialect.OPENAI else ())


def _outgoing_text(name: str, overrides: Overrides | None, fields: Mapping[str, object]) -> str:
    """Returns the text of a field as it is sent to a channel; empty if it is not sent."""
    value = fields.get(name)
    if overrides is not None:
        value = None if name in overrides.remove else value
        value = overrides.set.get(name, overrides.default.get(name) if value is None else value)
    text = bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value or "")
    return text.strip('" ').lower()
