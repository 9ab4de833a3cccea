"""LazyPattern: a regular expression that is compiled when it is first used.

The program has hundreds, and most of them match errors and names that rarely occur. Compiling all of them at import
would take a twentieth of the server's start.
"""

import re
from typing import Any, cast


class LazyPattern:
    """Behaves like an ``re.Pattern``, which it compiles when an attribute is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, attribute)
        return attribute


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that is compiled on first use. Call its methods: functions such as ``re.sub`` reject it."""
    return cast("re.Pattern[str]", LazyPattern(text, flags))
