"""Themes: dark, light, high contrast, and plain, which uses only the terminal's default colours.

A theme of the owner is based on one of the first three, and replaces some of its colours.
"""

import dataclasses
import difflib
import re
from collections.abc import Mapping

from textual.color import Color, ColorParseError
from textual.theme import Theme

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain

PLAIN = "plain"

_SERIES_ON_DARK = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#727d8b")
_SERIES_ON_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#98a1ab")
"""The palette of Okabe and Ito, which people with any colour vision can distinguish; grey is for all other series."""

_HEAT_ON_DARK = ("#2f4470", "#2a788e", "#22a884", "#7ad151", "#fde725")
_HEAT_ON_LIGHT = ("#cfe8b8", "#8fd3b6", "#41b6c4", "#2c7fb8", "#253494")
"""The shades of a heat map, from little to most. Their lightness alone shows the order."""


def chart_colours(*, dark: bool, grid: str = "") -> dict[str, str]:
    """Returns the variables of a theme for charts. ``grid``: the colour of tick lines, fainter than the bars."""
    series, heat = (_SERIES_ON_DARK, _HEAT_ON_DARK) if dark else (_SERIES_ON_LIGHT, _HEAT_ON_LIGHT)
    return {
        **{f"chart-{number}": colour for number, colour in enumerate(series, 1)},
        **{f"heat-{number}": colour for number, colour in enumerate(heat, 1)},
        "chart-grid": grid or ("#3b4552" if dark else "#b4bac1"),
    }


DARK = Theme(
    name="dark",
    primary="#5fa8e0",
    secondary="#3f7cab",
    accent="#e8b45a",
    warning="#e8b45a",
    error="#f07178",
    success="#7fd08a",
    foreground="#dfe3e8",
    background="#14171c",
    surface="#191d23",
    panel="#262c35",
    variables={
        "muted": "#8a94a3",
        "block-cursor-background": "#2f5f8a",
        "block-cursor-foreground": "#ffffff",
        "border": "#3b4552",
        **chart_colours(dark=True),
    },
)

LIGHT = Theme(
    name="light",
    primary="#0b5cad",
    secondary="#3a6ea5",
    accent="#8a4b00",
    warning="#8a4b00",
    error="#a8152f",
    success="#12692f",
    foreground="#1c2127",
    background="#fbfbf9",
    surface="#f6f6f3",
    panel="#e4e6e8",
    dark=False,
    variables={
        "muted": "#5f6973",
        "block-cursor-background": "#0b5cad",
        "block-cursor-foreground": "#ffffff",
        "border": "#b4bac1",
        **chart_colours(dark=False),
    },
)

CONTRAST = Theme(
    name="contrast",
    primary="#00d7ff",
    secondary="#00d7ff",
    accent="#ffff00",
    warning="#ffff00",
    error="#ff8787",
    success="#5fff5f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    variables={
        "muted": "#d0d0d0",
        "block-cursor-background": "#ffff00",
        "block-cursor-foreground": "#000000",
        "border": "#ffffff",
        **chart_colours(dark=True, grid="#5a5a5a"),
    },
)

COLOURS = (
    *("foreground", "background", "surface", "panel", "primary", "secondary", "accent"),
    *("success", "warning", "error"),
)
"""The colours of a theme that the owner can replace, by Textual's names."""

NONE = Theme(
    name=PLAIN,
    ansi=True,
    **dict.fromkeys((*COLOURS, "boost"), "ansi_default"),  # type: ignore[arg-type] # all of these fields are colours
    variables={
        **dict.fromkeys(chart_colours(dark=True), "ansi_default"),
        **dict.fromkeys(("muted", "border", "border-blurred"), "ansi_default"),
        **{
            f"{part}-{ground}": "ansi_default"
            for part in ("block-cursor", "input-cursor", "input-selection", "screen-selection")
            for ground in ("background", "foreground")
        },
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "block-cursor-text-style": "reverse",
        "input-cursor-text-style": "reverse",
    },
)

THEMES = (DARK, LIGHT, CONTRAST, NONE)

NAMES = tuple(theme.name for theme in THEMES)

BASES = {theme.name: theme for theme in (DARK, LIGHT, CONTRAST)}

VARIABLES = {
    "muted": "muted",
    "border": "border",
    "cursor": "block-cursor-background",
    "cursor_text": "block-cursor-foreground",
}
"""Other colours that the owner can replace, and the variables that hold them."""

_COLOUR = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})|(?!ansi|auto|transparent)[a-z]+", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,29}")


def theme_of(name: str, table: Mapping[str, object]) -> Theme:
    """Returns a theme from its table in a file. Raises BadRequest, which names the error and the valid choices."""
    if name in NAMES or not _NAME.fullmatch(name):
        problem = "the name is taken by a built-in theme" if name in NAMES else "use a-z, 0-9, - and _ in its name"
        raise BadRequest(f"theme '{plain(name, 40)}': {problem}")
    base_name = str(table.get("based_on", DARK.name))
    if base_name not in BASES:
        raise BadRequest(f"theme '{name}': based_on must be {', '.join(BASES)}, not '{plain(base_name, 40)}'")
    entries = {key: value for key, value in table.items() if key != "based_on"}
    for key, value in entries.items():
        _check_colour(name, key, value)
    base = BASES[base_name]
    variables = {VARIABLES[key]: str(value) for key, value in entries.items() if key in VARIABLES}
    colours: dict[str, str] = {key: str(value) for key, value in entries.items() if key in COLOURS}
    return dataclasses.replace(base, name=name, variables={**base.variables, **variables}, **colours)  # type: ignore[arg-type] # all of these fields are colours


def _check_colour(theme: str, key: str, value: object) -> None:
    if key not in COLOURS and key not in VARIABLES:
        names = [*COLOURS, *VARIABLES, "based_on"]
        close = difflib.get_close_matches(key, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {', '.join(names)}"
        raise BadRequest(f"theme '{theme}': unknown colour '{plain(key, 40)}'; {hint}")
    try:  # it must depend neither on the terminal nor on what is below it
        is_colour = isinstance(value, str) and _COLOUR.fullmatch(value) is not None and Color.parse(value).a == 1
    except ColorParseError:
        is_colour = False
    if not is_colour:
        shown = plain(str(value), 40)
        raise BadRequest(f"theme '{theme}': {key} = '{shown}' is not a colour; write #rrggbb, or a name such as orange")
