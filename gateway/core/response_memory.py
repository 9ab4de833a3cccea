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

    def __init__(self, limit: Callable[[], int], mono: Callable[[], float], room: int = LEAST) -> None:
        """``limit``: bytes; 0: nothing is remembered. ``room``: for how many responses there is room at least."""
        self._limit = limit
        self._mono = mono
        self._room = room
        self._kept: OrderedDict[_Key, tuple[float, KeptResponse]] = OrderedDict()
        self._items: dict[_Key, str] = {}
        """The response in which an item is."""
        self._unread: list[tuple[TokenId, Callable[[], KeptResponse | None]]] = []
        self._unread_size = 0
        self._size = 0

    @property
    def on(self) -> bool:
        """Whether anything is remembered."""
        return self._limit() > 0

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size + self._unread_size

    def keep_unread(self, token: TokenId, read: Callable[[], KeptResponse | None], size: int) -> None:
        """Remember what ``read`` gives, once one is looked for: most never are. ``size``: bytes that it holds."""
        self._unread.append((token, read))
        self._unread_size += size
        if len(self._unread) >= MOST_UNREAD or self._unread_size > self._limit() // self._room:
            self._read()

    def keep(self, token: TokenId, response: KeptResponse) -> None:
        """Remember a response, if it is not so large that many others would be forgotten for it."""
        if response.size > self._limit() // self._room:
            return
        self._drop(token, response.id)
        self._kept[token, response.id] = (self._mono(), response)
        self._items |= {(token, item): response.id for item in response.items}
        self._size += response.size
        self._trim()

    def find(self, token: TokenId, id: str) -> KeptResponse | None:
        """A response, which is used by this."""
        self._read()
        self._trim()
        _, found = self._kept.get((token, id), (0.0, None))
        if found is not None:
            self._kept[token, id] = (self._mono(), found)
            self._kept.move_to_end((token, id))
        return found

    def item_of(self, token: TokenId, id: str) -> bytes | None:
        """An item of a response."""
        self._read()
        found = self.find(token, self._items.get((token, id), ""))
        return bytes(found.items[id]) if found is not None and id in found.items else None

    def forget(self, token: TokenId, id: str) -> bool:
        """Whether there was such a response."""
        self._read()
        return self._drop(token, id)

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()
        self._items.clear()
        self._unread.clear()
        self._size = self._unread_size = 0

    def _drop(self, token: TokenId, id: str) -> bool:
        _, one = self._kept.pop((token, id), (0.0, None))
        if one is None:
            return False
        self._size -= one.size
        for item in one.items:
            self._items.pop((token, item), None)
        return True

    def _trim(self) -> None:
        limit, oldest = self._limit(), self._mono() - AGE_S
        while self._kept:
            key, (used, _) = next(iter(self._kept.items()))
            if self._size <= limit and used >= oldest:
                return
            self._drop(*key)

    def _read(self) -> None:
        unread, self._unread, self._unread_size = self._unread, [], 0
        for token, read in unread:
            if (found := read()) is not None:
                self.keep(token, found)


class TokenMemory:
    """What is remembered of one token, in the first of several places that has it."""

    def __init__(self, token: TokenId, *memories: ResponseMemory) -> None:
        self._token = token
        self._memories = memories

    def find(self, response: str) -> KeptResponse | None:
        """A response."""
        found = (memory.find(self._token, response) for memory in self._memories)
        return next(filter(None, found), None)

    def chain(self, response: str) -> list[KeptResponse]:
        """The responses of the conversation up to this one, the oldest first; none if not all are remembered."""
        chain: list[KeptResponse] = []
        while response and len(chain) < LONGEST:
            found = self.find(response)
            if found is None:
                return []
            chain.append(found)
            response = found.previous
        return chain[::-1] if not response else []

    def conversation(self, response: str) -> list[KeptResponse]:
        """The same; none if their upstream may keep them."""
        chain = self.chain(response)
        return [] if any(one.elsewhere for one in chain) else chain

    def item(self, id: str) -> bytes | None:
        """An item of a response; None if it is not remembered."""
        found = (memory.item_of(self._token, id) for memory in self._memories)
        return next(filter(None, found), None)
