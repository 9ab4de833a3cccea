"""Refusals of requests as vendors, relays and model servers really send them; see ``vendor_errors``."""

# ruff: noqa: RUF001 - Chinese punctuation

from typing import Any

from tests.cases.vendor_errors import Said, anthropic, at, failure, google, huawei, minimax, openai, siliconflow, zhipu

NO_SUCH_MODEL: list[Said] = [
    *at(403, zhipu("1220", "您无权访问chatglm_130b。"), zhipu("1220", "You do not have permission to access glm-5.")),
    (404, {"code": "404", "message": "Authorization failed or requested resource not found."}),  # Oracle
    (401, {"error": "This model is only available to Pro users"}),  # Venice
    (
        403,
        failure(
            "Kimi For Coding is currently only available for Coding Agents such as Kimi CLI, Claude Code, etc.",
            type="access_terminated_error",
        ),
    ),
    (403, failure("The API key cannot call it.", code="model_access_denied")),  # Novita
    (404, openai("The model x is not included in your plan", "404", "model_not_available")),  # ZenMux
    (400, openai("The model `x` requires terms acceptance. Please have the org admin", "model_terms_required")),  # Groq
    (403, failure("The model `x` is blocked at the organization level", code="model_permission_blocked_org")),
    (400, {"error": "Specified model is not valid"}),  # Venice
    (400, anthropic("invalid_request_error", "Invalid model: 'x/y'. Please check the model name.")),  # Poe
    (404, failure("The x model does not support the coding plan feature.", code="UnsupportedModel")),  # Volcengine
    (403, {"error": "this model requires a subscription, upgrade for access: https://ollama.com/upgrade"}),
    (400, {"object": "error", "message": "Invalid model: x", "code": "unknown_model"}),  # Mistral
    (404, openai("The model `x` does not exist or you do not have access to it.", "model_not_found")),
    (404, anthropic("not_found_error", "model: claude-none")),
    (404, google(404, "NOT_FOUND", "models/x is not found for API version v1beta")),
    (404, {"status": 404, "title": "Not Found", "detail": "Function '76-7b': Not found for account 'x'"}),  # NVIDIA NIM
    (400, openai("x/y is not a valid model ID", 400)),
    *at(
        400,
        openai(
            "The supported API model names are deepseek-v4-pro or deepseek-v4-flash, but you passed x.",
            "invalid_request_error",
        ),  # DeepSeek
        openai("Invalid model name passed in model=x. Call `/v1/models` to view available models.", "400"),  # LiteLLM
    ),
    (400, openai("The model has been deactivated.", "model_deactivated")),
    (400, openai("The model `x` has been decommissioned and is no longer supported.", "model_decommissioned")),
    (404, google(404, "NOT_FOUND", "This model models/x is no longer available to new users.")),
    (404, openai("No allowed providers are available for the selected model.", 404)),  # OpenRouter
    (410, {"detail": "The model 'x' has reached its end of life and is no longer available."}),  # NVIDIA
    (400, zhipu("1211", "模型不存在，请检查模型代码。")),
    (400, zhipu("1211", "Unknown Model, please check the model code.")),
    (400, siliconflow(20012, "Model does not exist. Please check it carefully.")),
    (404, openai("Not found the model kimi-x or Permission denied", None, "resource_not_found_error")),
    *at(
        404,
        failure(
            "The model or endpoint x does not exist or you do not have access to it.",
            code="InvalidEndpointOrModel.NotFound",
            type="NotFound",
        ),
        failure(
            ("Your account 1 has not activated the model x. Please activate the model service in the Ark Console."),
            code="ModelNotOpen",
            type="NotFound",
        ),
    ),
    (404, {"error": 'model "x" not found, try pulling it first'}),
    (404, {"error": "404 Client Error. Repository Not Found for url: https://huggingface.co/api/models/x"}),  # mlx-lm
    (404, {"error": "Model type x not supported."}),
    (403, failure("This model is gated. You need to agree to its license.")),  # Featherless
    (400, openai("Model fade out", "40082")),  # Naver
    (404, huawei("81009", "Invalid model.")),
    (401, huawei("81015", "Invalid model x, rejected by api key model allowlist setting.")),
    (403, huawei("81004", "Invalid request because you do not have access to it.")),
    (400, huawei("4203", "Invalid request because requested service 5a6a is unavailable.")),
    (429, zhipu("1311", "当前订阅套餐暂未开放GLM-5权限")),
    (429, openai("Your current subscription plan does not yet include access to GLM-5", "1311", None)),  # Z.ai
    (404, {"message": "Access denied. This Model is marked by provider as Legacy and you have not used it"}),  # Bedrock
    (404, {"message": "Model use case details have not been submitted for this account. Try again in 15 minutes."}),
    (403, {"message": "Your AWS Marketplace subscription for this model cannot be completed at this time."}),
    (404, {"message": "model 'x' not found, make sure the correct model ID was used"}),
    (404, {"message": "model 'x-r' was removed on September 15, 2025. See https://docs.cohere.com/docs/models"}),
    (400, {"detail": "Model x-2 is not supported. Supported models are ['x-3-large', 'x-3']."}),  # Voyage
    (403, openai("You are not allowed to sample from this model", None)),
    (403, openai("You are not allowed to generate embeddings from this model", None)),
    (503, openai("分组 default 下模型 x 无可用渠道（distributor）", "model_not_found", "new_api_error")),
    (403, openai("Project `p` does not have access to model `x`", "model_not_found")),
    (404, {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}),
    (500, minimax(2061, "your current token plan not support model, MiniMax-M2")),
    (400, {"message": "The provided model identifier is invalid."}),
    (404, {"error": {"message": "No endpoints found for x/y.", "code": 404}}),
    (404, openai("The API deployment for this resource does not exist.", "DeploymentNotFound", "")),
    (401, anthropic("ModelError", "Model x-free is not supported")),  # OpenCode Zen
    (401, openai("Model x-4.5 is not supported", None)),
    (404, {"error": {"message": "No endpoints available matching your guardrail restrictions.", "code": 404}}),
    (400, openai("The requested model is not supported.", "model_not_supported", param="model")),  # Copilot
    (400, openai("You passed in model=x. There is no 'model_name' with this string", "400")),
    (400, openai("LLM Provider NOT provided. Pass in the LLM provider you are trying to call.", "400")),
    (400, {"detail": "The 'x-5.3' model is not supported when using Codex with a ChatGPT account."}),
    (400, {"error": {"code": "1214", "message": "modelCode: does not exist"}}),  # Z.ai
    (404, {"error": "please check the model you provided"}),  # Baseten
    (404, {"detail": "Function id 'a' version 'b': Specified function in account 'c' is not found"}),  # NVIDIA
    (404, {"error_code": "ENDPOINT_NOT_FOUND", "message": "Endpoint with name 'x' does not exist."}),  # Databricks
    (400, openai("Unsupported model: x", "unsupported_model")),
    (404, {"message": "This model version has reached the end of its life. Please refer to the documentation."}),
    (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "The given endpoint does not exist, please retry"}),
]

