"""Charts: bars of eighth blocks, lines of braille dots, gauges and sparklines: from numbers to cells of text.

Every chart begins at zero and ends at a round tick. Series differ by their colours; without colours, by their fills.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec

from tui import glyphs

FULL = 8
"""The number of eighths in a cell."""

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of the braille dots of a cell's two columns, from the bottom up."""


class ChartCell(msgspec.Struct, frozen=True):
    """One character of a chart, and the series that colours it."""

    text: str
    series: int = -1
    """The number of the series that the character shows; -1: none."""
    behind: int = -1
    """The series of the background, above the character; -1: none."""


BLANK = ChartCell(" ")

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
        return self.step * self.count

    @property
    def height(self) -> int:
        return self.rows * self.count

    def row_of(self, value: float) -> int:
        """Returns the line that a value reaches, counted from the top. A tick is at the upper end of its line."""
        return self.height - max(1, min(self.height, math.ceil(value / self.top * self.height - 1e-9)))


class BarSpan(msgspec.Struct, frozen=True):
    """The place of a bar in a row."""

    start: int
    bar: int
    """The number of cells that it fills."""
    whole: int
    """The number of cells up to the next bar."""


def spark(values: Sequence[float], width: int) -> str:
    """Returns a sparkline of ``width`` cells. A cell shows the highest of its values; zero is a low line."""
    if not values or width < 1:
        return " " * max(0, width)
    peaks = values
    if len(values) > width:
        cuts = [i * len(values) // width for i in range(width + 1)]
        peaks = [max(values[a:b]) for a, b in pairwise(cuts)]
    top = max(peaks) or 1
    low = glyphs.BLOCKS[1]
    marks = [glyphs.BLOCKS[max(1, min(FULL, round(value / top * FULL)))] if value > 0 else low for value in peaks]
    return "".join(marks).rjust(width)


def gauge(share: float, width: int) -> str:
    """Returns a bar of ``width`` cells for a share from 0 to 1; a higher share is shown as full."""
    eighths = round(max(0.0, min(1.0, share)) * width * FULL)
    full, eighth = divmod(eighths, FULL)
    bar = glyphs.PARTS[FULL] * full + (glyphs.PARTS[eighth] if eighth else "")
    return bar + glyphs.EMPTY * (width - len(bar))


def ticks(highest: float, height: int, *, whole: bool = False, times: bool = False) -> Ticks:
    """Returns ticks in steps of 1, 2 or 5 times a power of ten, up to the highest value or above: of the scales that
    draw it nearly as high as possible, the one with the most ticks. ``height``: the most lines; ``whole``: no steps
    below 1; ``times``: the values are milliseconds.
    """
    highest = max(highest, 0)
    scales = []
    for max_count in range(1, max(1, min(5, height // 2)) + 1):  # at most 5 ticks, at min_height 2 lines apart
        step = _round_step(highest / max_count, whole=whole, times=times)
        count = max(1, math.ceil(highest / step - 1e-9))
        scales.append(Ticks(step, count, height // count))
    drawn_heights = [highest / scale.top * scale.rows * scale.count for scale in scales]
    min_height = max(drawn_heights) * 7 / 8
    candidates = [scale for scale, drawn in zip(scales, drawn_heights, strict=True) if drawn >= min_height]
    return max(candidates, key=lambda scale: scale.count)


def spread_bars(count: int, width: int) -> list[BarSpan]:
    """Returns the places of ``count`` bars over the whole width, with gaps if each has two cells or more."""
    spans, bar = [], max(0, width // count - 1) if count else 0
    for number in range(count):
        start, end = number * width // count, (number + 1) * width // count
        whole = max(1, end - start)
        spans.append(BarSpan(start, bar or whole, whole))
    return spans


def stack_bars(
    columns: Sequence[Sequence[float]], height: int, top: float, *, patterns: bool = False
) -> list[list[ChartCell]]:
    """Returns stacked bars, one cell wide, as rows from the top down. With ``patterns``, each cell shows one series."""
    stack = _pattern_stack if patterns else _exact_stack
    stacks = [stack(column, height, top) for column in columns]
    return [[stack[row] for stack in stacks] for row in reversed(range(height))]


DRAWN = (6, 4, 1)
"""How many of every six dots are drawn of each line without colours: solid, dashed, dotted."""


def lines(
    series: Sequence[Sequence[float | None]], width: int, height: int, top: float, *, patterns: bool = False
) -> list[list[ChartCell]]:
    """Returns a line for each series, the first in front, as rows from the top down. None is a gap. With ``patterns``,
    the lines are solid, dashed and dotted.
    """
    grid = [[BLANK] * width for _ in range(height)]
    for number, values in reversed(list(enumerate(series))):
        dots: dict[tuple[int, int], int] = {}
        for x, y, isolated in _path(values, width * 2, height * 4, top):
            if patterns and not isolated and x % 6 >= DRAWN[number % len(DRAWN)]:
                continue
            cell = (y // 4, x // 2)
            dots[cell] = dots.get(cell, 0) | _DOTS[x % 2][y % 4]
        for (row, column), bits in dots.items():
            grid[height - 1 - row][column] = ChartCell(chr(0x2800 + bits), number)
    return grid


def shade_of(value: float, highest: float, shades: int) -> int:
    """Returns the shade of a value: 0 for zero, otherwise 1 to ``shades``."""
    if value <= 0 or highest <= 0:
        return 0
    return min(shades, max(1, math.ceil(value / highest * shades - 1e-9)))


def _round_step(minimum: float, *, whole: bool, times: bool) -> float:
    if times and minimum <= TIME_STEPS[-1]:
        return next(step for step in TIME_STEPS if step >= minimum)
    if minimum <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(minimum))
    step = next((factor * power for factor in (1.0, 2.0, 5.0) if factor * power >= minimum * (1 - 1e-9)), 10 * power)
    return max(1.0, step) if whole else step


def _exact_stack(column: Sequence[float], height: int, top: float) -> list[ChartCell]:
    """Returns a bar from the bottom up. Series end at eighths of a cell, so that a cell may show two of them."""
    ends = [round(total / top * height * FULL) for total in accumulate(column)]
    if any(column) and ends[-1] == 0:  # a small value is still visible, unlike none
        ends = [int(part == max(column) or number > column.index(max(column))) for number, part in enumerate(column)]
    return [_exact_cell(ends, row * FULL) for row in range(height)]


def _exact_cell(ends: Sequence[int], low: int) -> ChartCell:
    """Returns a cell of a bar. ``ends`` are the upper ends of the series, ``low`` is the lower end of the cell, all in
    eighths. A cell can show two series: the lowest one, and the largest of those above it.
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
    """Returns the number of the series with the largest size, the first of equal ones."""
    return max(parts, key=lambda part: (part[0], -part[1]))[1]


def _pattern_stack(column: Sequence[float], height: int, top: float) -> list[ChartCell]:
    """Returns a bar from the bottom up, in whole cells, because a partial cell would look like another series."""
    total, cells = sum(column), []
    for row in range(height):
        low, high = row / height * top, (row + 1) / height * top
        if total >= high or (total > low and (row == 0 or total - low >= (high - low) / 2)):
            middle = (low + min(total, high)) / 2
            series = next((i for i, end in enumerate(accumulate(column)) if middle <= end), len(column) - 1)
            cells.append(ChartCell(glyphs.FILLS[series % len(glyphs.FILLS)], series))
        else:
            cells.append(BLANK)
    return cells


def _path(values: Sequence[float | None], width: int, height: int, top: float) -> Iterator[tuple[int, int, bool]]:
    """Yields the dots of a line, counted from the bottom left, and whether the dot's value stands alone."""
    previous: tuple[int, int] | None = None
    for number, value in enumerate(values):
        if value is None:
            previous = None
            continue
        dot = (int((number + 0.5) * width / len(values)), max(0, min(height - 1, round(value / top * height - 0.5))))
        next_value = values[number + 1] if number + 1 < len(values) else None
        yield *dot, previous is None and next_value is None
        if previous is not None:
            (x, y), width_moved, height_moved = previous, dot[0] - previous[0], dot[1] - previous[1]
            steps = max(abs(width_moved), abs(height_moved))
            for step in range(1, steps):
                yield round(x + width_moved * step / steps), round(y + height_moved * step / steps), False
        previous = dot
