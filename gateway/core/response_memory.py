"""Responses that clients may go on from, or fetch again: in memory, of each token its own, for a while.

They are bounded in bytes, which the owner decides, and in age: one that nothing was heard of for a day is forgotten.
The one that was used longest ago goes first. After a restart there are none.
"""

from collections import OrderedDict
from collections.abc import Callable

from gateway.domain.kept_response import KeptResponse
from gateway.domain.units import TokenId

AGE_S = 24 * 3600.0
LEAST = 4
"""Responses for which there is room."""
MOST_UNREAD = 64
LONGEST = 2048
"""Responses that may follow one another."""

_Key = tuple[TokenId, str]


class ResponseMemory:
    """All that is remembered. Its content is held once: a conversation is found by the ids of the responses in it."""

    def __init__(self, limit: Callable[[], int], mono: Callable[[], float]) -> None:
        """``limit``: bytes; 0: nothing is remembered."""
        self._limit = limit
        self._mono = mono
        self._kept: OrderedDict[_Key, tuple[float, KeptResponse]] = OrderedDict()
        self._items: dict[_Key, str] = {}
        """The response in which an item is."""
        self._unread: list[tuple[TokenId, Callable[[], KeptResponse | None]]] = []
        self._unread_size = 0
        self.size = 0

    @property
    def on(self) -> bool:
        """Whether anything is remembered."""
        return self._limit() > 0

    def keep_unread(self, token: TokenId, read: Callable[[], KeptResponse | None], size: int) -> None:
        """Remember what ``read`` gives, once one is looked for: most never are. ``size``: bytes that it holds."""
        self._unread.append((token, read))
        self._unread_size += size
        if len(self._unread) >= MOST_UNREAD or self._unread_size > self._limit() // LEAST:
            self._read()

    def keep(self, token: TokenId, response: KeptResponse) -> None:
        """Remember a response, if it is not so large that many others would be forgotten for it."""
        if response.size > self._limit() // LEAST:
            return
        self._drop(token, response.id)
        self._kept[token, response.id] = (self._mono(), response)
        self._items |= {(token, item): response.id for item in response.items}
        self.size += response.size
        self._trim()

    def find(self, token: TokenId, id: str) -> KeptResponse | None:
        """A response; what it went on from is used with it."""
        if not self.on:
            return None
        self._read()
        self._trim()
        chain = self.chain(token, id)
        for one in chain:
            self._kept[token, one.id] = (self._mono(), one)
            self._kept.move_to_end((token, one.id))
        return chain[-1] if chain else None

    def chain(self, token: TokenId, id: str) -> list[KeptResponse]:
        """The responses that a conversation consists of, the oldest first; none if not all are remembered."""
        found: list[KeptResponse] = []
        while id and len(found) < LONGEST:
            _, one = self._kept.get((token, id), (0.0, None))
            if one is None:
                return []
            found.append(one)
            id = one.previous
        return found[::-1] if not id else []

    def item_of(self, token: TokenId, id: str) -> bytes | None:
        """An item of a response."""
        self._read()
        response = self._items.get((token, id))
        found = self.find(token, response) if response is not None else None
        return found.items.get(id) if found is not None else None

    def forget(self, token: TokenId, id: str) -> bool:
        """Whether there was such a response."""
        self._read()
        return self._drop(token, id)

    def _drop(self, token: TokenId, id: str) -> bool:
        _, one = self._kept.pop((token, id), (0.0, None))
        if one is None:
            return False
        self.size -= one.size
        for item in one.items:
            self._items.pop((token, item), None)
        return True

    def _trim(self) -> None:
        limit, oldest = self._limit(), self._mono() - AGE_S
        while self._kept:
            key, (used, _) = next(iter(self._kept.items()))
            if self.size <= limit and used >= oldest:
                return
            self._drop(*key)

    def _read(self) -> None:
        unread, self._unread, self._unread_size = self._unread, [], 0
        for token, read in unread:
            if (found := read()) is not None:
                self.keep(token, found)


class TokenMemory:
    """What is remembered of one token."""

    def __init__(self, memory: ResponseMemory, token: TokenId) -> None:
        self._memory = memory
        self._token = token

    def conversation(self, response: str) -> list[bytes] | None:
        """Items of the conversation up to a response and in it; None if it is not remembered."""
        found = self._memory.find(self._token, response)
        if found is None or found.elsewhere:
            return None
        chain = self._memory.chain(self._token, response)
        return [part for one in chain for part in (one.input, one.output)]

    def item(self, id: str) -> bytes | None:
        """An item of a response; None if it is not remembered."""
        return self._memory.item_of(self._token, id)
