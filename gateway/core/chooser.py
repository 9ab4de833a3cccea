"""Which channel a call goes to, from what is known of channels, their limits, conversations and retries.

``routing`` makes the choice itself, ``retry`` decides what follows a failure. A conversation goes to the channel and
key that answered it last, so that its prompt cache is used again. It is known by its token, its model and its messages
up to the user's first. Bounded, in memory.

An attempt counts against its channel's limits from the moment it begins; its place is free again when it ends. The
tokens that it was counted with become those that were used; an attempt after which another channel was tried has used
none.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from gateway.core.call import Call
from gateway.core.catalog import ModelEntry, Route
from gateway.core.channel_health import ChannelHealth
from gateway.core.concurrency import wait_text
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.core.ratelimit import Limiter, headers_of
from gateway.core.retry import NextStep, RetryBudget, RetryState, instead
from gateway.core.routing import NOTHING_TRIED, Draw, RouteChoice, SkippedRoute, choose, easy
from gateway.domain.call import PASSED_MARK, STAYED_MARK
from gateway.domain.errors import GatewayError, NoChannel, NotFound, RateLimited, Unavailable
from gateway.domain.human_values import plural
from gateway.domain.rawjson import Fields
from gateway.domain.text import plain, word
from gateway.domain.units import ChannelId

PAUSED_RULES = frozenset({"attention", "cooling", "trial"})
"""Rules that skip a channel because of what it did before."""
SOON_S = 1.0
"""When a place among the calls in flight may come free: nobody knows."""


class ChannelTickets:
    """Asked for each channel that a call may go to."""

    __slots__ = ("_held", "_limiter", "_tokens")

    def __init__(self, limiter: Limiter, tokens: int, held: tuple[str, str] | None = None) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._held = held
        """The gate at which the call has a place already."""

    def __call__(self, route: Route) -> SkippedRoute | None:
        """What speaks against a channel, if anything does."""
        bound = route.bound
        if bound is None:
            return None
        gate = bound.gate
        if gate is not None and not self._limiter.lines.has_room(gate) and gate.key != self._held:
            return SkippedRoute(
                route.channel.name,
                f"at its limit of {gate.limit} {plural(gate.limit, 'call in flight')}",
                "full",
                SOON_S,
            )
        if bound.rated and (over := self._limiter.against(bound, self._tokens)) is not None:
            return SkippedRoute(route.channel.name, over.reason, "limit", over.wait_s)
        return None


class ChannelLimits:
    """The room of all channels."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self.lines = limiter.lines
        self.on_wait: Callable[[Call, str], None] = lambda _call, _what: None
        """Called with what a running call is about to wait for."""

    def of(self, call: Call) -> ChannelTickets:
        """What there is for this call."""
        slot = call.limits.channel_slot
        held = slot.key if slot is not None else None
        return ChannelTickets(self._limiter, call.need.rate_tokens, held)

    def enter(self, call: Call, route: Route) -> None:
        """An attempt begins, in the same moment in which its channel was chosen."""
        attempt, limits = call.attempt, call.limits
        if attempt.channel_ticket is not None:
            attempt.channel_ticket.true_up(0)
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
        if limits.scopes:
            limits.read_headers = partial(self._headers, limits.scopes)
            asyncio.get_running_loop().call_soon(limits.read)  # while the upstream is waited for

    def _headers(self, binding: tuple[RateScope, ...]) -> dict[str, str]:
        return headers_of(self._limiter.readings(binding))

    def leave(self, route: Route) -> None:
        """It has ended."""
        if route.bound is not None and route.bound.gate is not None:
            self._limiter.lines.leave((route.bound.gate,))

    async def wait(self, call: Call, gates: tuple[ConcurrencyGate, ...]) -> bool:
        """Until the call has a place at one of these; False if there was none in time."""
        self.forgo(call)
        self.on_wait(call, wait_text(gates))
        try:
            call.limits.channel_slot = await self._limiter.lines.wait(gates)
        except GatewayError:
            return False
        return True

    async def make(self, call: Call, route: Route) -> bool:
        """Whether the channel has room for the call's next attempt, after a wait if need be."""
        against = self.of(call)(route)
        gate = route.bound.gate if route.bound is not None else None
        if against is not None and against.rule == "full" and gate is not None and await self.wait(call, (gate,)):
            against = self.of(call)(route)
        if against is not None:
            self.forgo(call)
        return against is None

    def forgo(self, call: Call) -> None:
        """Give a place back that was waited for and is not used."""
        slot, call.limits.channel_slot = call.limits.channel_slot, None
        if slot is not None:
            self._limiter.lines.leave((slot,))


