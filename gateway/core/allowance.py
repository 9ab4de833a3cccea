"""Allowance: the most that a call may use, over all the channels that may serve it. Pure.

What is held, what is counted against rates and what ``why`` tells all come from here. The output is what the caps of
the request allow as it goes out, which ``upstream.output_limit`` reads for each channel, with the owner's parameters in
it; the input is that of the client and whatever the gateway itself puts before it.

Which limits of models are trusted: an upstream's list, a vendor's table, the price list; and none of them blindly. A
limit makes a hold smaller only because a higher cap is lowered to it in the request that goes out. So one that is too
small, whoever told it, shortens answers but never lets more be spent than is held. Where no cap goes out, a limit makes
no hold smaller.

Where the client names no cap and the gateway chooses one, as Anthropic's dialect must, the hold may be smaller than
that cap costs. Then the cap is what the hold pays for (``affordable_output``), and at least ``LEAST_OUTPUT``.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gateway.domain.channel import Channel, Dialect, Overrides, Served
from gateway.domain.estimate import BOUND_BYTES_PER_TOKEN, BOUND_TOOLS_TOKENS, result_names_bound, tool_calls_bound
from gateway.domain.price import Price, highest_cost
from gateway.domain.units import Nanos
from gateway.inbound.api import InboundRequest
from gateway.upstream.dialects import model_limit, output_limit
from gateway.upstream.output_limit import STANDARD_FIELDS
from gateway.upstream.overrides import with_parameters

_READ = ("tools", "functions", "response_format")
"""Standard parameters that the model reads as input."""
_QUIET = STANDARD_FIELDS - {"max_completion_tokens", "max_tokens", "n", "reasoning_effort"}
"""Parameters that change nothing about the length of the output."""


class Need(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call may use at most, and what that costs."""

    input: int
    """Tokens."""
    capped: int
    """Output tokens that the caps of the request allow."""
    minimum: int
    """Output tokens that the call is admitted for only if they can be paid: ``capped``, and the smallest cap that the
    gateway chooses itself where the request has none."""
    output: int
    """Output tokens that are held for if there is enough: more than ``capped`` where an answer has no cap."""
    nanos: Nanos
    """The most that ``input`` and ``output`` can cost."""
    least: Nanos
    """The most that ``input`` and ``minimum`` can cost."""
    free: bool = False
    """Nothing is charged, whatever is used."""

    @property
    def rate_tokens(self) -> int:
        """What the call is counted with against limits of tokens until its true ones are known."""
        return self.input + self.capped


Recall = Callable[[Mapping[str, msgspec.Raw]], int]
"""Input tokens that a dialect may put back into a request from memory, at most."""

REMEMBERING = tuple(dialect for dialect in Dialect if dialect.info.remembers)


def nothing_recalled(_: Mapping[str, msgspec.Raw]) -> int:
    """For a call that is only thought of."""
    return 0


class ChannelEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What the channels of one model make of a call, as far as that is known when the configuration changes."""

    offers: tuple[tuple[Channel, Served], ...] = ()
    added_input: int = 0
    """The most tokens that an owner adds: a system prompt, tools."""
    plain: bool = True
    """No owner touches the output's length: a client's one cap goes out unchanged, except for ``max_output``."""
    max_output: int | None = None
    """The model's own limit; of several the highest. None: of some channel it is not known."""
    uncapped: int = 0
    """Output tokens to hold for without a cap, of each choice."""
    minimum: int = 0
    """Of these, the tokens that must be affordable."""
    effort_counts: bool = False
    """A dialect makes a number of tokens of ``reasoning_effort``, beside no cap: Gemini's."""
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
    uncapped = [output_limit({}, *offer) for offer in found]
    dialects = {channel.dialect.info for channel, _ in found}
    return ChannelEffects(
        offers=found,
        added_input=max(map(_added_input, edits), default=0),
        plain=all(_QUIET.issuperset((*each.set, *each.default, *each.remove)) for each in edits),
        max_output=max(known) if known and len(known) == len(limits) else None,
        uncapped=max((limit.expected for limit in uncapped), default=0),
        minimum=max((limit.minimum for limit in uncapped), default=0),
        effort_counts=any(info.effort_counts for info in dialects),
        made_tools=any(info.adds_tools for info in dialects),
        names_results=any(info.names_results for info in dialects),
        remembers=any(info.remembers for info in dialects),
    )


