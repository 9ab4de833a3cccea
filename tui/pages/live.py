"""Live: every call as it happens and what it costs; running ones change in place, old ones are a scroll away."""

from collections.abc import Mapping
from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from gateway.domain.errors import GatewayError
from gateway.domain.query import parse
from gateway.domain.views import CallView
from tui.actions import bindings
from tui.pages import list_verbs, live_verbs
from tui.pages.base import Verb
from tui.pages.listpage import ListPage
from tui.pages.live_listing import LiveListing
from tui.pages.live_source import LiveSource
from tui.session import Session
from tui.tones import content

SEARCH_PAGE = 500
"""Records walked through at a time when a filter looks among older ones."""


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
        self.query_one(".lead", Static).update(Content.assemble(standing, rest))

    def standing(self) -> Content:
        """Whether it follows, how many calls there are, and what is out of sight."""
        glyphs, table, calls = self.session.glyphs, self.table, self.calls
        if calls.paused:
            mode, tone = f" {glyphs.pause} paused", "warn"
        elif table.following:
            mode, tone = f" {glyphs.follow} following", "live"
        else:
            mode, tone = f" {glyphs.stay} {'sorted' if self.view.sort else 'not following'}", "warn"
        new = calls.missed if calls.paused else table.unseen
        unseen = f" {glyphs.dot} {new:,} new {glyphs.up} (g)" if new else ""
        more = "" if calls.query is None or calls.done else "+"
        return content((mode, tone), f"  {calls.count:,}{more} calls{unseen}")

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
        return not calls.done and calls.count < max(self.table.cursor, self.table.scroll_offset.y) + ahead

    async def _load(self) -> None:
        try:
            if self.calls.query is None:
                await self._load_page()
            else:
                await self._search()
        except GatewayError:
            self.set_timer(AGAIN_S, self._loaded)  # if the server is gone, the header says so
        else:
            self._loaded()

    def _loaded(self) -> None:
        self._loading = False
        self.renew()

    async def _load_page(self) -> None:
        history = self.calls.history
        ask = history.next(self.calls.records)
        if ask is None:
            return
        try:
            history.fill(ask, await self.session.client.calls(at=ask.at, limit=ask.limit))
        except GatewayError:
            history.fail(ask)
            raise

    async def _search(self) -> None:
        calls, query = self.calls, self.calls.query
        if query is None:
            return
        edge = calls.edge or self.session.board.calls.edge
        found = await self.session.client.calls(limit=SEARCH_PAGE, before=edge, since=query.since, until=query.until)
        if calls.query is query:
            calls.extend(found, found[-1].id if len(found) == SEARCH_PAGE else None)