MOST = 10_000
"""Conversations that are remembered."""
KEEP_S = 3600.0
"""After this no vendor's cache remembers either."""
MOST_PASSED = 3
"""Channels that a call did not go to, of which its record says why."""
PASSED_CHARS = 120
"""Of the reason, with the channel's name."""
MOST_KEPT = 4096
"""Answers of upstreams that are remembered."""
BEGINNING = 8
"""Messages that are looked at, at most."""


class StickyRoute(msgspec.Struct, frozen=True):
    """Where a conversation was answered."""

    channel: ChannelId
    key_id: ChannelId


class _StickyMessage(msgspec.Struct):
    role: str = ""


_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_StickyMessage)


def conversation(token: str, model: str, fields: Fields, session: str = "") -> bytes:
    """A short name of the conversation that a request belongs to. ``session`` is the client's own name of it."""
    named = blake2b(f"{token}\n{model}\n{session}".encode("utf-8", "surrogatepass"), digest_size=16)
    if session or bytes(memoryview(fields["messages"])[:1]) != b"[":
        named.update(b"" if session else memoryview(fields["messages"])[: 64 << 10])
        return named.digest()
    for raw in _MESSAGES.decode(fields["messages"])[:BEGINNING]:
        named.update(memoryview(raw)[: 64 << 10])
        if _MESSAGE.decode(raw).role == "user":
            break
    return named.digest()


class StickyRoutes:
    """The recent conversations."""

    def __init__(self, mono: Callable[[], float] = lambda: 0.0, *, keep_s: float = KEEP_S, most: int = MOST) -> None:
        self._mono = mono
        self._keep_s = keep_s
        self._most = most
        self._places: OrderedDict[bytes, tuple[StickyRoute, float]] = OrderedDict()

    def place(self, pin: bytes) -> StickyRoute | None:
        """Where the conversation was answered last."""
        found = self._places.get(pin)
        return found[0] if found is not None and self._mono() - found[1] <= self._keep_s else None

    def note(self, pin: bytes, place: StickyRoute) -> None:
        """It was answered there."""
        self._places[pin] = (place, self._mono())
        self._places.move_to_end(pin)
        if len(self._places) > self._most:
            self._places.popitem(last=False)


