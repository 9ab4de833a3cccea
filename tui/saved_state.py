"""Saved state: what the console keeps between runs (theme, page, columns, sorting, filters), as a file in the home.

A file that cannot be read is renamed and reported; it never keeps the console from starting.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

NAME = "console.json"


class PageState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of one page."""

    columns: list[str] = []
    """The ids of the chosen columns; empty: the usual ones."""
    sort: str = ""
    reverse: bool = False
    filter: str = ""
    detail: bool = False
    choices: dict[str, str] = {}
    """Other choices of a page, by name."""


class SavedState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is saved. A value that is not valid now counts as the default."""

    theme: str = ""
    page: str = ""
    mouse: bool = True
    ascii: bool | None = None
    """Whether to draw with ASCII; None: detected from the environment."""
    views: dict[str, PageState] = {}

    def view(self, page: str) -> PageState:
        """Returns the state of a page; changes to it are saved."""
        return self.views.setdefault(page, PageState())


def load(home: Path) -> tuple[SavedState, str]:
    """Returns the saved state, and a sentence about errors while it was read; empty if none."""
    path = home / NAME
    try:
        with path.open("rb") as file:
            # anything larger is not our file
            return msgspec.json.decode(file.read(256 * 1024), type=SavedState), ""
    except FileNotFoundError:
        return SavedState(), ""
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        kept = path.with_suffix(".damaged")
        with suppress(OSError):
            path.replace(kept)
        return (
            SavedState(),
            f"{path} cannot be read ({exc}); it was renamed to {kept.name}, and the console starts with defaults",
        )


def merge(mine: Any, before: Any, theirs: Any) -> Any:
    """Returns the state that another console has saved, with the changes made here since ``before``."""
    if isinstance(mine, msgspec.Struct):
        names = mine.__struct_fields__
        return type(mine)(**{n: merge(getattr(mine, n), getattr(before, n), getattr(theirs, n)) for n in names})
    if not isinstance(mine, dict):
        return theirs if mine == before else mine
    merged = {name: value for name, value in theirs.items() if name in mine or name not in before}
    for name, value in mine.items():
        usual = type(value)()
        merged[name] = merge(value, before.get(name, usual), theirs.get(name, usual))
    return merged


def save(home: Path, state: SavedState) -> None:
    """Replace the file atomically, with mode 0600. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=NAME, dir=home)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        os.replace(temporary, home / NAME)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - the pair of mkstemp
        raise
