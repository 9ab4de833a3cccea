"""Crowd: who is connected, how many at all and how many from one address that is not this machine's own."""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address

from gateway.domain.settings import Settings


@lru_cache(maxsize=256)
def is_own(address: str) -> bool:
    """Whether it is this machine that calls; also what is no address of a network."""
    try:
        found = ip_address(address)
    except ValueError:
        return True
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


class Crowd:
    """The open connections. ``own`` says whose are not counted by address."""

    def __init__(self, settings: Callable[[], Settings], own: Callable[[str], bool] = is_own) -> None:
        self._settings = settings
        self._own = own
        self._by_address: dict[str, int] = {}
        self._all = 0

    def enter(self, address: str) -> str:
        """One more connection is open; why it is one too many, or nothing."""
        settings = self._settings()
        self._all += 1
        if settings.connections and self._all > settings.connections:
            return f"more than {settings.connections} connections are open"
        if self._own(address):
            return ""
        count = self._by_address[address] = self._by_address.get(address, 0) + 1
        most = settings.address_connections
        return f"more than {most} connections of this address are open" if most and count > most else ""

    def leave(self, address: str) -> None:
        """A connection that had entered is closed."""
        self._all -= 1
        if address in self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
