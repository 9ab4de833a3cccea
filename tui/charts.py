"""Charts: bars of eighth blocks, lines of braille, gauges and sparklines, as lines of text. Numbers in, characters out.

Everything reads without colour: series differ by their fill as well, and a gauge has its percentage beside it.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tui.glyphs import Glyphs

FULL = 8
"""Eighths of a cell."""

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of the braille dots of a cell's two columns, from the bottom up."""

BRAILLE = 0x2800


class ChartCell(msgspec.Struct, frozen=True):
    """One cell of a stacked bar: the character, and the number of the series it shows (-1: none)."""

    text: str
    series: int


def spark(values: Sequence[float], width: int, glyphs: Glyphs, top: float = 0) -> str:
    """A sparkline in so many cells; each cell shows the highest of its values, and nothing is a low line."""
    if not values or width < 1:
        return " " * max(0, width)
    taken = _buckets(values, width)
    top = top or max(taken) or 1
    low = glyphs.blocks[1]
    marks = [glyphs.blocks[max(1, min(FULL, round(v / top * FULL)))] if v > 0 else low for v in taken]
    return "".join(marks).rjust(width)


def gauge(part: float, width: int, glyphs: Glyphs) -> str:
    """A bar of so many cells for a share from 0 to 1; what is more is shown as full."""
    eighths = round(max(0.0, min(1.0, part)) * width * FULL)
    full, rest = divmod(eighths, FULL)
    bar = glyphs.parts[FULL] * full + (glyphs.parts[rest] if rest else "")
    return bar + glyphs.empty * (width - len(bar))


def bars(values: Sequence[float], height: int, glyphs: Glyphs, top: float = 0) -> list[str]:
    """Bars one cell wide, as lines from the top down."""
    top = top or max(values, default=0) or 1
    lines = []
    for row in reversed(range(height)):
        eighths = [round(v / top * height * FULL) - row * FULL for v in values]
        lines.append("".join(glyphs.blocks[max(0, min(FULL, e))] for e in eighths))
    return lines


def stacked(columns: Sequence[Sequence[float]], height: int, glyphs: Glyphs, top: float = 0) -> list[list[ChartCell]]:
    """Stacked bars one cell wide, as rows of cells from the top down; the first series is at the bottom."""
    top = top or max(map(sum, columns), default=0) or 1
    stacks = [_stack(column, height, glyphs, top) for column in columns]
    return [[stack[row] for stack in stacks] for row in reversed(range(height))]


def line(values: Sequence[float], width: int, height: int, glyphs: Glyphs, top: float = 0) -> list[str]:
    """A line chart, two by four dots a cell; in ASCII one mark a cell."""
    top = top or max(values, default=0) or 1
    if not values:
        return [" " * width] * height
    return _dotted(values, width, height, top) if not glyphs.ascii else _marked(values, width, height, top)


def scale(top: float, height: int) -> list[float]:
    """The value at each line's middle, from the top down."""
    return [top * (height - row - 0.5) / height for row in range(height)]


def _buckets(values: Sequence[float], width: int) -> list[float]:
    """At most so many values: the highest of each stretch."""
    if len(values) <= width:
        return list(values)
    cuts = [i * len(values) // width for i in range(width + 1)]
    return [max(values[a:b]) for a, b in pairwise(cuts)]


def _stack(column: Sequence[float], height: int, glyphs: Glyphs, top: float) -> list[ChartCell]:
    """One bar from the bottom up: whole cells by what is at their middle, the last one by eighths."""
    total = sum(column)
    last = len(column) - 1
    cells = []
    for row in range(height):
        low, high = row / height * top, (row + 1) / height * top
        if total >= high or (total > low and last < 0):
            series = _series_at(column, (low + high) / 2)
            cells.append(ChartCell(glyphs.fills[series % len(glyphs.fills)], series))
        elif total > low:
            eighths = max(1, round((total - low) / (high - low) * FULL))
            cells.append(ChartCell(glyphs.blocks[min(FULL, eighths)], _series_at(column, (low + total) / 2)))
        else:
            cells.append(ChartCell(" ", -1))
    return cells


def _series_at(column: Sequence[float], value: float) -> int:
    reached = 0.0
    for series, part in enumerate(column):
        reached += part
        if value <= reached:
            return series
    return len(column) - 1


def _dotted(values: Sequence[float], width: int, height: int, top: float) -> list[str]:
    grid = [[0] * width for _ in range(height)]
    before = None
    for x in range(width * 2):
        value = values[min(len(values) - 1, x * len(values) // (width * 2))]
        y = _level(value, top, height * 4)
        for dot in range(min(before, y), max(before, y) + 1) if before is not None else (y,):
            grid[height - 1 - dot // 4][x // 2] |= _DOTS[x % 2][dot % 4]
        before = y
    return ["".join(chr(BRAILLE + cell) for cell in row) for row in grid]


def _marked(values: Sequence[float], width: int, height: int, top: float) -> list[str]:
    grid = [[" "] * width for _ in range(height)]
    for x, value in enumerate(values[min(len(values) - 1, x * len(values) // width)] for x in range(width)):
        grid[height - 1 - _level(value, top, height)][x] = "*"
    return ["".join(row) for row in grid]


def _level(value: float, top: float, levels: int) -> int:
    return max(0, min(levels - 1, round(value / top * (levels - 1))))
