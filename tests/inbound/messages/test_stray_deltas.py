"""Native messages at which SDKs fail are repaired. Texts in the block of a tool call get blocks after all others."""

import time

import pytest

from gateway.domain.channel import Dialect
from gateway.domain.usage import Usage
from tests.cases.anthropic.streams import STOP, end as ended, start as began
from tests.cases.vendor_answers import SPENT, Doc, Row, block, text_part, thinks, writes
from tests.fakes.messages import event as named
from tests.inbound.test_vendor_answers import Said, fed, read_messages

CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
WHOLE, HALF, REST = ({"type": "input_json_delta", "partial_json": text} for text in ('{"a":1}', '{"a":', "1}"))
SAY, MORE = ({"type": "text_delta", "text": text} for text in "Hi")
THOUGHT = {"type": "thinking_delta", "thinking": "Hm"}


@pytest.mark.parametrize(
    ("deltas", "reasoning"),
    [((WHOLE, SAY, MORE), ""), ((HALF, SAY, MORE, REST), ""), ((WHOLE, THOUGHT, SAY, MORE), "Hm")],
)
@pytest.mark.parametrize("stop", [True, False])
def test_a_text_in_a_call_gets_its_own_block(deltas: tuple[Doc, ...], reasoning: str, *, stop: bool) -> None:
    begun = began(SPENT) + block(0, CALL, *deltas) + named("ping") + block(1, CALL, WHOLE, SAY, stop=stop)
    for sizes in ((), (500, 60, 60, 60, 60)):
        end = ended("tool_use").removesuffix(STOP) + ended("tool_use")
        answer, out, _ = fed(Row("", Dialect.ANTHROPIC, begun + end), "messages", *sizes)
        said = read_messages(out + answer.tail(Usage()), streamed=True)
        assert said == Said("HiH", reasoning, [["f", '{"a":1}']] * 2, "tool_use")
        assert out.count(b"event: content_block_start") == 3 + bool(reasoning)
    answer, out, _ = fed(Row("", Dialect.ANTHROPIC, begun), "messages")
    assert read_messages(out + answer.cut_short(), streamed=True).text == "HiH"


def test_a_text_in_a_block_that_was_not_begun_or_is_unknown_stays_there() -> None:
    sent = began(SPENT) + named("content_block_delta", index=0, delta=SAY) + block(1, {"type": "new"}, MORE)
    answer, out, _ = fed(Row("", Dialect.ANTHROPIC, sent + ended()), "messages")
    assert out + answer.tail(Usage()) == sent + ended()


def test_blocks_do_not_wait_for_a_start_of_the_message_that_does_not_come() -> None:
    answer, out, _ = fed(Row("", Dialect.ANTHROPIC, block(0, text_part(""), SAY, MORE, stop=False)), "messages")
    assert (read_messages(out, streamed=True).text, answer.held) == ("Hi", 0)


def test_ends_and_beginnings_that_come_again_are_left_out() -> None:
    """LiteLLM ends calls twice; interleaved blocks each end once."""
    stops = [named("content_block_stop", index=index) for index in range(3)]
    first, second = block(0, CALL, WHOLE, stop=False), block(1, CALL, WHOLE, stop=False)
    sent = [began(SPENT), first, second, stops[0], stops[1], ended("tool_use")]
    again = [began(SPENT), *sent[:4], stops[0], stops[1], stops[1], stops[2], sent[-1]]
    for sizes in ((), (500, 60, 60, 60, 60)):
        answer, out, _ = fed(Row("", Dialect.ANTHROPIC, b"".join(again)), "messages", *sizes)
        assert out + answer.tail(Usage()) == b"".join(sent)


def test_open_blocks_that_are_interleaved_all_end_at_a_cut() -> None:
    first, second = block(0, CALL, WHOLE, stop=False), block(1, CALL, WHOLE, stop=False)
    answer, _, _ = fed(Row("", Dialect.ANTHROPIC, began(SPENT) + first + second), "messages")
    cut = answer.cut_short()
    assert [cut.count(b'"content_block_stop","index":%d' % index) for index in range(2)] == [1, 1]


