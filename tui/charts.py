"""Charts: bars of eighth blocks, lines of braille, gauges and sparklines, as cells of text. Numbers in, characters out.

Every chart begins at zero and ends at a round tick. Series differ by colour, and by their fill if colours are missing;
a gauge has its percentage beside it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from tui import glyphs

FULL = 8
"""The number of eighths in a cell."""

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of the braille dots of a cell's two columns, from the bottom up."""


class ChartCell(msgspec.Struct, frozen=True):
    """One cell of a chart: the character, and the number of the series it shows (-1: none)."""

    text: str
    series: int = -1
    behind: int = -1
    """The series that fills the rest of the cell, above the character."""


BLANK = ChartCell(" ")

DECIMAL_STEPS = (1.0, 2.0, 5.0)

TIME_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 20_000, 30_000),
    *(60_000, 120_000, 300_000, 600_000, 1_200_000, 3_600_000),
)
"""Round steps in milliseconds: 1, 2 and 5 seconds with their tens, then minutes."""


class Ticks(msgspec.Struct, frozen=True):
    """A scale from zero in round steps."""

    step: float
    count: int
    """The number of steps above zero."""
    rows: int
    """The number of lines of each step."""

    @property
    def top(self) -> float:
        """Returns the highest value of the scale."""
        return self.step * self.count

    @property
    def height(self) -> int:
        """Returns the number of lines of the whole scale."""
        return self.rows * self.count

    def row_of(self, value: float) -> int:
        """Returns the line of a value, counted from the top: the value is at the line's upper end or below, as ticks
        are.
        """
        return self.height - max(1, min(self.height, math.ceil(value / self.top * self.height - 1e-9)))


class BarSpan(msgspec.Struct, frozen=True):
    """The place of a bar: its first cell, the cells it fills, and the cells up to the next bar."""

    start: int
    bar: int
    whole: int


def spark(values: Sequence[float], width: int) -> str:
    """Returns a sparkline of ``width`` cells. Each cell shows the highest of its values; nothing is a low line."""
    if not values or width < 1:
        return " " * max(0, width)
    taken = _buckets(values, width)
    top = max(taken) or 1
    low = glyphs.BLOCKS[1]
    marks = [glyphs.BLOCKS[max(1, min(FULL, round(v / top * FULL)))] if v > 0 else low for v in taken]
    return "".join(marks).rjust(width)


def gauge(part: float, width: int) -> str:
    """Returns a bar of ``width`` cells for a share from 0 to 1; a higher share is shown as full."""
    eighths = round(max(0.0, min(1.0, part)) * width * FULL)
    full, rest = divmod(eighths, FULL)
    bar = glyphs.PARTS[FULL] * full + (glyphs.PARTS[rest] if rest else "")
    return bar + glyphs.EMPTY * (width - len(bar))


