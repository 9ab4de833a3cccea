"""Repair: what a crash or damage left of a segment becomes a whole file again, loudly.

No byte is thrown away: the file as it was found is kept beside it as ``<name>.<moment>.damaged``.
"""

from gateway.store import files
from gateway.store.lines import TAIL, body_of, id_of, intact, join, split
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
    segment.end = len(body)
    original = f"the original is {kept.name}" if kept else "not a byte was left"
    return f"{segment.path} was not as it was written; {len(lines)} calls of it are good, {original}"


def _good_lines(data: bytes, last: int) -> list[bytes]:
    lines = []
    for line in split(data):
        if intact(line) and (doc_id := id_of(line)) > last:
            lines.append(line)
            last = doc_id
    return lines
