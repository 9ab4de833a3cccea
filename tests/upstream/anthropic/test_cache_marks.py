"""Cache marks: a growing conversation reads what it sent before from the vendor's cache, and pays for what is new."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.order import LearnedRefusals
from gateway.upstream.anthropic.cache_marks import marks_cache
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.learned_params import NOTHING
from tests.cases.conversations import call, function
from tests.upstream.makers import channel, translated

LONG = "word " * 1000
SYSTEM = {"role": "system", "content": LONG}
ASKED = {"role": "user", "content": "Find the bug."}
TOOLS = [function("read"), function("write")]
EPHEMERAL = {"type": "ephemeral"}
UP = channel("https://h", preset="anthropic", dialect=Dialect.ANTHROPIC)


def _sent(*messages: Any, model: str = "claude-sonnet-4-5", up: Any = UP, **fields: Any) -> Any:
    body = {"model": "m", "messages": messages, **fields}
    return json.loads(
        AnthropicDialect().prepare(translated(body), up, ServedModel(name="m", upstream=model), NOTHING).body
    )


def _blocks(body: Any) -> list[Any]:
    """All blocks in the order in which the vendor reads them."""
    said = [block for message in body["messages"] for block in message["content"]]
    return [*body.get("tools", []), *body.get("system", []), *said]


def _marked(body: Any) -> list[int]:
    return [i for i, block in enumerate(_blocks(body)) if "cache_control" in block]


def _turn(number: int, calls: int = 1) -> list[Any]:
    """A turn of a tool loop."""
    ids = [f"c{number}_{i}" for i in range(calls)]
    made = {"role": "assistant", "content": None, "tool_calls": [call(each, "read", "{}") for each in ids]}
    return [made, *({"role": "tool", "tool_call_id": each, "content": f"line {each}"} for each in ids)]


class VendorCache:
    """The vendor's cache: what was written up to a mark is found again, at most twenty blocks before another mark."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def send(self, body: Any) -> tuple[int, int]:
        """How many blocks were read from the cache, and how many were paid in full."""
        blocks = _blocks(body)
        marks = _marked(body)
        plain = [json.dumps({k: v for k, v in block.items() if k != "cache_control"}) for block in blocks]
        ends = {end: "".join(plain[: end + 1]) for end in range(len(blocks))}
        found = [end for at in marks for end in range(at, max(-1, at - 20), -1) if ends[end] in self._written]
        self._written |= {ends[at] for at in marks}
        read = max(found, default=-1) + 1
        return read, len(blocks) - read


@pytest.mark.parametrize("calls", [1, 15])
def test_each_turn_of_a_tool_loop_pays_only_for_what_is_new(calls: int) -> None:
    """Also where a turn has more blocks than the vendor looks back."""
    cache, talk = VendorCache(), [SYSTEM, ASKED]
    cache.send(_sent(*talk, tools=TOOLS))
    for number in range(30):
        before = len(_blocks(_sent(*talk, tools=TOOLS)))
        talk += _turn(number, calls)
        body = _sent(*talk, tools=TOOLS)
        assert len(_marked(body)) == 4
        assert cache.send(body) == (before, 2 * calls)


def test_a_chat_without_tools_is_cached_from_its_second_turn() -> None:
    cache, talk = VendorCache(), [SYSTEM, ASKED]
    assert _marked(_sent(*talk)) == [0]
    for number in range(3):
        talk += [{"role": "assistant", "content": f"Answer {number}"}, {"role": "user", "content": f"And {number}?"}]
    found = [cache.send(_sent(*talk[:end])) for end in (4, 6, 8)]
    assert found == [(0, 4), (4, 2), (6, 2)]


def test_another_conversation_reads_tools_and_system() -> None:
    cache = VendorCache()
    cache.send(_sent(SYSTEM, ASKED, tools=TOOLS))
    assert cache.send(_sent(SYSTEM, {"role": "user", "content": "Find another."}, tools=TOOLS)) == (3, 1)
    assert cache.send(_sent({"role": "system", "content": "brief " * 1000}, ASKED, tools=TOOLS)) == (2, 2)


def test_a_question_that_stands_alone_is_not_written_to_the_cache() -> None:
    assert _marked(_sent({"role": "user", "content": LONG})) == []


