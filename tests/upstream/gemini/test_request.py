"""Requests: where they go, what is in them, what is dropped and what is refused."""

import json
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.channel import Served
from gateway.upstream.adapter import Learned, Prepared
from gateway.upstream.gemini.request import prepare
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.conversations import TOOLS_AND_IMAGE, call
from tests.upstream.makers import attempt_fails, channel, order

HI = [{"role": "user", "content": "Hi"}]


def _prepared(
    model: str = "gemini-3.8-flash", learned: Learned = NOTHING, base: str = "https://h", **fields: Any
) -> Prepared:
    body = {"model": "m", "messages": HI, **fields}
    return prepare(order(body), channel(base), Served(name="m", upstream=model), learned, Signatures())


def test_the_least_request() -> None:
    assert json.loads(_prepared().body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize("base", ["https://h", "https://h/", "https://h/v1beta", "https://h/v1beta/openai"])
def test_where_it_goes(base: str) -> None:
    assert _prepared(base=base).url == "https://h/v1beta/models/gemini-3.8-flash:generateContent"


@pytest.mark.parametrize(
    ("base", "model", "url"),
    [
        ("https://h/v1", "gemini", "https://h/v1/models/gemini"),
        ("https://h/v1alpha", "models/gemini", "https://h/v1alpha/models/gemini"),
        ("https://h", "tunedModels/a b", "https://h/v1beta/tunedModels/a%20b"),
    ],
)
def test_other_places(base: str, model: str, url: str) -> None:
    assert _prepared(model, base=base).url == url + ":generateContent"


def test_a_stream_is_asked_for_as_events() -> None:
    prepared = _prepared(stream=True, stream_options={"include_usage": True})
    assert prepared.url.endswith(":streamGenerateContent?alt=sse")
    assert (prepared.headers["Accept"], prepared.dropped) == ("text/event-stream", ())


def test_everything_has_its_place() -> None:
    body = json.loads(_prepared(**{**TOOLS_AND_IMAGE, "model": "gemini-3.8-flash"}, reasoning_effort="low").body)
    assert set(body) == {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
    thinking = {"thinkingLevel": "low", "includeThoughts": True}
    assert body["generationConfig"] == {"maxOutputTokens": 500, "thinkingConfig": thinking}


def test_what_has_no_counterpart_is_named() -> None:
    fields: dict[str, Any] = {
        "user": "u",
        "logit_bias": {},
        "store": False,
        "parallel_tool_calls": False,
        "temperature": 1,
    }
    assert _prepared(**fields).dropped == ("temperature", "user", "logit_bias", "parallel_tool_calls")
    assert _prepared(parallel_tool_calls=True).dropped == ()


def test_what_was_learned_is_left_out() -> None:
    prepared = _prepared(learned=Learned(dropped=("seed", "top_k")), seed=3)
    assert (b"seed" in prepared.body, prepared.dropped) == (False, ("seed",))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"modalities": ["audio"]}, "modalities"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        (
            {"messages": [*HI, {"role": "assistant", "tool_calls": [call("a", "f", "[]")]}]},
            "messages[1].tool_calls[0].function.arguments",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0]"),
    ],
)
def test_what_cannot_be_translated_is_refused(fields: dict[str, Any], param: str) -> None:
    with attempt_fails() as caught:
        _prepared(**fields)
    assert (caught.value.param, caught.value.status) == (param, 400)
    assert (caught.value.kind, caught.value.sent) == (FailureKind.CLIENT, False)


@pytest.mark.parametrize(("asked", "limit", "sent"), [(90, 70, 70), (50, 70, 50), (None, 70, None), (90, None, 90)])
def test_a_limit_above_the_models_own_is_lowered(asked: int | None, limit: int | None, sent: int | None) -> None:
    served = Served(name="m", upstream="gemini-2.5-pro", max_output=limit)
    made = order({"messages": HI, "max_tokens": asked})
    prepared = prepare(made, channel(), served, NOTHING, Signatures())
    config = json.loads(prepared.body).get("generationConfig", {})
    assert config.get("maxOutputTokens") == sent
    assert prepared.lowered == (sent if sent != asked else None)
