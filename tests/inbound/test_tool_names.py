"""Names of tools that OpenAI's API refuses are sent in another form, and come back as the client wrote them."""

from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.channel import ServedModel
from gateway.domain.order import Order
from gateway.inbound.api import InboundApi
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.ollama.api import OLLAMA_CHAT
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.translation import NameRules
from tests.fakes.replies import Doc, choice, dumps, usage, whole
from tests.upstream.makers import channel, order_of

NAMES = ["files.read", "mcp__server__" + "x" * 100]
HELLO = [{"role": "user", "content": "Hi"}]
FUNCTION = {"type": "function", "parameters": {"type": "object"}}


def _messages(name: str) -> Doc:
    return {"max_tokens": 9, "messages": HELLO, "tools": [{"name": name, "input_schema": {"type": "object"}}]}


def _responses(name: str) -> Doc:
    return {"input": "Hi", "tools": [{**FUNCTION, "name": name}]}


def _namespace(name: str) -> Doc:
    return {"input": "Hi", "tools": [{"type": "namespace", "name": "crm", "tools": [{**FUNCTION, "name": name}]}]}


def _ollama(name: str) -> Doc:
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    return {"messages": HELLO, "tools": [tool], "stream": False}


def called(sent: str) -> bytes:
    """The answer of a model that calls the tool of this name."""
    call = {"id": "c1", "type": "function", "function": {"name": sent, "arguments": "{}"}}
    return dumps(whole("m", choice(None, finish="tool_calls", tool_calls=[call]), spent=usage()))


def asked(api: InboundApi, fields: Doc) -> Order:
    return msgspec.structs.replace(order_of(api, fields), clock=lambda: 0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("api", "fields_of"),
    [(MESSAGES, _messages), (RESPONSES, _responses), (RESPONSES, _namespace), (OLLAMA_CHAT, _ollama)],
)
def test_a_refused_name_is_sent_in_another_form_and_comes_back(api: InboundApi, fields_of: Any, name: str) -> None:
    at = channel(base_url="https://api.example/v1", preset="plain")
    plan = api.plan(asked(api, fields_of(name)), at, new_adapter(at.dialect), lacks_api=True)
    request = plan.adapter.prepare(plan.order, at, ServedModel(name="m"), NOTHING)
    sent = rawjson.value(request.body)["tools"][0]["function"]["name"]
    assert len(sent) <= 64
    assert sent.replace("_", "").isalnum()
    answer = plan.adapter.whole(called(sent), plan.order, at)
    assert answer.render is not None
    assert answer.state.reported is not None
    assert b'"name":"%b"' % name.encode() in answer.render(answer.state.reported)


def test_each_name_is_changed_once_for_all_calls_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 tools and 500 calls kept the event loop for 11 seconds."""
    at = channel(base_url="https://api.example/v1", preset="plain")
    tools = [tool for name in NAMES for tool in _messages(name)["tools"]]
    plan = MESSAGES.plan(
        asked(MESSAGES, {**_messages(""), "tools": tools}), at, new_adapter(at.dialect), lacks_api=True
    )
    changed, valid_name = list[str](), NameRules.valid_name

    def counted(rules: NameRules, name: str) -> str:
        changed.append(name)
        return valid_name(rules, name)

    monkeypatch.setattr(NameRules, "valid_name", counted)
    answer = rawjson.value(called("x_0123abcd"))
    message = answer["choices"][0]["message"]
    message["tool_calls"] = [{**message["tool_calls"][0], "id": id} for id in "abc"]
    plan.adapter.whole(dumps(answer), plan.order, at)
    assert changed == NAMES
