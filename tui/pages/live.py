"""Live: every call as it happens and what it costs; running ones change in place, old ones are a scroll away."""

from collections.abc import Mapping
from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from gateway.domain.errors import GatewayError
from gateway.domain.query import parse
from gateway.domain.views import CallView
from tui import format as fmt
from tui.actions import bindings
from tui.pages import list_verbs, live_verbs
from tui.pages.base import Verb
from tui.pages.listpage import ListPage
from tui.pages.live_listing import LiveListing
from tui.pages.live_source import LiveSource, Search
from tui.session import Session
from tui.tones import content

SEARCH_PAGE = 500
"""Records that fit asked for at a time."""

BREATH_S = 0.02
"""Between two such requests: the gateway has better things to do."""

AGAIN_S = 1.0
"""After a request that failed."""


class Live(ListPage[CallView]):
    """The page everything is about."""

    scopes = ("live", "list")
    BINDINGS = bindings("live", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_verbs.VERBS, **live_verbs.VERBS}

    def __init__(self, session: Session) -> None:
        super().__init__(session, "live", LiveListing(session), LiveSource(session))
        self._loading = False

    @property
    def calls(self) -> LiveSource:
        """The source, as what it is."""
        assert isinstance(self.source, LiveSource)  # noqa: S101 - narrows the type
        return self.source

    def narrow(self, text: str) -> None:
        self.calls.narrow(parse(text, self.session.now()) if text.strip() else None)

    def fill(self) -> None:
        self.calls.renew()

    def renew(self) -> None:
        self.table.follows = not self.view.sort and not self.calls.paused
        super().renew()
        self.load()

    def draw_lead(self) -> None:
        if self.complaint:
            super().draw_lead()
            return
        standing = self.standing()
        rest = self.listing.lead(self.size.width - standing.cell_length)
        self.query_one(".lead", Static).update(Content.assemble(standing, rest), layout=False)

    def standing(self) -> Content:
        """Whether it follows, how many calls there are, and what is out of sight."""
        glyphs, table, calls = self.session.glyphs, self.table, self.calls
        count = f"{calls.count:,} call{'s' if calls.count != 1 else ''}"
        if calls.paused:
            return content((f" {glyphs.pause} paused", "warn"), f"  {count}{self.searching()}{self.new(calls.missed)}")
        if self.only_marked:
            return content((f" {glyphs.marked} marked", "warn"), f"  {count}")
        if self.view.sort:
            newest = f"the newest {calls.count:,} calls" if calls.query is None else count
            return content((f" {glyphs.stay} sorted", "warn"), f"  {newest}{self.searching()}")
        if table.following:
            return content((f" {glyphs.follow} following", "live"), f"  {count}{self.searching()}")
        return content(
            (f" {glyphs.stay} not following", "warn"), f"  {count}{self.searching()}{self.new(table.unseen)}"
        )

    def new(self, count: int) -> str:
        """How many calls came out of sight."""
        glyphs = self.session.glyphs
        return f" {glyphs.dot} {count:,} new {glyphs.up} (g)" if count else ""

    def searching(self) -> str:
        """How far a filter has looked back, if there is more to look at."""
        search = self.calls.search
        if self.calls.query is None or search.done:
            return ""
        back = fmt.moment(search.time_ms, self.session.now()).strip() if search.time_ms else "the newest"
        return f", looked back to {back}"

    def load(self) -> None:
        """Ask for records that are looked at and not here, one request at a time."""
        if not self._loading and self.session.link == "attached" and self._wants_more():
            self._loading = True
            self.run_worker(self._load(), group="history", exit_on_error=True)

    def _wants_more(self) -> bool:
        calls = self.calls
        if calls.query is None:
            return calls.history.waiting
        ahead = 2 * self.size.height
        return not calls.search.done and calls.count < max(self.table.cursor, self.table.scroll_offset.y) + ahead

    async def _load(self) -> None:
        try:
            if self.calls.query is None:
                await self._load_page()
            else:
                await self._search()
        except GatewayError:
            self.set_timer(AGAIN_S, self._loaded)  # if the server is gone, the header says so
        else:
            self.set_timer(BREATH_S, self._loaded)

    def _loaded(self) -> None:
        self._loading = False
        self.renew()

    async def _load_page(self) -> None:
        history = self.calls.history
        ask = history.next(self.calls.records)
        if ask is None:
            return
        try:
            history.fill(ask, await self.session.client.numbered_calls(ask.at, ask.limit))
        except GatewayError:
            history.fail(ask)
            raise

    async def _search(self) -> None:
        """Let the server look for what fits among older records; it takes as many requests as it has patience for."""
        calls, query = self.calls, self.calls.query
        if query is None:
            return
        before = calls.search.cursor or self.session.board.calls.edge
        if before is None:  # nothing ended yet
            calls.extend([], Search(done=True))
            return
        page = await self.session.client.calls(
            limit=SEARCH_PAGE, before=before, words=" ".join(query.words), since=query.since, until=query.until
        )
        if calls.query is query:
            done = page.cursor is None
            calls.extend(page.calls, Search(cursor=page.cursor or "", time_ms=page.back_to_ms, done=done))
