"""Preparer: writes a client's request as one channel gets it, with the owner's overrides, in the channel's dialect, and
without parameters that the channel refused before.

A small request is prepared at once, in the event loop. Large ones are prepared in a single worker thread, one after
another. Python runs one thread at a time, so the loop waits while the worker is in a call into C: at most some 40 ms
for the largest request. Otherwise ``share_fairly`` lets the loop run at once.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TypeVar

import msgspec

from gateway.core.call import Call
from gateway.core.model_entry import Route
from gateway.core.quota import affordable_output, need_of
from gateway.domain.channel import Channel, Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.failure import Failure, ResponsesNeed
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import NULL, is_nothing
from gateway.domain.units import Millis
from gateway.inbound.api import AttemptPlan, InboundApi
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import NOTHING, LearnedParams, lesson_in
from gateway.upstream.openai.responses import ResponsesDialect
from gateway.upstream.translation import refusal_of

Result = TypeVar("Result")


class Worker:
    """Does the work of large requests and answers in threads, one by one. The process ends without waiting for them."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], Result], *, large: bool = True) -> Result:
        """Returns the work's result or raises its exception. Work that is not ``large`` is done at once, in the loop.

        If the caller is cancelled, the work is not begun, or finished first: a call's usage may change until then. A
        caller that is cancelled again does not wait.
        """
        if not large:
            return work()
        async with self._turn:
            future = Future[Result]()
            Thread(target=_fulfil, args=(future, work), name="tollkeeper-large", daemon=True).start()
            waiting = asyncio.wrap_future(future)
            try:
                return await asyncio.shield(waiting)
            except asyncio.CancelledError:
                await asyncio.wait([waiting])
                raise
            finally:
                del future, waiting  # they keep the exception, which would keep this frame and the whole request