class Chooser:
    """Chooses. ``draw`` is the source of chance."""

    def __init__(
        self, *, health: ChannelHealth, draw: Draw, retries: RetryBudget, rooms: ChannelLimits, sticky: StickyRoutes
    ) -> None:
        self._health = health
        self._draw = draw
        self._retries = retries
        self._rooms = rooms
        self._sticky = sticky
        self._kept = StickyRoutes(keep_s=math.inf, most=MOST_KEPT)
        """Where answers are that requests may go on from, by their ids."""

    def first(self, call: Call, entry: ModelEntry, *, waited: bool = False, dry: bool = False) -> RouteChoice:
        """The channel to begin with, or where a place may come free, if the call has not ``waited`` for one before.

        ``dry``: only to know, no call is counted. Raises NoChannel if there is none, RateLimited or Unavailable if that
        is for the channels' own limits.
        """
        self._retries.calls += not (waited or dry)
        if waited:
            _forget_passed(call)  # what it waited for was passed over then, not now
        if call.context.request.kept_id and (place := self._kept.place(call.context.request.kept_id.encode())):
            return self._go_on(call, entry, place)
        sticky = call.context.group.sticky or call.context.visit.api.sticky
        if entry.easy and not self._health.failing and call.limits.channel_slot is None and not sticky:
            tier = entry.easy
            choice = RouteChoice(tier[0], tier[0].rank.place, (), None) if len(tier) == 1 else easy(tier, self._draw)
            bound = choice.route.bound if choice.route is not None else None
            if bound is None or bound.gate is None or self._rooms.lines.has_room(bound.gate):
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
        return choose(routes, NOTHING_TRIED, self._health, self._draw, self._rooms.of(call))

    def _go_on(self, call: Call, entry: ModelEntry, place: StickyRoute) -> RouteChoice:
        """The channel that keeps what the request goes on from: no other one has it. Raises as ``first`` does."""
        found = call.context.catalog.registry.channels.get(place.channel)
        name = plain(found.name if found is not None else place.channel)
        choice = self._choose(call, [route for route in entry.routes if route.channel.id == place.channel])
        if choice.route is None:
            error = no_channel(call, choice)
            error.message += f"; what the request goes on from is kept at channel '{name}'"
            raise error
        return msgspec.structs.replace(choice, why=f"state lives at channel {name}", gates=())

    def _stay(self, call: Call, entry: ModelEntry) -> RouteChoice | None:
        """The channel and the key that answered the conversation last, if they are free; else None."""
        request = call.context.request
        if (len(entry.routes) == 1 and not entry.routes[0].keys) or request.turns not in request.fields:
            return None
        call.conversation = conversation(call.context.token.id, entry.name, request.conversation, request.session)
        place = self._sticky.place(call.conversation)
        if place is None:
            return None
        choice = self._choose(call, [route for route in entry.routes if route.channel.id == place.channel])
        if choice.route is None or choice.resting:
            return None
        route = next((r for r in entry.routes if r.channel.id == place.channel), choice.route)
        key = next((one for one in route.keys if one.key_id == place.key_id), choice.route)
        if key is not choice.route and self._health.state_of(key.key_id).name != "ok":
            key = choice.route
        if key.rank.tier > entry.routes[0].rank.tier and STAYED_MARK not in call.limits.marks:
            call.limits.marks += (STAYED_MARK,)
        return msgspec.structs.replace(choice, route=key, why=f"where the conversation was, {key.rank.place}")

    def _fall_back(self, call: Call, entry: ModelEntry, choice: RouteChoice) -> RouteChoice:
        """A channel that is well for another model, rather than none or a paused one; else the first paused one."""
        last_resort = choice if choice.route is not None else None
        passed = list(choice.passed)
        for other in entry.fallbacks:
            found = self._choose(call, other.routes)
            if found.route is not None and (not found.resting or last_resort is None):
                last_resort = instead(found, entry)
                if not found.resting:
                    break
            passed += [msgspec.structs.replace(one, model=other.name) for one in found.passed]
        return last_resort or msgspec.structs.replace(choice, passed=tuple(passed))

    async def next(self, call: Call, tries: RetryState) -> NextStep | None:
        """Where a call goes whose attempts failed; None: nowhere. It may have to wait for a place there."""
        if call.context.request.kept_id and self._kept.place(call.context.request.kept_id.encode()) is not None:
            return None
        step = tries.next(self._health, self._draw, self._retries, self._rooms.of(call))
        if step is None and tries.gates and await self._rooms.wait(call, tries.gates):
            step = tries.next(self._health, self._draw, self._retries, self._rooms.of(call))
        return step

    def keep(self, answer: str, route: Route) -> None:
        """An upstream may keep this answer of its own."""
        if answer:
            self._kept.note(answer.encode(), StickyRoute(route.channel.id, route.key_id))

    def stay(self, pin: bytes, route: Route) -> None:
        """A conversation was answered there."""
        self._sticky.note(pin, StickyRoute(route.channel.id, route.key_id))


def _forget_passed(call: Call) -> None:
    call.limits.marks = tuple(mark for mark in call.limits.marks if not mark.startswith(PASSED_MARK))


def _passed_marks(passed: Sequence[SkippedRoute], route: Route, entry: ModelEntry) -> tuple[str, ...]:
    """Marks that name the channels that come before the one a call goes to, and what spoke against them."""
    first = {other.channel.name for other in entry.routes if other.rank.tier < route.rank.tier}
    if route.served.name != entry.name:  # all of them come before those of a fallback
        first = {other.channel.name for other in entry.routes}
    before = [one for one in passed if one.channel in first][:MOST_PASSED]
    return tuple(f"{PASSED_MARK}{plain(_skip_text(one), PASSED_CHARS)}" for one in before)


def no_channel(call: Call, choice: RouteChoice) -> GatewayError:
    """Why nothing can be asked, channel by channel."""
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
    error.skipped = tuple(dict.fromkeys(one.channel for one in choice.passed if one.rule in PAUSED_RULES))
    return error


def unaffordable_text(models: Sequence[str]) -> str:
    """That these fallbacks of a call are left out, and why."""
    return "; ".join(f"fallback {plain(model, 80)}: too little money or tokens left for it" for model in models)


def _skip_text(skipped: SkippedRoute) -> str:
    served = f" for {skipped.model}" if skipped.model else ""
    return f"{plain(skipped.channel)}{plain(served)}: {skipped.reason}"
