"""Glyphs: the marks that carry meaning before any colour does, in Unicode and for terminals that have only ASCII."""

import os
from collections.abc import Mapping

import msgspec


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """One set of marks. All single ones are one cell wide."""

    ascii: bool = False
    ok: str = "✓"
    failed: str = "✗"
    stopped: str = "■"
    running: str = "▸"
    on: str = "●"
    off: str = "○"
    warning: str = "▲"
    half: str = "◐"
    marked: str = "◆"
    follow: str = "▸"
    stay: str = "▹"
    pause: str = "❚❚"
    up: str = "↑"
    down: str = "↓"
    right: str = "→"
    ascending: str = "▲"
    descending: str = "▼"
    nothing: str = "·"
    dot: str = "·"
    times: str = "\N{MULTIPLICATION SIGN}"
    ellipsis: str = "…"
    enter: str = "⏎"
    blocks: str = " ▁▂▃▄▅▆▇█"
    """Empty to full, in eighths upwards."""
    parts: str = " ▏▎▍▌▋▊▉█"
    """Empty to full, in eighths to the right."""
    empty: str = "░"
    fills: str = "█▓▒░"
    """One a series of a chart."""
    wait: str = "▒"
    axis: str = "│┤└─"


UNICODE = Glyphs()

ASCII = Glyphs(
    ascii=True,
    ok="+",
    failed="x",
    stopped="-",
    running=">",
    on="*",
    off="o",
    warning="!",
    half="%",
    marked="#",
    follow=">",
    stay="-",
    pause="||",
    up="^",
    down="v",
    right=">",
    ascending="^",
    descending="v",
    nothing="-",
    dot="|",
    times="x",
    ellipsis="~",
    enter="enter",
    blocks=" ..::##@@",
    parts=" ...::::#",
    empty="-",
    fills="#=:.",
    wait=":",
    axis="|+`-",
)


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Whether the terminal should be spared Unicode: it was asked for, or the locale cannot write it."""
    if chosen := environ.get("TOLLKEEPER_ASCII"):
        return chosen not in ("0", "no", "false")
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return os.name != "nt" and locale in ("C", "POSIX")
