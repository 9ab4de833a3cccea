"""A search finds exactly what looking at every call finds, in the same order, wherever it is interrupted."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st
from tinydb import TinyDB

from gateway.domain.call import Attempt, FailureKind, Outcome, Record
from gateway.domain.current_names import CurrentNames
from gateway.domain.errors import BadRequest
from gateway.domain.query import Query, parse
from gateway.domain.units import HOUR_MS, Millis, Nanos
from gateway.domain.usage import UsageSource
from gateway.domain.views import call_view
from gateway.store import segment
from gateway.store.calls import CallLog, SearchExtent
from gateway.store.line_format import TAIL, body_of, id_of, join_lines, pack
from gateway.store.search import SearchDeadline
from tests.house import amount
from tests.store.samples import T0, busy, call_id, log_of, record, seal, segments, stock, where

NOW = Millis(T0 + HOUR_MS)

LETTERS = (
    "aAsSkKfFiInNtT\xdf\u1e9e\u017f\u212a\ufb01\ufb03\u0130\u0149\u01f0\xfc\xdc\u03c3\u03c2\u03a3\xb5\u043a\u041a\u4e2d"
)
MARKS = '"\\/\n\t\x00\x1f\x7f{}[]*?:, .-_019'
PIECES = (
    *("laptop", "GPT-4o", "stra\xdfe", "STRASSE", "token", "reported", '"status":200', "attempts", "done"),
    *("req_", "429"),
)

texts = st.one_of(
    st.text(LETTERS + MARKS, max_size=6),
    st.sampled_from(PIECES),
    st.tuples(*[st.sampled_from(PIECES)] * 2).map("".join),
)
numbers = st.one_of(st.integers(0, 12), st.sampled_from([99, 100, 101, 999, 1000, 1001, 5000, 5001, 60_000, 10**9]))
statuses = st.sampled_from([0, 0, 100, 199, 200, 200, 200, 201, 299, 300, 400, 429, 499, 500, 599])
attempts = st.builds(
    Attempt, channel=texts, status=statuses, ms=numbers, kind=st.none() | st.sampled_from(FailureKind), model=texts
)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Calls with defaults, with texts that look like JSON, with attempts that look like calls."""
    names = {name: st.just("") | texts for name in ("token", "token_name", "group", "model", "upstream_model", "app")}
    names |= {name: st.just("") | texts for name in ("channel", "channel_name", "code", "error", "finish")}
    fields = st.fixed_dictionaries(
        {
            **names,
            "api": st.sampled_from(["chat", "chat", "messages", "chatter"]),
            "status": statuses,
            "outcome": st.sampled_from(Outcome),
            "stream": st.booleans(),
            "ms": numbers,
            "ttft": st.none() | numbers,
            "input": numbers,
            "output": numbers,
            "cost": numbers.map(Nanos),
            "source": st.sampled_from(UsageSource),
            "attempts": st.lists(attempts, max_size=2).map(tuple),
        }
    )
    drawn = draw(st.lists(fields, min_size=1, max_size=25))
    starts = draw(st.lists(st.integers(0, 3 * HOUR_MS), min_size=len(drawn), max_size=len(drawn)))
    return [
        Record(id=call_id(i, T0 + ts), ts=Millis(T0 + ts), **one)
        for i, (ts, one) in enumerate(zip(starts, drawn, strict=True))
    ]


@st.composite
def word_lists(draw: st.DrawFn, calls: list[Record]) -> str:
    """Words about what there is in the calls, nearly, or about something else."""
    return " ".join(draw(st.lists(_words(calls), min_size=1, max_size=3)))


@st.composite
def current_names(draw: st.DrawFn, calls: list[Record]) -> CurrentNames:
    """Names that what made the calls may have by now, among them some of each other's."""
    names = texts | st.sampled_from([text for call in calls for text in (call.token_name, call.group)])
    tokens = st.dictionaries(st.sampled_from([call.token for call in calls]), names, max_size=3)
    channels = st.dictionaries(st.sampled_from([call.channel for call in calls]), names, max_size=3)
    groups = st.dictionaries(st.sampled_from([call.group for call in calls]), names, max_size=3)
    return draw(st.builds(CurrentNames, tokens=tokens, channels=channels, groups=groups))


