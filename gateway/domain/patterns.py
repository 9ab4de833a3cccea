"""Patterns of model names: ``*`` and ``?`` as in a shell, compared with case; ``!`` before one keeps names out.

And what a name tells: in most lists nothing else shows which models are for embeddings.
"""

import re
from fnmatch import fnmatchcase

NOT = "!"

_EMBEDDING = re.compile(r"embed|(?:^|[/-])(?:bge|gte|e5|all-minilm|voyage|m2-bert)-(?!.*rerank)", re.IGNORECASE)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether the name fits one of the patterns and none that keeps out; no patterns that let in let all in."""
    let_in = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    kept_out = [pattern[1:] for pattern in patterns if pattern.startswith(NOT)]
    return (not let_in or _fits(name, let_in)) and not _fits(name, kept_out)


def is_pattern(text: str) -> bool:
    """Whether it stands for names, and is none itself."""
    return "*" in text or "?" in text or text.startswith(NOT)


def is_embedding_model(name: str) -> bool:
    """Whether a model makes embeddings, by its vendor's name for it."""
    return _EMBEDDING.search(name) is not None


def _fits(name: str, patterns: list[str]) -> bool:
    return any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
