"""Answers of every upstream as responses: what clients rely on holds for each recorded stream, however it is split."""

import json
from itertools import groupby
from typing import Any

import msgspec
import pytest

from gateway.domain.answer import SealKind, parse_seal
from gateway.domain.channel import Dialect, ServedModel
from gateway.inbound.chat.render import DONE
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import NOTHING
from tests.cases import streams as chat
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.fakes.replies import chunk, delta, event, tool_call, usage
from tests.inbound.responses.grammar import StreamedResponse, checked
from tests.inbound.responses.rendering import SPENT, of_dialect, planned, rendered

RECORDED = [
    *((Dialect.OPENAI, case) for case in chat.STREAMS),
    *((Dialect.ANTHROPIC, case) for case in anthropic.STREAMS),
    *((Dialect.GEMINI, case) for case in gemini.STREAMS),
]
ENCRYPTED: Any = {"include": ["reasoning.encrypted_content"]}


def answer(*events: bytes, done: bytes = DONE, **fields: Any) -> StreamedResponse:
    return checked(rendered(chat.ROLE + b"".join(events) + done, **fields).ended)


def say(**fields: Any) -> bytes:
    return event(chunk(delta(**fields)))


def finish(reason: str = "stop") -> bytes:
    return event(chunk(delta(finish=reason)))


def args(text: str, index: int = 0) -> bytes:
    return say(tool_calls=[{"index": index, "function": {"arguments": text}}])


@pytest.mark.sampled(80)
@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize(("dialect", "case"), RECORDED, ids=lambda value: getattr(value, "name", None) or str(value))
def test_every_recorded_stream_is_a_valid_response(dialect: Dialect, case: chat.Case, size: int) -> None:
    made = of_dialect(dialect)
    found = rendered(case.came, size, made, **ENCRYPTED)
    if case.error:
        checked(found.out, whole=False)
        return
    said = checked(found.ended)
    reasons = {case.said.finish[0]} if dialect is Dialect.GEMINI else set(case.said.finish.values())  # made one choice
    assert (said.ending == "response.incomplete") == (not reasons.isdisjoint(("length", "content_filter")))
    messages = [item for item in said.items if item["type"] == "message"]
    assert len(messages) <= 1 or case.said.reasoning
    calls = [(one["call_id"], one["name"]) for one in said.items if one["type"] == "function_call"]
    assert [call for call in case.said.calls.get(0, []) if call[:2] not in calls] == []


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("dialect", "case"), RECORDED, ids=lambda value: getattr(value, "name", None) or str(value))
def test_a_split_changes_nothing(dialect: Dialect, case: chat.Case) -> None:
    """Texts that come together may be one event."""
    made = of_dialect(dialect)
    at_once, in_bytes = (checked(rendered(case.came, size, made).out, whole=False) for size in (0, 1))
    assert at_once.items == in_bytes.items
    assert [kind for kind, _ in groupby(at_once.types)] == [kind for kind, _ in groupby(in_bytes.types)]
    assert _deltas(at_once) == _deltas(in_bytes)


def _deltas(said: StreamedResponse) -> dict[tuple[str, str], str]:
    """The pieces of each item in one."""
    joined: dict[tuple[str, str], str] = {}
    for fields in said.events:
        if "delta" in fields:
            key = fields["type"], fields["item_id"]
            joined[key] = joined.get(key, "") + fields["delta"]
    return joined


@pytest.mark.parametrize("reasoning", [{"summary": "auto"}, {"generate_summary": "detailed"}, {}, None])
def test_reasoning_is_a_summary_and_the_content_where_none_is_wanted(reasoning: Any) -> None:
    found = answer(say(reasoning_content="why"), say(reasoning_content=" not"), chat.HI, finish(), reasoning=reasoning)
    (part,) = found.items[0]["summary"]
    assert part["text"] == "why not"
    assert len(found.of("reasoning_summary_text.delta")) == 2
    assert ("content" in found.items[0]) == (not reasoning)


def test_thinking_of_anthropic_is_sealed_in_its_item() -> None:
    data = (
        anthropic.start()
        + anthropic.thinking("Hm", "SIG==")
        + anthropic.tool("c", "f", "{}")
        + anthropic.end("tool_use")
    )
    found = checked(rendered(data, made=of_dialect(Dialect.ANTHROPIC), **ENCRYPTED).ended)
    seal = parse_seal(found.items[0]["encrypted_content"])
    assert seal is not None
    assert seal.kind is SealKind.ANTHROPIC
    assert json.loads(seal.content) == [{"type": "thinking", "thinking": "Hm", "signature": "SIG=="}]
    turn = [
        {"role": "user", "content": "hi"},
        *found.items,
        {"type": "function_call_output", "call_id": "c", "output": ""},
    ]
    (message,) = [one for one in _messages(turn, Dialect.ANTHROPIC) if one["role"] == "assistant"]
    assert message["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": "SIG=="}
    assert "thinking_blocks" not in _messages(turn, Dialect.OPENAI)[1]


