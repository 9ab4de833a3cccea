"""Reasoning goes back to the upstreams that want it, for the calls of the same token, and never to another's."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import ServedModel
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.conversations import call
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, tool_call, usage, whole
from tests.upstream.makers import as_chat, channel, order

UP = channel("https://api.deepseek.com")
HI = {"role": "user", "content": "Look."}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a line"}
ARGUMENTS = '{"path":"a","lines":[1,2]}'
CALLED = {"role": "assistant", "content": None, "tool_calls": [call("c1", "read", ARGUMENTS)]}


def _order(*messages: Any, owner: str = "tok_1", **fields: Any) -> Any:
    return msgspec.structs.replace(order({"model": "m", "messages": messages, **fields}), owner=owner)


def _stream(dialect: OpenAIDialect, *chunks: Any, owner: str = "tok_1", step: int = 50) -> None:
    stream = as_chat(dialect).stream(_order(HI, owner=owner, stream=True, n=2), UP)
    data = b"".join(map(event, chunks)) + DONE
    for start in range(0, len(data), step):
        stream.feed(data[start : start + step])
    stream.end()
    assert stream.finished


def _answered(dialect: OpenAIDialect, reasoning: str = "I shall read.", owner: str = "tok_1", id: str = "c1") -> None:
    """An answer that reasons and calls."""
    first, rest = ARGUMENTS[:7], ARGUMENTS[7:]
    _stream(
        dialect,
        chunk(delta("", role="assistant")),
        *(chunk(delta(reasoning_content=word)) for word in reasoning.partition(" ")),
        chunk(delta(tool_calls=[tool_call(0, id, "read", first)])),
        chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": rest}}])),
        chunk(delta(finish="tool_calls")),
        owner=owner,
    )


def _sent(dialect: OpenAIDialect, *messages: Any, up: Any = UP, owner: str = "tok_1") -> list[Any]:
    prepared = dialect.prepare(_order(*messages, owner=owner), up, ServedModel(name="m"), NOTHING)
    found: list[Any] = json.loads(prepared.body)["messages"]
    return found


def _back(*args: Any, **fields: Any) -> list[str | None]:
    return [m.get("reasoning_content") for m in _sent(*args, **fields) if m["role"] == "assistant"]


@pytest.fixture
def dialect() -> OpenAIDialect:
    return OpenAIDialect()


def test_what_a_stream_brought_before_a_call_goes_back(dialect: OpenAIDialect) -> None:
    _answered(dialect)
    assert _back(dialect, HI, CALLED, RESULT) == ["I shall read."]


def test_what_a_plain_answer_brought_goes_back(dialect: OpenAIDialect) -> None:
    said = choice(None, finish="tool_calls", reasoning_content="Hm", tool_calls=CALLED["tool_calls"])
    as_chat(dialect).whole(dumps(whole("m", said, spent=usage())), _order(HI), UP)
    assert _back(dialect, HI, CALLED, RESULT) == ["Hm"]


def test_a_client_may_write_the_arguments_in_its_own_way(dialect: OpenAIDialect) -> None:
    _answered(dialect)
    other = {**CALLED, "tool_calls": [call("c1", "read", json.dumps(json.loads(ARGUMENTS), indent=1))]}
    assert _back(dialect, HI, other, RESULT) == ["I shall read."]


@pytest.mark.parametrize("given", [{}, {"reasoning_content": None}, {"reasoning_content": ""}])
def test_an_empty_field_is_filled(dialect: OpenAIDialect, given: dict[str, Any]) -> None:
    _answered(dialect)
    assert _back(dialect, HI, {**CALLED, **given}, RESULT) == ["I shall read."]


def test_what_the_client_sends_back_itself_stays(dialect: OpenAIDialect) -> None:
    _answered(dialect)
    assert _back(dialect, HI, {**CALLED, "reasoning_content": "Mine"}, RESULT) == ["Mine"]


def test_another_token_gets_nothing_of_it(dialect: OpenAIDialect) -> None:
    _answered(dialect)
    assert _back(dialect, HI, CALLED, RESULT, owner="tok_2") == [""]


def test_ids_that_count_from_zero_in_every_conversation_do_not_matter() -> None:
    dialect, id = OpenAIDialect(), "functions.read:0"
    _answered(dialect, id=id)
    other = {"role": "assistant", "tool_calls": [call(id, "read", "{}")]}
    assert _back(dialect, HI, other, {**RESULT, "tool_call_id": id}) == [""]


def test_what_is_lost_goes_back_empty_in_every_message_of_a_conversation_with_calls() -> None:
    talk = [HI, CALLED, RESULT, {"role": "assistant", "content": "Done."}, HI]
    assert _back(OpenAIDialect(), *talk) == ["", ""]


def test_a_conversation_without_calls_stays_as_it_is() -> None:
    assert _back(OpenAIDialect(), HI, {"role": "assistant", "content": "Hello."}, HI) == [None]


def test_other_upstreams_get_and_leave_nothing() -> None:
    dialect, other = OpenAIDialect(), channel("https://api.openai.com/v1")
    _answered(dialect)
    assert _back(dialect, HI, CALLED, RESULT, up=other) == [None]


def test_two_calls_and_two_choices_are_kept_apart(dialect: OpenAIDialect) -> None:
    _stream(
        dialect,
        chunk(delta(reasoning_content="A"), delta(index=1, reasoning_content="B")),
        chunk(delta(tool_calls=[tool_call(0, "c1", "read", "{}"), tool_call(1, "c2", "read", "{}")])),
        chunk(delta(index=1, tool_calls=[tool_call(0, "c3", "read", "{}")])),
        chunk(delta(finish="tool_calls"), delta(index=1, finish="tool_calls")),
    )
    found = [{"role": "assistant", "tool_calls": [call(id, "read", "{}")]} for id in ("c1", "c2", "c3", "c4")]
    assert _back(dialect, HI, *found) == ["A", "A", "B", ""]


def test_a_call_that_is_repeated_often_does_not_fill_the_memory(dialect: OpenAIDialect) -> None:
    _answered(dialect, "x" * 1_000_000)
    assert [len(text or "") for text in _back(dialect, HI, *([CALLED] * 20))] == [1_000_000] * 16 + [0] * 4


def test_the_hold_pays_for_what_goes_back(dialect: OpenAIDialect) -> None:
    fields = _order(HI, CALLED, RESULT).fields
    assert dialect.recalled_tokens(fields) == 0
    _answered(dialect, "x" * 3000)
    assert 1000 <= dialect.recalled_tokens(fields) <= 1002
    assert dialect.recalled_tokens(_order(HI, CALLED, CALLED).fields) >= 2000
    blocks = [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]  # of a request to another API
    assert dialect.recalled_tokens(_order({"role": "assistant", "content": blocks}).fields) >= 1000
    escaped = '[{"role":"assistant","tool_call\\u0073":' + json.dumps(CALLED["tool_calls"]) + "}]"
    assert dialect.recalled_tokens({"messages": msgspec.Raw(escaped.encode())}) >= 1000


@pytest.mark.parametrize(
    "messages", [b"null", b"7", b"[1]", b'[{"role":"assistant","tool_calls":7}]', b'[{"role":7,"tool_calls":[{}]}]']
)
def test_odd_messages_are_left_to_the_upstream(dialect: OpenAIDialect, messages: bytes) -> None:
    _answered(dialect)
    asked = msgspec.structs.replace(_order(HI), fields={"messages": msgspec.Raw(messages)})
    sent = json.loads(dialect.prepare(asked, UP, ServedModel(name="m"), NOTHING).body)
    assert sent["messages"] == json.loads(messages)
    assert dialect.recalled_tokens(asked.fields) == 0
