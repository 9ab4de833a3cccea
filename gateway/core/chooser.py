"""Which channel a call goes to, given the state of channels, their limits, conversations and retries.

``routing`` makes the choice itself, ``retry`` decides what follows a failure. A conversation returns to the channel and
key that answered it last, so that its prompt cache is used again. It is recognized by its token, its model and its
messages up to the user's first one. This memory is bounded.

An attempt counts against its channel's limits from the moment it begins, and its place is free when it ends. The tokens
it was counted with are then replaced by those it used; an attempt that another channel had to follow used none.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from gateway.core.call import Call
from gateway.core.catalog import ModelEntry, Route
from gateway.core.channel_health import ChannelHealth
from gateway.core.concurrency import wait_text
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.ratelimit import Limiter, headers_of
from gateway.core.retry import NextStep, RetryBudget, RetryState, as_fallback
from gateway.core.routing import NOTHING_TRIED, Draw, RouteChoice, SkippedRoute, choose, choose_from
from gateway.domain.call import PASSED_MARK, STAYED_MARK
from gateway.domain.errors import GatewayError, NoChannel, NotFound, RateLimited, Unavailable
from gateway.domain.human_values import plural
from gateway.domain.rawjson import Fields
from gateway.domain.text import plain, word
from gateway.domain.units import ChannelId

PAUSED_RULES = frozenset({"attention", "cooling", "trial"})
"""Rules that skip a channel for what it did before."""


class ChannelTickets:
    """Checks the limits of each channel that a call may go to."""

    __slots__ = ("_held", "_limiter", "_tokens")

    def __init__(self, limiter: Limiter, tokens: int, held: tuple[str, str] | None = None) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._held = held
        """The gate at which the call already has a place."""

    def __call__(self, route: Route) -> SkippedRoute | None:
        """Returns the reason to skip a channel, if any."""
        bound = route.bound
        if bound is None:
            return None
        gate = bound.gate
        if gate is not None and not self._limiter.lines.has_room(gate) and gate.key != self._held:
            return SkippedRoute(
                route.channel.name,
                f"at its limit of {gate.limit} {plural(gate.limit, 'call in flight')}",
                "full",
                1.0,  # nobody knows when a place comes free
            )
        if bound.rated and (over := self._limiter.against((bound,), self._tokens)) is not None:
            return SkippedRoute(route.channel.name, over.reason, "limit", over.wait_s)
        return None


class ChannelLimits:
    """The limits of all channels."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self.lines = limiter.lines
        self.on_wait: Callable[[Call, str], None] = lambda _call, _what: None
        """Called with what a running call is about to wait for."""

    def of(self, call: Call) -> ChannelTickets:
        """Returns the limits as they apply to this call."""
        slot = call.limits.channel_slot
        held = slot.key if slot is not None else None
        return ChannelTickets(self._limiter, call.need.rate_tokens, held)

    def enter(self, call: Call, route: Route) -> None:
        """Begin an attempt, in the same moment in which its channel was chosen."""
        attempt, limits = call.attempt, call.limits
        if attempt.channel_ticket is not None:
            attempt.channel_ticket.correct_tokens(0)
            attempt.channel_ticket = None
        bound = route.bound
        gate = bound.gate if bound is not None else None
        if limits.channel_slot is not None and (gate is None or limits.channel_slot.key != gate.key):
            self.forgo(call)
        if gate is not None and limits.channel_slot is None:
            self._limiter.lines.enter((gate,))
        if limits.channel_slot is not None:
            limits.channel_slot = None
        if bound is not None and bound.rated:
            attempt.channel_ticket = self._limiter.take((bound,), call.need.rate_tokens)
        if scopes := limits.scopes:
            limits.read_headers = lambda: headers_of(self._limiter.readings(scopes))
            asyncio.get_running_loop().call_soon(limits.read)  # while the upstream is waited for

    def leave(self, route: Route) -> None:
        """End an attempt."""
        if route.bound is not None and route.bound.gate is not None:
            self._limiter.lines.leave((route.bound.gate,))

    async def wait(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> bool:
        """Wait until the call has a place at one of these. Returns False if it got none in time."""
        self.forgo(call)
        self.on_wait(call, wait_text(gates))
        try:
            call.limits.channel_slot = await self._limiter.lines.wait(gates)
        except GatewayError:
            return False
        return True

    async def make(self, call: Call, route: Route) -> bool:
        """Returns whether the channel has room for the call's next attempt, after a wait if needed."""
        against = self.of(call)(route)
        gate = route.bound.gate if route.bound is not None else None
        if against is not None and against.rule == "full" and gate is not None and await self.wait(call, (gate,)):
            against = self.of(call)(route)
        if against is not None:
            self.forgo(call)
        return against is None

    def forgo(self, call: Call) -> None:
        """Give back an unused place that the call waited for."""
        slot, call.limits.channel_slot = call.limits.channel_slot, None
        if slot is not None:
            self._limiter.lines.leave((slot,))


class StickyRoute(msgspec.Struct, frozen=True):
    """The channel and key that answered a conversation."""

    channel: ChannelId
    key_id: ChannelId


class _StickyMessage(msgspec.Struct):
    role: str = ""


_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_StickyMessage)


