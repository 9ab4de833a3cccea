"""LearnedParams: what upstreams turned out not to accept.

Refused parameters and output limits are remembered for an hour, so that they are left out or lowered before they fail
another call. A whole API that an upstream lacks is remembered for a day.
"""

from collections.abc import Collection, Iterable

import msgspec

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.failure import Failure, ResponsesNeed
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.output_limit import CAPS
from gateway.domain.units import DAY_MS, HOUR_MS, ChannelId, Millis
from gateway.upstream.efforts import EFFORT, NO_EFFORT, refuses_force
from gateway.upstream.refused_params import BETA, EVERY_BETA, MESSAGES, ROLE
from gateway.upstream.request_rules import fit_request
from gateway.upstream.tool_schemas import SCHEMAS, STRICT
from gateway.upstream.vendors import Vendor, vendor_of

NEVER_DROPPED = frozenset(
    {
        *("model", "messages", "tools", "response_format", "stream", "input", "dimensions", "prompt", "suffix"),
        *(MESSAGES + name for name in ("content", "tool_calls", "tool_call_id")),
    }
)
"""Parameters without which the answer would be a different one."""

ADDED_FIELDS = {Dialect.OPENAI: "stream_options", Dialect.ANTHROPIC: "cache_control"}
"""The field that the gateway adds to requests, by the channel's dialect."""

NOTHING = LearnedRefusals()
INCLUDE = "include"
"""The field of responses that asks for encrypted reasoning."""


class Lesson(msgspec.Struct, frozen=True):
    """What a refusal says about one request."""

    named: list[str]
    """The client's names for everything that it names."""
    names: list[str]
    """Those that may be left out, and the rules among them that would change the request."""
    max_output: int | None
    """The model's own limit, if a higher one may be lowered."""


def lesson_in(order: Order, channel: Channel, failure: Failure, used: LearnedRefusals) -> Lesson:
    """Returns what a refusal says about a request that was written with ``used``. It takes long for a large one."""
    vendor = vendor_of(channel)
    client_names = {theirs: ours for ours, theirs in vendor.rename}
    named = [client_names.get(parameter, parameter) for parameter in failure.parameters]
    names = [name for name in named if _may_learn(name, order, channel, vendor.rules + used.dropped)]
    limit_is_fixed = channel.strict and (_was_limited(order) or "max_output_tokens" in order.fields)
    return Lesson(named, names, None if limit_is_fixed else failure.max_output)


