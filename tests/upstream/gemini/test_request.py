"""Requests: where they go, what is in them, what is dropped and what is refused."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import ServedModel
from gateway.domain.conversation import MediaPart, ResultPart, TextPart
from gateway.domain.errors import BadRequest
from gateway.domain.order import LearnedRefusals, PreparedRequest
from gateway.inbound.chat.conversation import translate_chat
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.gemini.models import UNKNOWN, model_of
from gateway.upstream.gemini.request import config_of, parts_of, result_parts, tools_of, write_contents
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.message_shapes import UNSIGNED
from gateway.upstream.translation import Parameters, conversation_of
from tests.cases.conversations import PIXEL, TOOLS_AND_IMAGE, call, function
from tests.refusals import refusal_of
from tests.upstream.makers import channel, order, recall_of, translated

HI = [{"role": "user", "content": "Hi"}]


def _prepared(
    model: str = "gemini-3.8-flash", learned: LearnedRefusals = NOTHING, base: str = "https://h", **fields: Any
) -> PreparedRequest:
    body = {"model": "m", "messages": HI, **fields}
    return GeminiDialect().prepare(translated(body), channel(base), ServedModel(name="m", upstream=model), learned)


def test_the_least_request() -> None:
    assert json.loads(_prepared().body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


FLASH_URL = "https://h/v1beta/models/gemini-3.8-flash"


@pytest.mark.parametrize(
    ("base", "model", "url"),
    [
        *((f"https://h{path}", "gemini-3.8-flash", FLASH_URL) for path in ("", "/", "/v1beta", "/v1beta/openai")),
        ("https://h/v1", "gemini", "https://h/v1/models/gemini"),
        ("https://h/v1alpha", "models/gemini", "https://h/v1alpha/models/gemini"),
        ("https://h", "tunedModels/a b", "https://h/v1beta/tunedModels/a%20b"),
    ],
)
def test_where_it_goes(base: str, model: str, url: str) -> None:
    assert _prepared(model, base=base).url == f"{url}:generateContent"


def test_a_stream_is_requested_as_events() -> None:
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
    assert _prepared(**fields).dropped == ("temperature", "parallel_tool_calls", "user", "logit_bias")
    assert _prepared(parallel_tool_calls=True).dropped == ()


def test_a_client_of_functions_is_not_told_about_parallel_calls_that_it_did_not_mention() -> None:
    asked = msgspec.structs.replace(
        order({"model": "m", "messages": HI, "functions": [{"name": "f"}]}), form=AnswerForm(has_functions=True)
    )
    served = ServedModel(name="m", upstream="gemini-3.8-flash")
    assert GeminiDialect().prepare(translate_chat(asked), channel("https://h"), served, NOTHING).dropped == ()


def test_learned_refusals_are_left_out() -> None:
    prepared = _prepared(learned=LearnedRefusals(dropped=("seed", "top_k")), seed=3)
    assert (b"seed" in prepared.body, prepared.dropped) == (False, ("seed",))


@pytest.mark.parametrize(
    ("fields", "param"), [({"modalities": ["audio"]}, "modalities"), ({"temperature": "hot"}, "temperature")]
)
def test_what_cannot_be_translated_is_refused(fields: dict[str, Any], param: str) -> None:
    assert refusal_of(_prepared, **fields).param == param


@pytest.mark.parametrize(("asked", "limit", "sent"), [(90, 70, 70), (50, 70, 50), (None, 70, None), (90, None, 90)])
def test_a_limit_above_the_models_own_is_lowered(asked: int | None, limit: int | None, sent: int | None) -> None:
    served = ServedModel(name="m", upstream="gemini-2.5-pro", max_output=limit)
    made = translated({"messages": HI, "max_tokens": asked})
    prepared = GeminiDialect().prepare(made, channel(), served, NOTHING)
    config = json.loads(prepared.body).get("generationConfig", {})
    assert config.get("maxOutputTokens") == sent
    assert prepared.lowered_cap == (sent if sent != asked else None)


def test_a_limit_that_the_upstream_named_is_kept() -> None:
    prepared = _prepared("gemini-2.5-pro", LearnedRefusals(max_output=70), max_tokens=90)
    assert (json.loads(prepared.body)["generationConfig"]["maxOutputTokens"], prepared.lowered_cap) == (70, 70)


OLD, NEW, LITE = model_of("gemini-2.5-flash"), model_of("gemini-3.8-flash"), model_of("gemini-2.5-flash-lite")
PRO, FLASH = model_of("gemini-2.5-pro"), model_of("gemini-3.6-flash")


def _config(row: Any, **fields: Any) -> tuple[Any, list[str]]:
    parameters = Parameters(translated({"messages": [], **fields}), NOTHING)
    found = config_of(parameters, row, parameters.take_output_cap())
    return json.loads(rawjson.encode(found)), list(parameters.dropped_names)


def test_everything_with_a_counterpart() -> None:
    sampling = {"temperature": 1.5, "top_p": 0.5, "top_k": 3, "presence_penalty": 0.1, "frequency_penalty": 0.2}
    limits = {"max_completion_tokens": 7, "max_tokens": 5, "stop": "a", "n": 2, "seed": 4}
    assert _config(OLD, **sampling, **limits, logprobs=True, top_logprobs=2) == (
        {
            "maxOutputTokens": 7,
            "stopSequences": ["a"],
            "candidateCount": 2,
            "seed": 4,
            "temperature": 1.5,
            "topP": 0.5,
            "topK": 3,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "responseLogprobs": True,
            "logprobs": 2,
        },
        [],
    )


@pytest.mark.parametrize(
    ("row", "asked", "dropped"),
    [
        (NEW, {"n": 1, "stop": None, "logprobs": False}, []),
        (
            NEW,
            {"temperature": 1.5, "top_k": 3, "presence_penalty": 0.1, "logprobs": True},
            ["temperature", "top_k", "presence_penalty", "logprobs"],
        ),
        (UNKNOWN, {"reasoning_effort": "high"}, ["reasoning_effort"]),
        (NEW, {"reasoning_effort": "enormous"}, ["reasoning_effort"]),
        # Without thinking, no effort loses nothing.
        (UNKNOWN, {"reasoning_effort": "none"}, []),
    ],
)
def test_what_a_model_does_not_take_is_dropped(row: Any, asked: dict[str, Any], dropped: list[str]) -> None:
    assert _config(row, **asked) == ({}, dropped)


@pytest.mark.parametrize(
    ("effort", "new", "flash", "old", "lite", "pro"),
    [
        ("none", "low", "minimal", 0, 0, 128),
        ("minimal", "low", "minimal", 128, 512, 128),
        ("low", "low", "low", 1024, 1024, 1024),
        ("medium", "medium", "medium", 8192, 8192, 8192),
        ("high", "high", "high", 24576, 24576, 24576),
        ("max", "high", "high", 24576, 24576, 24576),
    ],
)
def test_an_effort_is_a_level_or_a_budget(effort: str, new: str, flash: str, old: int, lite: int, pro: int) -> None:
    shown = {} if effort == "none" else {"includeThoughts": True}
    levels = [_config(row, reasoning_effort=effort)[0]["thinkingConfig"] for row in (NEW, FLASH)]
    assert levels == [{"thinkingLevel": level, **shown} for level in (new, flash)]
    budgets = [_config(row, reasoning_effort=effort)[0]["thinkingConfig"] for row in (OLD, LITE, PRO)]
    assert budgets == [{"thinkingBudget": budget, **shown} for budget in (old, lite, pro)]


def test_the_form_of_the_answer() -> None:
    schema = {"type": "object", "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert _config(NEW, response_format={"type": "json_object"})[0] == {"responseMimeType": "application/json"}
    assert _config(NEW, response_format={"type": "text"})[0] == {}
    expected = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert _config(NEW, response_format=form)[0] == expected


OLD_CONTENTS, NEW_CONTENTS = model_of("gemini-2.5-flash"), model_of("gemini-3.8-flash")
SIGNED = {"extra_content": {"google": {"thought_signature": "U0lH"}}}


def _talk(*messages: Any, kept: Mapping[str, bytes] = {}, row: Any = NEW_CONTENTS) -> tuple[Any, Any]:
    turns = conversation_of(translated({"messages": messages})).turns
    found = write_contents(turns, recall_of(kept), row)
    said = json.loads(rawjson.encode(found))
    return said.get("systemInstruction", {}).get("parts", []), said["contents"]


def _signatures(*calls: Any, **more: Any) -> list[str | None]:
    _, contents = _talk({"role": "assistant", "tool_calls": calls}, **more)
    return [part.get("thoughtSignature") for part in contents[1]["parts"]]


def test_a_whole_conversation() -> None:
    system, contents = _talk(*TOOLS_AND_IMAGE["messages"], row=OLD_CONTENTS)
    assert system == [{"text": "Be brief."}, {"text": "Use the tools."}]
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    calls = [
        {"functionCall": {"id": "call_1", "name": "locate", "args": {"hint": "sea"}}},
        {"functionCall": {"id": "call_2", "name": "weather", "args": {"city": "Oslo"}}},
    ]
    results = [
        {"functionResponse": {"id": "call_1", "name": "locate", "response": {"output": "Oslo harbour"}}},
        {"functionResponse": {"id": "call_2", "name": "weather", "response": {"output": '{"celsius": 4}'}}},
    ]
    assert contents == [
        {"role": "user", "parts": [{"text": "Where is this, and how warm?"}, image]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": [*results, {"text": "And tomorrow?"}]},
    ]


def test_system_words_alone_are_followed_by_a_user() -> None:
    assert _talk({"role": "system", "content": "S"})[1] == [{"role": "user", "parts": [{"text": "."}]}]


def test_a_signature_the_client_sent_back_goes_along() -> None:
    assert _signatures({**call("a", "f", "{}"), **SIGNED}, call("b", "f", "{}")) == ["U0lH", None]


def test_one_it_did_not_send_back_is_recalled() -> None:
    kept = {"b": b"U0lH"}
    assert _signatures(call("a", "f", "{}"), call("b", "f", "{}"), kept=kept) == [UNSIGNED, "U0lH"]
    assert _signatures(call("b", "f", "{}"), kept=kept, row=OLD_CONTENTS) == ["U0lH"]


def test_an_unknown_call_gets_the_placeholder_if_it_is_the_first() -> None:
    calls = call("a", "f", "{}"), call("b", "f", "{}")
    assert (_signatures(*calls), _signatures(*calls, row=OLD_CONTENTS)) == ([UNSIGNED, None], [None, None])


def test_the_legacy_spelling_is_the_same() -> None:
    legacy = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "x"},
    ]
    _, contents = _talk(*legacy, row=OLD_CONTENTS)
    made, result = contents[1]["parts"][0]["functionCall"], contents[2]["parts"][0]["functionResponse"]
    assert (made["args"], made["id"], result["name"]) == ({"a": 1}, result["id"], "f")


def test_a_result_without_its_call_is_what_the_user_says() -> None:
    _, contents = _talk({"role": "tool", "tool_call_id": "gone", "content": "x"})
    assert contents == [{"role": "user", "parts": [{"text": "[result of tool call gone]"}, {"text": "x"}]}]


def test_names_that_do_not_fit_are_changed() -> None:
    _, contents = _talk({"role": "assistant", "tool_calls": [call("a", "1st name", "{}")]})
    assert contents[0] == {"role": "user", "parts": [{"text": "."}]}
    assert contents[1]["parts"][0]["functionCall"]["name"].startswith("_1st_name_")


OLD_PARTS, NEW_PARTS = model_of("gemini-2.0-flash"), model_of("gemini-3.8-flash")
IMAGE = MediaPart(type="image/png", data="AA", param="x")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "AA"}}


def _text(text: str) -> TextPart:
    return TextPart(raw=rawjson.raw(text))


def _result(*parts: TextPart | MediaPart, row: Any = NEW_PARTS) -> Any:
    return json.loads(rawjson.encode(result_parts(ResultPart(call_id="c1", name="f", parts=parts), row)))


def test_texts_and_data() -> None:
    sound = MediaPart(type="audio/wav", data="BB", param="x")
    found = json.loads(rawjson.encode(parts_of((_text("a"), _text(""), IMAGE, sound), OLD_PARTS)))
    assert found == [{"text": "a"}, INLINE, {"inlineData": {"mimeType": "audio/wav", "data": "BB"}}]


@pytest.mark.parametrize(
    ("url", "media_type", "mime"),
    [
        ("https://h/a.PNG?x=1", "", {"mimeType": "image/png"}),
        ("https://h/a", "", {}),
        ("https://h/a.mp4", "video/*", {"mimeType": "video/mp4"}),
        ("https://h/watch?v=1", "video/*", {}),
        ("https://h/a", "application/pdf", {"mimeType": "application/pdf"}),
    ],
)
def test_an_address_is_fetched_by_google(url: str, media_type: str, mime: dict[str, str]) -> None:
    found = parts_of((MediaPart(url=url, type=media_type, param="x"),), NEW_PARTS)
    assert found == [{"fileData": {**mime, "fileUri": url}}]


def test_but_not_for_older_models() -> None:
    error = refusal_of(
        parts_of, (MediaPart(url="https://h/a.png", param="messages[0].content[0].image_url"),), OLD_PARTS
    )
    assert (error.code, error.param) == ("unsupported_parameter", "messages[0].content[0].image_url")


@pytest.mark.parametrize(
    "text", [*("Oslo", "[1]", "", '{"celsius": 4}', ' {"a": {}}\n', '{"id": 9007199254740993, "share": 1.0}')]
)
def test_a_result_goes_as_the_text_it_is(text: str) -> None:
    """JSON, too: a model reads its layout, and large numbers would be rounded."""
    expected = {"functionResponse": {"id": "c1", "name": "f", "response": {"output": text}}}
    assert _result(_text(text)) == [expected]


def test_the_result_of_a_failed_tool_is_an_error() -> None:
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call("c1", "f", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "no such file", "is_error": True},
    ]
    (part,) = _talk(*talk)[1][2]["parts"]
    assert part["functionResponse"]["response"] == {"error": "no such file"}


def test_a_result_of_many_parts_is_one_text() -> None:
    assert _result(_text("a"), _text("b"))[0]["functionResponse"]["response"] == {"output": "a\n\nb"}
    assert _result()[0]["functionResponse"]["response"] == {"output": ""}
    report = MediaPart(type="application/pdf", data="AA", name="q3.pdf", param="x")
    assert _result(_text("a"), report, IMAGE)[0]["functionResponse"]["response"] == {"output": "a\n\nq3.pdf"}


def test_media_stand_inside_a_result_or_beside_it() -> None:
    inside = _result(_text("a"), IMAGE)
    assert (len(inside), inside[0]["functionResponse"]["parts"]) == (1, [INLINE])
    beside = _result(_text("a"), IMAGE, row=OLD_PARTS)
    assert ("parts" in beside[0]["functionResponse"], beside[1]) == (False, INLINE)


F = function("f", x={"type": "string"})
NAMED = {"type": "function", "function": {"name": "f"}}


def _tools(**fields: Any) -> Any:
    conversation = conversation_of(translated({"messages": [], **fields}))
    return msgspec.json.decode(rawjson.encode(tools_of(conversation)))


def test_tools_become_declarations_without_empty_schemas() -> None:
    bare = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}
    schema = F["function"]["parameters"]
    declared = [{"name": "f", "description": "Does f.", "parametersJsonSchema": schema}, {"name": "g"}]
    assert _tools(tools=[F, bare]) == {"tools": [{"functionDeclarations": declared}]}


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NAMED, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_tool_choice_is_a_mode_with_allowed_names(choice: Any, config: Any) -> None:
    assert _tools(tools=[F], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}


def test_without_tools_there_is_no_choice() -> None:
    assert _tools(tool_choice="required") == {}


def test_some_tools_may_be_allowed() -> None:
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    found = _tools(tools=[F, function("g")], tool_choice=some)
    assert [declared["name"] for declared in found["tools"][0]["functionDeclarations"]] == ["f"]
    assert found["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


STRING = {"type": "string"}
TEXT_OBJECT = {"type": "object", "properties": {"a": STRING}}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"anyOf": [TEXT_OBJECT, TEXT_OBJECT]}, {"type": "object", "anyOf": [TEXT_OBJECT, TEXT_OBJECT]}),
        ({"oneOf": [TEXT_OBJECT]}, {"type": "object", "oneOf": [TEXT_OBJECT]}),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": TEXT_OBJECT}},
            {"type": "object", "allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": TEXT_OBJECT}},
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": TEXT_OBJECT}}, {"$ref": "#/$defs/A", "$defs": {"A": TEXT_OBJECT}}),
        ({"type": "object", "additionalProperties": STRING}, {"type": "object", "additionalProperties": STRING}),
        (
            {"type": "object", "patternProperties": {"^x": STRING}},
            {"type": "object", "patternProperties": {"^x": STRING}},
        ),
        ({"type": "object", "minProperties": 1}, {"type": "object", "minProperties": 1}),
        ({"properties": {"a": STRING}}, TEXT_OBJECT),
        ({"type": "object", "properties": {}, "additionalProperties": False, "required": []}, None),
        ({"type": "object", "properties": None, "required": None}, None),
        ({"properties": {"x": {}}, "required": None}, {"type": "object", "properties": {"x": {}}}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}, None),
        ({}, None),
        (True, None),
        (None, None),
    ],
)
def test_a_schema_goes_along_unless_it_leaves_a_function_without_arguments(schema: Any, sent: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert _tools(tools=[tool])["tools"][0]["functionDeclarations"][0].get("parametersJsonSchema") == sent


def test_parallel_results_are_sorted_like_their_calls() -> None:
    calls = [call("a", "f", "{}"), call("b", "g", "{}"), call("c", "f", "{}")]
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("c", "a", "b")]
    _, contents = _talk({"role": "assistant", "tool_calls": calls}, *results, row=OLD_CONTENTS)
    answers = [part["functionResponse"] for part in contents[2]["parts"]]
    assert [(one["id"], one["name"], one["response"]["output"]) for one in answers] == [
        ("a", "f", "a"),
        ("b", "g", "b"),
        ("c", "f", "c"),
    ]


def test_media_of_older_models_follow_all_results() -> None:
    calls = [call("a", "f", "{}"), call("b", "f", "{}")]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    results = [{"role": "tool", "tool_call_id": id, "content": [image]} for id in ("a", "b")]
    _, contents = _talk({"role": "assistant", "tool_calls": calls}, *results, row=OLD_CONTENTS)
    kinds = [next(iter(part)) for part in contents[2]["parts"]]
    assert kinds == ["functionResponse", "functionResponse", "inlineData", "inlineData"]


def test_what_only_other_vendors_know_is_named() -> None:
    marked = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    fields: dict[str, Any] = {
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "messages": [{"role": "user", "content": marked}],
    }
    assert _prepared(**fields).dropped == ("cache_control", "service_tier", "metadata")
    strict = {"type": "function", "function": {"name": "f", "strict": True}}
    assert _prepared(tools=[strict]).dropped == ("tools[].strict",)


@pytest.mark.parametrize(("model", "native"), [("gemini-2.5-pro", False), ("gemma-4", False), ("gemini-3.6-pro", True)])
def test_a_model_that_writes_json_only_without_functions_is_told_to(model: str, native: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    prepared = _prepared(model, tools=[function("f")], response_format=form)
    body = json.loads(prepared.body)
    assert ("responseMimeType" in body.get("generationConfig", {})) == native
    assert prepared.dropped == (() if native else ("response_format",))
    said = body.get("systemInstruction", {"parts": []})["parts"]
    assert ["Reply with one JSON object" in part["text"] for part in said] == ([] if native else [True, False])
    assert native or json.loads(said[1]["text"].partition("\n")[2]) == schema
    assert "responseMimeType" in json.loads(_prepared(model, response_format=form).body)["generationConfig"]


def test_images_are_requested() -> None:
    body = json.loads(_prepared(modalities=["text", "image"]).body)
    assert body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert "generationConfig" not in json.loads(_prepared(modalities=["text"]).body)


@pytest.mark.parametrize("parameters", [[], "", {"type": "object", "properties": []}])
def test_an_empty_schema_may_be_a_list_as_php_writes_it(parameters: Any) -> None:
    tools = _tools(tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    assert tools == {"tools": [{"functionDeclarations": [{"name": "f"}]}]}


def test_parameters_that_are_not_a_schema_are_refused() -> None:
    with pytest.raises(BadRequest, match="must be a JSON schema"):
        _tools(tools=[{"type": "function", "function": {"name": "f", "parameters": [1]}}])
