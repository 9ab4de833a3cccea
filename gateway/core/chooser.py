"""Chooser: which channel a call goes to, given the state of channels, their limits, conversations and retries.

``routing`` makes the choice itself, and ``retry`` decides what follows a failure. A conversation returns to the channel
and key that answered it last, so that a prompt cache there is used again. Its token, its model, and its messages up to
the user's first one identify it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from gateway.core.call import Call
from gateway.core.channel_health import ChannelHealth
from gateway.core.channel_limits import ChannelLimits
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.recent_items import RecentItems
from gateway.core.retry import NextStep, RetryBudget, RetryState, as_fallback
from gateway.core.routing import NOTHING_TRIED, Draw, RouteChoice, SkippedRoute, choose
from gateway.domain.call import PASSED_MARK, SKIPPED_MARK, STAYED_MARK
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError, NoChannel, NotFound, RateLimited, Unavailable
from gateway.domain.rawjson import Fields
from gateway.domain.text import plain, word
from gateway.domain.units import ChannelId


class _Message(msgspec.Struct):
    role: str = ""


_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_Message)


def conversation_id(token: str, model: str, fields: Fields, session: str = "") -> bytes:
    """Returns a digest that identifies a request's conversation. ``session`` is the client's own id for it."""
    digest = blake2b(f"{token}\n{model}\n{session}".encode("utf-8", "surrogatepass"), digest_size=16)
    if session:
        return digest.digest()
    messages = memoryview(fields["messages"])
    if bytes(messages[:1]) != b"[":
        digest.update(messages[: 64 << 10])
        return digest.digest()
    for message in _MESSAGES.decode(messages)[:8]:  # more are not examined
        digest.update(memoryview(message)[: 64 << 10])
        if _MESSAGE.decode(message).role == "user":
            break
    return digest.digest()


@dataclass(kw_only=True, eq=False)
class Chooser:
    """Chooses channels."""

    health: ChannelHealth
    draw: Draw
    """The source of randomness."""
    retries: RetryBudget
    channel_limits: ChannelLimits
    mono: Callable[[], float]

    def __post_init__(self) -> None:
        self._conversations = RecentItems[tuple[ChannelId, ChannelId]](self.mono, keep_s=3600.0, limit=10_000)
        """The channels and keys that answered conversations, by id."""
        self._answers = RecentItems[ChannelId](self.mono, keep_s=math.inf, limit=4096)
        """The channels of answers that requests may continue, by the ids of the answers."""

    def first(self, call: Call, entry: ModelEntry, *, waited: bool = False) -> RouteChoice:
        """Returns the first channel, or where a slot may come free if the call has not ``waited`` for one.

        Raises NoChannel if no channel can answer, and RateLimited or Unavailable if that is because of the channels'
        own limits.
        """
        if call.limits.marks:  # of the choice before a wait
            own_marks = (PASSED_MARK, STAYED_MARK)
            call.limits.marks = tuple(mark for mark in call.limits.marks if not mark.startswith(own_marks))
        continued_id = call.context.request.continued_id
        stored = self._answers.find(continued_id.encode()) if continued_id else None
        channel = None if stored is None else call.context.catalog.registry.channels.get(stored)
        if channel is not None and _offers(channel, entry):  # else the answer is not found
            return self._choose_with_answer(call, entry, channel)
        has_choice = len(entry.routes) != 1 or entry.routes[0].keys
        sticky = has_choice and (call.context.group.sticky or call.context.origin.api.sticky)
        choice = (self._choose_sticky(call, entry) if sticky else None) or self._choose(call, entry.routes)
        skipped = choice.skipped
        if entry.fallbacks and (choice.route is None or choice.paused):
            choice = self._choose_fallback(call, entry, choice)
        if choice.route is None and (waited or not choice.gates):
            raise no_channel(call, choice)
        if skipped and choice.route is not None:
            call.limits.marks += _skipped_marks(skipped, choice.route, entry)
        return choice

    def _choose(self, call: Call, routes: Sequence[Route]) -> RouteChoice:
        return choose(routes, NOTHING_TRIED, self.health, self.draw, self.channel_limits.check_for(call))

    def _choose_with_answer(self, call: Call, entry: ModelEntry, channel: Channel) -> RouteChoice:
        """Returns the only channel that stores the answer the request continues. Raises as ``first`` does."""
        name = plain(channel.name)
        choice = self._choose(call, [route for route in entry.routes if route.channel.id == channel.id])
        if choice.route is None:
            error = no_channel(call, choice)
            error.message += f"; only channel '{name}' has the answer that the request continues"
            raise error
        return msgspec.structs.replace(choice, reason=f"the answer that it continues is at channel {name}", gates=())

    def _choose_sticky(self, call: Call, entry: ModelEntry) -> RouteChoice | None:
        """Returns the channel and key that answered the conversation last if they are free, else None."""
        request = call.context.request
        if request.conversation_field not in request.fields:
            return None
        call.conversation = conversation_id(call.context.token.id, entry.name, request.conversation, request.session)
        last = self._conversations.find(call.conversation)
        if last is None:
            return None
        channel, key_id = last
        routes = [route for route in entry.routes if route.channel.id == channel]
        choice = self._choose(call, routes)
        if choice.route is None or choice.paused:
            return None
        keys = [route for route in routes[0].keys if route.key_id == key_id]
        healthy = [route for route in keys if self.health.state_of(route.key_id).name == "ok"]
        route = healthy[0] if healthy else choice.route
        if route.rank.tier > entry.routes[0].rank.tier:
            call.limits.marks += (STAYED_MARK,)
        return msgspec.structs.replace(choice, route=route, reason=f"where the conversation was, {route.rank.place}")

    def _choose_fallback(self, call: Call, entry: ModelEntry, choice: RouteChoice) -> RouteChoice:
        """Returns a healthy channel of a fallback; without one, the paused channel of ``choice`` or of a fallback."""
        last_resort = choice if choice.route is not None else None
        skipped = list(choice.skipped)
        for other in entry.fallbacks:
            fallback_choice = self._choose(call, other.routes)
            if fallback_choice.route is not None and not fallback_choice.paused:
                return as_fallback(fallback_choice, entry)
            if fallback_choice.route is not None and last_resort is None:
                last_resort = as_fallback(fallback_choice, entry)
            skipped += [msgspec.structs.replace(skip, model=other.name) for skip in fallback_choice.skipped]
        return last_resort or msgspec.structs.replace(choice, skipped=tuple(skipped))

    async def next(self, call: Call, tries: RetryState) -> NextStep | None:
        """Returns where a call goes after failed attempts; None if nowhere. Waits for a slot there if it has to."""
        continued_id = call.context.request.continued_id
        if continued_id and self._answers.find(continued_id.encode()) is not None:
            return None  # only that channel can continue the answer
        limits = self.channel_limits
        step = tries.next(self.health, self.draw, self.retries, limits.check_for(call))
        if step is None and tries.gates and await limits.wait(call, tries.gates):
            step = tries.next(self.health, self.draw, self.retries, limits.check_for(call))
        return step

    def note_answer(self, answer: str, route: Route) -> None:
        if answer:
            self._answers.note(answer.encode("utf-8", "replace"), route.channel.id)

    def note_conversation(self, conversation: bytes, route: Route) -> None:
        self._conversations.note(conversation, (route.channel.id, route.key_id))


def _offers(channel: Channel, entry: ModelEntry) -> bool:
    """Returns whether a channel offers a model, even if it is off and therefore not among its routes."""
    is_listed = any(served.name == entry.name for served in channel.models)
    return is_listed or any(route.channel.id == channel.id for route in entry.routes)


def _skipped_marks(skipped: Sequence[SkippedRoute], route: Route, entry: ModelEntry) -> tuple[str, ...]:
    """Returns marks that name up to three channels that rank above the chosen one, and why they were skipped."""
    preferred = {other.channel.name for other in entry.routes if other.rank.tier < route.rank.tier}
    if route.served.name != entry.name:  # all channels of the requested model come before those of a fallback
        preferred = {other.channel.name for other in entry.routes}
    reported = [skip for skip in skipped if skip.channel in preferred][:3]
    return tuple(f"{PASSED_MARK}{plain(_skip_text(skip), 120)}" for skip in reported)


def no_channel(call: Call, choice: RouteChoice) -> GatewayError:
    """Returns the error that no channel can be called, with the reason of each."""
    reasons = "; ".join(map(_skip_text, choice.skipped)) or "it has no channel left"
    if call.limits.unaffordable:
        reasons += f"; {unaffordable_text(call.limits.unaffordable)}"
    model, group, token = call.context.request.model, call.context.group, call.context.token
    msg = (
        f"no channel can serve model '{plain(model)}' for group '{plain(group.name)}' now: {reasons}; "
        f"'tollkeeper why {word(token.name)} {word(model)}' explains it"
    )
    rules = {skip.rule for skip in choice.skipped}
    if "full" in rules and "limit" not in rules:
        return Unavailable(msg, retry_after_s=choice.retry_s)
    if "limit" in rules:
        code = "" if choice.retry_s else "request_too_large_for_limit"
        return RateLimited(msg, code=code, retry_after_s=choice.retry_s)
    if rules == {"missing"}:
        return NotFound(msg, code="model_not_found", param="model")
    error = NoChannel(msg)
    failing = [skip.channel for skip in choice.skipped if skip.rule in ("attention", "cooling", "trial")]
    error.marks += [SKIPPED_MARK + name for name in dict.fromkeys(failing)]
    return error


def unaffordable_text(models: Iterable[str]) -> str:
    """Returns the text that says which fallbacks are left out of a call, and why."""
    return "; ".join(f"fallback {plain(model, 80)}: too little money or tokens left for it" for model in models)


def _skip_text(skip: SkippedRoute) -> str:
    model = f" for {plain(skip.model)}" if skip.model else ""
    return f"{plain(skip.channel)}{model}: {skip.reason}"