def conversation(token: str, model: str, fields: Fields, session: str = "") -> bytes:
    """Returns a short name of a request's conversation. ``session`` is the client's own name for it."""
    named = blake2b(f"{token}\n{model}\n{session}".encode("utf-8", "surrogatepass"), digest_size=16)
    if session or bytes(memoryview(fields["messages"])[:1]) != b"[":
        named.update(b"" if session else memoryview(fields["messages"])[: 64 << 10])
        return named.digest()
    for raw in _MESSAGES.decode(fields["messages"])[:8]:  # more are not examined
        named.update(memoryview(raw)[: 64 << 10])
        if _MESSAGE.decode(raw).role == "user":
            break
    return named.digest()


class StickyRoutes:
    """The recent conversations and where they were answered."""

    def __init__(self, mono: Callable[[], float] = lambda: 0.0, *, keep_s: float = 3600.0, most: int = 10_000) -> None:
        self._mono = mono
        self._keep_s = keep_s
        self._most = most
        self._places: OrderedDict[bytes, tuple[StickyRoute, float]] = OrderedDict()

    def place(self, pin: bytes) -> StickyRoute | None:
        """Returns where the conversation was answered last."""
        entry = self._places.get(pin)
        return entry[0] if entry is not None and self._mono() - entry[1] <= self._keep_s else None

    def note(self, pin: bytes, place: StickyRoute) -> None:
        """Remember where it was answered."""
        self._places[pin] = (place, self._mono())
        self._places.move_to_end(pin)
        if len(self._places) > self._most:
            self._places.popitem(last=False)


class Chooser:
    """Chooses channels. ``draw`` is the source of randomness."""

    def __init__(
        self,
        *,
        health: ChannelHealth,
        draw: Draw,
        retries: RetryBudget,
        channel_limits: ChannelLimits,
        sticky: StickyRoutes,
    ) -> None:
        self._health = health
        self._draw = draw
        self._retries = retries
        self._channel_limits = channel_limits
        self._sticky = sticky
        self._kept = StickyRoutes(keep_s=math.inf, most=4096)
        """Where the answers are that requests may continue, by their ids."""

    def first(self, call: Call, entry: ModelEntry, *, waited: bool = False, dry: bool = False) -> RouteChoice:
        """Returns the first channel, or where a place may come free if the call has not ``waited`` for one.

        ``dry``: only to find out; nothing is counted. Raises NoChannel if no channel can answer, and RateLimited or
        Unavailable if that is because of the channels' own limits.
        """
        self._retries.calls += not (waited or dry)
        if waited:
            _forget_passed(call)  # the channel it waited for was skipped then, but not now
        if call.context.request.kept_id and (place := self._kept.place(call.context.request.kept_id.encode())):
            return self._go_on(call, entry, place)
        sticky = call.context.group.sticky or call.context.origin.api.sticky
        if len(entry.routes) == 1 and not entry.routes[0].keys:
            sticky = False
        if entry.first_tier and not self._health.failing and call.limits.channel_slot is None and not sticky:
            tier = entry.first_tier
            choice = choose_from(tier, self._draw)
            bound = choice.route.bound if choice.route is not None else None
            if bound is None or bound.gate is None or self._channel_limits.lines.has_room(bound.gate):
                return choice
        choice = (self._stay(call, entry) if sticky else None) or self._choose(call, entry.routes)
        passed = choice.passed
        if entry.fallbacks and (choice.route is None or choice.resting):
            choice = self._fall_back(call, entry, choice)
        if choice.route is None and (waited or not choice.gates):
            raise no_channel(call, choice)
        if passed and choice.route is not None and not dry:
            call.limits.marks += _passed_marks(passed, choice.route, entry)
        return choice

    def _choose(self, call: Call, routes: Sequence[Route]) -> RouteChoice:
        return choose(routes, NOTHING_TRIED, self._health, self._draw, self._channel_limits.of(call))

    def _go_on(self, call: Call, entry: ModelEntry, place: StickyRoute) -> RouteChoice:
        """Returns the only channel that keeps the answer the request continues. Raises as ``first`` does."""
        channel = call.context.catalog.registry.channels.get(place.channel)
        name = plain(channel.name if channel is not None else place.channel)
        choice = self._choose(call, [route for route in entry.routes if route.channel.id == place.channel])
        if choice.route is None:
            error = no_channel(call, choice)
            error.message += f"; what the request goes on from is kept at channel '{name}'"
            raise error
        return msgspec.structs.replace(choice, why=f"state lives at channel {name}", gates=())

    def _stay(self, call: Call, entry: ModelEntry) -> RouteChoice | None:
        """Returns the channel and key that answered the conversation last if they are free, else None."""
        request = call.context.request
        if request.turns not in request.fields:
            return None
        call.conversation = conversation(call.context.token.id, entry.name, request.conversation, request.session)
        place = self._sticky.place(call.conversation)
        if place is None:
            return None
        choice = self._choose(call, [route for route in entry.routes if route.channel.id == place.channel])
        if choice.route is None or choice.resting:
            return None
        route = next((r for r in entry.routes if r.channel.id == place.channel), choice.route)
        key = next((key_route for key_route in route.keys if key_route.key_id == place.key_id), choice.route)
        if key is not choice.route and self._health.state_of(key.key_id).name != "ok":
            key = choice.route
        if key.rank.tier > entry.routes[0].rank.tier and STAYED_MARK not in call.limits.marks:
            call.limits.marks += (STAYED_MARK,)
        return msgspec.structs.replace(choice, route=key, why=f"where the conversation was, {key.rank.place}")

    def _fall_back(self, call: Call, entry: ModelEntry, choice: RouteChoice) -> RouteChoice:
        """Returns a channel that is well for a fallback model, else the first paused one."""
        last_resort = choice if choice.route is not None else None
        passed = list(choice.passed)
        for other in entry.fallbacks:
            other_choice = self._choose(call, other.routes)
            if other_choice.route is not None and (not other_choice.resting or last_resort is None):
                last_resort = as_fallback(other_choice, entry)
                if not other_choice.resting:
                    break
            passed += [msgspec.structs.replace(skipped, model=other.name) for skipped in other_choice.passed]
        return last_resort or msgspec.structs.replace(choice, passed=tuple(passed))

    async def next(self, call: Call, tries: RetryState) -> NextStep | None:
        """Returns where a call goes after failed attempts; None: nowhere. It may have to wait for a place there."""
        if call.context.request.kept_id and self._kept.place(call.context.request.kept_id.encode()) is not None:
            return None
        step = tries.next(self._health, self._draw, self._retries, self._channel_limits.of(call))
        if step is None and tries.gates and await self._channel_limits.wait(call, tries.gates):
            step = tries.next(self._health, self._draw, self._retries, self._channel_limits.of(call))
        return step

    def keep(self, answer: str, route: Route) -> None:
        """Remember that an upstream keeps this answer of its own."""
        if answer:
            self._kept.note(answer.encode(), StickyRoute(route.channel.id, route.key_id))

    def stay(self, pin: bytes, route: Route) -> None:
        """Remember that a conversation was answered there."""
        self._sticky.note(pin, StickyRoute(route.channel.id, route.key_id))


