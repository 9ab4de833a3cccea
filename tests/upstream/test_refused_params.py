"""All that a refusal names is found, in the wordings of vendors and model servers."""

import json
from typing import Any

import pytest

from gateway.upstream.error_body import read_error
from gateway.upstream.refused_params import max_output, refused_params

DEVELOPER = "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, "
_NONE = ("reasoning_effort=none",)
EXTRA = "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted', 'input': True}"


def _names(error: Any, **outer: Any) -> tuple[str, ...]:
    doc = {"error": {"message": error} if isinstance(error, str) else error, **outer}
    return refused_params(read_error(json.dumps(doc).encode()))


@pytest.mark.parametrize(
    ("message", "names"),
    [
        # OpenAI and Azure
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", ("max_tokens",)),
        ("Unrecognized request argument supplied: seed", ("seed",)),
        ("Unrecognized request arguments supplied: seed, user", ("seed", "user")),
        ("Unknown parameter: 'store'.", ("store",)),
        ("Additional properties are not allowed ('store', 'user' were unexpected)", ("store", "user")),
        (
            "Additional properties are not allowed ('parsed', 'refusal' were unexpected) - 'messages.2'",
            ("messages[].parsed", "messages[].refusal"),
        ),
        (
            "Additional properties are not allowed ('strict' was unexpected) - 'tools.0.function'",
            ("strict", "tools[].strict"),
        ),
        ("Function tools with reasoning_effort are not supported. Set it, or set reasoning_effort to 'none'.", _NONE),
        (
            "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got 67.",
            ("prompt_cache_key",),
        ),
        ("The 'metadata' parameter is only allowed when 'store' is enabled.", ("metadata",)),
        (
            "Invalid schema for function 'f': In context=(), 'required' is required to be supplied and to be an array.",
            ("strict", "tools[].strict"),
        ),
        # Anthropic, of what it compiles into a grammar
        *(
            (message, ("strict", "tools[].strict"))
            for message in (
                "Too many strict tools (21). The maximum number of strict tools supported is 20. Try",
                "Schemas contains too many optional parameters (25), which would make grammar compilation inefficient.",
                "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas.",
                "The compiled grammar is too large, which would cause performance issues. Simplify your",
                "tools.0.custom: Invalid schema: Circular reference detected in schema definitions: A -> A.",
                "tools.3.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
            )
        ),
        (
            "output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported",
            ("minimum", "strict", "tools[].strict"),
        ),
        # LiteLLM
        (
            "litellm.UnsupportedParamsError: bedrock does not support parameters: ['seed', 'user'], for model=x.",
            ("parameters", "seed", "user"),
        ),
        (
            "gpt-5 models (including gpt-5-codex) don't support temperature=0.7. Only temperature=1 is supported.",
            ("temperature",),
        ),
        # relays
        (
            "The following parameters are not supported by this model: `seed`, `user`",
            ("are", "parameters", "seed", "user"),
        ),
        ("Unsupported parameters for this model: logprobs, top_logprobs", ("for", "logprobs", "top_logprobs")),
        ("Parameter `web_search_options` not supported for this model", ("web_search_options",)),
        ("Additional properties are not allowed: 'moderation'", ("moderation",)),
        # gpt-oss at LM Studio
        (
            "Cannot pass both content and thinking in an assistant message with tool calls!",
            ("messages[].reasoning_content",),
        ),
        # Gemini and Vertex
        ("Penalty is not enabled for models/gemini-x", ("penalty", "presence_penalty", "frequency_penalty")),
        ("Seed is not enabled for this model", ("seed",)),
        ("it has a topK value of 64 but the supported range is from 1 (inclusive) to 41 (exclusive)", ("top_k",)),
        # Anthropic
        ("`temperature` may only be set to 1 when thinking is enabled.", ("temperature",)),
        ("metadata.user_id: String should have at most 256 characters", ("user_id",)),
        # Groq
        ("property 'seed' is unsupported", ("seed",)),
        ("property 'store' is unsupported, did you mean 'stop'?", ("store",)),
        ("`reasoning_effort` is not supported with this model", ("reasoning_effort",)),
        ("`reasoning_effort` must be one of `none` or `default`", ("reasoning_effort in none,default",)),
        (
            (
                "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
                "'reasoning_content' is unsupported)]"
            ),
            ("messages[].reasoning_content",),
        ),
        # Cerebras
        (
            "body.store: property 'body.store' is unsupported\nbody.metadata: property 'body.metadata' is unsupported",
            ("store", "metadata"),
        ),
        ("body.maxTokens: property 'body.maxTokens' is unsupported", ("max_tokens",)),
        (
            "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
            ("messages[].reasoning_content",),
        ),
        # NVIDIA NIM
        ("Validation: Unsupported parameter(s): `prompt_cache_key`", ("prompt_cache_key",)),
        ("Validation: Unsupported parameter(s): `prompt_cache_key`, `store`", ("prompt_cache_key", "store")),
        # Ollama
        (
            'invalid reasoning value: \'xhigh\' (must be "high", "medium" or "low")',
            ("reasoning_effort in high,medium,low",),
        ),
        ('"llama3.1:8b" does not support thinking', ("thinking", "reasoning_effort in none")),
        # OpenRouter
        (
            "Reasoning is mandatory for this endpoint and cannot be disabled.",
            ("reasoning_effort in minimal,low,medium,default,high,xhigh,max,ultra", "reasoning.enabled"),
        ),
        # xAI
        ("Argument not supported on this model: presencePenalty", ("presence_penalty",)),
        ("Model grok-4-latest does not support parameter reasoningEffort.", ("reasoning_effort",)),
        # Fireworks, vLLM, Bedrock, DeepSeek, Moonshot, Anthropic, Google
        ("Extra inputs are not permitted, field: 'store', value: False", ("store",)),
        (EXTRA + ", {'type': 'extra_forbidden', 'loc': ('body', 'user')}]", ("store", "user")),
        ("Malformed input request: #: extraneous key [store] is not permitted, please reformat", ("store",)),
        ("unknown field `store`, expected one of `model`, `messages`", ("store",)),
        ("invalid temperature: only 1 is allowed for this model", ("temperature",)),
        ("`temperature` and `top_p` cannot both be specified for this model.", ("top_p",)),
        ("`temperature` is deprecated for this model.", ("temperature",)),
        ("Validation: top_p is immutable for this model and must be 0.95, got 1", ("top_p",)),  # NVIDIA
        ("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", ("time", "max_tokens")),
        ("max_tokens and max_completion_tokens cannot both be specified", ("max_tokens",)),
        ("seed: Extra inputs are not permitted", ("seed",)),
        ("Unknown name \"seed\" at 'generation_config': Cannot find field.", ("seed",)),
        # others
        ("this model does not support the parameter seed", ("seed",)),
        ("Unexpected fields in the request: {'user', 'seed'}", ("user", "seed")),
        ('unknown parameters: ["user", "seed"]', ("user", "seed")),
        ('data must NOT have additional properties, {"additionalProperty":"store"}', ("store",)),
        ("Invalid: stream_options.include_usage", ("stream_options",)),
        # the name alone of a field inside of another is known, too
        ("tools.0.function.strict: Extra inputs are not permitted", ("strict", "tools[].strict")),
        (
            "messages.0.content.0.text.cache_control: Extra inputs are not permitted",
            ("cache_control", "messages[].content[].cache_control"),
        ),
        (
            "'messages.1' : [('messages.1.tool_calls.0' : property 'index' is unsupported)]",
            ("messages[].tool_calls[].index",),
        ),
        ("temperature must be at most 2", ("range of temperature -inf 2",)),
        # no refusal of a parameter
        ("Invalid value for 'top_p': 3", ()),
    ],
)
def test_the_names_in_a_message(message: str, names: tuple[str, ...]) -> None:
    assert _names(message) == names


