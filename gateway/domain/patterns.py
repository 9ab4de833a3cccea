"""Patterns of model names: ``*`` and ``?`` as in a shell, compared with case; ``!`` before one keeps names out.

And what a name tells: in most lists nothing else shows which models are for embeddings.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

NOT = "!"
ALIKE = 0.6
"""How much of two names must agree, from 0 to 1."""
SLIPS = 3
"""How many letters of what is typed wrong a name may not have."""
COMPARED = 200
"""Names that are compared letter by letter, at some 10 microseconds each, on the event loop."""

_EMBEDDING = re.compile(r"embed|(?:^|[/-])(?:bge|gte|e5|all-minilm|voyage|m2-bert)-(?!.*rerank)", re.IGNORECASE)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether the name fits one of the patterns and none that keeps out; no patterns that let in let all in."""
    let_in = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    kept_out = [pattern[1:] for pattern in patterns if pattern.startswith(NOT)]
    return (not let_in or _fits(name, let_in)) and not _fits(name, kept_out)


def is_pattern(text: str) -> bool:
    """Whether it stands for names, and is none itself."""
    return "*" in text or "?" in text or text.startswith(NOT)


def near_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """What somebody who typed a name that is not known may have meant: what contains it, then what is spelled alike."""
    return list(_near_names(name, tuple(known), count))


@lru_cache(maxsize=32)
def _near_names(name: str, known: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Kept, as a client may repeat its mistake many times a second; of many names only those with its letters count."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake only

    names, short = sorted(known), name.casefold()
    holding = [one for one in names if len(short) > 2 and short in one.casefold()]
    if len(names) > COMPARED:
        names = _spelled_alike(short, names)
    return tuple(dict.fromkeys([*holding, *get_close_matches(name, names, count, ALIKE)]))[:count]


def _spelled_alike(typed: str, names: Iterable[str]) -> list[str]:
    """Of many names those that may be alike, as far as lengths and letters tell; a vendor or a date may be more."""
    letters, size = set(typed), len(typed)
    fitting = (one for one in names if 2 * min(len(one), size) >= ALIKE * (len(one) + size))
    missing = {one: len(letters.difference(one.casefold())) for one in fitting}
    near = (one for one, count in missing.items() if count <= SLIPS)
    return sorted(near, key=lambda one: (missing[one], abs(len(one) - size)))[:COMPARED]


def is_embedding_model(name: str) -> bool:
    """Whether a model makes embeddings, by its vendor's name for it."""
    return _EMBEDDING.search(name) is not None


def _fits(name: str, patterns: list[str]) -> bool:
    return any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
