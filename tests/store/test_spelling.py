"""A call is found whatever spelling of JSON its line has, and members of its attempts are not taken for its own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.call import Attempt, Record
from gateway.domain.query import Query, parse
from gateway.domain.units import Millis
from gateway.domain.views import call_view
from gateway.store.calls import CallLog
from gateway.store.files import TAIL, body_of, id_of, join, pack
from gateway.store.log import Log
from gateway.store.rollup import HOUR
from gateway.store.search import SearchDeadline
from tests.store.samples import T0, log_of, record, seal, segments

NOW = Millis(T0 + HOUR)


def plainly(calls: list[Record], query: Query) -> list[Record]:
    """What fits, found by looking at every call."""
    return [call for call in reversed(calls) if query.fits(call_view(call))]


def rewrite(path: Path, body_of_call: Callable[[dict[str, Any]], str]) -> None:
    """Something else that knows the format writes every call of a segment in its own way, checksums included."""
    head, *lines = path.read_bytes().removesuffix(TAIL).split(b"\n")
    written = []
    for line in (line.removeprefix(b",") for line in lines):
        call = json.loads(body_of(line))
        del call["_crc"]
        written.append(pack(id_of(line), body_of_call(call).encode()))
    path.write_bytes(head + join(written, first=True) + TAIL)


def spaced(call: dict[str, Any]) -> str:
    """Blanks behind colons and commas, and all but ASCII as escapes, as Python's json writes it."""
    return json.dumps(call)


def escaped(call: dict[str, Any]) -> str:
    """Every character of a text as an escape."""

    def text(value: str) -> str:
        return "".join(('"', *(f"\\u{ord(char):04X}" for char in value), '"'))

    members = ((text(key), text(value) if isinstance(value, str) else json.dumps(value)) for key, value in call.items())
    return f"{{{','.join(map(':'.join, members))}}}"


def stretched(call: dict[str, Any]) -> str:
    """Tabs and blanks wherever they may stand."""
    return json.dumps(call, separators=(" ,\t", "\r: "), ensure_ascii=False).replace("}", " }").replace("{", "{ ")


SPELT = [
    record(1, token_name="B\xfcro", model="a/b", status=429, error='no "such" thing'),
    record(2, token_name="laptop", model="gpt", app="aider", status=200, ms=7, cost=12),
    record(3, token_name="\u4e2d", model="gpt", status=200, ms=5_000),
]


@pytest.mark.parametrize("opened", ["growing", "sealed", "by a reader"])
@pytest.mark.parametrize("spelling", [spaced, escaped, stretched])
def test_calls_in_another_spelling_of_json_are_found(
    tmp_path: Path, spelling: Callable[[dict[str, Any]], str], opened: str
) -> None:
    """The same text can be written in many bytes."""
    log = log_of(tmp_path)
    log.append(SPELT)
    if opened == "sealed":
        log.append([record(4)], in_new_file=True)
        seal(log)
    log.log.close()
    rewrite(segments(tmp_path)[0], spelling)
    again = CallLog(Log(tmp_path, writer=opened != "by a reader"))
    ended = [*SPELT, record(4)] if opened == "sealed" else SPELT
    for words in (
        *("b\xfcro", "tok:b\xfc*", "\u4e2d", "model:a/b", '"such"', "gpt", "app:AIDER", f"id:{SPELT[0].id}", "id:*1"),
        *("st:429", "st:err", "!st:ok", "!st:err", "dur:7ms", "!dur:<5s", "cost:=0.000000012", "!gpt", "!tok:laptop"),
    ):
        query = parse(words, NOW)
        found = again.search(query, limit=9, patience=SearchDeadline()).records
        assert found == plainly(ended, query) != [], words
    assert [again.get(call.id) for call in ended] == ended
    again.log.close()
    if opened != "by a reader":  # that leaves everything as it is
        assert re.findall(rb": | :|\\u", segments(tmp_path)[0].read_bytes()) == []


@pytest.mark.parametrize(
    "words", ["st:ok", "!st:err", "!dur:>1s", "cost:<1", "in:<200", "!gone", "!model:gpt", "!tok:nobody", "!id:req_f"]
)
def test_members_that_a_newer_version_gives_attempts_are_not_those_of_the_call(tmp_path: Path, words: str) -> None:
    """What is in a nested object does not exclude its call."""
    log = log_of(tmp_path)
    calls = [record(i, status=200, attempts=(Attempt(channel="a", status=200),)) for i in range(1, 5)]
    log.append(calls)
    log.log.close()
    tried = '{"channel":"a","status":500,"ms":9000,"trial":1,"model":"gpt","id":"req_f","code":"gone","error":"gone",'
    tried += '"token_name":"nobody","input":900,"output":9,"cost":9000000000}'

    def newer(call: dict[str, Any]) -> str:
        call["attempts"] = []
        return json.dumps(call, separators=(",", ":")).replace('"attempts":[]', f'"attempts":[{tried}]')

    rewrite(segments(tmp_path)[0], newer)
    again = log_of(tmp_path)
    found = again.search(parse(words, NOW), limit=9, patience=SearchDeadline()).records
    assert [call.id for call in found] == [call.id for call in reversed(calls)]
    again.log.close()
