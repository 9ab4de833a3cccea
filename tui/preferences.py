"""Preferences: the owner's keys for actions and the owner's themes, in ``console.toml`` of the home.

The owner writes the file, and the console reads it when it starts. Wrong entries are reported and skipped; they never
keep the console from starting. What the console itself remembers is in ``saved_state``.
"""

import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from textual.theme import Theme

from gateway.client.exports import create_private
from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from tui import themes
from tui.actions import ACTIONS, Action
from tui.keymap import Keymap, read_keymap

NAME = "console.toml"


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's own keys and themes."""

    keymap: Keymap = msgspec.field(default_factory=Keymap)
    themes: tuple[Theme, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences about entries that are skipped."""


def load(home: Path, pages: Callable[[], Mapping[str, Collection[Action]]]) -> Preferences:
    """Returns the preferences of a home. ``pages`` is called only if the file has keys: see ``read_keymap``."""
    table, problems = _read(home / NAME)
    unknown = [plain(name, 40) for name in table if name not in ("keys", "themes")]
    problems += [f"unknown section [{name}]; use [keys] and [themes.NAME]" for name in unknown]
    keys = {}
    for id_, value in _flatten(_section(table, "keys", problems)):
        if isinstance(value, str):
            keys[id_] = value
        else:
            problems.append(f'{plain(id_, 60)}: write the key in quotes, as in "p"')
    keymap, key_problems = read_keymap(keys, pages()) if keys else (Keymap(), [])
    own_themes = []
    for name, definition in _section(table, "themes", problems).items():
        if not isinstance(definition, dict):
            problems.append(f"theme '{plain(name, 40)}': write its colours under [themes.{plain(name, 40)}]")
            continue
        try:
            own_themes.append(themes.theme_of(name, definition))
        except BadRequest as error:
            problems.append(error.message)
    return Preferences(keymap=keymap, themes=tuple(own_themes), problems=(*problems, *key_problems))


def problems_text(problems: Sequence[str]) -> str:
    """Returns the message about problems for the start of the console; empty if all is well."""
    if not problems:
        return ""
    more = f"\nand {len(problems) - 3} more: page Settings, {NAME}" if len(problems) > 3 else ""
    return f"{NAME}: " + "\n".join(problems[:3]) + more


def create(home: Path) -> bool:
    """Write a file with every action as a comment. Returns False if the file exists already. Raises OSError."""
    try:
        with create_private(home / NAME) as file:
            file.write(example())
    except FileExistsError:
        return False
    return True


def example() -> str:
    """Returns a file that changes nothing: all keys and one theme, as comments."""
    width = max(len(action.id) for action in ACTIONS) + 2
    keys = [f"# {_quote(a.id):<{width}} = {_quote(a.keys or 'none'):<26} # {a.label}" for a in ACTIONS]
    colours = [f'# {name} = "{getattr(themes.DARK, name)}"' for name in themes.COLOURS]
    colours += [f'# {name} = "{themes.DARK.variables[variable]}"' for name, variable in themes.VARIABLES.items()]
    return "\n".join(
        [
            "# Keys and themes of Tollkeeper's console, read when it starts. docs/console.md explains them.",
            "# Remove the '#' in front of what you change.",
            "",
            "[keys]",
            *keys,
            "",
            "# [themes.mine]",
            '# based_on = "dark"                       # dark, light or contrast',
            *colours,
            "",
        ]
    )


def _quote(text: str) -> str:
    return f'"{text}"'


def _read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Returns the file's content and the problems with it. A missing file is empty."""
    try:
        if os.name != "nt" and not path.is_symlink() and path.stat().st_mode & 0o077:
            path.chmod(0o600)  # an editor may have created it with another mode
        with path.open("rb") as file:
            data = file.read(256 * 1024)
    except FileNotFoundError:
        return {}, []
    except OSError as exc:
        return {}, [f"it cannot be read: {exc.strerror}"]
    try:
        return tomllib.loads(data.decode("utf-8-sig")), []
    except UnicodeDecodeError:
        return {}, ["it is not UTF-8 text, so it is ignored"]
    except tomllib.TOMLDecodeError as exc:
        return {}, [f"not valid TOML, so it is ignored: {plain(str(exc), 200)}"]


def _section(table: Mapping[str, Any], name: str, problems: list[str]) -> dict[str, Any]:
    value = table.get(name, {})
    if isinstance(value, dict):
        return value
    problems.append(f"[{name}] must be a section")
    return {}


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the entries by full names, because TOML nests ``live.pause`` if it is written without quotes."""
    for name, value in table.items():
        if isinstance(value, dict) and not prefix:
            yield from _flatten(value, f"{name}.")
        else:
            yield prefix + name, value