OTHER_API: list[Said] = [
    (400, failure("It makes embeddings.", availability={"code": "wrong_endpoint"})),  # OpenRouter
    (400, openai("model gpt-4o is not supported via Responses API.", "unsupported_api_for_model")),
    (400, openai('model "x-1.5" is not accessible via the /chat/completions endpoint', "unsupported_api_for_model")),
    (400, openai("The model 'openai.gpt-5.6' does not support the '/v1/chat/completions' API", "validation_error")),
    (400, openai("model `openai.gpt-6-astra` isn't supported on this route", "validation_error")),
    (400, openai("The model does not support Responses API", None)),  # vLLM
    (401, anthropic("ModelError", "Model x-3.7 is not supported for format oa-compat")),  # OpenCode Zen
    (404, openai("This model is only supported in v1/responses and not in v1/chat/completions.", None)),
    (404, openai("This is not a chat model and thus not supported in the v1/chat/completions endpoint.", None)),
    (400, openai("The chatCompletion operation does not work with the specified model, x.", "OperationNotSupported")),
    (501, failure("This server does not support embeddings.", code=501, type="not_supported_error")),  # llama.cpp
    (501, failure("audio input is not supported - hint: mmproj", code=501, type="not_supported_error")),
]
"""The upstream has the model in another API alone."""

