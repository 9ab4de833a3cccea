"""TrendPage: a page with a table whose rows also show the last days or hours; these sums are asked of the server."""

from typing import ClassVar, Generic, TypeVar

from gateway.domain.errors import GatewayError
from gateway.domain.units import Millis
from tui.listing import Listing
from tui.pages.listpage import ListPage
from tui.session import Session
from tui.trends import Trends, days, hours, trends

R = TypeVar("R")

GAP_MS = 10_000
"""Between two askings, and only after calls."""


class TrendListing(Listing[R]):
    """A Listing that knows the sums, too."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.trends = Trends()


class TrendPage(ListPage[R], Generic[R]):
    """Sums by ``by``, over 30 days, or 24 hours if ``hourly``."""

    by: ClassVar[str] = ""
    hourly: ClassVar[bool] = False

    def __init__(self, session: Session, id: str, listing: TrendListing[R]) -> None:
        super().__init__(session, id, listing)
        self._trending = listing
        self._asked: tuple[int, int] | None = None
        """When the sums were asked for, and how many calls there were then."""

    def renew(self) -> None:
        super().renew()
        board, now = self.session.board, self.session.now()
        calls = board.calls.total - len(board.calls.running)
        if self.session.link == "attached" and _due(self._asked, now, calls):
            self._asked = (now, calls)
            self.run_worker(self._ask(now), group="trends", exclusive=True, exit_on_error=True)

    async def _ask(self, now: Millis) -> None:
        starts = hours(24, now) if self.hourly else days(30, now)
        step = "hour" if self.hourly else "day"
        try:
            found = await self.session.client.summary(by=self.by, since=starts[0], step=step)
        except GatewayError:
            return  # the header says that the server is gone; it is asked again when calls come
        self._trending.trends = trends(found, starts)
        super().renew()


def _due(asked: tuple[int, int] | None, now: int, calls: int) -> bool:
    return asked is None or (now - asked[0] >= GAP_MS and calls != asked[1])