def test_a_short_request_needs_no_marks() -> None:
    assert _marked(_sent({"role": "system", "content": "Be brief."}, ASKED, tools=TOOLS)) == []


OWN = {"cache_control": EPHEMERAL}


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([{**SYSTEM, **OWN}, ASKED], {}),
        ([SYSTEM, {"role": "user", "content": [{"type": "text", "text": "Find it.", **OWN}]}], {}),
        ([SYSTEM, ASKED, *_turn(1)[:1], {**_turn(1)[1], **OWN}], {}),
        ([SYSTEM, ASKED], {"tools": [{**TOOLS[0], **OWN}, TOOLS[1]]}),
    ],
)
def test_a_client_that_sets_a_mark_is_left_alone(messages: list[Any], fields: dict[str, Any]) -> None:
    assert len(_marked(_sent(*messages, **{"tools": TOOLS, **fields}))) == 1


@pytest.mark.parametrize(("count", "kept"), [(4, [0, 1, 2, 3]), (5, [0, 1, 3, 4]), (9, [0, 1, 7, 8])])
def test_the_first_and_last_of_too_many_marks_are_kept(count: int, kept: list[int]) -> None:
    parts = [{"type": "text", "text": f"{number}", "cache_control": EPHEMERAL} for number in range(count)]
    body = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    served = ServedModel(name="m", upstream="claude-sonnet-4-5")
    prepared = AnthropicDialect().prepare(translated(body), UP, served, NOTHING)
    assert _marked(json.loads(prepared.body)) == kept
    assert prepared.dropped == (("cache_control",) if count > 4 else ())


def test_so_is_a_client_that_leaves_the_marks_to_the_vendor() -> None:
    body = _sent(SYSTEM, ASKED, tools=TOOLS, cache_control=EPHEMERAL)
    assert (_marked(body), body["cache_control"]) == ([], EPHEMERAL)


def test_a_client_that_only_speaks_of_marks_gets_them() -> None:
    assert _marked(_sent(SYSTEM, {"role": "user", "content": '{"cache_control": {}}'}, tools=TOOLS)) == [1, 2, 3]


def test_thoughts_are_never_marked_and_a_prefill_is_not() -> None:
    thought = {"type": "thinking", "thinking": "Hm", "signature": "S"}
    made, result = _turn(1)
    body = _sent(SYSTEM, ASKED, {**made, "thinking_blocks": [thought]}, result, {"role": "assistant", "content": "So"})
    marked = [_blocks(body)[at]["type"] for at in _marked(body) if "type" in _blocks(body)[at]]
    assert marked == ["text", "text", "tool_result"]


@pytest.mark.parametrize(
    ("up", "expected"),
    [
        (UP, True),
        (channel("https://api.anthropic.com"), True),
        (channel("https://relay.example"), True),
        (channel("http://127.0.0.1:11434", preset="ollama"), True),
        (channel("https://relay.example", preset="plain"), True),
        (msgspec.structs.replace(UP, cache_marks=False), False),
        (channel("https://relay.example", cache_marks=False), False),
    ],
)
def test_every_channel_of_the_dialect_gets_marks_unless_its_owner_switches_them_off(up: Any, *, expected: bool) -> None:
    up = msgspec.structs.replace(up, dialect=Dialect.ANTHROPIC)
    assert marks_cache(up, NOTHING) is expected
    assert bool(_marked(_sent(SYSTEM, ASKED, tools=TOOLS, up=up))) is expected


def test_the_openai_surface_of_the_vendor_gets_none() -> None:
    assert not marks_cache(channel("https://api.anthropic.com"), NOTHING)


def test_an_upstream_that_refuses_marks_gets_none_and_none_of_the_clients() -> None:
    refused = LearnedRefusals(dropped=("cache_control",))
    marked = {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": EPHEMERAL}]}
    body = {"model": "m", "messages": [SYSTEM, marked], "tools": TOOLS}
    prepared = AnthropicDialect().prepare(
        translated(body), UP, ServedModel(name="m", upstream="claude-sonnet-4-5"), refused
    )
    assert (_marked(json.loads(prepared.body)), prepared.dropped) == ([], ("cache_control",))
    assert not marks_cache(UP, refused)