def test_without_the_wish_nothing_is_sealed() -> None:
    data = anthropic.start() + anthropic.thinking("Hm", "SIG==") + anthropic.text("x", index=1) + anthropic.end()
    found = checked(rendered(data, made=of_dialect(Dialect.ANTHROPIC)).ended)
    assert [item["type"] for item in found.items] == ["reasoning", "message"]
    assert "encrypted_content" not in found.items[0]


def test_reasoning_that_nobody_signed_comes_back_as_text() -> None:
    found = answer(say(reasoning_content="why"), say(tool_calls=[tool_call(0, "a", "f", "{}")]), finish(), **ENCRYPTED)
    assert found.items[0]["encrypted_content"] == "tk1.p"
    turn = [*found.items, {"type": "function_call_output", "call_id": "a", "output": "x"}]
    assert _messages(turn, Dialect.OPENAI)[0]["reasoning_content"] == "why"


def test_a_call_in_a_namespace_has_its_own_name() -> None:
    space = {"type": "namespace", "name": "crm", "description": "d", "tools": [{"type": "function", "name": "get"}]}
    found = answer(say(tool_calls=[tool_call(0, "a", "crm__get", "{}")]), finish(), tools=[space])
    assert (found.items[0]["name"], found.items[0]["namespace"]) == ("get", "crm")
    assert [event["name"] for event in found.of("function_call_arguments.done")] == ["get"]
    assert found.response["tools"] == [space]


CUSTOM = [{"type": "custom", "name": "patch"}]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_the_input_of_a_custom_tool_is_unwrapped(size: int) -> None:
    text = '*** Begin\n+ "quoted" \\ back \u00e9 \U0001f600 end\t'
    arguments = json.dumps({"input": text})
    pieces = [arguments[start : start + size] for start in range(0, len(arguments), size)]
    calls = [say(tool_calls=[tool_call(0, "a", "patch", "")]), *map(args, pieces)]
    found = answer(*calls, finish("tool_calls"), tools=CUSTOM)
    assert found.items == [
        {
            "id": found.items[0]["id"],
            "type": "custom_tool_call",
            "call_id": "a",
            "name": "patch",
            "input": text,
            "status": "completed",
        }
    ]
    assert [event["delta"] for event in found.of("custom_tool_call_input.delta")] == [text]
    assert [event.get("name") for event in found.of("custom_tool_call_input.done")] == [None]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("plain text", "plain text"),
        ('{"patch":"x"}', "x"),
        ('{"a":1,"input":"x"}', "x"),
        ('"x"', "x"),
        (' { "input" : "x" } ', "x"),
        ('{"input":"a\\', "a"),
        ('{"input":"', ""),
        ("", ""),
    ],
)
def test_custom_input_in_another_form_is_read_at_the_end(arguments: str, text: str) -> None:
    found = answer(say(tool_calls=[tool_call(0, "a", "patch", "")]), args(arguments), finish(), tools=CUSTOM)
    assert found.items[0]["input"] == text


def test_a_search_for_tools_has_an_object() -> None:
    search = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    found = answer(say(tool_calls=[tool_call(0, "a", "tool_search", '{"query":"q"}')]), finish(), tools=[search])
    item = found.items[0]
    assert (item["type"], item["execution"], item["arguments"]) == ("tool_search_call", "client", {"query": "q"})


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        ("local_shell", {"command": ["ls", "-l"]}, {"action": {"type": "exec", "command": ["ls", "-l"], "env": {}}}),
        (
            "local_shell",
            {"command": "ls -l"},
            {"action": {"type": "exec", "command": ["bash", "-lc", "ls -l"], "env": {}}},
        ),
        ("shell", {"commands": ["ls"], "timeout_ms": 5}, {"action": {"commands": ["ls"], "timeout_ms": 5}}),
        ("apply_patch", {"type": "delete_file", "path": "a"}, {"operation": {"type": "delete_file", "path": "a"}}),
        (
            "apply_patch",
            {"type": "update_file", "path": "a", "diff": "+x"},
            {"operation": {"type": "update_file", "path": "a", "diff": "+x"}},
        ),
    ],
)
def test_the_clients_own_tools_are_items_of_their_own(kind: str, arguments: Any, wanted: Any) -> None:
    made = tool_call(0, "a", kind, json.dumps(arguments))
    found = answer(say(tool_calls=[made]), finish(), tools=[{"type": kind}])
    assert found.items[0]["type"] == f"{kind}_call"
    assert wanted.items() <= found.items[0].items()


