"""Patterns of model names: ``*`` and ``?`` as in a shell, case-sensitive; a leading ``!`` excludes names.

Also similar names, and which models make embeddings, which in most lists only the name shows.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

NOT = "!"
SIMILARITY = 0.6
"""How similar two names must be, from 0 to 1."""
MAX_COMPARED = 200
"""The maximum number of names compared letter by letter on the event loop. Each takes about 10 microseconds."""

_EMBEDDING = re.compile(r"embed|(?:^|[/-])(?:bge|gte|e5|all-minilm|voyage|m2-bert)-(?!.*rerank)", re.IGNORECASE)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether a pattern matches the name and none excludes it. If all exclude names, all others match."""
    including = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    excluding = [pattern[1:] for pattern in patterns if pattern.startswith(NOT)]
    return (not including or _matches_any(name, including)) and not _matches_any(name, excluding)


def is_pattern(text: str) -> bool:
    """Returns whether the text is a pattern rather than a name."""
    return "*" in text or "?" in text or text.startswith(NOT)


@lru_cache(maxsize=32)  # a client may repeat its mistake many times a second
def near_names(name: str, known: tuple[str, ...], count: int = 3) -> tuple[str, ...]:
    """Returns known names that may have been meant by an unknown one: those that contain it, then similar ones."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only

    names, folded = sorted(known), name.casefold()
    containing = [other for other in names if len(folded) > 2 and folded in other.casefold()]
    if len(names) > MAX_COMPARED:
        names = _similar_names(folded, names)
    return tuple(dict.fromkeys([*containing, *get_close_matches(name, names, count, SIMILARITY)]))[:count]


def _similar_names(typed: str, names: Iterable[str]) -> list[str]:
    letters, size = set(typed), len(typed)
    similar_length = (name for name in names if 2 * min(len(name), size) >= SIMILARITY * (len(name) + size))
    missing = {name: len(letters.difference(name.casefold())) for name in similar_length}
    similar = (name for name, count in missing.items() if count <= 3)  # how many letters may be typed wrong
    return sorted(similar, key=lambda name: (missing[name], abs(len(name) - size)))[:MAX_COMPARED]


def is_embedding_model(name: str) -> bool:
    """Returns whether a model makes embeddings, according to its name."""
    return _EMBEDDING.search(name) is not None


def _matches_any(name: str, patterns: list[str]) -> bool:
    return any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
