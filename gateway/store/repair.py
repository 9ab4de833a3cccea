"""Repair: what a crash or damage left of a segment becomes a whole file again, loudly.

No byte is thrown away: the file as it was found is kept beside it as ``<name>.<moment>.damaged``.
"""

import msgspec

from gateway.store import files
from gateway.store.ledger import Ledger
from gateway.store.lines import TAIL, body_of, canonical, id_of, intact, join, split
from gateway.store.segment import HEAD, Segment, decode_entry, foreign_lines


def restore(segment: Segment, last: int, moment: int) -> str:
    """Count the calls of a segment with ids above ``last``, and repair its file if need be.

    What was repaired, in words; empty if nothing. Raises OSError, and StoreTooNew before anything is changed.
    """
    segment.last = last
    if segment.scan():
        return ""
    data = files.read(segment.path)
    lines = _good_lines(data, last)
    if not lines and not data.startswith(HEAD):  # stock TinyDB lays a file out anew; a file of ours is damaged
        lines = _good_lines(foreign_lines(data), last)
        for line in lines:
            segment.saw(id_of(line), decode_entry(body_of(line)))
    kept = files.keep(segment.path, data, moment) if data else None
    body = HEAD + join(lines, first=True) if lines else HEAD
    files.replace(segment.path, body + TAIL)
    segment.end, segment.foreign = len(body), False
    original = f"the original is {kept.name}" if kept else "not a byte was left"
    return f"{segment.path} was not as it was written; {len(lines)} calls of it are good, {original}"


def reseal(segment: Segment, ledger: Ledger, moment: int) -> tuple[Segment, str]:
    """A sealed segment as it is now, if its size tells that somebody changed it. Its sums stay as they were.

    With it what was found, in words; empty if nothing has changed. Raises OSError and StoreTooNew.
    """
    sealed = ledger.sealed[segment.name]
    if segment.path.stat().st_size == sealed.end + len(TAIL):
        return segment, ""
    fresh = Segment(segment.path)
    text = restore(fresh, sealed.first - 1, moment)
    left = None if (fresh.n, fresh.last) == (sealed.n, sealed.last) else fresh.n
    if not text:  # all that is there is as it was written
        text = f"{segment.path} holds {'all' if left is None else left} of its calls"
    changed = msgspec.structs.replace(sealed, left=left, end=fresh.end, edited=True)
    ledger.put(changed)
    return Segment(segment.path, changed), f"{text}; it had {sealed.n}. Sums and balances stay as they were"


def _good_lines(data: bytes, last: int) -> list[bytes]:
    lines = []
    for line in split(data):
        if intact(line) and (doc_id := id_of(line)) > last:
            lines.append(canonical(line))
            last = doc_id
    return lines