@pytest.mark.parametrize(
    ("error", "names"),
    [
        ({"message": "no", "code": "unsupported_parameter", "param": "logit_bias"}, ("logit_bias",)),
        ({"message": "no", "code": "unknown_parameter", "param": "store"}, ("store",)),
        ({"message": "Only 1.", "code": "unsupported_value", "param": "temperature"}, ("temperature",)),
        ({"message": "no", "code": "unsupported_value", "param": "messages[0].role"}, ("messages[].role",)),
        ({"message": "no", "code": "unsupported_value", "param": "tool_choice"}, ()),
        ({"message": "no", "code": "invalid_value", "param": "top_p"}, ()),
    ],
)
def test_the_param_of_a_refusal(error: Any, names: tuple[str, ...]) -> None:
    assert _names(error) == names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("body.messages.1.assistant.tool_calls.0.index", "messages[].tool_calls[].index"),
        ("messages[2].tool_calls[0].name", "messages[].tool_calls[].name"),
        ("messages[2].tool_calls[0].function", ""),
        ("messages.0.content.0.text.cache_control", "messages[].content[].cache_control"),
        ("messages.0.user.content.list[union].0.text", ""),
        ("tools.0.function.strict", "tools[].strict"),
        ("tools.3.cache_control", "tools[].cache_control"),
        ("system.1.cache_control", "system[].cache_control"),
        ("system.1.text", ""),
        ("tools.0.function.parameters.additionalProperties", ""),
        ("tools.0", ""),
        ("messages.1.name", ""),
        ("response_format.json_schema.strict", ""),
        ("", ""),
    ],
)
def test_a_path_into_contents_calls_and_tools_is_a_name(path: str, name: str) -> None:
    names = _names({"message": "no", "code": "unknown_parameter", "param": path})
    found = [each for each in names if each.count("[]") == 2 or each.startswith(("tools[]", "system[]"))]
    assert found == ([name] if name else [])


