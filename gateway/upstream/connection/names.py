"""Names: look-ups of host names in threads of their own, so that the dead names of one channel block nobody else.

The event loop's executor has a handful of threads and is shared; a name server that does not answer holds one for half
a minute. Here a look-up has a deadline, and a thread that is stuck counts against its own channel only. The threads are
daemons: a stuck one does not keep the process alive.
"""

import asyncio
import socket
import threading

LOOK_UP_S = 5.0
STUCK_LIMIT = 4
"""Look-ups of one channel that may be under way, or stuck."""

Address = tuple[socket.AddressFamily, int, str, int]
"""Family, protocol, address and port."""

_Found = list[Address] | OSError
_Asked = tuple[str, int, socket.AddressFamily]


class Names:
    """The look-ups of one channel. Who asks for a name that is being looked up waits for the same answer."""

    def __init__(self) -> None:
        self._running = 0
        self._asked: dict[_Asked, asyncio.Future[_Found]] = {}

    async def look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[Address]:
        """Raises OSError with a text for people."""
        asked = (host, port, family)
        found = self._asked.get(asked) or self._start(asked)
        try:
            async with asyncio.timeout(LOOK_UP_S):
                result = await asyncio.shield(found)
        except TimeoutError as exc:
            if self._asked.get(asked) is found:  # whoever comes next asks anew
                del self._asked[asked]
            raise OSError(None, f"the name was not found within {LOOK_UP_S:g} s") from exc
        if isinstance(result, OSError):
            raise result
        return result

    def _start(self, asked: _Asked) -> asyncio.Future[_Found]:
        if self._running >= STUCK_LIMIT:
            raise OSError(None, f"{self._running} look-ups of names are stuck already")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[_Found] = loop.create_future()
        self._running += 1
        self._asked[asked] = found
        args = (loop, found, asked)
        threading.Thread(target=self._work, args=args, name=f"name of {asked[0]}", daemon=True).start()
        return found

    def _work(self, loop: asyncio.AbstractEventLoop, found: asyncio.Future[_Found], asked: _Asked) -> None:
        """In the thread."""
        result: _Found
        try:
            result = _ask(*asked)
        except OSError as exc:
            result = exc
        except UnicodeError:
            result = OSError(None, "the name is no host name")
        try:
            loop.call_soon_threadsafe(self._told, found, asked, result)
        except RuntimeError:  # the loop has ended meanwhile: nobody waits
            return

    def _told(self, found: asyncio.Future[_Found], asked: _Asked, result: _Found) -> None:
        self._running -= 1
        if self._asked.get(asked) is found:
            del self._asked[asked]
        found.set_result(result)


def _ask(host: str, port: int, family: socket.AddressFamily) -> list[Address]:
    infos = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    return [(info[0], info[2], str(info[4][0]), int(info[4][1])) for info in infos]
