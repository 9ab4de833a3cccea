"""Patterns of model names: ``*`` and ``?`` as in a shell, case-sensitive; a leading ``!`` excludes names.

Also what a name tells: in most lists only it shows which models make embeddings.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

NOT = "!"
SIMILARITY = 0.6
"""How much of two names must agree, from 0 to 1."""
MOST_COMPARED = 200
"""How many names are compared letter by letter, at some 10 microseconds each, on the event loop."""

_EMBEDDING = re.compile(r"embed|(?:^|[/-])(?:bge|gte|e5|all-minilm|voyage|m2-bert)-(?!.*rerank)", re.IGNORECASE)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether the name matches one of the patterns and none that excludes. Without including patterns all names
    match.
    """
    including = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    excluding = [pattern[1:] for pattern in patterns if pattern.startswith(NOT)]
    return (not including or _matches_any(name, including)) and not _matches_any(name, excluding)


def is_pattern(text: str) -> bool:
    """Returns whether it is a pattern rather than a name."""
    return "*" in text or "?" in text or text.startswith(NOT)


def near_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns what an unknown name may have meant: names that contain it, then names spelled alike."""
    return list(_cached_near_names(name, tuple(known), count))


@lru_cache(maxsize=32)
def _cached_near_names(name: str, known: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Cached, because a client may repeat its mistake many times a second. Of many names only those with its letters
    are compared.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only

    names, folded = sorted(known), name.casefold()
    containing = [other for other in names if len(folded) > 2 and folded in other.casefold()]
    if len(names) > MOST_COMPARED:
        names = _spelled_alike(folded, names)
    return tuple(dict.fromkeys([*containing, *get_close_matches(name, names, count, SIMILARITY)]))[:count]


def _spelled_alike(typed: str, names: Iterable[str]) -> list[str]:
    """Returns the names that may be alike, by lengths and letters. A vendor or a date may be added."""
    letters, size = set(typed), len(typed)
    similar_length = (name for name in names if 2 * min(len(name), size) >= SIMILARITY * (len(name) + size))
    missing = {name: len(letters.difference(name.casefold())) for name in similar_length}
    # letters that are typed wrong
    similar = (name for name, count in missing.items() if count <= 3)
    return sorted(similar, key=lambda name: (missing[name], abs(len(name) - size)))[:MOST_COMPARED]


def is_embedding_model(name: str) -> bool:
    """Returns whether a model makes embeddings, by its vendor's name for it."""
    return _EMBEDDING.search(name) is not None


def _matches_any(name: str, patterns: list[str]) -> bool:
    return any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