def ticks(highest: float, height: int, *, whole: bool = False, times: bool = False) -> Ticks:
    """Returns ticks of 1, 2 or 5 times a power of ten that reach the highest value, and draw it nearly as high as
    possible.

    ``height`` is the most lines; more ticks are worth an eighth of it. ``whole``: no steps below 1; ``times``: the
    values are milliseconds.
    """
    highest = max(highest, 0)
    candidates = []
    for most in range(1, max(1, min(5, height // 2)) + 1):  # at most 5 ticks, 2 lines apart
        step = _round_step(highest / most, whole=whole, times=times)
        count = max(1, math.ceil(highest / step - 1e-9))
        rows = height // count
        candidates.append((highest / (step * count) * rows * count, count, step, rows))
    best = max(candidates)[0] * 7 / 8
    _, count, step, rows = max(
        (candidate for candidate in candidates if candidate[0] >= best), key=lambda candidate: candidate[1]
    )
    return Ticks(step, count, rows)


def spread(count: int, width: int) -> list[BarSpan]:
    """Returns the places of ``count`` bars over the whole width. With two or more cells for each, they are equally
    wide, with gaps between them.
    """
    spans, bar = [], max(0, width // count - 1) if count else 0
    for number in range(count):
        start, end = number * width // count, (number + 1) * width // count
        whole = max(1, end - start)
        spans.append(BarSpan(start, bar or whole, whole))
    return spans


def stack_bars(
    columns: Sequence[Sequence[float]], height: int, top: float = 0, *, patterns: bool = False
) -> list[list[ChartCell]]:
    """Returns stacked bars one cell wide, as rows of cells from the top down; the first series is at the bottom.

    With ``patterns`` a cell shows one series, which has its own fill.
    """
    top = top or max(map(sum, columns), default=0) or 1
    stack = _pattern_stack if patterns else _exact_stack
    stacks = [stack(column, height, top) for column in columns]
    return [[stack[row] for stack in stacks] for row in reversed(range(height))]


DRAWN = (6, 4, 1)
"""The dots drawn of every six across, for each line without colours."""


def lines(
    series: Sequence[Sequence[float | None]],
    width: int,
    height: int,
    top: float,
    *,
    patterns: bool = False,
) -> list[list[ChartCell]]:
    """Returns lines over the same time, as rows of cells from the top down; None is a gap. The first series is in
    front.

    With ``patterns``, the first line is solid, the second is dashed, the third is dotted.
    """
    grid = [[BLANK] * width for _ in range(height)]
    for number, values in reversed(list(enumerate(series))):
        dots: dict[tuple[int, int], int] = {}
        for x, y, alone in _path(values, width * 2, height * 4, top):
            if patterns and not alone and x % 6 >= DRAWN[number % len(DRAWN)]:
                continue
            at = (y // 4, x // 2)
            dots[at] = dots.get(at, 0) | _DOTS[x % 2][y % 4]
        for (row, column), bits in dots.items():
            grid[height - 1 - row][column] = ChartCell(chr(0x2800 + bits), number)
    return grid


def level(value: float, highest: float, levels: int) -> int:
    """Returns the shade of a value: 0 for nothing, otherwise 1 to ``levels``."""
    if value <= 0 or highest <= 0:
        return 0
    return min(levels, max(1, math.ceil(value / highest * levels - 1e-9)))


def _round_step(least: float, *, whole: bool, times: bool) -> float:
    """Returns the smallest round step that is at least this."""
    if times and least <= TIME_STEPS[-1]:
        return next(step for step in TIME_STEPS if step >= least)
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    step = next((factor * power for factor in DECIMAL_STEPS if factor * power >= least * (1 - 1e-9)), 10 * power)
    return max(1.0, step) if whole else step


def _buckets(values: Sequence[float], width: int) -> list[float]:
    """Returns at most ``count`` values: the highest of each stretch."""
    if len(values) <= width:
        return list(values)
    cuts = [i * len(values) // width for i in range(width + 1)]
    return [max(values[a:b]) for a, b in pairwise(cuts)]


def _exact_stack(column: Sequence[float], height: int, top: float) -> list[ChartCell]:
    """Returns one bar from the bottom up, each series to an eighth of a cell: a cell may show two of them."""
    ends, total = [], 0.0
    for part in column:
        total += part
        ends.append(round(total / top * height * FULL))
    if total > 0 and ends[-1] == 0:  # something is more than nothing
        ends = [int(part == max(column) or number > column.index(max(column))) for number, part in enumerate(column)]
    return [_exact_cell(ends, row * FULL) for row in range(height)]


def _exact_cell(ends: Sequence[int], low: int) -> ChartCell:
    """Returns one cell. ``ends`` are the upper ends of the series in eighths, ``low`` is the lower end of the cell.

    A cell can show two series: the lowest one, and the largest of those above it.
    """
    high = low + FULL
    parts = [(min(end, high) - max(start, low), number) for number, (start, end) in enumerate(pairwise((0, *ends)))]
    parts = [part for part in parts if part[0] > 0]
    if not parts:
        return BLANK
    if ends[-1] < high:  # the end of the bar
        return ChartCell(glyphs.BLOCKS[ends[-1] - low], _largest(parts))
    if len(parts) == 1:
        return ChartCell(glyphs.FILLS[0], _largest(parts))
    return ChartCell(glyphs.BLOCKS[parts[0][0]], parts[0][1], _largest(parts[1:]))


def _largest(parts: Sequence[tuple[int, int]]) -> int:
    """Returns the series with the largest size; the first one if several are equal."""
    return max(parts, key=lambda part: (part[0], -part[1]))[1]


def _pattern_stack(column: Sequence[float], height: int, top: float) -> list[ChartCell]:
    """Returns one bar from the bottom up, in whole cells, each with the series at its middle: a partial cell would look
    like another series.
    """
    total, cells = sum(column), []
    for row in range(height):
        low, high = row / height * top, (row + 1) / height * top
        if total >= high or (total > low and (row == 0 or total - low >= (high - low) / 2)):
            series = _series_at(column, (low + min(total, high)) / 2)
            cells.append(ChartCell(glyphs.FILLS[series % len(glyphs.FILLS)], series))
        else:
            cells.append(BLANK)
    return cells


def _series_at(column: Sequence[float], value: float) -> int:
    reached = 0.0
    for series, part in enumerate(column):
        reached += part
        if value <= reached:
            return series
    return len(column) - 1


def _path(values: Sequence[float | None], width: int, height: int, top: float) -> Iterator[tuple[int, int, bool]]:
    """Yields the dots of a line from the bottom left, each value in the middle of its part of the width, and whether
    the dot stands alone for its value, because no value is beside it.
    """
    before: tuple[int, int] | None = None
    for number, value in enumerate(values):
        if value is None:
            before = None
            continue
        at = (int((number + 0.5) * width / len(values)), _level(value, top, height))
        after = values[number + 1] if number + 1 < len(values) else None
        yield *at, before is None and after is None
        if before is not None:
            yield from ((x, y, False) for x, y in _straight(before, at))
        before = at


def _straight(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    for step in range(1, steps):
        x = start[0] + (end[0] - start[0]) * step / steps
        y = start[1] + (end[1] - start[1]) * step / steps
        yield round(x), round(y)


def _level(value: float, top: float, levels: int) -> int:
    return max(0, min(levels - 1, round(value / top * levels - 0.5)))
