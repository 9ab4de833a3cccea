"""Damage: what bad disks, bad cables and bad luck do to a file, and what must be left of a log afterwards."""

import random
from collections.abc import Callable
from pathlib import Path

from gateway.store.calls import CallLog
from gateway.store.errors import StoreError
from gateway.store.line_format import id_of, is_intact
from gateway.store.log import Log
from gateway.store.segment import HEAD
from tests.store.samples import log_of, record, segments, stock

CALLS = 300
NAME = "calls-20251120-0000.json"

Hurt = Callable[[random.Random, bytearray, int], None]


def flip(rng: random.Random, data: bytearray, at: int) -> None:
    data[at] ^= 1 << rng.randrange(8)


def zero_sector(_: random.Random, data: bytearray, at: int) -> None:
    data[at : at + 512] = bytes(len(data[at : at + 512]))


def garbage(rng: random.Random, data: bytearray, at: int) -> None:
    size = min(rng.randint(1, 40), len(data) - at)
    data[at : at + size] = rng.randbytes(size)


def zero_end(_: random.Random, data: bytearray, at: int) -> None:
    data[at:] = bytes(len(data) - at)


def other_sign(rng: random.Random, data: bytearray, at: int) -> None:
    data[at] = rng.choice(b'0123456789",:{}\n')


def zero_page(_: random.Random, data: bytearray, at: int) -> None:
    start = max(at // 4096 * 4096, len(HEAD))
    data[start : start + 4096] = bytes(len(data[start : start + 4096]))


def doubled(_: random.Random, data: bytearray, at: int) -> None:
    """A block written to a second place."""
    data[at : at + 700] = data[max(0, at - 700) : at][: len(data[at : at + 700])]


def in_the_head(rng: random.Random, data: bytearray, _: int) -> None:
    flip(rng, data, rng.randrange(len(HEAD)))


KINDS: tuple[Hurt, ...] = (flip, zero_sector, garbage, zero_end, other_sign, zero_page, doubled, in_the_head)


class Specimen:
    """A whole log of one segment, and where its lines lie."""

    def __init__(self, folder: Path) -> None:
        calls, self.spans, at = log_of(folder), [], len(HEAD)
        for i in range(CALLS):
            calls.log.append([record(i)])
            self.spans.append((at + (1 if not i else 2), calls.log.segments[0].end))
            at = calls.log.segments[0].end
        calls.log.close()
        self.data = segments(folder)[0].read_bytes()

    def untouched(self, image: bytes) -> set[int]:
        """Numbers of the calls whose lines, and the borders of them, are as they were."""
        return {
            i
            for i, (start, end) in enumerate(self.spans)
            if image[start:end] == self.data[start:end]
            and image[end : end + 1] == b"\n"
            and (image[start - 1 : start] == b"\n" or image[start - 2 : start] == b"\n,")
        }


def examine(specimen: Specimen, folder: Path, case: int) -> str:
    """Hurt a copy of the log; what is wrong after it was opened."""
    rng, image = random.Random(case), bytearray(specimen.data)
    for _ in range(rng.randint(1, 3)):
        KINDS[case % len(KINDS)](rng, image, rng.randrange(len(HEAD), len(image)))
    for path in folder.iterdir():
        path.unlink()
    (folder / NAME).write_bytes(image)
    try:
        return _judge(specimen, folder, bytes(image))
    except StoreError as error:  # it was the number of the format that was hit: refused, and left as it is
        if error.code != "store_too_new":
            raise
        return "" if (folder / NAME).read_bytes() == image else "changed, though it was refused"


def _judge(specimen: Specimen, folder: Path, image: bytes) -> str:
    calls = CallLog(Log(folder))
    segment = calls.log.segments[0]
    found = {id_of(line) - 1: calls for line in reversed([*segment.lines()]) if is_intact(line)}
    if calls.find(limit=CALLS)[::-1] != [record(i) for i in found]:
        return "an altered call was accepted"
    missing = {i for i in specimen.untouched(image) - set(found) if not _repeated(specimen, image, i)}
    if missing:
        return f"untouched calls are gone: {sorted(missing)}"
    kept = [path.read_bytes() for path in folder.glob("*.damaged")]
    if kept != ([image] if image != specimen.data else []):
        return f"{len(kept)} copies of the original, changed: {image != specimen.data}"
    if len(stock(folder / NAME)) != len(found):
        return "stock TinyDB finds something else"
    calls.log.close()
    return ""


def _repeated(specimen: Specimen, image: bytes, i: int) -> bool:
    """A later call stands before it: ids only grow, so it counts as a repeat."""
    start, _ = specimen.spans[i]
    return any(image.find(specimen.data[slice(*specimen.spans[j])], 0, start) >= 0 for j in range(i + 1, CALLS))
