"""Cells: cuts and pads texts by the cells of a terminal. A wide character takes two, a combining one takes none."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Returns a safe text, cut at the end to at most ``width`` cells."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 1)] + ellipsis[:width]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + ellipsis[:width]


def cut_middle(text: str, width: int) -> str:
    """Returns a safe name, cut in the middle to at most ``width`` cells, because names often differ at their ends."""
    if cell_len(text) <= width or width < 3:
        return cut(text, width)
    tail_width = (width - 1) // 2
    tail = text[-tail_width:]
    while cell_len(tail) > tail_width:
        tail = tail[1:]
    return set_cell_size(text, width - 1 - tail_width) + "…" + tail


def cut_pair(name: str, other: str, width: int) -> str:
    """Returns ``gpt-4o as claud…-4-5`` in ``width`` cells. If both names are long, each gets half of them."""
    names_width = width - len(" as ")
    first = cut_middle(name, max(1, names_width // 2, names_width - cell_len(other)))
    return f"{first} as {cut_middle(other, max(1, names_width - cell_len(first)))}"


def cell(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """Returns a safe text, cut or padded to exactly ``width`` cells; ``right``: aligned to the right."""
    text = cut(text, width, ellipsis)
    space = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return space + text if right else text + space


def aligned_rows(*columns: Sequence[str]) -> list[str]:
    """Returns each row of these columns of safe texts as one text. Empty columns are left out."""
    padded = [
        [cell(text, width) for text in column] for column in columns if (width := max(map(cell_len, column), default=0))
    ]
    return ["   ".join(row).rstrip() for row in zip(*padded, strict=True)]