class LearnedParams:
    """What was learned, by channel and upstream model."""

    def __init__(self) -> None:
        self.refusals: dict[tuple[ChannelId, str], tuple[LearnedRefusals, Millis]] = {}
        """The refusals by channel and upstream model, and until when they count. Usually empty."""
        self.missing_apis: dict[tuple[ChannelId, str], Millis] = {}
        """Until when an API, or a kind of its content (``responses:namespace``), is missing, by channel and name."""

    def of(self, channel: ChannelId, served: ServedModel, now: Millis) -> LearnedRefusals:
        """Returns what a channel is known to refuse for a model."""
        learned, until = self.refusals.get((channel, served.upstream_name), (NOTHING, now))
        return learned if until > now else NOTHING

    def learn(
        self, channel: Channel, served: ServedModel, lesson: Lesson, now: Millis, *, used: LearnedRefusals
    ) -> bool:
        """Learn from a failure. Returns whether to call the same channel again, because more is left out or lowered now
        than in the failed request. It was written with ``used``; other calls may have learned more since.

        A refusal may name what was left out already, or the limit that was sent: the upstream repeats words of the
        client, and minds something else. That is forgotten, so that it does not change other calls.

        For a strict channel, nothing that the client sent is left out, only what the gateway added. Upstreams that
        check a whole request name everything they refuse, so all of it is learned at once, together with what the
        vendor usually refuses along with it.
        """
        before = self.of(channel.id, served, now)
        vendor = vendor_of(channel)
        refused = [name for name in lesson.names if name not in before.dropped]
        suspects = () if channel.strict else _suspects_of(vendor, refused)
        dropped = dict.fromkeys((*before.dropped, *refused, *suspects))
        after = msgspec.structs.replace(before, dropped=tuple(dropped))
        if (limit := lesson.max_output) is not None:
            after = msgspec.structs.replace(after, max_output=min(limit, after.max_output or limit))
        if after == used:
            self._forget(channel.id, served, lesson, _suspects_of(vendor, lesson.named))
            return False
        if after != before:
            self.refusals[channel.id, served.upstream_name] = (after, Millis(now + HOUR_MS))
        return True

    def _forget(self, channel: ChannelId, served: ServedModel, lesson: Lesson, suspects: Collection[str]) -> None:
        """Forget what did not help, and its suspects. Everything else stays for as long as before."""
        if entry := self.refusals.get((channel, served.upstream_name)):
            learned, until = entry
            kept = tuple(name for name in learned.dropped if name not in lesson.named and name not in suspects)
            limit = None if learned.max_output == lesson.max_output else learned.max_output
            self.refusals[channel, served.upstream_name] = (LearnedRefusals(dropped=kept, max_output=limit), until)

    def learn_lack(self, channel: ChannelId, names: Iterable[str], now: Millis) -> None:
        """Remember that the channel lacks these APIs, or kinds of content, so that such calls are translated."""
        self.missing_apis |= {(channel, name): Millis(now + DAY_MS) for name in names}

    def unlearn_lack(self, channel: ChannelId, names: Iterable[str]) -> None:
        """Forget what ``learn_lack`` remembered: the channel may have it after all."""
        for name in names:
            self.missing_apis.pop((channel, name), None)

    def lacks(self, channel: ChannelId, api: str, now: Millis) -> bool:
        """Returns whether the channel was found to lack this API in the last day."""
        return self.missing_apis.get((channel, api), now) > now

    def refused_kinds(self, channel: ChannelId, api: str, now: Millis) -> list[str]:
        """Returns the kinds of an API's content that the channel was found to refuse in the last day."""
        names = [name for id, name in self.missing_apis if id == channel and name.startswith(api + ":")]
        return [name.removeprefix(api + ":") for name in names if self.lacks(channel, name, now)]

    def learn_responses(self, channel: ChannelId, served: ServedModel, need: ResponsesNeed, now: Millis) -> None:
        """Remember a need of more than one call: for a day that chats must be responses, for a minute that none can."""
        minutes = 1 if need is ResponsesNeed.NOTHING else 24 * 60
        if need is not ResponsesNeed.CALL and not self.needs_responses(channel, served, need, now):
            self.missing_apis[channel, _need_name(served, need)] = Millis(now + minutes * 60_000)

    def needs_responses(self, channel: ChannelId, served: ServedModel, need: ResponsesNeed, now: Millis) -> bool:
        """Returns whether this was learned of a model's chats."""
        return self.lacks(channel, _need_name(served, need), now)

    def forget(self, channel: ChannelId) -> None:
        """Forget what was learned about a channel, because it was changed or removed."""
        self.refusals = {key: entry for key, entry in self.refusals.items() if key[0] != channel}
        self.missing_apis = {key: until for key, until in self.missing_apis.items() if key[0] != channel}


def _need_name(served: ServedModel, need: ResponsesNeed) -> str:
    """Returns the name in ``missing_apis`` that says that chats must be responses."""
    return f"as responses:{need}:{served.upstream_name}"


def _suspects_of(vendor: Vendor, names: Collection[str]) -> list[str]:
    """Returns what the vendor usually refuses along with these fields."""
    return [name for group in vendor.suspects if group.intersection(names) for name in sorted(group)]


def _may_learn(name: str, order: Order, channel: Channel, used: Collection[str]) -> bool:
    """Returns whether a request may be changed as a name says, and would be: it was written by the rules ``used``."""
    if name == ADDED_FIELDS.get(channel.dialect) and (order.stream or name != "stream_options"):
        return not (channel.strict and _has_field_at_any_depth(name, order))
    is_harmless = name == ROLE or (name == NO_EFFORT and EFFORT not in order.fields)
    if name in NEVER_DROPPED or (channel.strict and not is_harmless):
        return False
    if name.startswith(BETA):
        betas = order.forward.get("anthropic-beta", "")
        return bool(betas) if name == EVERY_BETA else name.removeprefix(BETA) in betas
    if name in CAPS:
        return _was_limited(order) and not set(CAPS).intersection(used)
    conversation = order.conversation
    if conversation is not None and (
        name in (SCHEMAS, STRICT, INCLUDE)
        or (name == "tool_choice" and conversation.choice.mode)
        or (conversation.choice.forced and name not in used and refuses_force(order.fields, [name]))
    ):
        return True
    fields, _ = fit_request(order.fields, used)
    return fit_request(order.fields, [*used, name])[0] != fields


def _was_limited(order: Order) -> bool:
    return any(name in order.fields for name in CAPS)


def _has_field_at_any_depth(name: str, order: Order) -> bool:
    key = f'"{name}"'.encode()
    marked = name == "cache_control" and order.conversation is not None and order.conversation.cached
    return marked or name in order.fields or any(key in bytes(value) for value in order.fields.values())
