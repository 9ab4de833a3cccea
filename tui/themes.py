"""Themes: dark, light, high contrast, and none: without any colour, the terminal's own two and nothing else."""

from textual.theme import Theme

PLAIN = "plain"

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
    },
)

NONE = Theme(
    name=PLAIN,
    ansi=True,
    primary="ansi_default",
    secondary="ansi_default",
    accent="ansi_default",
    warning="ansi_default",
    error="ansi_default",
    success="ansi_default",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        "muted": "ansi_default",
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-text-style": "reverse",
        "border": "ansi_default",
        "border-blurred": "ansi_default",
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "input-cursor-text-style": "reverse",
        "input-selection-background": "ansi_default",
        "input-selection-foreground": "ansi_default",
        "screen-selection-background": "ansi_default",
        "screen-selection-foreground": "ansi_default",
    },
)

THEMES = (DARK, LIGHT, CONTRAST, NONE)

NAMES = tuple(theme.name for theme in THEMES)


def next_name(name: str) -> str:
    """The next name, wrapping around; the first after an unknown name."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)] if name in NAMES else NAMES[0]
