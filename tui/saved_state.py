"""State: what the console remembers between runs: theme, page, columns, sorting, filters. It is a file in the home.

A file that cannot be read is set aside and said so; it never keeps the console from starting.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

NAME = "console.json"

SIZE_LIMIT = 256 * 1024
"""Bytes; anything larger is not our file."""


class PageState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How one page was left."""

    columns: list[str] = []
    """Ids of the chosen columns; empty: the usual ones."""
    sort: str = ""
    reverse: bool = False
    filter: str = ""
    detail: bool = False
    choices: dict[str, str] = {}
    """Whatever else a page lets one choose, by name."""


class SavedState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is kept. Values that make no sense any more are treated as the defaults by who reads them."""

    theme: str = ""
    page: str = ""
    mouse: bool = True
    ascii: bool | None = None
    """None: found out from the environment."""
    keys: dict[str, str] = {}
    """Other keys for actions, by their ids: ``{"live.pause": "p"}``."""
    views: dict[str, PageState] = {}

    def view(self, page: str) -> PageState:
        """How a page was left; a change of it is remembered."""
        return self.views.setdefault(page, PageState())


def load(home: Path) -> tuple[SavedState, str]:
    """What is remembered, and a sentence about what could not be read, or nothing."""
    path = home / NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(SIZE_LIMIT), type=SavedState), ""
    except FileNotFoundError:
        return SavedState(), ""
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        kept = path.with_suffix(".damaged")
        with suppress(OSError):
            path.replace(kept)
        return SavedState(), f"{path} cannot be read ({exc}); it is now {kept.name}, and the console starts afresh"


def save(home: Path, state: SavedState) -> None:
    """Put the file in place at once and whole, mode 0600. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=NAME, dir=home)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        os.replace(temporary, home / NAME)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - the pair of mkstemp
        raise
