"""SocketMemory: the responses of one WebSocket, which later requests on it may continue."""

from functools import cache, partial

import msgspec

from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.core.response_memory import ResponseMemory, TokenMemory
from gateway.domain.errors import BadRequest
from gateway.domain.token import Token
from gateway.inbound.responses.recall import RecalledRequest, kept_of
from gateway.inbound.responses.socket_turn import SocketTurn, TurnEvents
from gateway.v1.responses import recall_request

MOST_BYTES = 16 << 20
"""The most bytes of responses that a connection remembers."""


class SocketMemory:
    """Keeps the responses of one connection, and counts their size like that of request bodies."""

    def __init__(self, engine: Engine, token: Token) -> None:
        self._engine = engine
        self._token_id = token.id
        self._responses = ResponseMemory(lambda: MOST_BYTES, engine.clock.mono, parts=1)
        self._share = BodyShare(engine.pressure)

    async def recall(self, turn: SocketTurn, token: Token) -> RecalledRequest:
        """Returns the request with the remembered responses that it continues. Raises BadRequest."""
        memory = TokenMemory(token.id, self._responses, self._engine.responses)
        recalled = await recall_request(self._engine, turn.body, memory)
        if turn.local and turn.previous and not recalled.previous:
            msg = f"the response {turn.previous[:80]!a} is not kept on this connection; send the whole input"
            raise BadRequest(msg, code="previous_response_not_found", param="previous_response_id")
        return recalled

    def keep(self, origin: CallOrigin, turn: SocketTurn, recalled: RecalledRequest, events: TurnEvents) -> None:
        """Keep an answer. If it did not end as a response, forget the one that it continued.

        If the bodies and this memory would take more than half of the memory for bodies, forget everything.
        """
        if not events.last:
            self.forget(turn.previous)
            return
        recalled = msgspec.structs.replace(recalled, body=b"")
        read = cache(partial(kept_of, recalled, events.last, origin.id[-24:], events.items))
        size = len(recalled.input) + len(events.last) + sum(map(len, events.items))
        self._responses.keep_lazily(self._token_id, read, size)
        if recalled.stored and self._engine.responses.on:
            self._engine.responses.keep_lazily(self._token_id, read, size)
        self._share.close()
        pressure = self._engine.pressure
        if pressure.most_body_bytes and pressure.body_bytes + self._responses.size > pressure.most_body_bytes // 2:
            self._responses.clear()
        self._share.grow(self._responses.size)

    def forget(self, response: str) -> None:
        """Forget a response, if it is kept on this connection."""
        self._responses.forget(self._token_id, response)

    def close(self) -> None:
        """Stop counting the responses, because the connection has ended."""
        self._share.close()
