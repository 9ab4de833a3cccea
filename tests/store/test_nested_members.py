"""Members of a call's attempts are not taken for its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.call import Attempt
from gateway.domain.query import parse
from gateway.domain.units import Millis
from gateway.store.line_format import TAIL, body_of, id_of, join_lines, pack
from gateway.store.rollup import HOUR
from gateway.store.search import SearchDeadline
from tests.store.samples import T0, log_of, record, segments

NOW = Millis(T0 + HOUR)


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
    found = again.search(parse(words, NOW), limit=9, deadline=SearchDeadline()).records
    assert [call.id for call in found] == [call.id for call in reversed(calls)]
    again.log.close()
