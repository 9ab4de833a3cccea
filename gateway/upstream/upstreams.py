"""Upstreams: sends requests to upstreams, through a pool of connections for each channel, or to the mock."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import AnswerMemoryFull
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.text import plain
from gateway.domain.units import ChannelId
from gateway.upstream import failures
from gateway.upstream.adapter import Adapter, Memory, Reply, WholeAnswer
from gateway.upstream.credentials import ChannelVariables, headers_of, proxy_of
from gateway.upstream.dialects import DIALECTS
from gateway.upstream.http.pool import OpenConnections, Pool
from gateway.upstream.mock import Mock
from gateway.upstream.model_list import ModelPage, read_models
from gateway.upstream.redaction.redaction import Redaction

_SAME_AT_ANY_ROOT = frozenset({FailureKind.NETWORK, FailureKind.SLOW, FailureKind.AUTH, FailureKind.UNSET})
"""The failures of fetching a list of models that another root of the same host would have too."""

_log = logging.getLogger("tollkeeper")


class Upstreams:
    """The only way to the upstreams. ``environ`` resolves ``env:NAME`` references."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        mock: Mock | None = None,
        max_connections: Callable[[], int] = lambda: 0,
    ) -> None:
        """``max_connections`` returns how many connections all pools together may have; 0 for any number."""
        self._environ = os.environ if environ is None else environ
        self.variables = ChannelVariables(self._environ)
        self._mock = mock or Mock()
        self._open_connections = OpenConnections(max_connections)
        self.redaction = Redaction(self._environ)
        self._pools: dict[ChannelId, list[Pool]] = {}
        """One pool for each channel, or for each of its keys."""
        self.share: Callable[[], AbstractContextManager[Memory]]
        """Returns a share of the memory for answers, for a body that no call reads. Set by the engine."""
        self.dates: dict[ChannelId, str] = {}
        """The ``Date`` header of each channel's last list of models, which is the time by the upstream's clock."""
        self.unnamed: dict[ChannelId, int] = {}
        """The number of models without a usable name in each channel's last list."""

    async def send(self, channel: Channel, prepared: PreparedRequest, *, stream: bool) -> Reply:
        """Send a request, and return the reply once its head has arrived. Raises AttemptFailed."""
        if channel.dialect is Dialect.MOCK:
            return await self._mock.answer(channel, prepared)
        pools = self._pools.get(channel.id)
        pool = pools[0] if pools and pools[0].channel is channel else self._pool_for(channel)
        return await pool.send("POST", prepared, channel.timeouts.head_s(stream=stream))

    async def complete(
        self,
        order: Order,
        channel: Channel,
        served: ServedModel,
        learned: LearnedRefusals,
        limit: int,
        adapter: Adapter,
    ) -> WholeAnswer:
        """Make one plain call. Returns its answer of at most ``limit`` bytes. Raises UpstreamError."""
        order = msgspec.structs.replace(order, screen=self.redaction.screen(channel))
        with self.redaction.errors_of(channel):
            reply = await self.send(channel, adapter.prepare(order, channel, served, learned), stream=False)
            body = await self.read_body(channel, reply, limit, "its answer")
            if not 200 <= reply.status < 300:
                raise AttemptFailed(adapter.failure(channel, reply.status, reply.headers, body))
            return adapter.whole(body, order, channel)

    async def read_body(self, channel: Channel, reply: Reply, limit: int, subject: str) -> bytes:
        """Returns a reply's body, and ends the reply. ``subject`` names the body in an error. Raises AttemptFailed."""
        try:
            with self.share() as memory:
                return await reply.read(limit, memory)
        except AnswerMemoryFull as error:
            raise AttemptFailed(failures.out_of_memory(channel, subject, error)) from error
        finally:
            reply.abort()

    async def fetch_models(self, channel: Channel) -> list[ServedModel]:
        """Returns the models that the upstream lists now. Raises UpstreamError."""
        with self.redaction.errors_of(channel):
            return await self._fetch_models(channel)

    async def discover_root(self, channel: Channel) -> tuple[str, list[ServedModel]]:
        """Returns the base URL that has a list of models, and that list. It is the channel's URL, or the same with
        ``/v1`` added or removed.

        If neither has a list, raises the UpstreamError of the channel's URL, unless the other one refuses the key.
        """
        with self.redaction.errors_of(channel):
            base = channel.base_url.rstrip("/")
            try:
                return base, await self._fetch_models(channel)
            except AttemptFailed as error:
                if error.failure.kind in _SAME_AT_ANY_ROOT or not channel.dialect.info.root_may_vary:
                    raise
                base_error = error
            other = base.removesuffix("/v1") if base.endswith("/v1") else base + "/v1"
            try:
                return other, await self._fetch_models(msgspec.structs.replace(channel, base_url=other))
            except AttemptFailed as error:
                if error.failure.kind is FailureKind.AUTH:  # a server refuses keys only where it has something
                    raise
                raise base_error from None

    def forget(self, channel_id: ChannelId) -> None:
        """Forget a channel that was changed or removed. Running calls continue, new ones open new connections."""
        for pool in self._pools.pop(channel_id, ()):
            pool.retire()
        self.dates.pop(channel_id, None)
        self.unnamed.pop(channel_id, None)

    async def close(self) -> None:
        """Close all connections, even those on which answers are arriving."""
        for pool in list(self._open_connections.pools):
            await pool.close()
        self._pools.clear()

    async def _fetch_models(self, channel: Channel) -> list[ServedModel]:
        """Returns the models on all pages of the list, without those whose names show a secret."""
        if not channel.dialect.info.needs_url:
            return self._mock.models()
        models: dict[str, ServedModel] = {}
        unnamed_count = 0
        dialect = DIALECTS[channel.dialect]
        request = dialect.models_request(channel, "")
        for _ in range(20):  # no vendor has this many pages
            if request is None:
                break
            page = await self._fetch_page(channel, request)
            models |= {model.name: model for model in page.models}
            unnamed_count += page.unreadable
            request = dialect.models_request(channel, page.after) if page.after else None
        self.unnamed[channel.id] = unnamed_count
        if unnamed_count:
            models_have = "model has" if unnamed_count == 1 else "models have"
            reason = "no name, or one that is too long or has control characters"
            _log.warning("channel '%s': %d %s %s; left out", plain(channel.name), unnamed_count, models_have, reason)
        return self.redaction.models_without_secrets(models.values(), channel)

    async def _fetch_page(self, channel: Channel, request: PreparedRequest) -> ModelPage:
        """Returns a page of the list of models, and keeps the upstream's time in ``dates``."""
        reply = await self._pool_for(channel).send("GET", request, head_s=20.0)
        body = await self.read_body(channel, reply, 16 * 1024 * 1024, "its list of models")
        self.dates[channel.id] = reply.headers.get("date", "")
        if reply.status != 200:
            raise AttemptFailed(DIALECTS[channel.dialect].failure(channel, reply.status, reply.headers, body))
        if (page := read_models(body)) is None:
            raise AttemptFailed(failures.bad_response(channel, "its list of models cannot be read"))
        return page

    def _pool_for(self, channel: Channel) -> Pool:
        """Returns the pool for a channel as it is now; opens one if needed."""
        pools = self._pools.get(channel.id, ())
        for pool in pools:
            if pool.can_serve(channel):
                return pool
        if len(pools) > 50:  # more than a channel has keys: some of them were for calls that began before an edit
            self.forget(channel.id)
        pool = Pool(
            channel, headers_of(channel, self._environ), proxy_of(channel, self._environ), self._open_connections
        )
        self._pools.setdefault(channel.id, []).append(pool)
        return pool
