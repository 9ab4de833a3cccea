"""The chat endpoint: what it writes for a request in another API's form is held for."""

import json
from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.inbound.api import HttpRequest
from gateway.inbound.responses.chat_endpoint import CHAT_ENDPOINT

COUNT = 200
USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [USER], "tools": [{"name": f"f{number}"} for number in range(COUNT)]},
        {
            "messages": [USER, {"role": "assistant", "content": [{"type": "tool_use"}] * COUNT}],
            "tools": [{"name": "f"}],
        },
    ],
    ids=["flat tools", "blocks"],
)
def test_the_hold_covers_the_rewritten_chat(body: dict[str, Any]) -> None:
    text = json.dumps({"model": "m", **body}, separators=(",", ":"))
    request = CHAT_ENDPOINT.parse(HttpRequest(body=text.encode(), target="", headers={}, repeats={}))
    size = sum(len(memoryview(request.fields[name])) for name in ("messages", "tools"))
    assert size > 2 * len(text)
    assert request.bound.tokens >= size // BOUND_BYTES_PER_TOKEN


@pytest.mark.parametrize(
    "field", [{"input": 3}, {"input": "Hi", "instructions": {}}, {"input": "Hi", "background": True}]
)
def test_a_request_for_responses_that_no_chat_can_have_names_the_wrong_field(field: dict[str, Any]) -> None:
    request = HttpRequest(body=json.dumps({"model": "m", **field}).encode(), target="", headers={})
    with pytest.raises(BadRequest) as failure:
        CHAT_ENDPOINT.parse(request)
    assert failure.value.param == list(field)[-1]


@pytest.mark.parametrize("stream", [True, False, None])
def test_options_of_a_stream_are_only_sent_with_one(*, stream: bool | None) -> None:
    options = {"include_usage": True}
    body = {"model": "m", "input": "Hi", "stream": stream, "stream_options": options}
    request = CHAT_ENDPOINT.parse(HttpRequest(body=json.dumps(body).encode(), target="", headers={}))
    sent = json.loads(request.body)
    assert (request.stream, sent.get("stream_options")) == ((True, options) if stream else (False, None))
