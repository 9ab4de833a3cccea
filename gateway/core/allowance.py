"""Allowance: the most that a call may use, over all the channels that may serve it. Pure.

What is held, what is counted against rates and what ``why`` tells all come from here. The output is what the caps of
the request allow as it goes out, which ``upstream.output_limit`` reads for each channel, with the owner's parameters in
it; the input is that of the client and whatever the gateway itself puts before it.

Which limits of models are trusted: an upstream's list, a vendor's table, the price list; and none of them blindly. A
limit makes a hold smaller only because a higher cap is lowered to it in the request that goes out. So one that is too
small, whoever told it, shortens answers but never lets more be spent than is held. Where no cap goes out, a limit makes
no hold smaller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gateway.core.chat_request import ChatRequest
from gateway.domain.channel import Channel, Dialect, Overrides, Served
from gateway.domain.estimate import BOUND_BYTES_PER_TOKEN, BOUND_TOOLS_TOKENS, result_names_bound, tool_calls_bound
from gateway.domain.price import Price, highest_cost
from gateway.domain.units import Nanos
from gateway.upstream.dialects import model_limit, output_limit
from gateway.upstream.output_limit import STANDARD_FIELDS
from gateway.upstream.overrides import with_parameters

_READ = ("tools", "functions", "response_format")
"""Standard parameters that the model reads as input."""
_QUIET = STANDARD_FIELDS - {"max_completion_tokens", "max_tokens", "n"}
"""Parameters that change nothing about the length of the output."""


class Need(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call may use at most, and what that costs."""

    input: int
    """Tokens."""
    capped: int
    """Output tokens that the caps of the request allow; the call is admitted only if they can be paid."""
    output: int
    """Output tokens that are held for if there is enough: more than ``capped`` where an answer has no cap."""
    nanos: Nanos
    """The most that ``input`` and ``output`` can cost."""
    least: Nanos
    """The most that ``input`` and ``capped`` can cost."""
    free: bool = False
    """Nothing is charged, whatever is used."""

    @property
    def rate_tokens(self) -> int:
        """What the call is counted with against limits of tokens until its true ones are known."""
        return self.input + self.capped


Recall = Callable[[Mapping[str, msgspec.Raw]], int]
"""Input tokens that a dialect may put back into a request from memory, at most."""

REMEMBERING = (Dialect.ANTHROPIC, Dialect.GEMINI)


def nothing_recalled(_: Mapping[str, msgspec.Raw]) -> int:
    """For a call that is only thought of."""
    return 0


class ChannelEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What the channels of one model make of a call, as far as that is known when the configuration changes."""

    offers: tuple[tuple[Channel, Served], ...] = ()
    added_input: int = 0
    """The most tokens that an owner adds: a system prompt, tools."""
    plain: bool = True
    """No owner touches the output's length: a client's one cap goes out as it came, but for ``max_output``."""
    max_output: int | None = None
    """The model's own limit; of several the highest. None: of some channel it is not known."""
    uncapped: int = 0
    """Output tokens to hold for without a cap, of each choice."""
    made_tools: bool = False
    """A dialect makes tools up for a conversation that has calls of tools and no tools: Anthropic's."""
    names_results: bool = False
    """A dialect puts a function's name beside each of its results: Gemini's."""
    remembers: bool = False
    """A dialect may put back into a request what its vendor wants to see again with calls of tools."""


NO_EFFECTS = ChannelEffects()


def effects_of(offers: Iterable[tuple[Channel, Served]]) -> ChannelEffects:
    """What these channels do to calls of one model."""
    found = tuple(offers)
    limits = [served.max_output for _, served in found]
    known = [limit for limit in limits if limit is not None]
    edits = [channel.overrides for channel, _ in found if channel.overrides is not None]
    return ChannelEffects(
        offers=found,
        added_input=max(map(_added_input, edits), default=0),
        plain=all(_QUIET.issuperset((*each.set, *each.default, *each.remove)) for each in edits),
        max_output=max(known) if known and len(known) == len(limits) else None,
        uncapped=max((output_limit({}, *offer).expected for offer in found), default=0),
        made_tools=any(channel.dialect is Dialect.ANTHROPIC for channel, _ in found),
        names_results=any(channel.dialect is Dialect.GEMINI for channel, _ in found),
        remembers=any(channel.dialect in REMEMBERING for channel, _ in found),
    )


def with_limit(channel: Channel, served: Served, price: Price | None) -> Served:
    """The model with its own output limit, as far as the upstream's list, a vendor's table or the price list tells."""
    limit = served.max_output or model_limit(channel.dialect, served.upstream_name)
    limit = limit or (price.context if price is not None else None)
    return served if limit == served.max_output else msgspec.structs.replace(served, max_output=limit)


def need_of(
    asked: ChatRequest, effects: ChannelEffects, price: Price | None, multiplier: int, recall: Recall = nothing_recalled
) -> Need:
    """What a call needs at the channels of one model. Raises BadRequest if its caps are too many to be read."""
    tokens = asked.input_bound + effects.added_input
    if effects.made_tools:
        tokens += tool_calls_bound(asked.fields)
    if effects.names_results:
        tokens += result_names_bound(asked.fields)
    if effects.remembers:
        tokens += recall(asked.fields)
    capped, output = _output(asked, effects)
    if price is None or price.free or not multiplier:
        return Need(input=tokens, capped=capped, output=output, nanos=Nanos(0), least=Nanos(0), free=True)
    nanos = highest_cost(price, tokens, output, multiplier)
    least = nanos if capped == output else highest_cost(price, tokens, capped, multiplier)
    return Need(input=tokens, capped=capped, output=output, nanos=nanos, least=least)


def most_of(needs: Sequence[Need]) -> Need:
    """What a call needs if any of several models may answer it."""
    return Need(
        input=max(one.input for one in needs),
        capped=max(one.capped for one in needs),
        output=max(one.output for one in needs),
        nanos=max(one.nanos for one in needs),
        least=max(one.least for one in needs),
        free=all(one.free for one in needs),
    )


def _output(asked: ChatRequest, effects: ChannelEffects) -> tuple[int, int]:
    """Output tokens of all choices: what the caps allow, and what to hold for."""
    if asked.plain and effects.plain:
        cap = asked.output_cap
        if cap is None:
            return 0, asked.choices * effects.uncapped
        total = asked.choices * (cap if effects.max_output is None else min(cap, effects.max_output))
        return total, total
    capped = output = 0
    for channel, served in effects.offers:
        edits = channel.overrides
        fields = asked.fields if edits is None else with_parameters(asked.fields, edits)
        limit = output_limit(fields, channel, served)
        capped, output = max(capped, limit.capped_total), max(output, limit.total)
    return capped, output


def _added_input(overrides: Overrides) -> int:
    given: Mapping[str, object] = {**overrides.default, **overrides.set}
    read = [value for name, value in given.items() if name in _READ or name not in STANDARD_FIELDS]
    size = len(overrides.system.encode()) + sum(len(msgspec.json.encode(value)) for value in read)
    tools = BOUND_TOOLS_TOKENS if any(name in given for name in _READ) else 0
    return -(-size // BOUND_BYTES_PER_TOKEN) + tools
