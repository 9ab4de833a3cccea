"""A request goes out as it came in, except for what the channel's upstream needs changed."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.upstream.answer_formats import JSON_LINE
from gateway.upstream.efforts import effort_rule
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.upstream.makers import SERVED, channel, order

Doc = dict[str, Any]
prepare = OpenAIDialect().prepare

EVERYTHING = """{"model":"m","messages":[{"role":"user","content":"Hi","x":{"y":[1,1.0,1e-7,null]}}],
 "tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2.50}},"x":1}],
 "odd" : {"y":[1,1.0,1E-7,null]}, "temperature":1.0,"seed":12345678901234567890123,
 "user":"\\ud83d\\ude42 \\u2028","store":null,"logit_bias":{"50256":-100}}"""


def _prepared(body: object, preset: str = "", learned: LearnedRefusals = NOTHING, **more: Any) -> PreparedRequest:
    return prepare(order(body), channel(preset=preset, **more), SERVED, learned)


def _sent(body: Doc, preset: str = "", learned: LearnedRefusals = NOTHING, **more: Any) -> Doc:
    doc = json.loads(_prepared({"model": "m", "messages": [], **body}, preset, learned, **more).body)
    assert isinstance(doc, dict)
    return {name: value for name, value in doc.items() if name not in {"model", "messages"}}


def _messages(message: Doc, preset: str) -> Doc:
    sent = json.loads(_prepared({"model": "m", "messages": [message]}, preset).body)["messages"][0]
    assert isinstance(sent, dict)
    return sent


def test_every_value_that_is_not_named_is_the_same_bytes() -> None:
    body = _prepared(EVERYTHING).body
    for piece in (b'{"y":[1,1.0,1E-7,null]}', b'"a":2.50', b"12345678901234567890123", b"\\ud83d\\ude42 \\u2028"):
        assert piece in body
    assert json.loads(body) == json.loads(EVERYTHING)


def _whole(body: str) -> Order:
    return msgspec.structs.replace(order(body), body=body.encode())


@pytest.mark.parametrize("preset", ["", "openai", "vllm", "ollama", "lmstudio"])
@pytest.mark.parametrize("more", ["", ' "max_tokens" : 5,'])
def test_a_body_that_fits_goes_out_as_it_came(preset: str, more: str) -> None:
    body = EVERYTHING.replace("{", "{" + more, 1)
    learned = LearnedRefusals(dropped=("top_k",), max_output=5)
    for known in (NOTHING, learned):
        assert prepare(_whole(body), channel(preset=preset), SERVED, known).body == body.encode()


@pytest.mark.parametrize(
    ("more", "preset", "served", "learned"),
    [
        ("", "", ServedModel(name="m", upstream="n"), NOTHING),
        (',"stream":true', "", SERVED, NOTHING),
        (',"stream_options":null', "", SERVED, NOTHING),
        (',"max_tokens":5', "openai", SERVED, LearnedRefusals(dropped=("max_tokens",))),
        (',"seed":5', "", SERVED, LearnedRefusals(dropped=("seed",))),
        (',"seed":5', "mistral", SERVED, NOTHING),
        (',"logprobs":true', "groq", SERVED, NOTHING),
    ],
)
def test_a_body_that_does_not_fit_is_made_as_if_it_were_not_there(
    more: str, preset: str, served: ServedModel, learned: LearnedRefusals
) -> None:
    body = '{"model":"m","messages":[]' + more + "}"
    made = prepare(_whole(body), channel(preset=preset), served, learned)
    assert made.body != body.encode()
    assert made == prepare(order(body), channel(preset=preset), served, learned)


def test_the_model_is_the_upstreams_name_in_its_old_place() -> None:
    prepared = prepare(order(EVERYTHING), channel(), ServedModel(name="m", upstream="up/m:free"), NOTHING)
    assert prepared.body.startswith(b'{"model":"up/m:free","messages":')


def test_a_plain_request_gets_no_stream_options() -> None:
    assert _sent({"stream": False}) == {"stream": False}


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}, {}])
def test_usage_of_a_stream_is_always_asked_for(options: object) -> None:
    assert _sent({"stream": True, "stream_options": options})["stream_options"] == {"include_usage": True}


def test_other_stream_options_stay() -> None:
    sent = _sent({"stream": True, "stream_options": {"include_obfuscation": False}})
    assert sent["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_no_stream_options_where_they_are_not_known() -> None:
    prepared = _prepared({"model": "m", "stream": True, "stream_options": {}}, "mistral")
    assert (json.loads(prepared.body), prepared.dropped) == ({"model": "m", "stream": True}, ())
    assert _sent({"stream": True, "stream_options": {}}, learned=LearnedRefusals(dropped=("stream_options",))) == {
        "stream": True
    }


def test_the_base_url_leads_to_chat_completions() -> None:
    assert _prepared({}, base_url="http://h/v1/").url == "http://h/v1/chat/completions"
    assert _prepared({}, base_url="http://h/v1?api-version=2").url == "http://h/v1/chat/completions?api-version=2"


def test_a_stream_is_not_to_be_compressed() -> None:
    assert _prepared({"stream": True}).headers["Accept-Encoding"] == "identity"
    assert _prepared({}).headers["Accept-Encoding"] == "gzip, deflate"


OLD, NEW = {"max_tokens": 5}, {"max_completion_tokens": 5}


@pytest.mark.parametrize(
    ("field", "given", "sent"),
    [
        ("keep", OLD, OLD),
        ("keep", {**OLD, **NEW}, {**OLD, **NEW}),
        ("max_tokens", NEW, OLD),
        ("max_completion_tokens", OLD, NEW),
        ("max_completion_tokens", {"max_tokens": 9, **NEW}, NEW),
        ("max_tokens", {"max_tokens": 9, **NEW}, OLD),
        ("max_tokens", {"max_tokens": 5, "max_completion_tokens": None}, OLD),
        ("max_tokens", {"max_completion_tokens": None}, {"max_tokens": None}),
        ("max_tokens", {}, {}),
    ],
)
def test_the_output_limit_is_renamed(field: str, given: Doc, sent: Doc) -> None:
    assert _sent(given, token_limit_field=field) == sent


def test_presets_know_the_name_of_the_limit() -> None:
    assert _sent(NEW, "ollama") == OLD
    reasoning = prepare(
        order({"model": "m", **OLD}), channel(preset="openai"), ServedModel(name="m", upstream="o4-mini"), NOTHING
    )
    assert json.loads(reasoning.body) == {"model": "o4-mini", **NEW}


def test_a_lesson_about_the_limit_wins() -> None:
    assert _sent(OLD, "ollama", LearnedRefusals(dropped=("max_tokens",))) == NEW


@pytest.mark.parametrize("field", [None, "keep", "max_completion_tokens"])
def test_the_limit_never_gets_a_name_that_is_left_out_there(field: str | None) -> None:
    lesson = LearnedRefusals(dropped=("max_tokens",))
    for learned in (NOTHING, lesson):
        assert _sent(OLD, "mistral", learned, token_limit_field=field) == OLD
        assert _sent(NEW, "mistral", learned, token_limit_field=field) == OLD


@pytest.mark.parametrize(
    ("field", "given", "sent", "lowered"),
    [
        ("keep", {"max_tokens": 9}, {"max_tokens": 7}, 7),
        ("keep", {"max_tokens": 7}, {"max_tokens": 7}, None),
        ("keep", {"max_tokens": 9, **NEW}, {"max_tokens": 7, **NEW}, 7),
        ("max_completion_tokens", {"max_tokens": 9}, {"max_completion_tokens": 7}, 7),
        (
            "keep",
            {"max_tokens": "9", "max_completion_tokens": None},
            {"max_tokens": "9", "max_completion_tokens": None},
            None,
        ),
        ("keep", {}, {}, None),
    ],
)
def test_a_limit_above_the_models_own_is_lowered(field: str, given: Doc, sent: Doc, lowered: int | None) -> None:
    asked = order({"model": "m", "messages": [], **given})
    asked = msgspec.structs.replace(asked, body=json.dumps({"model": "m", "messages": [], **given}).encode())
    served = ServedModel(name="m", max_output=7)
    prepared = prepare(asked, channel(token_limit_field=field), served, NOTHING)
    assert json.loads(prepared.body) == {"model": "m", "messages": [], **sent}
    assert prepared.lowered_cap == lowered


def test_mistral_takes_what_it_knows_by_its_own_names() -> None:
    body = {"user": "u", "seed": 1, "store": True, "logit_bias": {}, "tool_choice": "required", "temperature": 0}
    prepared = _prepared({"model": "m", "messages": [], **body}, "mistral")
    assert json.loads(prepared.body) == {
        "model": "m", "messages": [], "temperature": 0, "random_seed": 1, "tool_choice": "required"
    }  # fmt: skip
    assert prepared.dropped == ("user", "store", "logit_bias")


def test_mistrals_messages_lose_what_it_forbids() -> None:
    message = {"role": "assistant", "content": "x", "name": "n", "reasoning_content": "r"}
    prepared = _prepared({"model": "m", "messages": [message, {"role": "tool", "name": "f", "content": ""}]}, "mistral")
    assert json.loads(prepared.body)["messages"] == [
        {"role": "assistant", "content": "x"}, {"role": "tool", "content": ""}
    ]  # fmt: skip
    assert prepared.dropped == ("messages[].name", "messages[].reasoning_content")


def test_tool_ids_are_shortened_alike_on_both_sides() -> None:
    call = {"id": "call_abc123def", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = _messages({"role": "assistant", "content": None, "tool_calls": [call]}, "mistral")["tool_calls"][0]["id"]
    told = _messages({"role": "tool", "tool_call_id": "call_abc123def", "content": ""}, "mistral")["tool_call_id"]
    assert asked == told
    assert (len(asked), asked.isalnum()) == (9, True)
    kept = _messages({"role": "tool", "tool_call_id": "abcDEF123", "content": ""}, "mistral")
    assert kept["tool_call_id"] == "abcDEF123"


def test_groq_gets_no_names_and_no_nulls() -> None:
    assert _messages({"role": "assistant", "name": "n", "content": None, "refusal": None}, "groq") == {
        "role": "assistant",
        "content": "",
    }
    assert _sent({"logprobs": True, "logit_bias": {}, "top_p": 1}, "groq") == {"top_p": 1}


def test_ollama_gets_an_empty_text_for_none() -> None:
    assert _messages({"role": "assistant", "content": None}, "ollama")["content"] == ""
    called = {"role": "assistant", "tool_calls": [{"id": "a"}]}
    assert _messages({**called, "content": None}, "ollama") == called


def test_openrouter_gets_every_effort_until_it_refuses_one() -> None:
    asked = {"reasoning_effort": "max"}
    assert _sent(asked, "openrouter") == asked
    refused = LearnedRefusals(dropped=(effort_rule('reasoning_effort: expected one of "xhigh"|"high"|"low"'),))
    assert _sent(asked, "openrouter", refused) == {"reasoning_effort": "xhigh"}


def test_lm_studio_is_told_in_words_to_write_json() -> None:
    body = {"model": "m", "messages": [], "response_format": {"type": "json_object"}}
    sent = json.loads(_prepared(body, "lmstudio").body)
    assert sent == {"model": "m", "messages": [{"role": "system", "content": JSON_LINE}]}
    schema = {"response_format": {"type": "json_schema"}}
    assert _sent(schema, "lmstudio") == schema


def test_messages_that_cannot_be_opened_are_left_to_the_upstream() -> None:
    assert json.loads(_prepared({"model": "m", "messages": "no"}, "mistral").body)["messages"] == "no"


def test_lone_surrogates_survive_an_edit_of_the_messages() -> None:
    body = _prepared('{"model":"m","messages":[{"role":"user","content":"x","name":"n"}],"user":"u"}', "groq").body
    assert b'"content":"x"' in body
    assert b'"name"' not in body


DEVELOPER = {"role": "developer", "content": "Be brief."}


@pytest.mark.parametrize(
    ("preset", "role"),
    [
        *(
            (name, "system")
            for name in ("deepseek", "mistral", "moonshot", "cerebras", "ollama", "lmstudio", "llamacpp")
        ),
        *((name, "system") for name in ("vllm", "jan", "koboldcpp")),
        *((name, "developer") for name in ("", "openai", "azure", "openrouter", "groq", "xai")),
    ],
)
def test_the_role_developer_has_its_older_name_where_the_newer_is_not_known(preset: str, role: str) -> None:
    assert _messages(DEVELOPER, preset) == {**DEVELOPER, "role": role}


def test_a_body_with_that_role_is_not_passed_on_unopened_there() -> None:
    body = '{"model":"m","messages":[{"role":"developer","content":"x"}]}'
    assert (
        prepare(_whole(body), channel(preset="vllm"), SERVED, NOTHING).body
        == body.replace("developer", "system").encode()
    )
    quoted = '{"model":"m","messages":[{"role":"user","content":"a \\"developer\\" role"}]}'
    assert prepare(_whole(quoted), channel(preset="vllm"), SERVED, NOTHING).body == quoted.encode()


def test_a_field_of_messages_that_was_refused_is_left_out_of_all_of_them() -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "b"}
    lesson = LearnedRefusals(dropped=("messages[].reasoning_content",))
    prepared = prepare(order({"model": "m", "messages": [said, said]}), channel(), SERVED, lesson)
    assert json.loads(prepared.body)["messages"] == [{"role": "assistant", "content": "a"}] * 2
    assert prepared.dropped == ("messages[].reasoning_content",)


@pytest.mark.parametrize("preset", ["groq", "cerebras"])
def test_past_reasoning_is_known_to_be_refused(preset: str) -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "b"}
    assert _messages(said, preset) == {"role": "assistant", "content": "a"}


def test_what_the_vendor_documents_as_refused_is_never_sent() -> None:
    given = {"frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}, "seed": 1}
    assert _sent(given, "cerebras") == {"seed": 1}


def test_a_budget_that_thinking_may_get_is_below_the_limit_and_held_for() -> None:
    sent = order({"model": "m", "thinking": {"type": "adaptive"}, "max_completion_tokens": 2000})
    prepared = prepare(sent, channel(), SERVED, LearnedRefusals(dropped=("thinking=enabled",)))
    assert json.loads(prepared.body)["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert OpenAIDialect().output_limit(sent.fields, channel(), SERVED).capped == 3024
