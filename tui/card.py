"""Card: labelled lines of a pane; what is too long goes on under its own beginning, so that labels stay readable."""

from collections.abc import Iterator

from textual.content import Content

from tui.tones import Part, content, lines

LABEL = 9
"""Cells of the label with the space around it."""


class Card:
    """Lines are added one by one; ``content`` gives them all."""

    tone = "dim"
    """Of the labels."""

    def __init__(self, width: int, label: int = LABEL) -> None:
        self.width = width
        self._label = label
        self._rows: list[Content] = []

    def row(self, label: str, *parts: Part | str | Content) -> None:
        """A line with a label in front; an empty one goes on from the line before."""
        self._hang(content((f" {label:<{self._label - 2}} ", self.tone)), content(*parts), self._label)

    def line(self, *parts: Part | str | Content) -> None:
        """A line without a label."""
        self._hang(content(" "), content(*parts), 3)

    def content(self) -> Content:
        """All lines."""
        return lines(*self._rows)

    def _hang(self, head: Content, body: Content, indent: int) -> None:
        first, *more = self._wrapped(body, self.width - max(indent, head.cell_length))
        self._rows += [Content.assemble(head, first), *(row.pad_left(indent) for row in more)]

    def _wrapped(self, body: Content, width: int) -> Iterator[Content]:
        yield from body.wrap(max(10, width)) or [Content("")]
