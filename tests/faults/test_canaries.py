"""No secret leaves the gateway, and no prompt stays in it, wherever an upstream repeats them.

Each place is tried with some statuses, kinds of keys and spellings, others each time; ``TOLLKEEPER_CANARIES=all``
asks for every combination of place, kind and spelling, with all statuses in turn.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.faults.canaries import KINDS, PROMPT, SPELLINGS
from tests.faults.canary_places import Place, error_places, good_places, stream_places
from tests.faults.canary_run import ALL, MODEL, CanaryRun

STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529, 302)
STEP = 5
"""Kinds that are planted for one place, where not all combinations are tried."""


def _cases(places_of: Any) -> list[tuple[Dialect, str]]:
    return [(dialect, name) for dialect in MODEL for name in places_of(dialect)]


def _combinations(number: int, statuses: tuple[int, ...]) -> Iterator[tuple[str, int, str]]:
    """Kind, status and spelling. Of a sample every place has other ones, in turn."""
    kinds, spellings = list(KINDS), list(SPELLINGS)
    pairs = itertools.product(kinds, spellings) if ALL else _sample(number, kinds, spellings)
    for step, (kind, spelling) in enumerate(pairs):
        yield kind, statuses[(number + step) % len(statuses)], spelling


def _sample(number: int, kinds: list[str], spellings: list[str]) -> Iterator[tuple[str, str]]:
    for step in range(3 * STEP * number, 3 * STEP * (number + 1)):
        yield kinds[step // 3 % len(kinds)], spellings[step % len(spellings)]


async def _run(canaries: CanaryRun, dialect: Dialect, place: Place, number: int, *, good: bool, stream: bool) -> None:
    last, secrets = "", ("", "", "")
    for step, (kind, status, spelling) in enumerate(_combinations(number, (200,) if good else STATUSES)):
        if kind != last:
            secrets = canaries.plant(dialect, kind)
            last = kind
        text = SPELLINGS[spelling](secrets[step % 3])
        await canaries.ask(place, status, text, stream=stream)
    await canaries.ask(place, 200 if good else 400, PROMPT, stream=stream)
    await canaries.ask(place, 200 if good else 400, json.dumps(PROMPT), stream=stream)
    assert len(canaries.provider.exchanges) >= canaries.asked
    await canaries.ask(place, 200 if good else 503, f"{PROMPT} {secrets[0]}", stream=stream)
    for _ in range(3):  # until the channel is paused, and its reason is shown
        await canaries.call(stream=stream)


PLACES: dict[str, Any] = {"errors": error_places, "answers": good_places, "streams": stream_places}


@pytest.mark.sampled(21)
@pytest.mark.parametrize(
    ("kind", "dialect", "name"), [(kind, *case) for kind, places_of in PLACES.items() for case in _cases(places_of)]
)
async def test_no_place_shows_a_secret(canaries: CanaryRun, kind: str, dialect: Dialect, name: str) -> None:
    places = PLACES[kind](dialect)
    number = list(places).index(name)
    await _run(canaries, dialect, places[name], number, good=kind != "errors", stream=kind == "streams")
    assert await canaries.found() == []
