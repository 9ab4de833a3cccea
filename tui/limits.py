"""Limits: rates as they are typed into one field, ``rpm=60 tpm=200k``, and as they are read."""

from collections.abc import Callable, Sequence

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_of
from gateway.domain.limits import Limits
from tui.parse import NO_MATTER, exact

WITH_QUEUE = ("rpm", "tpm", "rpd", "tpd", "concurrent", "queue", "queue_s")
"""Those of channels."""

NAMES = (*WITH_QUEUE, "streams")
"""Those of tokens and groups."""

_WORDS = {
    "rpm": "calls/min",
    "tpm": "tok/min",
    "rpd": "calls/day",
    "tpd": "tok/day",
    "concurrent": "at a time",
    "queue": "waiting",
    "queue_s": "s of waiting",
    "streams": "streams at a time",
}


def reader(names: Sequence[str] = NAMES) -> Callable[[str], dict[str, int | None]]:
    """``rpm=60 tpm=200k``; what is not named has no limit. Raises BadRequest."""

    def read(text: str) -> dict[str, int | None]:
        found: dict[str, int | None] = dict.fromkeys(names)
        for word in text.replace(",", " ").split():
            name, equals, number = word.partition("=")
            if name not in names or not equals:
                raise BadRequest(f"{word!r} is no limit; they are {', '.join(names)}, as in rpm=60")
            found[name] = None if number in NO_MATTER else count_of(number)
            if found[name] == 0 and name not in ("queue", "queue_s"):
                raise BadRequest(f"{name}=0 would let nothing pass; leave it out for no limit")
        return found

    return read


def written(limits: Limits) -> str:
    """As it is typed."""
    return " ".join(f"{name}={exact(number)}" for name, number in _given(limits))


def said(limits: Limits) -> str:
    """As it is read: ``60 calls/min, 200k tok/min``; empty if there are none."""
    return ", ".join(f"{exact(number)} {_WORDS[name]}" for name, number in _given(limits))


def _given(limits: Limits) -> list[tuple[str, int]]:
    return [(name, number) for name, number in msgspec.structs.asdict(limits).items() if number is not None]
