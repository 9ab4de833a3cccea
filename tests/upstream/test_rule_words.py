"""What a refusal demands of requests is recognized, in the wordings of vendors and model servers."""

import pytest

from gateway.upstream.efforts import effort_rule
from gateway.upstream.ranges import range_rules
from gateway.upstream.request_rules import rules_in

FORMAT = "response_format"
NULL = "null"
WORDS: dict[tuple[str, ...], list[str]] = {
    ("messages[].role=system",): [
        "System message must be at the beginning.",
        "invalid params, invalid chat setting (2013)",  # MiniMax
        "Only user, assistant and tool roles are supported, got system.",  # Ministral and Devstral, of later ones
    ],
    ("messages[].role=assistant",): ["Unexpected role 'user' after role 'tool'"],
    ("messages[].role=user",): [
        "The last message must have role `user`",
        "No user query found in messages.",
        "The input messages do not contain elements with the role of user",  # Qwen
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",  # Mistral
        "Assistant response prefill is incompatible with enable_thinking.",  # llama.cpp
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ],
    ("messages[].text",): [
        "Invalid request: the message at position 1 with role 'assistant' must not be empty",
        "Assistant message must have either content or tool_calls, but not none.",  # Mistral
        "Assistant message must contain either 'content' or 'tool_calls'!",  # llama.cpp, of thoughts alone
        "Each message must have at least one content element.",  # xAI
        "text content is empty",  # Moonshot
        "The text field in the ContentBlock object at messages.11.content.0 is blank. Add text to the text field.",
        "The content field in the Message object at messages.3 is empty. Add a ContentBlock object to it.",
        "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",  # Bedrock
        "Invalid assistant message: content or tool_calls must be set",  # DeepSeek
        "Unable to submit request because it must have a text parameter.",  # Gemini
        "messages: text content blocks must be non-empty",  # Copilot and Bedrock, for Claude
        "messages.1.content.0.text: cache_control cannot be set for empty text blocks",
    ],
    ("messages[].content=some", "messages[].content=text"): [
        "Invalid 'content': 'content' field must be a string or an array of objects."  # LM Studio
    ],
    ("messages[].content=some",): [
        "invalid message content type: <nil>",  # Ollama
        "The content field is a required field.",  # Qwen
        "The request failed because it is missing `messages.content` parameter.",  # Volcengine
        "Failed to deserialize the JSON body: messages[1]: missing field `content` at line 1",  # DeepSeek
        "{'type': 'missing', 'loc': ('body', 'messages', 1, 'content'), 'msg': 'Field required'}",  # vLLM
        "Type mismatch of '/messages/1/content', 'string' not in 'null'",  # Cloudflare
    ],
    ("messages[].image=user",): [
        "Image URLs are only allowed for messages with role 'user', but this message",
        "Only text tool_result blocks are supported",
    ],
    ("messages[].role=user only",): [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ],
    ("messages[].role=not system",): [
        "request.messages.1.role: Invalid discriminator value. Expected 'user' | 'assistant'",  # LM Studio
        "messages.1.role: Input should be 'user' or 'assistant'",
        "messages[1].role: unknown variant `system`, expected `user` or `assistant`",
        "{'loc': ('body', 'messages', 1, 'role'), 'msg': \"Input should be 'user' or 'assistant'\"}",  # vLLM
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
        "role 'system' is not supported on this model",
        "invalid message role: system",
        "unknown variant 'system', expected 'user' or 'assistant'",  # Ollama
    ],
    ("messages[].role=alternating",): [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "After the optional system message, conversation roles must alternate",
    ],
    ("tool_choice=auto", "tool_choice=auto with thinking", "tool_choice=auto without thinking"): [
        "Thinking may not be enabled when tool_choice forces tool use.",  # Anthropic
        "deepseek-reasoner does not support this tool_choice",
        "Thinking mode does not support this tool_choice",
        "The tool_choice parameter does not support being set to required or object in thinking mode",  # DashScope
        "tool_choice 'required' is incompatible with thinking enabled",  # Moonshot
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",  # LM Studio
    ],
    ("messages[].image",): [
        "gpt-oss-120b is not a multimodal model",
        "Model does not support images. Please use a model that does.",
        "grok-3 does not support image inputs (request id: 7)",
        "This model does not support image input",
        "At most 0 image(s) may be provided in one prompt.",  # vLLM
        "messages.content.type is invalid, allowed values: ['text']",  # Zhipu
        "Image inputs are not supported by this model.",
        "Unsupported content type: image_url",
        "unknown variant `image`, expected one of `text`, `tool_use`",
        "Failed to deserialize: messages[0]: unknown variant `image_url`, expected `text`",  # DeepSeek
        "image input is not supported - hint: you may need to provide the mmproj",  # llama.cpp
        "Invalid content type. image_url is only supported by certain models.",  # OpenAI
    ],
    ("messages[].input",): [
        "messages.1.content.0.tool_use.input: Input should be an object",
        "The format of the value at messages.1.content.0.toolUse.input is invalid.",  # Bedrock
        "[500]['ClaudeContentBlockToolResult' object has no attribute 'id'][2026]",  # Zhipu
    ],
    ("messages[].arguments",): [
        "invalid params, invalid function arguments json string, tool_call_id: c1 (2013)",  # MiniMax
        "Failed to parse tool call arguments as JSON",  # llama.cpp
        "Can only get item pairs from a mapping.",
        "invalid tool call arguments",  # Ollama
        "failed to parse function call arguments: Value looks like object, but can't find closing '}' symbol",
    ],
    ("messages[].thought_signature",): ["Function call is missing a thought_signature in functionCall parts."],
    ("reasoning_content=back",): [
        "The `content[].thinking` in the thinking mode must be passed back to the API.",
        "Missing `reasoning_content` field in the assistant message at message index 2.",  # DeepSeek, older
    ],
    ("messages[].image", "messages[].content=text"): [
        "The provided messages input is invalid. The error info is [Unexpected item type in content.]"  # Qwen
    ],
    ("messages[].image=base64",): ["图片输入格式/解析错误"],
    ("messages[].image=user", "messages[].content=text"): ["Invalid 'messages' in payload"],  # LM Studio
    ("messages[].content=text",): [
        "The model expects a single `text` element per message.",  # xAI
        "messages[0].content must be a string",
        "'messages.0' : for 'role:system' ... [('messages.0.content' : value must be a string)]",
        "messages[1]: invalid type: sequence, expected a string at line 1",
        "Invalid type for 'messages[0].content': expected a string, but got an array instead.",
        'can only concatenate str (not "list") to str',
        "InternalError.Algo.InvalidParameter: The content field's type should be `str` in messages.",
    ],
    ("messages[].tool_call_id=short",): [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Invalid 'messages[1].tool_calls[0].id': string too long.",
        "Invalid 'input[1].call_id': string too long.",
        "messages.1.content.0.tool_use.id: String should match pattern",
        "'messages.2.member.toolUse.toolUseId' failed to satisfy constraint",
    ],
    ("messages[].tool_call_id=paired",): [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "(insufficient tool messages following tool_calls message)",
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        'messages with role "tool" must be a response to a preceeding message with "tool_calls".',  # Qwen
        "Duplicate value for 'tool_call_id' of 'call_0' in message[6]",
        "Message has tool role, but there was no previous assistant message with a tool call!",
        "Invalid request: tool_call_id  is not found",
        "invalid params, tool call result does not follow tool call (2013)",
        "invalid params, tool result's tool id(call_function_a_1) not found (2013)",
        "Not the same number of function calls and responses",
        "Invalid tool usage: mismatch between tool calls and tool results",  # Ollama
        "Unexpected role 'tool' after role 'user'",
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: a",
        "Expected toolResult blocks at messages.2.content for the following Ids: a",
        "No tool output found for function call c1.",
        "Missing required parameter: 'input[1].call_id'.",
    ],
    (NULL,): [
        "[] is too short - 'tools'",  # DashScope
        "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",  # vLLM
        "Invalid 'messages[3].tool_calls': empty array. Expected an array with minimum length 1",  # OpenAI, DeepSeek
        "body.tools.0.function.strict: Input should be a valid boolean",  # pydantic
        "tools: List should have at least 1 item after validation, not 0",
        "Invalid type for 'input[2].content': expected one of an array of objects or string, but got null instead.",
        "messages[1].tool_calls: invalid type: null, expected a sequence",  # serde
        "Expected array, received null",  # Zod
        "assistant.tool_calls must be an array when provided",
        "none is not an allowed value",
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",  # OpenAI
        "When using `tool_choice`, `tools` must be set.",  # vLLM
        "None is not of type 'array' - 'tools'",
    ],
    (NULL, "messages[].content=text"): ["input[3].content must be a string or an array (was null)"],
    ("tools[].input_schema=2020-12",): [
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (see https://j.org).",
        "tools.3.input_schema: JSON schema is invalid - please consult https://json-schema.org",
        '[ { "code": "invalid_type", "path": [ 2, "function", "parameters", "properties" ], "message": "Required" } ]',
        "Invalid schema for function 'f': In context=('properties', 'a'), array schema missing items.",
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[a].items: missing field.",
        "invalid params, function parameters is empty (2013)",
        "`f` functionDeclaration `parameters.a` schema didn't specify the schema type field. Learn more",  # Gemini
        "Unable to submit request because required fields ['module'] are not defined in the schema properties.",
        "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'root': when using",
    ],
    (f"{FORMAT}=json_object", f"{FORMAT}=text"): [
        "This response_format type is unavailable now",  # DeepSeek
        "response_format.type `json_schema` is unavailable now",
        "'response_format.type' must be 'json_schema' or 'text'",  # LM Studio
        "This model does not support response format `json_schema`. See supported models",  # Groq
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "body.response_format: Extra inputs are not permitted",
        "json mode cannot be combined with tool/function calling",
        '"tools" is incompatible with "response_format"',
        "Function calling with a response mime type: 'application/json' is unsupported",  # Gemini's compatible API
        "The provided JSON schema contains features not supported by xgrammar.",  # vLLM
    ],
    (f"{FORMAT}=strict schema",): [
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
        "output_format.schema: For 'object' type, 'additionalProperties: true' is not supported.",
        "litellm.BadRequestError: output_config.format.schema: For 'array' type, property 'maxItems' is not supported",
    ],
    ("thinking=adaptive",): [
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"',
        'invalid params, invalid thinking.type: "enabled" (allowed: adaptive, disabled) (2013)',
    ],
    ("thinking=enabled",): [
        "Validation: thinking.type must be enabled or disabled",  # MiniMax
        "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected",
        "adaptive thinking is not supported on this model",
    ],
    ("stream=true",): [
        "Stream must be set to true",
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "This model only support stream mode, please enable the stream parameter",
    ],
    ("stream=false",): [
        "Your organization must be verified to stream this model.",
        "This server does not support streaming.",
        "Streaming is not supported for this model",
        "Unsupported value: 'stream' does not support true with this model. Only the default (false) is.",
    ],
    (): [
        "This model does not support image URLs; send base64",
        "unknown variant `image`, expected one of `text`, `image_url`",
        "tools[0].type: unknown variant `image_generation`, expected `function`",
        "It does not support images larger than 5 MB",
        "does not support image/heic",
        "messages must not be empty",
        "the model must not be empty",
        "tool_choice none is unsupported",
        "unknown field",
        "Invalid schema for response_format 'x': In context=(), 'uniqueItems' is not supported",
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
        "Tool schemas are not supported",
        "It does not support stream_options",
        "This request does not support streaming with logprobs",
        "streaming is not supported for n > 1",
        "The model does not support streaming tool calls",
    ],
}
"""Messages by the rules that they name."""


@pytest.mark.parametrize(("message", "rules"), [(text, rules) for rules, texts in WORDS.items() for text in texts])
def test_a_refusal_names_rules(message: str, rules: tuple[str, ...]) -> None:
    assert set(rules_in(message)) == set(rules)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (
            "'reasoning_effort' does not support 'none' here. Supported values are: 'low', 'high', and 'xhigh'.",
            "low,high,xhigh",
        ),
        ("Invalid value: 'max'. Supported values are: 'low', 'high', and 'xhigh'. reasoning.effort", "low,high,xhigh"),
        ("Unexpected reasoning effort high. Supported types are xhigh, medium, low", "xhigh,medium,low"),
        ("This model does not support effort level 'xhigh'. Supported levels: high, low, max.", "high,low,max"),
        ("body.reasoning_effort: Input should be 'low', 'medium' or 'high'", "low,medium,high"),
        (  # SGLang and vLLM
            "('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'xhigh'}",
            "low,medium,high",
        ),
        ("reasoning_effort\n  Input should be 'low' or 'high' [type=literal_error, input_value='max']", "low,high"),
        (
            "Expected 'reasoning_effort' to be one of: 'high', 'low', 'minimal'; found 'none'.",
            "high,low,minimal",
        ),  # Ollama
        ("Unmapped reasoning effort: max", "low,medium,high"),
        ("Invalid reasoning_effort 'xhigh'", "low,medium,high"),
        ("Unsupported reasoning effort: xhigh", "low,medium,high"),
        ("reasoning_effort: 'max' is not a valid choice", "low,medium,high"),
        ("Invalid combination of reasoning_effort and thinking type: medium + disabled", ""),
        ("reasoning_effort: unknown variant `ultra`, expected one of `low`, `high`, `max`", "low,high,max"),
        ("reasoning_effort: Invalid enum value. Expected 'low' | 'high', received 'max'", "low,high"),
        ('invalid think value: "xhigh" (must be "high", "medium", "low", true, or false)', "high,medium,low"),
        ("Invalid value: 'max'. Supported values are: 'low', 'medium', and 'high'. verbosity", ""),
        ("reasoning_effort is not supported with this model", ""),
        ("Set reasoning_effort to 'none'.", ""),
    ],
)
def test_a_refusal_lists_levels(text: str, levels: str) -> None:
    assert effort_rule(text) == (f"reasoning_effort in {levels}" if levels else "")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("invalid params, temperature must be in (0.0, 1.0]", ["range of temperature 0.01 1"]),  # MiniMax
        ("The temperature parameter is illegal. must be in (0,1)", ["range of temperature 0.01 0.99"]),
        ("<400> InvalidParameter: Range of top_p should be (0.0, 1.0]", ["range of top_p 0.01 1"]),  # DashScope
        ("presence_penalty should be in [-2, 2]", ["range of presence_penalty -2 2"]),
        ("temperature: Input should be less than or equal to 1", ["range of temperature -inf 1"]),
        ("Invalid 'temperature': above maximum value. Expected a value <= 1", ["range of temperature -inf 1"]),
        ("max_tokens must be in [1, 8192]", []),
        ("`temperature` is deprecated for this model.", []),
    ],
)
def test_a_refusal_names_ranges(text: str, rules: list[str]) -> None:
    assert range_rules(text) == rules