def _fulfil(future: "Future[Result]", work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the thread's outermost frame: the caller gets it
        future.set_exception(error)
        del future  # the error refers to this frame


def share_fairly() -> None:
    """Shorten the switch interval of the whole process. It costs nothing while no other thread has work."""
    sys.setswitchinterval(0.0005)  # by default the loop waits 5 ms for each of its events


@dataclass(eq=False)
class Preparer:
    """Prepares requests, and remembers what channels refuse or lack."""

    learned: LearnedParams
    worker: Worker
    wall: Callable[[], Millis]
    responses: ResponsesDialect = field(default_factory=ResponsesDialect)
    adapters: Mapping[Dialect, ChannelDialect] = field(default_factory=lambda: {d: new_adapter(d) for d in Dialect})
    """The adapters of all calls. Calls of a dialect share one, because it remembers parts of answers."""

    async def plan(self, call: Call, order: Order, route: Route, dialect: ChannelDialect | None = None) -> AttemptPlan:
        """Returns how the client's API calls this channel. Raises AttemptFailed if the request cannot be translated."""
        api, channel = call.context.origin.api, route.channel
        adapter = dialect or self.adapters[channel.dialect]
        lacks_api = bool(self.learned.missing_apis) and self._lacks(api, order, channel)
        try:
            if call.context.request.input_estimate is None:
                return api.plan(order, channel, adapter, lacks_api=lacks_api)
            return await self.worker.run(partial(api.plan, order, channel, adapter, lacks_api=lacks_api))
        except BadRequest as error:
            raise refusal_of(channel, error) from error

    def response_need(self, order: Order, route: Route, failure: Failure | None = None) -> ResponsesNeed | None:
        """Returns why a chat must be a response, as its failure says or was learned; None if it need not or cannot."""
        knows = partial(self.learned.needs_responses, route.channel.id, route.served, now=self.wall())
        learned = filter(knows, (ResponsesNeed.MODEL, ResponsesNeed.TOOLS))
        needs = learned if failure is None else [failure.needs_responses]
        need = next((need for need in needs if need is not ResponsesNeed.TOOLS or _has_tools(order)), None)
        return None if need is ResponsesNeed.NOTHING or knows(ResponsesNeed.NOTHING) else need

    def is_native(self, call: Call, channel: Channel) -> bool:
        """Returns whether this channel is known to speak the client's API. It is too slow for large requests."""
        origin, api, request = call.context.origin, call.context.origin.api, call.context.request
        if api.selects(request) and api.obstacle(request, channel):
            return False
        order = api.order(request, origin.id, origin.ts)
        lacks_api = self._lacks(api, order, channel)
        try:
            return api.plan(order, channel, self.adapters[channel.dialect], lacks_api=lacks_api).native
        except BadRequest:
            return False

    def _lacks(self, api: InboundApi, order: Order, channel: Channel) -> bool:
        """Returns whether the channel was found to lack the API, or a kind of tool or item that the request has."""
        now = self.wall()
        if self.learned.lacks(channel.id, _ability_of(api), now):
            return True
        return api.has_kinds(order.fields, self.learned.refused_kinds(channel.id, api.name, now))

    def recalled_tokens(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Returns the maximum input tokens that a dialect may add to a request from memory."""
        return max([adapter.recalled_tokens(fields) for adapter in (self.responses, *self.adapters.values())])

    async def run(self, call: Call, work: Callable[[], Result]) -> Result:
        """Returns the result of work whose time grows with the request: in the worker if the request is large."""
        return await self.worker.run(work, large=call.context.request.input_estimate is not None)

    async def prepare(self, call: Call, plan: AttemptPlan, route: Route, refused: LearnedRefusals) -> PreparedRequest:
        """Returns the request as this channel gets it. Raises AttemptFailed if it cannot be written."""
        need, hold, order = call.need, call.hold, plan.order
        if hold.nanos < need.nanos or hold.tokens < need.input + need.output.expected:
            order = msgspec.structs.replace(order, output_budget=await self._output_budget(call, route))
        try:
            if call.context.request.input_estimate is None:
                return plan.adapter.prepare(order, route.channel, route.served, refused)
            return await self.worker.run(partial(plan.adapter.prepare, order, route.channel, route.served, refused))
        except BadRequest as error:
            raise refusal_of(route.channel, error) from error

    async def _output_budget(self, call: Call, route: Route) -> int | None:
        """Returns how many output tokens the hold pays for at this model; None if it pays for all that are needed."""
        context, price = call.context, call.attempt.price
        multiplier, token = context.group.multiplier, context.token
        prices = [] if price is None else [price]
        budget = affordable_output(call.need, call.hold.nanos, call.hold.tokens, prices, multiplier)
        entry = context.catalog.visible(token).get(context.request.model)
        if budget is None or entry is None or not entry.fallbacks:
            return budget
        # the hold is for the most expensive of several models: this one may need less
        model = next((fallback for fallback in entry.fallbacks if fallback.name == route.served.name), entry)
        work = partial(need_of, context.request, model.effects, prices, hold_output=token.hold_output)
        need = await self.run(call, work)
        return None if budget >= need.output.expected and not need.owner_limit else budget

    def refusals_of(self, route: Route) -> LearnedRefusals:
        """Returns what the upstream rejects, without which requests are written now."""
        return self.learned.of(route.channel.id, route.served, self.wall()) if self.learned.refusals else NOTHING

    async def learn(self, call: Call, order: Order, route: Route, failure: Failure, used: LearnedRefusals) -> bool:
        """Remember parameters that the upstream rejected by name. Returns whether to call again without them.

        The failed request was written with ``used``.
        """
        lesson = await self.run(call, partial(lesson_in, order, route.channel, failure, used))
        return self.learned.learn(route.channel, route.served, lesson, self.wall(), used=used)

    async def repair(self, call: Call, plan: AttemptPlan, channel: Channel, failure: Failure) -> Order | None:
        """Returns the order as its API or its dialect repairs it after a failure; None if neither does."""
        dialect = self.responses if channel.dialect is Dialect.OPENAI else self.adapters[channel.dialect]
        repair = plan.repair or partial(dialect.repair, channel)
        return await self.run(call, partial(repair, plan.order, failure))


def _has_tools(order: Order) -> bool:
    return any(not is_nothing(order.fields.get(name, NULL)) for name in ("tools", "functions"))


def _ability_of(api: InboundApi) -> str:
    """Returns the name of what a channel may lack: a part of the API, or all of it."""
    return api.ability or api.name


def lacking_names(api: InboundApi, failure: Failure) -> list[str]:
    """Returns the names of what a channel with this failure lacks: kinds of content, or the API."""
    return [f"{api.name}:{kind}" for kind in failure.refused_kinds] or [_ability_of(api)]
