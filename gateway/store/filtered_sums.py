"""Filtered sums: the sums of the calls that match a query.

Rollups have sums by the values of one dimension. What else those calls match is only in their records, so calls whose
records were deleted are missing here.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import msgspec

from gateway.domain.query import Query
from gateway.store.files import body_of, intact
from gateway.store.latency import LatencyTable, book_latency
from gateway.store.rollup import Dimension, Rollup
from gateway.store.search import LogSearch, SearchDeadline
from gateway.store.segment import Segment, decode_entry
from gateway.store.sums import FOREVER


class CallSelection(NamedTuple):
    """Which calls to sum up, and how long to search."""

    query: Query
    patience: SearchDeadline


class FilteredSums(msgspec.Struct, frozen=True):
    """The sums by all dimensions, and the histograms by one of them."""

    sums: Rollup
    latency: LatencyTable


def filtered_sums(
    segments: Iterable[Segment], selection: CallSelection, by: Dimension, start_of: Callable[[int], int]
) -> FilteredSums:
    """Returns the sums of matching calls found before the deadline. ``start_of`` maps an hour to the start of its day
    or hour.
    """
    found, patience, start_of = FilteredSums(Rollup(), {}), selection.patience, cache(start_of)
    for step in LogSearch(selection.query).steps(segments, FOREVER):
        for line in step.lines:
            if not intact(line):
                continue
            call = decode_entry(body_of(line))
            found.sums.add(call)
            book_latency(found.latency, call, by, start_of)
            patience.over()  # lets other threads run
        if patience.over():
            break
    return found