def test_usage_has_its_details() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens_details": {"reasoning_tokens": 30}}
    spent = event(chunk(usage=usage(1000, 50, **details)))
    assert answer(chat.HI, finish(), spent).response["usage"] == {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": 1050,
    }


@pytest.mark.parametrize(
    ("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")], ids=str
)
def test_an_answer_that_was_cut_is_incomplete(reason: str, why: str) -> None:
    found = answer(chat.HI, finish(reason))
    assert found.ending == "response.incomplete"
    assert found.response["incomplete_details"] == {"reason": why}
    assert found.items[0]["status"] == "incomplete"


def test_money_that_is_gone_ends_as_the_limit_does() -> None:
    found = rendered(chat.ROLE + chat.HI)
    out = found.out + found.stream.cut_short()
    said = checked(out + found.stream.tail(SPENT))
    assert said.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert said.items[0]["content"][0]["text"] == "Hi"


def test_a_refusal_is_a_part_of_its_message() -> None:
    found = answer(say(refusal="No"), say(refusal=" way"), finish())
    assert found.items[0]["content"] == [{"type": "refusal", "refusal": "No way"}]


def test_the_answer_says_that_nothing_is_stored() -> None:
    assert answer(chat.HI, finish(), store=True).response["store"] is False


@pytest.mark.parametrize("indent", [None, 2])
def test_the_request_is_repeated_in_the_response(indent: int | None) -> None:
    """On one line, however it was written: langchain4j writes it on several."""
    given: dict[str, Any] = {
        "instructions": "be brief",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    sent = {name: msgspec.Raw(json.dumps(value, indent=indent).encode()) for name, value in given.items()}
    response = answer(chat.HI, finish(), **sent).response
    assert {name: response[name] for name in given} == given


def test_probabilities_are_on_the_pieces_and_on_the_part() -> None:
    one = {
        "token": "Hi",
        "logprob": -0.1,
        "bytes": [72, 105],
        "top_logprobs": [{"token": "Hi", "logprob": -0.1, "bytes": [72]}],
    }
    choice = {**delta("Hi"), "logprobs": {"content": [one], "refusal": None}}
    found = answer(event(chunk(choice)), finish(), top_logprobs=1, include=["message.output_text.logprobs"])
    assert found.of("output_text.delta")[0]["logprobs"] == [one]
    assert found.items[0]["content"][0]["logprobs"] == [one]
    sparse = {"token": "Hi", "logprob": -0.1, "top_logprobs": [{"token": "Hi", "logprob": -0.1, "bytes": None}]}
    choice["logprobs"] = {"content": [sparse, {"token": "<end>", "logprob": 0}]}
    found = answer(event(chunk(choice)), finish())
    assert found.items[0]["content"][0]["logprobs"] == [
        {**sparse, "bytes": [], "top_logprobs": [{"token": "Hi", "logprob": -0.1, "bytes": []}]},
        {"token": "<end>", "logprob": 0, "bytes": [], "top_logprobs": []},
    ]
    choice["logprobs"] = {"content": [None]}
    assert answer(event(chunk(choice)), event(chunk(choice)), finish()).items[0]["content"][0]["logprobs"] == []
    plan = planned(top_logprobs=1, include=["message.output_text.logprobs"])
    assert (bytes(plan.order.fields["logprobs"]), bytes(plan.order.fields["top_logprobs"])) == (b"true", b"1")


def test_ids_of_items_are_the_same_when_the_answer_is_rendered_again() -> None:
    first, second = (rendered(chat.GOOD).ended for _ in range(2))
    assert first == second


def _messages(items: list[Any], dialect: Dialect) -> list[dict[str, Any]]:
    """The messages that such a channel gets."""
    made = of_dialect(dialect)
    prepared = new_adapter(dialect).prepare(planned(made, input=items).order, made, ServedModel(name="m"), NOTHING)
    found: list[dict[str, Any]] = json.loads(prepared.body)["messages"]
    return found


def test_what_is_kept_for_the_last_event_counts_as_memory() -> None:
    sources = [{"type": "url_citation", "url_citation": {"url": f"https://{n}.example/{'x' * 500}"}} for n in range(20)]
    found = rendered(
        chat.ROLE + b"".join(say(content="word " * 100, annotations=[each]) for each in sources) + chat.STOP
    )
    held = found.stream.held
    assert held > 20 * 1000
    found.stream.feed(b": late\n\n")
    assert found.stream.held <= held
