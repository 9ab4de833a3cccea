"""Regular expressions that are compiled when they are used first.

A server has hundreds, and most of them read errors and names that never come: compiled at once they would take a
twentieth of its start.
"""

import re
from typing import Any, cast


class LazyPattern:
    """Has the members of a compiled pattern."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Returns the pattern. Only its members can be used: ``re.sub`` and others need a compiled one."""
    return cast("re.Pattern[str]", LazyPattern(text, flags))
