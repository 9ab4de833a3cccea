"""History: records by number, a page at a time, so that a million of them can be walked without loading them."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from gateway.domain.views import CallView

PAGE = 200
"""Records asked for at a time: a few screens."""

PAGES = 60
"""Pages kept; those looked at longest ago go first."""


class Ask(msgspec.Struct, frozen=True):
    """Which records are missing: those numbered ``at``, ``at - 1``, ... ``limit`` of them."""

    page: int
    at: int
    limit: int


class History:
    """What is known of the records, and what must be asked for to know more."""

    def __init__(self, page: int = PAGE, pages: int = PAGES) -> None:
        self._size = page
        self._keep = pages
        self._pages: OrderedDict[int, Sequence[CallView]] = OrderedDict()
        self._missing: OrderedDict[int, None] = OrderedDict()
        self._asked: set[int] = set()

    @property
    def waiting(self) -> bool:
        """Whether something is missing."""
        return bool(self._missing)

    def row(self, number: int) -> CallView | None:
        """The record with this number; None notes that it is missing."""
        page, offset = divmod(number - 1, self._size)
        rows = self._pages.get(page)
        if rows is None or offset >= len(rows):
            if page not in self._asked:
                self._missing[page] = None
            return None
        self._pages.move_to_end(page)
        return rows[offset]

    def next(self, count: int) -> Ask | None:
        """What to ask for next, what was missed last first; ``count`` is the newest number there is."""
        if not self._missing:
            return None
        page, _ = self._missing.popitem()
        self._missing.clear()  # what was scrolled past is no longer wanted; the next paint will say what is
        self._asked.add(page)
        at = min((page + 1) * self._size, count)
        return Ask(page, at, max(1, at - page * self._size))

    def fill(self, ask: Ask, found: Sequence[CallView]) -> None:
        """Take in an answer, newest first."""
        self._asked.discard(ask.page)
        self._pages[ask.page] = list(reversed(found))
        while len(self._pages) > self._keep:
            self._pages.popitem(last=False)

    def fail(self, ask: Ask) -> None:
        """There was no answer: the page may be asked for again."""
        self._asked.discard(ask.page)

    def clear(self) -> None:
        """Forget everything: another server, or records were removed."""
        self._pages.clear()
        self._missing.clear()
        self._asked.clear()
