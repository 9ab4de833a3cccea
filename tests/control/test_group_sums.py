"""Sums by group after renames: all that there is, and nothing twice."""

from gateway.control.group_sums import GroupSums, sums_of_groups
from gateway.domain.group_names import NameSpan, name_shares
from gateway.domain.units import Millis
from gateway.store.latency import LatencyCounts
from gateway.store.rollup import Counts
from gateway.store.sums import FOREVER, Bucket, Span, Sums, total

CALLS = [("work", 5), ("work", 15), ("default", 25), ("work", 35), ("work", 36)]
"""Name and start."""


class FakeLog:
    """Reads sums of the calls; each read is noted."""

    def __init__(self) -> None:
        self.calls = [*CALLS]
        self.reads: list[Span] = []

    def read(self, span: Span) -> GroupSums:
        self.reads.append(span)
        rows: dict[str, Counts] = {}
        latency: dict[str, dict[int, LatencyCounts]] = {}
        for name, start in self.calls:
            if span.since <= start < span.until:
                rows.setdefault(name, Counts()).merge(Counts(calls=1, cost=start))
                latency.setdefault(name, {}).setdefault(0, LatencyCounts({}, {})).book(start, None)
        series = [Bucket(0, name, counts) for name, counts in rows.items()]
        return GroupSums(Sums(total(rows.values()), rows, series), latency)


def spans(*spans: tuple[str, int, int | None]) -> list[NameSpan]:
    return [NameSpan(name, Millis(since), None if until is None else Millis(until)) for name, since, until in spans]


def calls_of(found: GroupSums) -> dict[str, int]:
    return {name: counts.calls for name, counts in found.sums.rows.items()}


def test_without_renames_the_sums_are_those_that_are_read() -> None:
    log = FakeLog()
    assert calls_of(sums_of_groups(log.read, Span(), {"work": [], "default": []})) == {"work": 4, "default": 1}
    assert len(log.reads) == 1


def test_of_a_name_that_one_group_had_everything_is_its_own_and_read_once() -> None:
    log = FakeLog()
    found = sums_of_groups(log.read, Span(), {"home": spans(("work", 0, None), ("home", 30, None))})
    assert calls_of(found) == {"home": 4, "default": 1}
    assert found.latency["home"][0].durations == {5: 1, 15: 1, 35: 1, 36: 1}
    assert [(bucket.key, bucket.counts.calls) for bucket in found.sums.series] == [("default", 1), ("home", 4)]
    assert len(log.reads) == 1


def test_a_name_that_several_groups_had_is_shared_out() -> None:
    log = FakeLog()
    names = {"old": spans(("work", 10, 30)), "work": spans(("work", 30, None))}
    found = sums_of_groups(log.read, Span(), names)
    assert calls_of(found) == {"old": 1, "work": 3, "default": 1}
    assert found.sums.rows["old"].cost == 15
    assert sum(found.latency["work"][0].durations.values()) == 3


def test_the_total_is_that_of_the_rows_although_calls_end_between_two_reads() -> None:
    log = FakeLog()
    names = {"old": spans(("work", 10, 30)), "work": spans(("work", 30, None))}

    def read(span: Span) -> GroupSums:
        found = log.read(span)
        log.calls.append(("work", 40))
        return found

    found = sums_of_groups(read, Span(), names)
    assert found.sums.total.calls == sum(calls_of(found).values()) > len(CALLS)


def test_shares_cover_all_time_once_also_if_the_clock_was_set_back() -> None:
    names = {"a": spans(("n", 30, 20)), "b": spans(("n", 10, 25), ("b", 5, None)), "c": spans(("n", 22, 40))}
    for name, shares in name_shares(names).items():
        assert (shares[0].since, shares[-1].until) == (0, FOREVER)
        assert [one.since for one in shares[1:]] == [one.until for one in shares[:-1]]
        assert all(one.since < one.until for one in shares), name
    assert [share.group for share in name_shares(names)["n"]] == ["n", "b", "c", "n"]
