"""Patterns of model names: ``*`` and ``?`` as in a shell, compared with case."""

from fnmatch import fnmatchcase


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether the name fits one of the patterns; no patterns at all fit every name."""
    return not patterns or any(name == p or fnmatchcase(name, p.replace("[", "[[]")) for p in patterns)
