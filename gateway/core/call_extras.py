"""Call extras: what a call may be billed for in addition to plain text, read from its request before it is sent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
from gateway.upstream.vendors import OPENAI, vendor_of

_SEARCH_OPTIONS = ("web_search_options", "search_parameters", "plugins")
"""Fields that let a vendor search the web. A tool with ``search`` in its type or name does too."""
SEARCHES_HELD = 10
"""How many searches to hold for if a request allows them without a limit."""
_CLIENT_TOOLS = frozenset({"function", "custom"})
"""The types of tools that the client itself runs."""


def call_extras(
    request: InboundRequest, offers: Iterable[tuple[Channel, ServedModel]], prices: Sequence[Price]
) -> CallExtras:
    """Returns what a call may be billed for in addition to text, given its request and its channels' parameters."""
    media = request.bound.media is not NO_MEDIA or request.remote_input
    cached_12h = any(LONGEST_WRITE in price.extras for price in prices) and _may_cache_for_12h(request)
    variants: dict[str, None] = {}
    searches = _searches(request.fields)
    for channel, served in offers:
        variants |= dict.fromkeys(_variants_at(_sent_fields(request, channel), channel))
        searches = max(searches, SEARCHES_HELD if _always_searches(channel, served) else 0)
        cached_12h = cached_12h or "12h" in str(channel.overrides)
    pictures = request.bound.media.pictures
    return CallExtras(media, cached_12h, searches, pictures, tuple(variants))


def _may_cache_for_12h(request: InboundRequest) -> bool:
    """Returns whether a request may ask for a cache lifetime of 12 hours. A large one is not searched, and may."""
    if request.input_estimate is not None:
        return True
    text = request.body or b"".join(map(bytes, request.fields.values()))
    return b'"12h"' in plain_escapes(text)


def _searches(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns the maximum number of searches to hold for. Each tool of the vendor has its own limit, or none."""
    tools = fields.get("tools", rawjson.NULL)
    searches = SEARCHES_HELD if any(name in fields for name in _SEARCH_OPTIONS) else 0
    if b"search" not in plain_escapes(tools).lower():
        return searches
    search_tools = (tool for tool in rawjson.maybe_objects(tools) or () if _may_search(tool))
    return searches + sum(_count(tool, "max_uses", SEARCHES_HELD) for tool in search_tools)


def _may_search(tool: rawjson.Fields) -> bool:
    """Returns whether the vendor searches with this tool, judging by its type, its name or a field."""
    kind = rawjson.text_at(tool.get("type")) or ("custom" if "input_schema" in tool else "")
    return kind not in _CLIENT_TOOLS and "search" in f"{kind} {rawjson.text_at(tool.get('name'))} {[*tool]}".lower()


def _always_searches(channel: Channel, served: ServedModel) -> bool:
    name, overrides = served.upstream_name, channel.overrides
    if overrides is not None:
        parameters = {**overrides.default, **overrides.set}
        if any(name in parameters for name in _SEARCH_OPTIONS) or "search" in str(parameters.get("tools")).lower():
            return True
    is_search_model = "search" in name or name.endswith(":online") or name.rpartition("/")[2].startswith("sonar")
    return is_search_model or ".perplexity.ai" in channel.base_url


def other_models(fields: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    """Yields the names of the other models that a request lets its upstream use, in fields of OpenRouter's too."""
    yield from (model for model, _, _ in (*_advisors(fields), *_fallbacks(fields, 0)))
    for field in ("models", "fallbacks"):
        yield from (name for name in rawjson.list_at(fields.get(field)) if isinstance(name, str))


def other_models_cost(
    fields: Mapping[str, msgspec.Raw],
    input_tokens: int,
    output_tokens: int,
    prices_of: Callable[[str], Iterable[Price]],
    variants: tuple[str, ...] = (),
) -> Nanos:
    """Returns the most that the other models which a request names may cost. Each reads the whole conversation.

    Fallbacks may answer one after another, each with as much output as the call. ``variants`` are the price variants
    that may apply in addition to the standard one.
    """
    extras = CallExtras(variants=variants)
    total = 0
    for model, uses, output in (*_advisors(fields), *_fallbacks(fields, output_tokens)):
        costs = (highest_cost(price, input_tokens, output, MILLION, extras) for price in prices_of(model))
        total += uses * max(costs, default=0)
    return Nanos(total)


def _advisors(fields: Mapping[str, msgspec.Raw]) -> Iterator[tuple[str, int, int]]:
    """Yields the advisors among the tools: model, uses and output tokens of each use.

    One without a number of uses counts as used three times, and one without an output limit as 4,096 tokens of output.
    """
    tools = fields.get("tools", rawjson.NULL)
    if b'"advisor' not in plain_escapes(tools):
        return
    for tool in rawjson.maybe_objects(tools) or ():  # no vendor accepts other tools
        if str(rawjson.maybe(tool.get("type"))).startswith("advisor"):
            yield str(rawjson.maybe(tool.get("model"))), _count(tool, "max_uses", 3), _count(tool, "max_tokens", 4096)


def _fallbacks(fields: Mapping[str, msgspec.Raw], output_tokens: int) -> Iterator[tuple[str, int, int]]:
    """Yields the models that Anthropic tries after the requested one: name, 1 and output tokens."""
    for fallback in rawjson.maybe_objects(fields.get("fallbacks")) or ():
        yield rawjson.text_at(fallback.get("model")), 1, max(output_tokens, _count(fallback, "max_tokens", 0))


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
"""For each service tier in a request, the tiers that an upstream may report in its answer, except the standard one. If
a request names none of these, or none at all, an OpenAI project's setting decides, which may be any."""


def _sent_fields(request: InboundRequest, channel: Channel) -> Mapping[str, object]:
    """Returns the request's fields, without the service tier if it may be left out.

    A chat has it where the vendor takes it. Of the other APIs, it is written for OpenAI only, and from Messages only if
    it has one of Anthropic's names.
    """
    tier = rawjson.maybe(request.fields.get("service_tier"))
    if tier is None or channel.dialect is not Dialect.OPENAI:
        return request.fields
    vendor = vendor_of(channel)
    is_written = request.conversation_field == "input" or tier in ("auto", "standard_only")
    if vendor.accepts("service_tier") if request.output_rule is None else is_written and vendor is OPENAI:
        return request.fields
    return {name: value for name, value in request.fields.items() if name != "service_tier"}


def _variants_at(fields: Mapping[str, object], channel: Channel) -> Sequence[str]:
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
