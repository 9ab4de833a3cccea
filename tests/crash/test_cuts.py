"""A segment cut at any byte, or with any beginning of an append in it, gives back exactly the calls that were whole."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.domain.call import Record
from gateway.store.calls import CallLog
from gateway.store.line_format import TAIL
from gateway.store.log import Log
from tests.crash.damage import Specimen, examine
from tests.house import amount
from tests.store.samples import log_of, record, segments, stock, sums_of

CALLS = amount(4, 60)
SHARDS = 4
NAME = "calls-20251120-0000.json"

Image = tuple[bytes, int]
"""What is in the file, and how many calls of it are whole."""


def written(folder: Path) -> tuple[bytes, list[int]]:
    """A segment and the end of each of its calls."""
    calls, ends = log_of(folder), []
    for i in range(CALLS):
        calls.log.append([record(i)])
        ends.append(calls.log.segments[0].end)
    calls.log.close()
    return segments(folder)[0].read_bytes(), ends


def cuts(data: bytes, ends: list[int]) -> Iterator[Image]:
    for at in range(len(data) + 1):
        yield data[:at], sum(end <= at for end in ends)


def torn(data: bytes, ends: list[int]) -> Iterator[Image]:
    """Each append, as far as it got over the closing braces of the one before."""
    for i, (start, end) in enumerate(pairwise(ends), 1):
        old, new = data[:start] + TAIL, data[start:end] + TAIL
        for at in range(len(new) + 1):
            yield old[:start] + new[:at] + old[start + at :], i + (start + at >= end)


def broken(folder: Path, expected: list[Record]) -> str:
    """The log opens, holds exactly the expected calls, its sums are theirs, and it takes another one."""
    calls = CallLog(Log(folder))
    if calls.find(limit=99) != expected[::-1]:
        return f"{calls.count} calls in place of {len(expected)}"
    if sums_of(calls, "token").total.cost != sum(call.cost for call in expected):
        return "other sums"
    calls.log.append([record(1000)])
    if calls.log.last != len(expected) + 1:
        return f"the next id is {calls.log.last}"
    calls.log.close()
    if len(stock(folder / NAME)) != len(expected) + 1:
        return "stock TinyDB finds something else"
    return ""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("images", [cuts, torn])
def test_a_cut_log_keeps_whole_records(
    scratch: Path, images: Callable[[bytes, list[int]], Iterator[Image]], shard: int
) -> None:
    data, ends = written(scratch / "whole")
    folder, found, count = scratch / "cut", {}, 0
    folder.mkdir()
    for number, (image, whole) in enumerate(images(data, ends)):
        if number % SHARDS == shard:
            for path in folder.iterdir():
                path.unlink()
            (folder / NAME).write_bytes(image)
            found[number] = broken(folder, [record(i) for i in range(whole)])
            count += 1
    assert {number: text for number, text in found.items() if text} == {}
    assert count > 100


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_damage_is_found_or_harmless(scratch: Path, shard: int) -> None:
    specimen, folder = Specimen(scratch / "whole"), scratch / "hurt"
    folder.mkdir()
    found = {case: examine(specimen, folder, case) for case in range(shard, amount(60, 3000), SHARDS)}
    assert {case: text for case, text in found.items() if text} == {}
