"""Toast: a short word about what was just done, or why it could not be. A state that lasts belongs into the header."""

from textual.dom import DOMNode

from tui.safe import safe_lines

SECONDS = 4.0
BAD_SECONDS = 8.0


def tell(node: DOMNode, text: str, *, bad: bool = False) -> None:
    """Show a word for some seconds; the text may hold anything."""
    node.app.notify(
        safe_lines(text, lines=8),
        severity="error" if bad else "information",
        timeout=BAD_SECONDS if bad else SECONDS,
        markup=False,
    )