def _forget_passed(call: Call) -> None:
    call.limits.marks = tuple(mark for mark in call.limits.marks if not mark.startswith(PASSED_MARK))


def _passed_marks(passed: Sequence[SkippedRoute], route: Route, entry: ModelEntry) -> tuple[str, ...]:
    """Returns marks that name the skipped channels before the chosen one, and why."""
    first = {other.channel.name for other in entry.routes if other.rank.tier < route.rank.tier}
    if route.served.name != entry.name:  # all of them come before those of a fallback
        first = {other.channel.name for other in entry.routes}
    before = [skipped for skipped in passed if skipped.channel in first][:3]
    return tuple(f"{PASSED_MARK}{plain(_skip_text(skipped), 120)}" for skipped in before)


def no_channel(call: Call, choice: RouteChoice) -> GatewayError:
    """Returns the error that no channel can be called, with the reason of each."""
    reasons = "; ".join(map(_skip_text, choice.passed)) or "it has no channel left"
    if call.limits.unaffordable:
        reasons += f"; {unaffordable_text(call.limits.unaffordable)}"
    model, group, token = call.context.request.model, call.context.group, call.context.token
    msg = (
        f"no channel can serve model '{plain(model)}' for group '{plain(group.name)}' now: {reasons}; "
        f"'tollkeeper why {word(token.name)} {word(model)}' explains it"
    )
    rules = {passed.rule for passed in choice.passed if passed.rule in ("full", "limit")}
    if rules == {"full"}:
        return Unavailable(msg, retry_after_s=choice.retry_s)
    if rules:
        code = "" if choice.retry_s else "request_too_large_for_limit"
        return RateLimited(msg, code=code, retry_after_s=choice.retry_s)
    if choice.passed and all(passed.rule == "missing" for passed in choice.passed):
        return NotFound(msg, code="model_not_found", param="model")
    error = NoChannel(msg, retry_after_s=choice.retry_s)
    error.skipped = tuple(dict.fromkeys(skipped.channel for skipped in choice.passed if skipped.rule in PAUSED_RULES))
    return error


def unaffordable_text(models: Sequence[str]) -> str:
    """Returns a text that these fallbacks of a call are left out, and why."""
    return "; ".join(f"fallback {plain(model, 80)}: too little money or tokens left for it" for model in models)


def _skip_text(skipped: SkippedRoute) -> str:
    served = f" for {skipped.model}" if skipped.model else ""
    return f"{plain(skipped.channel)}{plain(served)}: {skipped.reason}"