def _words(calls: list[Record]) -> st.SearchStrategy[str]:
    there = sorted({t for c in calls for t in (c.token_name, c.group, c.model, c.app, c.error, c.id) if t})
    part = st.sampled_from(there or ["x"]).flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.integers(1, len(text))).map(
            lambda cut: text[cut[0] : cut[0] + cut[1]]
        )
    )
    part = st.one_of(part, part.map(str.swapcase), part.map(str.upper), part.map(str.casefold), texts)
    pattern = st.one_of(
        part, part.map(lambda t: f"*{t}"), part.map(lambda t: f"{t}*"), part.map(lambda t: f"*{t}?*"), st.just("*")
    )
    spans = st.sampled_from(["0ms", "5ms", "100ms", "1s", "5s", "1m", "20m"])
    signs = st.sampled_from(["", "=", ">", ">=", "<", "<="])
    states = st.sampled_from(["err", "ok", "running", "settled", "4xx", "2xx", "0", *Outcome])
    word = st.one_of(
        part,
        st.builds("{}:{}".format, st.sampled_from(["tok", "grp", "ch", "model", "app", "id"]), pattern),
        st.sampled_from(["chat", "CH?t", "*", "chat*", "messages", "m*s", "", "none"]).map("api:{}".format),
        states.map("st:{}".format),
        st.builds("st:{}{}".format, signs, statuses),
        st.builds("{}:{}{}".format, st.sampled_from(["dur", "ttft"]), signs, spans),
        st.builds("{}:{}{}".format, st.sampled_from(["in", "out"]), signs, numbers),
        st.builds("cost:{}{}".format, signs, st.sampled_from(["0", "0.000001", "0.000000012", "1"])),
        st.builds("{}:{}".format, st.sampled_from(["since", "until"]), st.sampled_from(["1h", "59m", "30m", "1m"])),
    )
    quoted = word.map(lambda text: '"{}"'.format(text.replace('"', "")) if re.search(r"\s", text) else text)
    return st.builds("{}{}".format, st.sampled_from(["", "", "!"]), quoted)


def plainly(calls: list[Record], query: Query) -> list[Record]:
    """What fits, found by looking at every call."""
    return [call for call in reversed(calls) if query.matches(call_view(call))]


@settings(max_examples=amount(20, 80), deadline=None)
@given(st.data())
def test_words_find_what_looking_at_every_call_finds(data: st.DataObject) -> None:
    calls = data.draw(record_lists())
    words = data.draw(word_lists(calls))
    try:
        query = data.draw(current_names(calls)).widen(parse(words, NOW))
    except BadRequest:
        return
    block = data.draw(st.sampled_from([64, 700, 1 << 17]))
    with tempfile.TemporaryDirectory() as folder, patch.object(segment, "BLOCK", block):
        log = log_of(Path(folder), limit=data.draw(st.sampled_from([500, 4000, 1 << 20])))
        for call in calls:
            log.log.append([call])
        if data.draw(st.booleans()):
            seal(log)
        expected = plainly(calls, query)
        assert log.search(query, limit=99, deadline=SearchDeadline())[0] == expected, words
        assert list(chain(*paged(log, query, data.draw(st.integers(1, 4))))) == expected, words
        log.log.close()


ODD = [
    record(1, status=0, error="", attempts=(Attempt(channel="a", status=200, ms=Millis(5000), model="gpt"),)),
    record(2, status=200, outcome=Outcome.ERROR, error='a"b', ms=5, attempts=(Attempt(channel="a", ms=Millis(5000)),)),
    record(3, outcome=Outcome.ERROR, error="x\nb", token_name="a\xfcb", attempts=(Attempt(channel="gpt", status=429),)),
    record(4, outcome=Outcome.LOST, ttft=None, token_name="stra\xdfe", status=0, ms=0, input=0, output=0),
    record(5, outcome=Outcome.DONE, token_name="\u212a2", upstream_model="STRASSE", ttft=1, cost=0),
    record(6, token_name="", app="", model="", group="", channel="", token="", code='"status":200,"ms":7'),
    record(7, token="reported", finish="stop", source=UsageSource.REPORTED, status=204, upstream_id="chatcmpl-tok_1"),
    record(8, token="tok_0123456789abcdef", channel="ch_0123456789abcdef"),
]
"""Calls in which a word is easily missed, or found where it is not."""


