"""The dialect does what an adapter does, with one memory for requests and answers."""

import json
from typing import Any

import pytest

from gateway.domain.channel import ServedModel
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.message_shapes import UNSIGNED
from gateway.upstream.model_list import ModelPage, read_models
from tests.cases.answers import chunks_in
from tests.cases.gemini.streams import TWO_CALLS
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, channel, translated


def _calls(chunks: list[Any], *, keep: bool) -> list[Any]:
    """The calls as a client sends them back, with or without the fields it does not know."""
    calls: list[Any] = []
    for call in [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]:
        if "id" in call:
            calls.append(call)
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    known = ("id", "type", "function", "extra_content") if keep else ("id", "type", "function")
    return [{name: call[name] for name in known if name in call} for call in calls]


def _sent(dialect: GeminiDialect, calls: list[Any]) -> list[str | None]:
    asked = translated({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls}]})
    prepared = dialect.prepare(asked, channel(), ServedModel(name="m", upstream="gemini-3.8-flash"), NOTHING)
    return [part.get("thoughtSignature") for part in json.loads(prepared.body)["contents"][1]["parts"]]


@pytest.mark.parametrize("keep", [True, False])
def test_signatures_make_the_round_trip(keep: bool) -> None:
    dialect = GeminiDialect()
    chunks = chunks_in(as_chat(dialect).stream(translated(), channel()).feed(TWO_CALLS))
    assert _sent(dialect, _calls(chunks, keep=keep)) == ["U0lH", None]


@pytest.mark.parametrize(("keep", "first"), [(True, "U0lH"), (False, UNSIGNED)])
def test_another_gateway_knows_only_what_the_client_kept(keep: bool, first: str) -> None:
    chunks = chunks_in(as_chat(GeminiDialect()).stream(translated(), channel()).feed(TWO_CALLS))
    assert _sent(GeminiDialect(), _calls(chunks, keep=keep)) == [first, None]


CHATS = ["generateContent", "countTokens"]


def test_the_list_of_models_is_requested_page_by_page() -> None:
    dialect = GeminiDialect()
    assert dialect.models_request(channel("https://h"), "").url == "https://h/v1beta/models?pageSize=1000"
    assert (
        dialect.models_request(channel("https://h/v1"), "a=b").url
        == "https://h/v1/models?pageSize=1000&pageToken=a%3Db"
    )


def test_a_page_of_models_has_those_that_chat_or_embed() -> None:
    flash = {"name": "models/gemini-3.8-flash", "supportedGenerationMethods": CHATS, "inputTokenLimit": 1_048_576}
    flash["outputTokenLimit"] = 65_536
    embedder = {"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]}
    others = [embedder, {"name": "models/v", "supportedGenerationMethods": ["predict"]}]
    found = read_models(dumps({"models": [flash, *others, {"name": 3}], "nextPageToken": "t"}))
    chats = ServedModel(name="gemini-3.8-flash", context=1_048_576, max_output=65_536)
    assert found == ModelPage(models=[chats, ServedModel(name="embedder")], after="t", unreadable=1)


def test_the_last_page_has_nothing_after_it() -> None:
    assert read_models(dumps({"models": []})) == ModelPage(models=[])
