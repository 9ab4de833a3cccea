"""Channel effects: what the channels of one model do to its calls."""

from collections.abc import Iterable

import msgspec

from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.output_limit import CHAT_CONTENT, STANDARD_FIELDS
from gateway.domain.price import Price
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, MESSAGE_TOKENS, SCHEMAS, bound_of
from gateway.upstream.dialects import DIALECTS, output_limit

_NO_EFFECT_ON_OUTPUT = STANDARD_FIELDS - {"max_completion_tokens", "max_tokens", "n", "reasoning_effort"}
"""Parameters that do not change the length of the output."""


class ChannelEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What the channels of one model do to a call, as far as that follows from the configuration."""

    offers: tuple[tuple[Channel, ServedModel], ...] = ()
    added_input: int = 0
    """The most tokens that an owner adds: a system prompt, tools."""
    plain: bool = True
    """Whether no owner changes the output's length: a client's only cap is sent, at most lowered to ``max_output``."""
    max_output: int | None = None
    """The model's own output limit, the highest of several; None if it is unknown at some channel."""
    prices: tuple[Price, ...] = ()
    """The prices of the model at these channels, each once."""
    least_output: int = 0
    """The output that some channel may allow at least, because a client's lower cap is raised to it."""
    uncapped_output: int = 0
    """The output tokens to hold for each choice of a request without a cap."""
    uncapped_minimum: int = 0
    """The output tokens of each of these choices that must be affordable."""
    effort_counts: bool = False
    """Whether ``reasoning_effort`` limits the output at some channel, as Gemini's dialect has it."""
    adds_tools: bool = False
    """Whether some channel adds tools to a conversation with tool calls but no tools, as Anthropic's dialect does."""
    names_results: bool = False
    """Whether some channel adds a function's name to each of its results, as Gemini's dialect does."""
    remembers: bool = False
    """Whether some channel may add to a request what its vendor requires with earlier tool calls."""


NO_EFFECTS = ChannelEffects()


def effects_of(offers: Iterable[tuple[Channel, ServedModel]]) -> ChannelEffects:
    """Returns what these channels do to calls of one model."""
    offers = tuple(offers)
    limits = [served.max_output for _, served in offers if served.max_output is not None]
    overrides = [channel.overrides for channel, _ in offers if channel.overrides is not None]
    uncapped = [output_limit({}, *offer) for offer in offers]
    dialects = {channel.dialect.info for channel, _ in offers}
    return ChannelEffects(
        offers=offers,
        prices=tuple({id(served.price): served.price for _, served in offers if served.price is not None}.values()),
        added_input=max(map(_added_input, overrides), default=0),
        plain=all(map(_keeps_output_length, overrides)),
        max_output=max(limits) if limits and len(limits) == len(offers) else None,
        least_output=max((DIALECTS[channel.dialect].least_output(channel) for channel, _ in offers), default=0),
        uncapped_output=max((limit.expected for limit in uncapped), default=0),
        uncapped_minimum=max((limit.minimum for limit in uncapped), default=0),
        effort_counts=any(info.effort_counts for info in dialects),
        adds_tools=any(info.adds_tools for info in dialects),
        names_results=any(info.names_results for info in dialects),
        remembers=any(DIALECTS[channel.dialect].remembers(channel) for channel, _ in offers),
    )


def _keeps_output_length(overrides: Overrides) -> bool:
    parameters = [*overrides.set.items(), *overrides.default.items()]
    return _NO_EFFECT_ON_OUTPUT.issuperset(overrides.remove) and all(
        name in _NO_EFFECT_ON_OUTPUT and (name in CHAT_CONTENT or not _has_fields(value)) for name, value in parameters
    )


def _has_fields(value: object) -> bool:
    """Returns whether a JSON value contains an object, whose fields might change the output's length."""
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_fields, value)))


def _added_input(overrides: Overrides) -> int:
    """Returns the most input tokens that an owner's overrides add. Numbers and flags add none."""
    parameters = {**overrides.default, **overrides.set}
    texts = {
        name: msgspec.Raw(msgspec.json.encode(value))
        for name, value in parameters.items()
        if isinstance(value, str | list | dict)
    }
    schemas = [texts.pop(name) for name in SCHEMAS if name in texts]
    bound = bound_of({}, schemas, texts, least=0)
    system = MESSAGE_TOKENS - (-len(overrides.system.encode()) // BOUND_BYTES_PER_TOKEN) if overrides.system else 0
    return bound.tokens + bound.media.bound("") + system
