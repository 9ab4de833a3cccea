"""Who is connected, how many at all and how many from one address that is not this machine's own."""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address

from gateway.domain.settings import Settings


@lru_cache(maxsize=256)
def is_own(address: str) -> bool:
    """Whether it is this machine that calls; also what is not a network address."""
    try:
        found = ip_address(address)
    except ValueError:
        return True
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


class ConnectionLimits:
    """The open connections. ``most`` says how many the system has open files for (0: any number), ``own`` whose are not
    counted by address.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        own: Callable[[str], bool] = is_own,
        most: Callable[[], int] = lambda: 0,
    ) -> None:
        self._settings = settings
        self._own = own
        self._most = most
        self._by_address: dict[str, int] = {}
        self.open = 0
        """Connections."""

    def enter(self, address: str) -> str:
        """One more connection, which is counted; or why it is one too many."""
        settings, possible = self._settings(), self._most()
        if settings.connections and self.open >= settings.connections:
            return f"more than {settings.connections} connections are open"
        if possible and self.open >= possible:
            return f"more than {possible} connections are open, and the system's limit of open files allows no more"
        if not self._own(address):
            count, most = self._by_address.get(address, 0), settings.address_connections
            if most and count >= most:
                return f"more than {most} connections of this address are open"
            self._by_address[address] = count + 1
        self.open += 1
        return ""

    def leave(self, address: str) -> None:
        """A connection that had entered is closed."""
        self.open -= 1
        if address in self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