def test_a_list_of_details_names_all() -> None:
    places = (["body", "seed"], ["body", "user"], ["body", "messages", 2, "assistant", "reasoning_content"])
    detail = [{"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"} for place in places]
    found = refused_params(read_error(json.dumps({"detail": detail}).encode()))
    assert found == ("seed", "user", "messages[].reasoning_content")


def test_a_relay_repeats_the_words_of_the_one_behind_it() -> None:
    raw = json.dumps({"error": {"message": "property 'store' is unsupported"}})
    assert _names({"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}) == ("store",)


@pytest.mark.parametrize(
    "message",
    [
        DEVELOPER + "expected one of `system`, `user`, `assistant`, `tool` at line 1 column 85",
        "messages[0]: unknown role: developer at line 1 column 16943",
        "Unexpected message role.",
        "'developer' is not one of ['system', 'assistant', 'user', 'function', 'tool'] - 'messages.0.role'",
        "[{'loc': ('body', 'messages', 0, 'role'), 'msg': \"Value error, 'role' must be one of 'system'\"}]",
        "Input tag 'developer' found using 'role' does not match any of the expected tags: 'system', 'user'",
        "'messages.0' : discriminator property 'role' has invalid value",
        "<400> InternalError.Algo.InvalidParameter: Role must be in [user, assistant, system]",
        "Invalid request: unsupported role ROLE_UNSPECIFIED",
        "Unrecognized message role 'developer'",
        "Only user, assistant and tool roles are supported",
        "角色信息不正确",
    ],
)
def test_a_role_that_is_not_known(message: str) -> None:
    assert "messages[].role" in _names(message)


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 32000. This model supports at most 8192 completion tokens, whereas you gave 32000",
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
        "The maximum tokens you requested exceeds the model limit of 8192. Try again with a lower value",
        "It has a maxOutputTokens value of 32000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
        "max_tokens (32000) exceeds the maximum allowed 8192",
        "This model's maximum output tokens is 8192, however you requested 32000",
        "Value error, max_tokens must be between 1 and 8192",
        "the max_tokens must less than or equal to 8192",
    ],
)
def test_the_models_own_limit_is_read_from_a_refusal_of_a_higher_one(message: str) -> None:
    assert max_output(read_error(json.dumps({"error": {"message": message}}).encode())) == 8192


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (
            (
                "The context length is 32768 tokens. However, you requested 40768 tokens (8768 in the messages, "
                "32000 in the completion)."
            ),
            12_000,
        ),
        (
            (
                "The maximum context length is 32768 tokens. However, you requested about 40768 tokens (8000 of text "
                "input, 768 of tool input, 32000 in the output)."
            ),
            12_000,
        ),
        (
            (
                "'max_tokens' is too large: 32000. The context length is 32768 tokens and your request has 8768 "
                "input tokens (32000 > 32768 - 8768)."
            ),
            12_000,
        ),
        ("input length and `max_tokens` exceed context limit: 8768 + 32000 > 32768, decrease input length", 12_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length", None),
        (
            (
                "You passed 8768 input tokens and requested 32000 output tokens, but the context length is only "
                "32768 tokens, resulting in a maximum input length of 768 tokens."
            ),
            12_000,
        ),
        ("This model's maximum context length is 32768 tokens. However, you requested 25000 in the messages", None),
        ("This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens.", None),
    ],
)
def test_half_of_what_an_input_leaves_of_the_context_is_the_limit(message: str, limit: int | None) -> None:
    assert max_output(read_error(json.dumps({"error": {"message": message}}).encode())) == limit
