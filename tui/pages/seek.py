"""Seek: puts the cursor on a row as soon as the server has told of it."""

from collections.abc import Hashable
from typing import Any

AGAIN_S = 0.1
TIMES = 30


def seek(page: Any, key: Hashable, times: int = TIMES) -> None:
    """``key`` is the row's; a row that does not come for some seconds is not waited for any more."""
    index = page.source.index(key)
    if index is not None:
        page.table.go(index)
    elif times:
        page.set_timer(AGAIN_S, lambda: seek(page, key, times - 1))
