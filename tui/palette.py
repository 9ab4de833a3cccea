"""Palette: finds tokens, channels, groups and models by name, and goes to them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.board import Board
from tui.safe import safe
from tui.verbs import go_to

Place = tuple[str, str, str]
"""A name as it is drawn, the page it is on, and its key there."""

FIRST = 3
"""How many are offered before anything is typed."""


class Things(Provider):
    """What the palette offers beside actions. Names are ``Content``: a string would be read as markup."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, page, key in places(self._console.session.board):
            score, offsets = matcher.fuzzy_search.match(query, name)
            if score > 0:
                go = partial(go_to, self._console, page, key)
                yield Hit(score, lit(name, offsets), go, text=name, help=f"on page {page}")

    async def discover(self) -> Hits:
        for name, page, key in list(places(self._console.session.board))[:FIRST]:
            go = partial(go_to, self._console, page, key)
            yield DiscoveryHit(Content(name), go, text=name, help=f"on page {page}")

    @property
    def _console(self) -> Any:
        """The app; it imports this file."""
        return self.app


def lit(name: str, offsets: Sequence[int]) -> Content:
    """A name with the letters that were matched; Textual's own way would read markup in it."""
    shown = Content(name)
    for offset in offsets:
        shown = shown.stylize("bold underline", offset, offset + 1)
    return shown


def places(board: Board) -> Iterator[Place]:
    """Everything with a name, by page."""
    yield from ((safe(token.name, 80), "tokens", token.id) for token in board.tokens)
    yield from ((safe(channel.name, 80), "channels", channel.id) for channel in board.channels)
    yield from ((safe(group.name, 80), "groups", group.name) for group in board.groups)
    yield from ((safe(model.name, 80), "models", model.name) for model in board.models)
