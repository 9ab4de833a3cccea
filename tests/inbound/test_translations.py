"""What survives a translation is what the table in docs/http.md says, row by row."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.inbound.api import InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import NOTHING
from tests.fakes.replies import Doc
from tests.house import ROOT
from tests.refusals import refusal_of
from tests.upstream.makers import channel, order_of

MODELS = {Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-2.5-flash", Dialect.OPENAI: "m"}
PNG, PDF, WAV = "iVBORw0KGgoAAAA=", "JVBERi0xLjQ=", "UklGRiQAAAA="
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"x": {}}}}}
STRICT = {"type": "function", "function": {"name": "look", "strict": True, "parameters": {"properties": {}}}}
USE = {"name": "look", "input_schema": {"type": "object", "properties": {"x": {}}}}
MARK = {"type": "ephemeral"}
FORM = {"type": "json_schema", "json_schema": {"name": "f", "schema": {"type": "object", "title": "Tollhouse"}}}
THOUGHT = {"type": "thinking", "thinking": "Hm"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
HELLO = [{"role": "user", "content": "Hi"}]
WRONG = {"name": "look", "parameters": 5, "input_schema": 5}


def said(*parts: Doc) -> Doc:
    """A request with one message."""
    return {"messages": [{"role": "user", "content": list(parts)}]}


def looked(content: Any, **more: Any) -> Doc:
    """A chat with a call and its result."""
    made = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    return {"messages": [made, {"role": "tool", "tool_call_id": "c1", "content": content, **more}]}


def used(*content: Doc, **more: Any) -> Doc:
    """The same for Messages."""
    made = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": list(content), **more}
    return {"messages": [made, {"role": "user", "content": [result]}]}


def text(said: str, **more: Any) -> Doc:
    return {"type": "text", "text": said, **more}


def image(url: str) -> Doc:
    return {"type": "image_url", "image_url": {"url": url}}


def source(kind: str, media: str, data: str) -> Doc:
    return {"type": kind, "source": {"type": "base64", "media_type": media, "data": data}}


SAMPLES: dict[str, tuple[str, Doc, Doc | None]] = {
    "texts": ("tolls", said(text("tolls")), said(text("tolls"))),
    "images, as data": (PNG, said(image(f"data:image/png;base64,{PNG}")), said(source("image", "image/png", PNG))),
    "images, as `https` addresses": (
        "https://h/a.png",
        said(image("https://h/a.png")),
        said({"type": "image", "source": {"type": "url", "url": "https://h/a.png"}}),
    ),
    "PDF documents": (
        PDF,
        said({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}),
        said(source("document", "application/pdf", PDF)),
    ),
    "PDF documents, as `https` addresses": (
        "https://h/a.pdf",
        said({"type": "file", "file": {"file_data": "https://h/a.pdf"}}),
        said({"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}}),
    ),
    "names of files": (
        "a.pdf",
        said({"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}),
        said({**source("document", "application/pdf", PDF), "title": "a.pdf"}),
    ),
    "images of the assistant": (
        PNG,
        {"messages": [{"role": "assistant", "content": [image(f"data:image/png;base64,{PNG}")]}]},
        {"messages": [{"role": "assistant", "content": [source("image", "image/png", PNG)]}]},
    ),
    "audio": (WAV, said({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}), None),
    "videos": ("h/a.mp4", said({"type": "video_url", "video_url": {"url": "https://h/a.mp4"}}), None),
    "function tools": ("look", {"tools": [FUNCTION]}, {"tools": [USE]}),
    "`tools[].strict`": ('"strict":true', {"tools": [STRICT]}, {"tools": [{**USE, "strict": True}]}),
    "tools that a vendor runs": (
        "google_search",
        {"tools": [FUNCTION, {"google_search": {}}]},
        {"tools": [USE, {"type": "web_search_20250305", "name": "web_search"}]},
    ),
    "custom tools, whose input is a text": (
        "patch",
        {"tools": [{"type": "custom", "custom": {"name": "patch"}}]},
        None,
    ),
    "`parallel_tool_calls`": (
        "parallel",
        {"tools": [FUNCTION], "parallel_tool_calls": False},
        {"tools": [USE], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "failed results": ("rror", looked("no", is_error=True), used(text("no"), is_error=True)),
    "images in results": (
        PNG,
        looked([text("a"), image(f"data:image/png;base64,{PNG}")]),
        used(text("a"), source("image", "image/png", PNG)),
    ),
    "broken arguments of a call": (
        "invalid_arguments",
        {"messages": [{"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]}]},
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{"}]}]},
    ),
    "`cache_control`": ("ephemeral", said(text("a", cache_control=MARK)), said(text("a", cache_control=MARK))),
    "`prompt_cache_breakpoint`": ("ephemeral", said(text("a", prompt_cache_breakpoint={"mode": "explicit"})), None),
    "the output limit": ("777", {"max_tokens": 777}, {"max_tokens": 777}),
    "stop sequences": ("HALT", {"stop": ["HALT"]}, {"stop_sequences": ["HALT"]}),
    "`temperature`": ("0.25", {"temperature": 0.25}, {"temperature": 0.25}),
    "`seed`": ("4711", {"seed": 4711}, None),
    "`frequency_penalty`": ("0.75", {"frequency_penalty": 0.75}, None),
    "`n`": ("candidateCount", {"n": 2}, None),
    "`logprobs`": ("ogprobs", {"logprobs": True}, None),
    "`logit_bias`, `prediction`": ("4711", {"logit_bias": {"4711": 1}}, None),
    "`modalities` with `image`": ("IMAGE", {"modalities": ["text", "image"]}, None),
    "a JSON schema for the answer": (
        "Tollhouse",
        {"response_format": FORM},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "title": "Tollhouse"}}}},
    ),
    "the effort of thinking": (
        "udget|reasoning_effort",
        {"reasoning_effort": "high"},
        {"thinking": {"type": "enabled", "budget_tokens": 20_000}, "max_tokens": 30_000},
    ),
    "the effort in `reasoning`, as at OpenRouter": ("udget", {"reasoning": {"effort": "high", "exclude": False}}, None),
    "the description of that schema": (
        "Tolls of 4711",
        {"response_format": {**FORM, "json_schema": {**FORM["json_schema"], "description": "Tolls of 4711"}}},  # type: ignore[dict-item]
        None,
    ),
    "the user's id": ("u-4711", {"safety_identifier": "u-4711"}, {"metadata": {"user_id": "u-4711"}}),
    "other `metadata`": ("4711", {"metadata": {"a": "4711"}}, {"metadata": {"a": "4711"}}),
    "`service_tier`": ("auto", {"service_tier": "auto"}, {"service_tier": "auto"}),
    "`name` of a message": ("Eva", {"messages": [{"role": "user", "content": "a", "name": "Eva"}]}, None),
    "reasoning of another vendor": (
        "Hm",
        {"messages": [{"role": "assistant", "content": [text("a"), {"type": "thinking", "thinking": [text("Hm")]}]}]},
        {"messages": [{"role": "assistant", "content": [text("a"), {**THOUGHT, "signature": "EqoBCkgIARAB"}]}]},
    ),
    "fields that nobody knows": ("x4711", {"x4711": 1}, {"x4711": 1}),
}
"""By row: what shows that it went out, and a request with it in chat completions and in Messages."""


def rows() -> dict[str, list[str]]:
    """The table of the page: the cells of each row by its first one."""
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8")
    table = page.partition("## What survives a translation")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def outcome(api: InboundApi, fields: Doc, dialect: Dialect, shows: str) -> str:
    """What a channel of this dialect gets of a request, in the words of the table."""
    given = {"max_tokens": 30_000, "messages": [{"role": "user", "content": "Hi"}], **fields}
    if api is CHAT and "max_tokens" not in fields:
        del given["max_tokens"]
    made = channel(dialect=dialect, cache_marks=False)
    try:
        order = order_of(api, given)
        order = api.plan(order, made, new_adapter(dialect), lacks_api=True).order
        served = ServedModel(name="m", upstream=MODELS[dialect])
        prepared = new_adapter(dialect).prepare(order, made, served, NOTHING)
    except BadRequest:
        return "400"
    body, left_out = prepared.body.decode(), (*order.removed, *prepared.dropped)
    if any(sign in body for sign in shows.split("|")):
        return f"yes, but names {left_out}" if left_out else "yes"
    return "named" if left_out else "lost"


@pytest.mark.parametrize("row", SAMPLES)
def test_a_row_of_the_table_is_true(row: str) -> None:
    shows, chat, messages = SAMPLES[row]
    found = [outcome(CHAT, chat, dialect, shows) for dialect in (Dialect.ANTHROPIC, Dialect.GEMINI)]
    found.append("" if messages is None else outcome(MESSAGES, messages, Dialect.OPENAI, shows))
    assert rows()[row] == found


def test_an_effort_is_read_next_to_what_has_no_place() -> None:
    asked = {"reasoning": {"effort": "high", "exclude": True}}
    assert outcome(CHAT, asked, Dialect.GEMINI, "udget") == "yes, but names ('reasoning',)"


def test_every_row_is_tried() -> None:
    assert list(rows()) == list(SAMPLES)


@pytest.mark.parametrize(
    ("api", "body", "param"),
    [
        (CHAT, {"messages": HELLO, "tools": [{"function": WRONG}]}, "tools[0].function.parameters"),
        (CHAT, {"messages": HELLO, "functions": [WRONG]}, "functions[0].parameters"),
        (MESSAGES, {"messages": HELLO, "max_tokens": 9, "tools": [WRONG]}, "tools.0.input_schema"),
        (RESPONSES, {"input": "a", "tools": [{"type": "function", **WRONG}]}, "tools[0].parameters"),
        (RESPONSES, {"input": "a", "include": ["message.output_text.logprobs"]}, "include"),
    ],
)
def test_what_is_refused_is_named_in_the_clients_words(api: InboundApi, body: Doc, param: str) -> None:
    made = channel(dialect=Dialect.GEMINI if api is MESSAGES else Dialect.ANTHROPIC)
    plan = api.plan(order_of(api, body), made, new_adapter(made.dialect), lacks_api=True)
    assert refusal_of(plan.adapter.prepare, plan.order, made, ServedModel(name="m"), NOTHING).param == param


@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.GEMINI, Dialect.OPENAI])
def test_nothing_of_a_responses_request_is_lost_without_a_name(dialect: Dialect) -> None:
    body = {
        "input": "Hi",
        "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}],
        "max_tool_calls": 3,
        "x4711": 1,
        "store": False,
        "truncation": "auto",
        "reasoning": {"effort": "low", "context": "all_turns"},
        "text": {"verbosity": "low", "x4712": 1},
    }
    made = channel(dialect=dialect)
    order = RESPONSES.plan(order_of(RESPONSES, body), made, new_adapter(dialect), lacks_api=True).order
    prepared = new_adapter(dialect).prepare(order, made, ServedModel(name="m"), NOTHING)
    lost = (*order.removed, *prepared.dropped)
    assert [name for name in lost if not name.startswith(("reasoning.effort", "text.verbosity"))] == [
        *("max_tool_calls", "x4711", "truncation", "tools[].web_search", "reasoning.context", "text.x4712")
    ]


def test_penalties_of_a_responses_request_are_those_of_a_chat() -> None:
    order = order_of(RESPONSES, {"input": "Hi", "presence_penalty": 0.5, "frequency_penalty": 0.25})
    sent = RESPONSES.plan(order, channel(), new_adapter(Dialect.OPENAI), lacks_api=True).order
    assert (bytes(sent.fields["presence_penalty"]), bytes(sent.fields["frequency_penalty"])) == (b"0.5", b"0.25")
    assert sent.removed == ()


@pytest.mark.parametrize(("api", "asked"), [(CHAT, {"messages": HELLO}), (RESPONSES, {"input": "Hi"})])
@pytest.mark.parametrize(
    ("dialect", "sent"), [(Dialect.GEMINI, {"store": False}), (Dialect.ANTHROPIC, {}), (Dialect.OPENAI, {})]
)
def test_only_gemini_is_told_not_to_keep_a_response(api: InboundApi, asked: Doc, dialect: Dialect, sent: Doc) -> None:
    """Its new projects keep requests since October 2026. Others keep none, and strict servers refuse the field."""
    made = channel(dialect=dialect)
    plan = api.plan(order_of(api, {**asked, "store": False}), made, new_adapter(dialect), lacks_api=True)
    prepared = plan.adapter.prepare(plan.order, made, ServedModel(name="m"), NOTHING)
    found = {name: value for name, value in json.loads(prepared.body).items() if name == "store"}
    assert found == ({"store": False} if plan.native else sent)
    assert (plan.order.removed, prepared.dropped) == ((), ())
