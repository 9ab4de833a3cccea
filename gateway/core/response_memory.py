"""ResponseMemory: keeps responses that clients may continue or fetch again, in memory only, separately for each token.

A response that was not used for a day is removed, and beyond the owner's limit the least recently used one.
"""

from collections import OrderedDict
from collections.abc import Callable

from gateway.domain.conversation import KeptResponse
from gateway.domain.units import TokenId

_Key = tuple[TokenId, str]


class ResponseMemory:
    """The remembered responses of all tokens. Each has its own input and output, and the id of the one before it."""

    def __init__(self, limit: Callable[[], int], mono: Callable[[], float], parts: int = 4) -> None:
        """``limit`` returns the most bytes; 0 keeps nothing. A response over ``limit() // parts`` bytes is not kept."""
        self._limit = limit
        self._mono = mono
        self._parts = parts
        self._responses: OrderedDict[_Key, tuple[float, KeptResponse]] = OrderedDict()
        self._items: dict[_Key, str] = {}
        """The id of each item's response."""
        self._lazy: list[tuple[TokenId, Callable[[], KeptResponse | None]]] = []
        """Responses that are not read yet; see ``keep_lazily``."""
        self._lazy_size = 0
        self._size = 0

    @property
    def enabled(self) -> bool:
        return self._limit() > 0

    @property
    def size(self) -> int:
        return self._size + self._lazy_size

    def keep_lazily(self, token: TokenId, read: Callable[[], KeptResponse | None], size: int) -> None:
        """Remember the response that ``read`` returns. Most are never used, so it is called at the next look-up of any.

        ``size`` is the number of bytes that ``read`` keeps in memory until then.
        """
        self._lazy.append((token, read))
        self._lazy_size += size
        if len(self._lazy) >= 64 or self._lazy_size > self._limit() // self._parts:
            self._load()

    def keep(self, token: TokenId, response: KeptResponse) -> None:
        """Remember a response, unless it would take too large a part of the limit."""
        if response.size > self._limit() // self._parts:
            return
        self._drop(token, response.id)
        self._responses[token, response.id] = (self._mono(), response)
        self._items |= {(token, item): response.id for item in response.items}
        self._size += response.size
        self._trim()

    def find(self, token: TokenId, id: str) -> KeptResponse | None:
        """Returns a response, and notes that it was used; None if it is not remembered."""
        self._load()
        self._trim()
        _, response = self._responses.get((token, id), (0.0, None))
        if response is not None:
            self._responses[token, id] = (self._mono(), response)
            self._responses.move_to_end((token, id))
        return response

    def find_item(self, token: TokenId, id: str) -> bytes | None:
        """Returns the remembered output item with this id as JSON, or None."""
        self._load()
        response = self.find(token, self._items.get((token, id), ""))
        return bytes(response.items[id]) if response is not None and id in response.items else None

    def forget(self, token: TokenId, id: str) -> bool:
        """Forget a response. Returns whether it was remembered."""
        self._load()
        return self._drop(token, id)

    def clear(self) -> None:
        self._responses.clear()
        self._items.clear()
        self._lazy.clear()
        self._size = self._lazy_size = 0

    def _drop(self, token: TokenId, id: str) -> bool:
        _, response = self._responses.pop((token, id), (0.0, None))
        if response is None:
            return False
        self._size -= response.size
        for item in response.items:
            if self._items.get((token, item)) == id:  # upstreams repeat ids of items
                del self._items[token, item]
        return True

    def _trim(self) -> None:
        limit, oldest = self._limit(), self._mono() - 24 * 3600.0
        while self._responses:
            key, (used, _) = next(iter(self._responses.items()))
            if self._size <= limit and used >= oldest:
                return
            self._drop(*key)

    def _load(self) -> None:
        unread, self._lazy, self._lazy_size = self._lazy, [], 0
        for token, read in unread:
            if (response := read()) is not None:
                self.keep(token, response)


class TokenMemory:
    """The remembered responses of one token, in several memories that are searched in order."""

    def __init__(self, token: TokenId, *memories: ResponseMemory) -> None:
        self._token = token
        self._memories = memories

    def chain(self, response: str) -> list[KeptResponse]:
        """Returns the conversation's responses up to this one, oldest first; empty if not all are remembered."""
        chain: list[KeptResponse] = []
        while response and len(chain) < 2048:
            matches = (memory.find(self._token, response) for memory in self._memories)
            if (remembered := next(filter(None, matches), None)) is None:
                return []
            chain.append(remembered)
            response = remembered.previous
        return chain[::-1] if not response else []

    def conversation(self, response: str) -> list[KeptResponse]:
        """Returns the responses of ``chain``; empty if an upstream may store the conversation of one."""
        chain = self.chain(response)
        return [] if any(response.elsewhere for response in chain) else chain

    def item(self, id: str) -> bytes | None:
        """Returns the remembered output item with this id as JSON, or None."""
        matches = (memory.find_item(self._token, id) for memory in self._memories)
        return next(filter(None, matches), None)