@pytest.mark.parametrize(
    "words",
    [
        *("done", "DONE", "0", "reported", "stop", "chatcmpl", "tok_", "status", "nb", "\\", "gpt", "strasse"),
        *("k2", "\xfc"),
        *("!done", "!nb", "!\\", "!gpt", "!reported", "!strasse", "!K", "!u", "!laptop !done", "!x"),
        *("st:<100", "!st:ok", "st:0", "st:err", "!st:err", "st:done", "!st:lost", "st:=204", "st:2xx", "st:>=0"),
        *("dur:<10ms", "dur:5s", "!dur:>10ms", "dur:0ms", "!dur:0ms", "dur:<=5ms st:ok", "dur:7ms", "!st:err dur:<1s"),
        *("!ttft:>1ms", "ttft:<2ms", "!ttft:<1h", "ttft:<1h", "in:0", "!in:0", "out:<1", "cost:0", "!cost:0"),
        *("cost:>0", "!tok:*", "tok:tok_0123456789abcdef", "!ch:ch_0123456789abcdef"),
        *("tok:a?b", "!tok:a?b", "!tok:a??b", "!tok:a*b", "!tok:stra*", "tok:STRASSE", "tok:", "!tok:", "tok:k?"),
        *("app:", "!app:?*", "model:*", "!model:m-*", "grp:VIP", "!ch:*", "id:*1", "id:req_*", "!id:*2", "!settled"),
        *("since:1h st:err", "until:1h", "since:59m until:1m curl", "since:3599996ms", "until:3599996ms !x"),
        *("st:running", "!st:running", "st:settled"),
    ],
)
def test_odd_calls_are_neither_missed_nor_mistaken(tmp_path: Path, words: str) -> None:
    log = log_of(tmp_path)
    log.log.append(ODD)
    query = parse(words, NOW)
    assert log.search(query, limit=99, deadline=SearchDeadline())[0] == plainly(ODD, query)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tok:jupyter", [4, 1]),
        ("!tok:jupyter !nothing", [3, 2]),
        ("grp:home", [2, 1]),
        ("grp:vip", [3, 2, 1]),
        ("grp:default", [4]),
        ("!grp:home !nothing", [4, 3]),
        ("!grp:house !nothing", [4, 2, 1]),
        ("tok:???????", [4, 1]),
    ],
)
def test_calls_under_other_names_are_neither_missed_nor_mistaken(tmp_path: Path, words: str, found: list[int]) -> None:
    """A group ``VIP`` is not ``vip``; one with the id ``VIP`` was called ``default`` for a time."""
    names = CurrentNames(
        tokens={"tok_0000000000000001": "Jupyter"}, groups={"VIP": "home", "vip": "house", "grp_4": "other"}
    )
    log = log_of(tmp_path)
    log.log.append(
        [
            record(1, ts=T0 + 1, group="VIP", token="tok_0000000000000001", token_name="notebook"),
            record(2, ts=T0 + 2, group="VIP", token="tok_2", token_name="Notebook"),
            record(3, ts=T0 + 3, group="vip", token="tok_3", token_name="Notebook"),
            record(4, ts=T0 + 4, group="grp_4", group_name="default", token="tok_4", token_name="jupyter"),
        ]
    )
    query = names.widen(parse(words, NOW))
    records = log.search(query, limit=99, deadline=SearchDeadline())[0]
    assert [int(one.ts) - T0 for one in records] == found


def paged(log: CallLog, query: Query, limit: int, seconds: float = 99) -> Iterator[list[Record]]:
    """Page after page, each from where the one before ended."""
    extent = SearchExtent(cursor=1 << 60)
    while extent.cursor is not None:
        records, extent = log.search(query, limit=limit, below=extent.cursor, deadline=SearchDeadline(seconds))
        yield records


@pytest.mark.parametrize("words", ["", "tok:*3", "!curl", "st:err", "dur:>=599ms", "nothing-like-it"])
def test_a_short_search_goes_on_where_it_ended(tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "BLOCK", 2_000)
    calls = list(busy(3, 200, days=2))
    log = log_of(tmp_path, limit=9_000)
    for call in calls:
        log.log.append([call])
    query = parse(words, NOW)
    pages = list(paged(log, query, 1_000, seconds=0))
    assert len(pages) > 20
    assert list(chain(*pages)) == plainly(calls, query)


def test_it_is_known_how_far_a_search_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "BLOCK", 2_000)
    log = log_of(tmp_path, 100, limit=9_000)
    _, found = log.search(parse("nothing", NOW), limit=5, deadline=SearchDeadline(0))
    assert found.cursor is not None
    assert (found.left, found.back_to) == (found.cursor - 1, T0 + found.cursor - 1)
    assert 90 < found.left < 100
    _, page = log.search(limit=10, deadline=SearchDeadline())
    assert (page.left, page.back_to) == (90, T0 + 90)
    assert log.search(limit=1_000, deadline=SearchDeadline())[1].cursor is None