@pytest.mark.parametrize("stop", [True, False])
def test_an_input_in_the_start_of_a_call_is_also_a_delta_and_the_call_ends(*, stop: bool) -> None:
    """Claude Code reads inputs only from deltas, and a call when it ends."""
    called = {**CALL, "input": {"a": 1}}
    sent = began(SPENT) + block(0, called, stop=stop) + block(1, called, HALF, REST, stop=stop) + ended("tool_use")
    for sizes in ((), (500, 60, 60, 60, 60)):
        answer, out, _ = fed(Row("", Dialect.ANTHROPIC, sent), "messages", *sizes)
        said = read_messages(out + answer.tail(Usage()), streamed=True)
        assert said == Said("", "", [["f", '{"a":1}']] * 2, "tool_use")
        assert [out.count(b'_json_delta","partial_json":' + each) for each in (b'"{\\"a\\":1}"', b'"1}"')] == [1, 1]
        assert [out.count(b'"content_block_stop","index":%d' % index) for index in range(2)] == [1, 1]


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize(("deltas", "text"), [((), "H"), ((writes("H"), writes("i")), "Hi"), ((writes("i"),), "Hi")])
def test_a_text_in_the_start_of_a_block_is_only_a_delta(deltas: tuple[Doc, ...], text: str, *, stop: bool) -> None:
    """SDKs add the deltas to it, Claude Code ignores it, and MiniMax sends it again."""
    sent = began(SPENT) + block(0, text_part("H"), *deltas, stop=stop) + ended()
    for sizes in ((), (500, 60, 60, 60, 60)):
        answer, out, _ = fed(Row("", Dialect.ANTHROPIC, sent), "messages", *sizes)
        assert read_messages(out + answer.tail(Usage()), streamed=True).text == text
        assert out.count(b'"content_block":{"type":"text","text":""}') == 1


def test_a_signature_in_the_start_of_a_thought_is_a_delta() -> None:
    sent = began(SPENT) + block(0, {"type": "thinking", "thinking": "H", "signature": "s"}, thinks("m")) + ended()
    _, out, _ = fed(Row("", Dialect.ANTHROPIC, sent), "messages")
    assert b'"delta":{"type":"signature_delta","signature":"s"}' in out
    assert read_messages(out.replace(b"signature_delta", b"new"), streamed=True).reasoning == "Hm"


def test_deltas_and_ends_without_an_index_belong_to_the_newest_block() -> None:
    sent = began(SPENT) + block(0, text_part(""), writes("H")) + block(1, CALL, HALF, REST)
    bare = sent.replace(b'_delta","index":1', b'_delta"').replace(b'_stop","index":1', b'_stop"')
    answer, out, _ = fed(Row("", Dialect.ANTHROPIC, bare + ended("tool_use")), "messages")
    assert read_messages(out + answer.tail(Usage()), streamed=True) == Said("H", "", [["f", '{"a":1}']], "tool_use")


def test_blocks_with_one_index_get_indexes_of_their_own_and_end_in_turn() -> None:
    sent = began(SPENT) + block(0, text_part(""), writes("H"), stop=False)
    sent += block(0, {"type": "thinking", "thinking": ""}, thinks("H"), thinks("m")) + block(0, CALL, HALF, REST)
    sent += block(1, text_part(""), writes("i"), stop=False)
    for sizes in ((), (500, 60, 60, 60, 60)):
        answer, out, _ = fed(Row("", Dialect.ANTHROPIC, sent + ended("tool_use")), "messages", *sizes)
        said = read_messages(out + answer.tail(Usage()), streamed=True)
        assert said == Said("Hi", "Hm", [["f", '{"a":1}']], "tool_use")
        assert [out.count(b'"content_block_stop","index":%d' % index) for index in range(4)] == [1] * 4


@pytest.mark.parametrize(
    ("lacking", "whole"),
    [
        ({"type": "tool_use", "id": "t1", "name": "f"}, CALL),
        ({"type": "text", "text": None}, text_part("")),
        ({"type": "thinking"}, {"type": "thinking", "thinking": "", "signature": ""}),
    ],
)
def test_a_start_without_its_content_gets_an_empty_one(lacking: Doc, whole: Doc) -> None:
    answer, out, _ = fed(Row("", Dialect.ANTHROPIC, began(SPENT) + block(0, lacking) + ended()), "messages")
    assert out + answer.tail(Usage()) == began(SPENT) + block(0, whole) + ended()


def test_thousands_of_open_blocks_end_in_linear_time() -> None:
    """Joined one by one, the ends of 50,000 blocks took two seconds of the event loop."""
    begun = began(SPENT) + b"".join(block(i, text_part(""), stop=False) for i in range(50_000))
    answer, _, _ = fed(Row("", Dialect.ANTHROPIC, begun), "messages")
    busy = time.thread_time()
    assert answer.cut_short().count(b"event: content_block_stop") == 50_000
    assert time.thread_time() - busy < 0.7