def with_limit(channel: Channel, served: Served, price: Price | None) -> Served:
    """The model with its own output limit, as far as the upstream's list, a vendor's table or the price list tells."""
    limit = served.max_output or model_limit(channel.dialect, served.upstream_name)
    limit = limit or (price.context if price is not None else None)
    return served if limit == served.max_output else msgspec.structs.replace(served, max_output=limit)


def need_of(
    request: InboundRequest,
    effects: ChannelEffects,
    price: Price | None,
    multiplier: int,
    recall: Recall = nothing_recalled,
) -> Need:
    """What a call needs at the channels of one model. Raises BadRequest if its caps are too many to be read."""
    tokens = request.input_bound + effects.added_input
    if effects.made_tools:
        tokens += tool_calls_bound(request.fields)
    if effects.names_results:
        tokens += result_names_bound(request.fields)
    if effects.remembers:
        tokens += recall(request.fields)
    return _priced(tokens, _output(request, effects), price, multiplier)


def _priced(tokens: int, output: tuple[int, int, int], price: Price | None, multiplier: int) -> Need:
    capped, minimum, most = output
    if price is None or price.free or not multiplier:
        nothing = Nanos(0)
        return Need(input=tokens, capped=capped, minimum=minimum, output=most, nanos=nothing, least=nothing, free=True)
    nanos = highest_cost(price, tokens, most, multiplier)
    least = nanos if minimum == most else highest_cost(price, tokens, minimum, multiplier)
    return Need(input=tokens, capped=capped, minimum=minimum, output=most, nanos=nanos, least=least)


def affordable_output(need: Need, held: int, held_tokens: int, price: Price | None, multiplier: int) -> int | None:
    """Output tokens that a hold pays for at a model of this price; None: all that the call may need."""
    if held >= need.nanos and held_tokens >= need.input + need.output:
        return None
    most = max(0, min(need.output, held_tokens - need.input))
    if price is None or price.free or not multiplier:
        return most
    steps = range(most + 1)
    return max(0, bisect_right(steps, held, key=lambda out: highest_cost(price, need.input, out, multiplier)) - 1)


def most_of(needs: Sequence[Need], prices: Sequence[Price | None], multiplier: int) -> Need:
    """What a call needs if any of several models, with these prices, may answer it.

    Each is reckoned with the longest input of all, as ``affordable_output`` does.
    """
    longest = max(one.input for one in needs)
    needs = [
        one if one.input == longest else _priced(longest, (one.capped, one.minimum, one.output), price, multiplier)
        for one, price in zip(needs, prices, strict=True)
    ]
    return Need(
        input=longest,
        capped=max(one.capped for one in needs),
        minimum=max(one.minimum for one in needs),
        output=max(one.output for one in needs),
        nanos=max(one.nanos for one in needs),
        least=max(one.least for one in needs),
        free=all(one.free for one in needs),
    )


def _output(request: InboundRequest, effects: ChannelEffects) -> tuple[int, int, int]:
    """Output tokens of all choices: what the caps allow, what must be affordable, and what to hold for."""
    if request.plain and effects.plain:
        cap = request.output_cap
        if cap is not None:
            total = request.choices * (cap if effects.max_output is None else min(cap, effects.max_output))
            return total, total, total
        if not effects.effort_counts or "reasoning_effort" not in request.fields:
            return 0, request.choices * effects.minimum, request.choices * effects.uncapped
    capped = minimum = output = 0
    for channel, served in effects.offers:
        edits = channel.overrides
        fields = request.fields if edits is None else with_parameters(request.fields, edits)
        limit = output_limit(fields, channel, served)
        capped, output = max(capped, limit.capped_total), max(output, limit.total)
        minimum = max(minimum, limit.minimum_total)
    return capped, minimum, output


def _added_input(overrides: Overrides) -> int:
    parameters: Mapping[str, object] = {**overrides.default, **overrides.set}
    read = [value for name, value in parameters.items() if name in _READ or name not in STANDARD_FIELDS]
    size = len(overrides.system.encode()) + sum(len(msgspec.json.encode(value)) for value in read)
    tools = BOUND_TOOLS_TOKENS if any(name in parameters for name in _READ) else 0
    return -(-size // BOUND_BYTES_PER_TOKEN) + tools