def test_a_cancelled_search_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "BLOCK", 2_000)
    log = log_of(tmp_path, 100)
    deadline = SearchDeadline()
    deadline.cancel()
    assert log.search(parse("nothing", NOW), limit=5, deadline=deadline)[1].left > 90


def test_a_segment_whose_sums_rule_a_word_out_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path, 60, limit=4_000)
    seal(log)
    read = reads(monkeypatch)
    for words in ("app:wget", "model:*-huge", "!app:*", "app:wget tok:laptop*"):
        assert log.search(parse(words, NOW), limit=9, deadline=SearchDeadline())[0] == []
    for query in (where(token="tok_none"), where(channel="ch_9"), where(group="none"), where(app="wget")):
        assert log.find(query, limit=9) == []
    assert read == []


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the segments that are read from now on."""
    names: list[str] = []
    read = segment.Segment.blocks

    def noted(self: segment.Segment) -> Iterator[bytes]:
        names.append(self.name)
        return read(self)

    monkeypatch.setattr(segment.Segment, "blocks", noted)
    return names


def test_a_call_that_something_else_changed_in_a_sealed_segment_is_found(tmp_path: Path) -> None:
    """The sums stay as they were, so they do not tell what is in the file."""
    log = log_of(tmp_path, 40, limit=4_000)
    seal(log)
    log.log.close()
    path = segments(tmp_path)[0]
    documents = stock(path)
    with TinyDB(path) as tinydb:
        tinydb.table("calls").update({"app": "changed"}, doc_ids=[3])
    assert documents != stock(path)
    for _ in range(2):  # it is known also to the next start
        again = log_of(tmp_path, limit=4_000)
        (found,) = again.search(parse("app:changed", NOW), limit=9, deadline=SearchDeadline())[0]
        assert found.id == documents[2]["id"]
        again.log.close()


def test_damaged_lines_hide_no_others(tmp_path: Path) -> None:
    """Also one that has the id of a good one now, and one that is no longer valid JSON."""
    log = log_of(tmp_path, 30)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b',"12":{', b',"13":{').replace(b'"cost":1020', b'"cost":1"20'))
    for words in ("in:<120", "!zzz", "dur:>1ms", "laptop", "st:<500"):
        found = log.search(parse(words, NOW), limit=99, deadline=SearchDeadline())[0]
        calls = [record(i) for i in range(30) if i not in (11, 20)]
        assert found == plainly(calls, parse(words, NOW)), words


@pytest.mark.parametrize("top", [1, 2, 57, 199, 200, 5_000])
def test_a_search_begins_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    monkeypatch.setattr(segment, "BLOCK", 1_000)
    log = log_of(tmp_path, 200)
    found, _ = log.search(limit=5, below=top, deadline=SearchDeadline())
    assert [call.id for call in found] == [record(i - 1).id for i in range(min(top, 201) - 1, 0, -1)][:5]


def rewrite(path: Path, body_of_call: Callable[[dict[str, Any]], str]) -> None:
    """Something else that knows the format writes every call of a segment in its own way, checksums included."""
    head, *lines = path.read_bytes().removesuffix(TAIL).split(b"\n")
    written = []
    for line in (line.removeprefix(b",") for line in lines):
        call = json.loads(body_of(line))
        del call["_crc"]
        written.append(pack(id_of(line), body_of_call(call).encode()))
    path.write_bytes(head + join_lines(written, first=True) + TAIL)


@pytest.mark.parametrize(
    "words", ["st:ok", "!st:err", "!dur:>1s", "cost:<1", "in:<200", "!gone", "!model:gpt", "!tok:nobody", "!id:req_f"]
)
def test_members_that_a_newer_version_gives_attempts_are_not_those_of_the_call(tmp_path: Path, words: str) -> None:
    """What is in a nested object does not exclude its call."""
    log = log_of(tmp_path)
    calls = [record(i, status=200, attempts=(Attempt(channel="a", status=200),)) for i in range(1, 5)]
    log.log.append(calls)
    log.log.close()
    tried = '{"channel":"a","status":500,"ms":9000,"trial":1,"model":"gpt","id":"req_f","code":"gone","error":"gone",'
    tried += '"token_name":"nobody","input":900,"output":9,"cost":9000000000}'

    def newer(call: dict[str, Any]) -> str:
        call["attempts"] = []
        return json.dumps(call, separators=(",", ":")).replace('"attempts":[]', f'"attempts":[{tried}]')

    rewrite(segments(tmp_path)[0], newer)
    again = log_of(tmp_path)
    found = again.search(parse(words, NOW), limit=9, deadline=SearchDeadline())[0]
    assert [call.id for call in found] == [call.id for call in reversed(calls)]
