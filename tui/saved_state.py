"""Saved state: what the console remembers between runs, such as theme, page, columns and filters, in a file.

A file that cannot be read is renamed and reported, and never keeps the console from starting.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gateway.runfile import replace_file

NAME = "console.json"


class PageState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a page has again when the console is opened next: columns, order, filter and choices."""

    columns: list[str] = []
    """The ids of the chosen columns; empty: as many as fit."""
    sort: str = ""
    reverse: bool = False
    filter: str = ""
    detail: bool = False
    choices: dict[str, str] = {}
    """Other choices of a page, by name."""


class SavedState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is saved. The default replaces a value that has become invalid."""

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
    """Returns the saved state, and a sentence about what was wrong with the file; empty if nothing was."""
    path = home / NAME
    try:
        with path.open("rb") as file:
            data = file.read(256 * 1024)  # a longer file is not ours, and is cut so that it cannot be decoded
        return msgspec.json.decode(data, type=SavedState), ""
    except FileNotFoundError:
        return SavedState(), ""
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        damaged = path.with_suffix(".damaged")
        with suppress(OSError):
            path.replace(damaged)
        consequence = f"it was renamed to {damaged.name}, and the console starts with defaults"
        return SavedState(), f"{path} cannot be read ({exc}); {consequence}"


def merge(mine: Any, before: Any, theirs: Any) -> Any:
    """Returns what another console saved (``theirs``), with the changes made here (``mine``) since ``before``."""
    if isinstance(mine, msgspec.Struct):
        names = mine.__struct_fields__
        return type(mine)(**{n: merge(getattr(mine, n), getattr(before, n), getattr(theirs, n)) for n in names})
    if not isinstance(mine, dict):
        return theirs if mine == before else mine
    merged = {name: value for name, value in theirs.items() if name in mine or name not in before}
    for name, value in mine.items():
        empty = type(value)()
        merged[name] = merge(value, before.get(name, empty), theirs.get(name, empty))
    return merged


def save(home: Path, state: SavedState) -> None:
    """Replace the file atomically. Its mode is 0600. Raises OSError."""
    replace_file(home / NAME, msgspec.json.format(msgspec.json.encode(state)) + b"\n")