TOO_LONG: list[Said] = [
    *at(  # vLLM's, also behind Xinference
        400,
        openai("The decoder prompt (length 21535) is longer than the maximum model length of 16384.", 400),
        openai("The prompt (total length 21535) is too long to fit into the model (max length 16384).", 400),
        openai("The engine prompt length 1327246 exceeds the max_model_len 131072. Please reduce prompt.", 400),
    ),
    (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"}),  # TGI
    (413, {"error": "`inputs` must have less than 512 tokens. Given: 593", "error_type": "Validation"}),
    *at(400, *(openai(text, "400") for text in ("错误：上下文过长，请减少输入", "请压缩上下文后重试"))),
    (400, zhipu("1210", "tokens in request more than max tokens allowed")),
    (400, google(400, "INVALID_ARGUMENT", "The input exceeds the maximum number of tokens.")),
    (400, openai("This prompt is longer than the free tier allows. Shorten it.", "rate_limit_exceeded")),
    (400, huawei("81001", "the prompt length 151499 must less than the maximum input length 129024.")),
    (403, openai("Input token count + max_tokens parameter must be less than the context length of the model")),
    (400, openai("the max input characters is 20000", "characters_too_long")),  # Baidu
    (400, openai("Prompt tokens too long", "tokens_too_long")),
    (400, openai("a sequence length of 9001, but the maximum supported sequence length is just 8192!")),  # SambaNova
    (500, google(500, "INTERNAL", "Your input context is too long.")),
    (
        500,
        {"error": {"code": 500, "message": "the request exceeds the available context size.", "type": "server_error"}},
    ),
    (500, anthropic("api_error", "invalid params, context window exceeds limit (2013)")),
    (500, openai("input (4002 tokens) is too large to process. increase the physical batch size", 500)),  # llama.cpp
    *at(
        400,
        openai(
            "The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)", 400
        ),  # TensorRT-LLM
        failure("The total length of all messages is too long.", type="too_many_prompt_tokens", code=400),  # Perplexity
        zhipu("1261", "Prompt exceeds max length"),
        openai("Too long.", "model_max_prompt_tokens_exceeded"),  # Copilot
        {"error": "Cannot truncate prompt with n_keep (7000) >= n_ctx (4096)"},  # LM Studio
        {"message": "max_tokens must be at least 1, got -736.", "type": "BadRequestError", "code": 400},  # vLLM, NIM
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
            "context_length_exceeded",
        ),
        openai("Your input exceeds the context window of this model.", "context_length_exceeded"),
        anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        anthropic(
            "invalid_request_error", "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000"
        ),
        google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ),
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        openai("Please reduce the length of the messages or completion.", "context_length_exceeded"),
        openai("the request exceeds the available context size, try increasing it", 400, "exceed_context_size_error"),
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length"},
        {
            "error": "Trying to keep the first 4534 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens"
        },
        minimax(2013, "invalid params, context window exceeds limit"),
        openai("Invalid request: Your request exceeded model token limit: 131072 (requested: 200000)"),
        zhipu("1261", "Prompt 超长"),
        openai(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
            "invalid_parameter_error",
        ),
        siliconflow(20015, "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
        {"message": "too many tokens: size limit exceeded by 1000 tokens. The limit for this model is 4081 tokens."},
        {"message": "Input is too long for requested model."},
        openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 400),
        openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 10000 `inputs`"),
        {
            "object": "error",
            "message": "Requested token count exceeds the model's maximum context length of 202752 tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
        openai("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 400),
        openai("prompt token count of 70000 exceeds the limit of 64000", "model_max_prompt_tokens_exceeded"),
        {"error": "the input length exceeds the context length"},
        failure(
            "Total tokens of image and text exceed max message tokens.", code="InvalidParameter", type="BadRequest"
        ),
        openai(
            "Provider returned error",
            400,
            metadata={"raw": '{"error":{"message":"Input length (265330) exceeds model\'s maximum context length"}}'},
        ),
        failure("Provider returned error", code=400, metadata={"error_type": "context_length_exceeded"}),
        openai("Request body too large for gpt-4o model. Max size: 8000 tokens.", "tokens_limit_reached"),  # GitHub
        {"message": "Malformed input request: expected maxLength: 200000, actual: 210000, please reformat"},  # Bedrock
    ),
]


def filtered(body: Any, code: str = "content_filter") -> tuple[int, Any, str]:
    """A request that is refused for what it says, and the code."""
    return 400, body, code


FILTERED: list[tuple[int, Any, str]] = [
    filtered(
        openai(
            "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content.",
            "data_inspection_failed",
            "data_inspection_failed",
        ),
        "data_inspection_failed",
    ),
    filtered(
        {"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."},
        "DataInspectionFailed",
    ),
    filtered(zhipu("1301", "系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入易产生敏感内容的提示语。")),
    (400, minimax(1026, "input new_sensitive"), "content_filter"),
    filtered(failure("Input Filter: Prompt filtered due to safety violations.", code=400)),  # SAP
    (403, huawei("81011", "May contain senstive information."), "ModelArts.81011"),
    (
        446,
        failure("The guardrail checks defined in the config failed.", type="hooks_failed"),
        "content_filter",
    ),  # Portkey
    (
        424,
        {"error": [{"code": 2016, "message": "Prompt blocked due to security configurations"}]},
        "content_filter",
    ),  # Cloudflare
    (
        403,  # xAI
        {"code": "The caller does not have permission", "error": "I can't help with that request."},
        "upstream_rejected",
    ),
    (403, "I can't help with that request.", "content_filter"),
    (421, openai("Content Filter: moderation and blocking", "421", ""), "content_filter"),  # Xiaomi
    (451, failure("The content you provided is blocked.", type="censorship_blocked"), "content_filter"),  # StepFun
    (500, anthropic("api_error", "input new_sensitive (1026)"), "content_filter"),
    filtered(openai("The request was rejected because it was considered high risk", None, "content_filter")),
    filtered(
        failure(
            "The request failed because the input text may contain sensitive information.",
            code="SensitiveContentDetected",
            type="BadRequest",
        ),
        "SensitiveContentDetected",
    ),
    filtered(
        {"error": {"code": "InputTextRiskDetection", "message": "the input text includes sensitive content"}},
        "InputTextRiskDetection",
    ),
    filtered(
        openai(
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "content_filter",
            None,
            innererror={"code": "ResponsibleAIPolicyViolation"},
        )
    ),
    (
        403,
        {"code": "The caller does not have permission", "error": "Content violates usage guidelines."},
        "upstream_rejected",
    ),
    (
        403,
        openai(
            "x requires moderation on OpenAI. Your input was flagged for violence",
            403,
            metadata={"reasons": ["violence"]},
        ),
        "upstream_rejected",
    ),
    filtered(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "content_filter",
                    "content_filter_results": failure("The prompt was filtered.", code="content_filter"),
                }
            ],
        }
    ),
    (
        422,
        {"error": {"code": "content_policy_violation", "message": "Blocked by our content policy."}},
        "content_policy_violation",
    ),
    filtered(openai("Your request was rejected as a result of our safety system.", None)),
    filtered(failure("Provider returned error", code=400, metadata={"error_type": "content_policy_violation"})),
    (498, {"message": "blocked output: this generation may contain unsafe information"}, "content_filter"),  # Cohere
    (403, failure("Request blocked: prompt injection patterns detected", code=403), "content_filter"),  # OpenRouter
]
"""With the code that the client gets."""

