"""Preparation: what a client asked for, as one channel gets it: its owner's edits, its dialect, what it refused before.

A small request is prepared at once. A large one is prepared in the worker's thread from its brief fields, and what is
missing in these is put back by reference: its long strings are never copied.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from gateway.core.body import unmask
from gateway.core.call import Call
from gateway.core.catalog import Route
from gateway.core.large_body import unmasked
from gateway.core.worker import Result, Worker
from gateway.domain.channel import Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.units import Millis
from gateway.upstream import rawjson
from gateway.upstream.adapter import Adapter, Failure, Learned, Order, Prepared
from gateway.upstream.learned_params import LearnedParams
from gateway.upstream.overrides import apply_overrides


class Preparer:
    """Prepares requests for channels."""

    def __init__(self, adapter_of: Callable[[Dialect], Adapter], lessons: LearnedParams, worker: Worker) -> None:
        self._adapter_of = adapter_of
        self._lessons = lessons
        self._worker = worker

    async def edit(self, call: Call, order: Order, route: Route) -> Order:
        """The order as the channel's owner wants it."""
        if (edits := route.channel.overrides) is None:
            return order
        return await self.run(call, partial(apply_overrides, order, edits))

    async def run(self, call: Call, work: Callable[[], Result]) -> Result:
        """The result of work that takes the longer the larger the call's request is."""
        return await self._worker.run(work) if call.asked.large else work()

    async def prepare(self, call: Call, order: Order, route: Route, now: Millis) -> Prepared:
        """The request as this channel wants it. Raises AttemptFailed or BadRequest if it cannot be put so."""
        channel, mask = route.channel, call.asked.mask
        adapter = self._adapter_of(channel.dialect)
        learned = self._lessons.of(channel.id, route.served, now)
        if call.asked.large:
            return await self._worker.run(partial(prepare_large, adapter, order, route, learned, mask))
        prepared = adapter.prepare(order, channel, route.served, learned)
        return msgspec.structs.replace(prepared, body=unmask(prepared.body, mask)) if mask else prepared

    def learn(self, order: Order, route: Route, failure: Failure, now: Millis) -> bool:
        """Whether the upstream refused parameters by name: it is asked once more without them, which is kept."""
        return self._lessons.learn(route.channel, route.served, order, failure, now)


def prepare_large(adapter: Adapter, order: Order, route: Route, learned: Learned, mask: bytes) -> Prepared:
    """The request of a large order, in parts. Its ``body`` is what the demo upstream reads of it."""
    prepared = adapter.prepare(order, route.channel, route.served, learned)
    if prepared.body is order.body:  # it goes out as it came
        brief = rawjson.encode(order.fields) if route.channel.dialect is Dialect.MOCK else b""
        return msgspec.structs.replace(prepared, body=order.long.clipped(brief), parts=(order.body,))
    try:
        parts = order.long.filled(prepared.body)
    except ValueError as error:
        raise BadRequest(str(error), code="too_complex") from error
    if mask:
        parts = [unmasked(bytes(part), mask) for part in parts]
    brief = unmasked(order.long.clipped(prepared.body), mask)
    return msgspec.structs.replace(prepared, body=brief, parts=tuple(parts))
