"""Patterns of model names: ``*`` and ``?`` as in a shell, case-sensitive; a leading ``!`` excludes names.

Also what a name tells: in most lists only it shows which models make embeddings.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

NOT = "!"
ALIKE = 0.6
"""How much of two names must agree, from 0 to 1."""
COMPARED = 200
"""How many names are compared letter by letter, at some 10 microseconds each, on the event loop."""

_EMBEDDING = re.compile(r"embed|(?:^|[/-])(?:bge|gte|e5|all-minilm|voyage|m2-bert)-(?!.*rerank)", re.IGNORECASE)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether the name matches one of the patterns and none that excludes. Without including patterns all names
    match.
    """
    let_in = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    kept_out = [pattern[1:] for pattern in patterns if pattern.startswith(NOT)]
    return (not let_in or _fits(name, let_in)) and not _fits(name, kept_out)


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

    names, short = sorted(known), name.casefold()
    holding = [other for other in names if len(short) > 2 and short in other.casefold()]
    if len(names) > COMPARED:
        names = _spelled_alike(short, names)
    return tuple(dict.fromkeys([*holding, *get_close_matches(name, names, count, ALIKE)]))[:count]


def _spelled_alike(typed: str, names: Iterable[str]) -> list[str]:
    """Returns the names that may be alike, by lengths and letters. A vendor or a date may be added."""
    letters, size = set(typed), len(typed)
    fitting = (name for name in names if 2 * min(len(name), size) >= ALIKE * (len(name) + size))
    missing = {name: len(letters.difference(name.casefold())) for name in fitting}
    # letters that are typed wrong
    near = (name for name, count in missing.items() if count <= 3)
    return sorted(near, key=lambda name: (missing[name], abs(len(name) - size)))[:COMPARED]


def is_embedding_model(name: str) -> bool:
    """Returns whether a model makes embeddings, by its vendor's name for it."""
    return _EMBEDDING.search(name) is not None


def _fits(name: str, patterns: list[str]) -> bool:
    return any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
