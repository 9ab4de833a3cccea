"""The dialect does what an adapter does, with one memory for requests and answers."""

import json

from gateway.domain.channel import ServedModel
from gateway.domain.units import Millis
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.model_list import ModelPage, read_models
from tests.cases.anthropic.streams import HELLO, TWO_TOOLS
from tests.cases.conversations import call
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, channel, translated

SONNET = ServedModel(name="m", upstream="claude-sonnet-4-5")
NEXT = {
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("toolu_1", "look", "{}")]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "x"},
    ],
    "reasoning_effort": "high",
}


def test_thoughts_of_an_answer_come_back_in_the_next_request() -> None:
    dialect = AnthropicDialect()
    as_chat(dialect).stream(translated(), channel()).feed(TWO_TOOLS)
    prepared = dialect.prepare(translated(NEXT), channel(), SONNET, NOTHING)
    body = json.loads(prepared.body)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": "SIG=="}
    assert body["thinking"]["type"] == "enabled"


def test_an_answer_is_taken_in_either_form() -> None:
    assert as_chat(AnthropicDialect()).whole(HELLO, translated(), channel()).state.finish == "stop"


OPUS = {
    "type": "model",
    "id": "claude-opus-5-5",
    "created_at": "2026-09-22T00:00:00Z",
    "max_input_tokens": 1_000_000,
    "max_tokens": 128_000,
}


def test_the_list_of_models_is_requested_page_by_page() -> None:
    dialect = AnthropicDialect()
    first, second = (
        dialect.models_request(channel("https://h/v1"), ""),
        dialect.models_request(channel("https://h"), "a/b"),
    )
    assert first.url == "https://h/v1/models?limit=1000"
    assert second.url == "https://h/v1/models?limit=1000&after_id=a%2Fb"
    assert first.headers["anthropic-version"] == "2023-06-01"


def test_a_page_of_models_has_their_limits_and_the_next_page() -> None:
    body = dumps({"data": [OPUS, {"id": "x", "created_at": "?"}], "has_more": True, "last_id": "x"})
    created = Millis(1_790_035_200_000)
    opus = ServedModel(name="claude-opus-5-5", created=created, context=1_000_000, max_output=128_000)
    assert read_models(body) == ModelPage(models=[opus, ServedModel(name="x")], after="x")


def test_the_last_page_has_nothing_after_it() -> None:
    assert read_models(dumps({"data": [], "has_more": False, "last_id": "x"})) == ModelPage(models=[])


def test_retired_models_and_names_that_cannot_be_shown_are_left_out() -> None:
    entries = [{**OPUS, "lifecycle": "retired"}, {"id": "a\u202eb"}, {"id": 3}]
    assert read_models(dumps({"data": entries})) == ModelPage(models=[], unreadable=2)
