"""A console in this process draws no frames that nobody sees, and parses its stylesheets once, as in ``tests/tui``."""

from tests.tui.conftest import _parsed_once, _unseen_frames

__all__ = ["_parsed_once", "_unseen_frames"]
