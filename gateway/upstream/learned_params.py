"""What upstreams turned out not to accept: parameters and output limits, remembered for an hour; whole APIs, for a day.

Leaving them out saves a failed call.
"""

import msgspec

from gateway.domain.channel import Channel, Dialect, ServedModel, TokenLimitField
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.rawjson import NULL
from gateway.domain.units import ChannelId, Millis
from gateway.upstream.refused_params import EFFORT, MESSAGES, NO_EFFORT, ROLE
from gateway.upstream.vendors import vendor_of

NEVER_DROPPED = frozenset(
    {
        *("model", "messages", "tools", "response_format", "stream", "input", "dimensions", "prompt", "suffix"),
        *(MESSAGES + name for name in ("content", "tool_calls", "tool_call_id")),
    }
)
"""Without these the answer would be a different one."""

ADDED = {Dialect.OPENAI: "stream_options", Dialect.ANTHROPIC: "cache_control"}
"""The field that the gateway itself adds to requests, by the channel's dialect."""

DEVELOPER = b'"developer"'
"""The role that an error about a message's role means; its other name is ``system``."""

_OTHER_LIMIT = {
    "max_tokens": TokenLimitField.MAX_COMPLETION_TOKENS,
    "max_completion_tokens": TokenLimitField.MAX_TOKENS,
}


class LearnedParams:
    """What was learned, by channel and upstream model. The clock is a parameter."""

    def __init__(self) -> None:
        self.known: dict[tuple[ChannelId, str], tuple[LearnedRefusals, Millis]] = {}
        """What ``of`` looks up; usually empty."""
        self.lacking: dict[tuple[ChannelId, str], Millis] = {}
        """What ``lacks`` looks up; usually empty."""

    def of(self, channel: ChannelId, served: ServedModel, now: Millis) -> LearnedRefusals:
        """Returns what is known now."""
        found = self.known.get((channel, served.upstream_name))
        if found is None:
            return NOTHING
        learned, until = found
        if until <= now:
            del self.known[channel, served.upstream_name]
            return NOTHING
        return learned

    def learn(self, channel: Channel, served: ServedModel, order: Order, failure: Failure, now: Millis) -> bool:
        """Returns whether to call the same channel again, because this time something is left out or lowered.

        A strict channel loses nothing that the client sent; what the gateway added is always left out. Upstreams that
        check a whole request name everything they refuse: all of it is learned at once, with what is usually refused
        together.
        """
        before = after = self.of(channel.id, served, now)
        vendor = vendor_of(channel.preset, channel.base_url)
        renamed = {there: here for here, there in vendor.rename}
        for name in (renamed.get(parameter, parameter) for parameter in failure.parameters):
            if _may_leave_out(name, channel, order):
                after = _with(after, name)
        refused = after.dropped[len(before.dropped) :]
        for suspects in () if channel.strict else vendor.suspects:
            for name in sorted(suspects) if suspects.intersection(refused) else ():
                after = _with(after, name)
        fixed = channel.strict and _was_sent("max_tokens", order)
        if (most := failure.max_output) is not None and not fixed:  # or the client's, or the gateway's choice
            after = msgspec.structs.replace(after, max_output=min(most, after.max_output or most))
        if after == before:
            return False
        self.known[channel.id, served.upstream_name] = (after, Millis(now + 3_600_000))  # an hour
        return True

    def learn_lack(self, channel: ChannelId, api: str, now: Millis) -> None:
        """Remember that the channel lacks this API."""
        self.lacking[channel, api] = Millis(now + 24 * 3_600_000)

    def lacks(self, channel: ChannelId, api: str, now: Millis) -> bool:
        """Returns whether the channel was found to lack this API in the last day."""
        return self.lacking.get((channel, api), now) > now

    def forget(self, channel: ChannelId) -> None:
        """Forget a channel that was changed or removed."""
        for key in [key for key in self.known if key[0] == channel]:
            del self.known[key]
        for lack in [lack for lack in self.lacking if lack[0] == channel]:
            del self.lacking[lack]


NOTHING = LearnedRefusals()


def _is_anywhere(name: str, order: Order) -> bool:
    """Returns whether the client's request has a field of this name at any depth."""
    key = f'"{name}"'.encode()
    marked = name == "cache_control" and order.conversation is not None and order.conversation.cached
    return marked or name in order.fields or any(key in bytes(value) for value in order.fields.values())


def _may_leave_out(name: str, channel: Channel, order: Order) -> bool:
    """Returns whether it was sent and may be left out. A role loses nothing by its other name."""
    if name == ROLE:
        return any(DEVELOPER in bytes(order.fields.get(turns, NULL)) for turns in ("messages", "input"))
    if name == NO_EFFORT:
        return "tools" in order.fields and (not channel.strict or EFFORT not in order.fields)
    added = name == ADDED.get(channel.dialect) and (order.stream or name != "stream_options")
    if channel.strict and (not added or _is_anywhere(name, order)):
        return False
    return name not in NEVER_DROPPED and (added or _was_sent(name, order))


def _was_sent(name: str, order: Order) -> bool:
    if name.startswith(MESSAGES):
        return f'"{name.removeprefix(MESSAGES)}"'.encode() in bytes(order.fields.get("messages", NULL))
    if name == "tool_choice" and order.conversation is not None and order.conversation.choice.mode:
        return True
    names = _OTHER_LIMIT if name in _OTHER_LIMIT else (name,)
    return any(sent in order.fields for sent in names)


def _with(learned: LearnedRefusals, name: str) -> LearnedRefusals:
    """Returns what is known with this one. A refused output limit is tried under its other name, never dropped: the
    output would be unlimited.
    """
    if name in _OTHER_LIMIT:
        return (
            learned
            if learned.token_limit_field
            else msgspec.structs.replace(learned, token_limit_field=_OTHER_LIMIT[name])
        )
    return learned if name in learned.dropped else msgspec.structs.replace(learned, dropped=(*learned.dropped, name))