BAD_REQUEST: list[Said] = [
    (400, openai("This request did not use any credits: 'n' must be 1", "bad_request")),
    (400, openai("Cannot find any balance sheet in the document", "bad_request")),
    (422, openai("you do not need any credits for this model, but 'n' must be 1", "bad_request")),
    (400, openai("Invalid value for 'temperature': must be at most 2.")),
    *at(
        400,
        google(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user turn."),
        {
            "object": "error",
            "message": "[{'type': 'missing', 'loc': ('body', 'messages', 0, 'role'), 'msg': 'Field required', 'input': "
            "{'content': 'insufficient balance, rate limit exceeded'}}]",
            "code": 400,
        },
    ),
    (422, {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required"}]}),
    (
        422,
        {
            "object": "error",
            "message": {"detail": [{"loc": ["body", "x"], "msg": "bad"}]},
            "type": "invalid_request_error",
        },
    ),
    (400, {"success": False, "errors": [{"code": 5006, "message": "must have required property 'prompt'"}]}),
    (400, {"error": ["messages must not be empty"]}),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
    (404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}),
    (413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000", "rate_limit_exceeded")),
    (400, 'id:1\nevent:error\n:HTTP_STATUS/400\ndata:{"code":"InvalidParameter","message":"bad stop"}\n\n'),
    (400, ""),
    (500, openai("Failed to apply the chat template: Unexpected message role.", 500, "server_error")),
    (500, openai("Error: Jinja Exception: Conversation roles must alternate user/assistant/...", 500, "server_error")),
    (500, openai("Error: Jinja Exception: No user query found in messages.", 500, "server_error")),  # Qwen
    (500, {"message": "Could not process image"}),  # Bedrock
    (500, openai("tools param requires --jinja flag", 500, "server_error")),  # llama.cpp
    (500, openai("Cannot use both json_schema and grammar", 500, "server_error")),  # llama.cpp
    (500, anthropic("api_error", "[500]['ClaudeContentBlockToolResult' object has no attribute 'id'][1]")),  # Zhipu
    (500, openai("audio input is not supported - hint: you may need to provide the mmproj", 500, "server_error")),
    (400, failure("Provider returned error", code=400, metadata={"error_type": "invalid_request"})),
    (400, failure("Provider returned error", code=400, metadata={"error_type": "image_not_found"})),
    (400, openai("Invalid schema for function 'bill': 'cost per month' is not valid")),
    (400, openai("No endpoint with name 'x' in the description")),
    (400, anthropic("invalid_request_error", "tools.10.model: 'claude-opus-4-8' is not available as an advisor.")),
    (403, failure("Request blocked by policy 'pii'.", type="blocked_by_policy")),  # Merge
    (403, failure("The model refused to answer", code=403, metadata={"error_type": "refusal"})),  # OpenRouter
    (404, failure("Provider returned error", code=404, metadata={"error_type": "image_not_found"})),
    (404, {"error": "System role not supported"}),  # mlx-lm answers 404 to all it cannot do
    (404, {"error": "Conversation roles must alternate user/assistant/user/assistant/..."}),
    (404, {"error": "Only 'text' content type is supported."}),
]

OWN_FAILURE: list[Said] = [
    (400, {"status": 400, "title": "Bad Request", "detail": "Function id '1': DEGRADED function cannot be invoked"}),
    (
        400,
        openai("The request targeted an endpoint that is currently closed or temporarily unavailable."),
    ),  # Volcengine
    *at(  # Groq, of a model that fails now and then
        400,
        openai("Failed to call a function. Please adjust your prompt.", "tool_use_failed"),
        openai("Failed to generate JSON. Please adjust your prompt.", "json_validate_failed"),
        openai("Parsing failed. The model generated output that could not be parsed.", "output_parse_failed"),
    ),
    (400, {"error": "CUDA error: device-side assert triggered"}),  # Hugging Face
    (400, failure("This model is not ready for inference")),  # Featherless
    (500, openai("The server had an error while processing your request.", None, "server_error")),
    (500, minimax(1013, "internal service error")),
    (500, {"detail": "Internal Server Error"}),
    *at(200, {"status": "error", "message": "It failed."}, {"error_message": "It failed."}),
    (200, {"errorMessage": "Task timed out after 30 seconds", "errorType": "Sandbox.Timedout"}),
    (200, {"Code": "InternalError", "Message": "It failed."}),
    (502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"),
    (520, "error code: 520"),
    (403, "<html><head><title>Just a moment...</title></head></html>"),
    (403, "<html><head><title>Attention Required! | Cloudflare</title></head></html>"),
    (404, {"detail": "Not Found"}),
    (404, {"code": 500, "msg": "404 NOT_FOUND", "success": False}),
    (404, {"error": "Not Found", "message": "No message available", "path": "/v1"}),
    (500, ""),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "ERROR"}}}),  # OpenRouter
    (400, {"error": {"message": "Provider returned error", "code": 400}}),
    *(
        (400, failure("Provider returned error", code=400, metadata={"error_type": kind}))
        for kind in ("unmapped", "server", "provider_unavailable")
    ),
    (400, openai("Provider returned error", None, "upstream_error")),
    (500, openai("KeyError: 'image_file'", None, "server_error")),
    (500, openai("The safety system is not reachable, and download_image failed.", None, "server_error")),
    (400, {"error": {"message": "No models provided", "code": 400}}),
    (400, {"success": False, "error": [{"code": 2005, "message": "Failed to get response from provider"}]}),
    (400, anthropic("invalid_request_error", "Error from provider (Console Go): Upstream request failed")),
    (400, openai("No healthy deployments for this model", "400")),  # LiteLLM
    *at(400, {"error": "Model unloaded."}, {"error": "Channel Error"}),  # LM Studio
    (400, {"error": "The model has crashed without additional information. (Exit code: 18446744072635812000)"}),
    (400, openai("No models loaded. Please load a model in the developer page.", None, param="model")),
    (400, openai('Failed to load model "x". Error: Operation canceled.', None)),
    (400, openai("EngineCore encountered an issue. See stack trace (above) for the root cause.", 400)),  # vLLM
    *at(400, openai("Loading model", 400, "unavailable_error"), openai("model is not loaded", 400)),  # llama.cpp
]

STATE_GONE: list[Said] = [
    (401, openai("input item ID does not belong to this connection", None)),  # Copilot
    (404, openai("Previous response with id 'resp_1' not found.")),
    (404, {"error": {"message": "Response with id 'resp_1' not found.", "type": "NotFoundError", "code": 404}}),
    (404, openai("Prediction history node with id 'resp_1' not found while building", None, "")),
    (404, {"error": {"message": "previous response resp_1 not found", "type": "not_found_error"}}),
    (404, openai("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.")),
    (400, openai("Previous response with id 'resp_1' not found.", "previous_response_not_found")),
]
