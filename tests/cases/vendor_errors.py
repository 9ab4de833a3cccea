"""Errors as vendors, relays and model servers really send them, from their documentation and from issue trackers.

Long: one table. Each row is a status and a body; a list says what all of its rows mean.
"""

# ruff: noqa: RUF001 - Chinese punctuation

from typing import Any

Said = tuple[int, Any]
"""Status and body: text as it came, or values of JSON."""


def openai(message: str, code: str | int | None = None, kind: str | None = "invalid_request_error", **more: Any) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def anthropic(kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: Any) -> Any:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def minimax(number: int, message: str) -> Any:
    return {"id": "x", "choices": None, "created": 1, "base_resp": {"status_code": number, "status_msg": message}}


def zhipu(number: str, message: str) -> Any:
    return {"error": {"code": number, "message": message}}


def siliconflow(number: int, message: str) -> Any:
    return {"code": number, "message": message, "data": None}


BROKE = "Your account org-1 <ak-1> is suspended due to insufficient balance, please recharge your account"

OUT_OF_CREDIT: list[Said] = [
    (500, anthropic("api_error", "insufficient balance (1008)")),  # MiniMax's Anthropic surface
    (500, openai("insufficient balance", "1008", "insufficient_balance_error")),
    (
        429,
        {"error": {"http_code": "429", "message": "insufficient balance (1008)", "type": "insufficient_balance_error"}},
    ),
    (400, minimax(1008, "insufficient balance")),
    (429, minimax(2056, "usage limit exceeded, 5-hour usage limit reached")),
    (429, zhipu("1113", "余额不足或无可用资源包,请充值。")),
    (429, zhipu("1113", "Insufficient balance or no resource package. Please recharge.")),
    (429, {"type": "error", "error": {"type": "1113", "message": "Insufficient balance or no resource package."}}),
    (500, {"error": True, "message": 'Error code: 429, with error text {"code":"1113","message":"余额不足"}'}),
    (429, zhipu("1309", "您的GLM Coding Plan套餐已到期，请前往官网续费")),
    (
        403,
        openai("Your account is not active, organization exceeded current quota", None, "exceeded_current_quota_error"),
    ),
    (429, openai(BROKE, None, "exceeded_current_quota_error")),
    (403, anthropic("permission_error", "You've reached your usage limit for this billing cycle.")),
    (429, openai("Provider returned error", 429, metadata={"raw": '{"error":{"message":"' + BROKE + '"}}'})),
    (400, openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage")),
    (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}),
    (403, {"code": "AllocationQuota.FreeTierOnly", "message": "The free tier of the model has been exhausted."}),
    (
        403,
        {
            "error": {
                "code": "AccountOverdueError",
                "message": "The request failed because your account has an overdue balance. Request ID: 1",
                "param": "",
                "type": "Forbidden",
            }
        },
    ),
    (
        429,
        {
            "error": {
                "code": "QuotaExceeded",
                "message": "Your account 1 has exhausted its free trial quota for the doubao model.",
                "type": "TooManyRequests",
            }
        },
    ),
    (403, siliconflow(30001, "Sorry, your account balance is insufficient")),
    (403, siliconflow(30011, "The selected model requires paid balance. Your paid balance is insufficient.")),
    (200, {"error_code": 17, "error_msg": "Open api daily request limit reached"}),
    (402, openai("Insufficient Balance", "invalid_request_error", "unknown_error")),  # DeepSeek
    (402, {"error": {"message": "Insufficient credits. Add more using https://openrouter.ai/credits", "code": 402}}),
    (402, {"error": {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}}),
    (402, {"error": "INSUFFICIENT_BALANCE"}),
    (
        429,
        openai("You exceeded your current quota, please check your plan.", "insufficient_quota", "insufficient_quota"),
    ),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
    (
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        ),
    ),
    (
        429,
        {
            "error": {
                "message": '{"error":{"code":429,"message":"You exceeded your current quota, please check your plan '
                'and billing details.","status":"RESOURCE_EXHAUSTED"}}',
                "code": 429,
                "status": "Too Many Requests",
            }
        },
    ),
    (
        429,
        {
            "code": "personal-team-blocked:spending-limit",
            "error": "You have run out of credits or need a Grok subscription: reached the monthly spending limit.",
        },
    ),
    (403, {"code": "INSUFFICIENT_BALANCE", "message": "Insufficient account balance"}),
    (401, openai("该令牌额度已用尽 !token.UnlimitedQuota && token.RemainQuota = -12", None, "new_api_error")),
    (403, openai("用户额度不足, 剩余额度: ＄-0.01", "insufficient_user_quota", "new_api_error")),
    (402, "Payment Required"),
]

KEY_REFUSED: list[Said] = [
    (401, openai("Incorrect API key provided: sk-x.", "invalid_api_key")),
    (401, anthropic("authentication_error", "invalid x-api-key")),
    (400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
    (400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
    (403, openai("Country, region, or territory not supported", "unsupported_country_region_territory")),
    (500, anthropic("api_error", "login fail: Please carry the API secret key in the 'Authorization' field (1004)")),
    (400, minimax(2049, "invalid api key")),
    (401, zhipu("1002", "Authorization Token非法，请确认Authorization Token正确传递。")),
    (401, openai("Invalid Authentication", None, "invalid_authentication_error")),
    (401, '"Invalid token"'),
    (200, {"error_code": 110, "error_msg": "Access token invalid or no longer valid"}),
    (400, openai("IAM Certification failed", "invalid_iam_token")),
    (401, {"message": "invalid api token"}),  # Cohere
    (403, {"Message": "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"}),
    (401, {"detail": "Invalid API key"}),
    (401, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}], "result": None}),
    (401, ""),
]

PACED: list[tuple[int, Any, float | None]] = [
    (
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details."
            " * Quota exceeded for metric: generate_content_free_tier_requests, limit: 10 Please retry in 34.07s.",
        ),
        34.07,
    ),
    (
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            "Quota exceeded.",
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074824224s"},
        ),
        34.074824224,
    ),
    (429, [google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.")], None),
    (429, google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), None),
    (
        429,
        openai(
            "Rate limit reached for gpt-4o in organization org-1 on requests per min (RPM): Limit 3, Used 3, "
            "Requested 1. Please try again in 20s.",
            "rate_limit_exceeded",
            "requests",
        ),
        20,
    ),
    (
        429,
        openai(
            "Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000. "
            "Please try again in 1m2.5s. Need more tokens?",
            "rate_limit_exceeded",
            "tokens",
        ),
        62.5,
    ),
    (
        429,
        openai(
            "Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 12m34s.",
            "rate_limit_exceeded",
            "tokens",
        ),
        600,
    ),
    (429, openai("Please try again in 6ms.", "rate_limit_exceeded"), 0.006),
    (
        429,
        openai(
            "Your account org-1 request reached organization max RPM: 3, please try again after 1 seconds",
            None,
            "rate_limit_reached_error",
        ),
        1,
    ),
    (
        429,
        openai(
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded call rate limit. "
            "Please retry after 26 seconds.",
            "429",
        ),
        26,
    ),
    (429, zhipu("1302", "您的账户已达到速率限制，请您控制请求频率"), None),
    (429, zhipu("1302", "请求过于频繁，请在 12 秒后重试"), 12),
    (429, zhipu("1308", "已达到 5 小时的使用次数，您的限额将在 2026-10-21 15:30:00 重置。"), 120),
    (200, zhipu("1302", "您的账户已达到速率限制，请您控制请求频率"), None),
    (200, minimax(1002, "rate limit"), None),
    (200, minimax(1039, "token limit"), None),
    (500, anthropic("api_error", "rate limit exceeded(RPM) (1002)"), None),
    (200, {"error_code": 18, "error_msg": "Open api qps request limit reached"}, None),
    (
        429,
        {
            "error": {
                "code": "rpm_rate_limit_exceeded",
                "message": "Rate limit reached for RPM",
                "type": "rate_limit_exceeded",
            },
            "id": "as-1",
        },
        None,
    ),
    (
        429,
        {
            "error": {
                "code": "ModelAccountTpmRateLimitExceeded",
                "message": "The Tokens Per Minute (TPM) limit of the associated model has been exceeded",
                "type": "TooManyRequests",
            }
        },
        None,
    ),
    (
        403,
        {"code": 50603, "message": "RPM limit reached. Complete identity verification to lift the rate limit."},
        None,
    ),
    (429, {"message": "Request was rejected due to rate limiting. Details: TPM limit reached."}, None),
    (429, {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded, please try again later."}, None),
    (400, {"__type": "com.amazon.coral.availability#ThrottlingException", "message": "Too many requests"}, None),
    (429, {"message": "Too many tokens, please wait before trying again."}, None),
    (429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"}, None),
    (
        429,
        {
            "error": {
                "message": "Rate limit exceeded: free-models-per-min.",
                "code": 429,
                "metadata": {
                    "headers": {
                        "X-RateLimit-Limit": "20",
                        "X-RateLimit-Remaining": "0",
                        "X-RateLimit-Reset": "1792567725000",
                    }
                },
            }
        },
        45,
    ),
    (
        429,
        openai(
            "Provider returned error",
            429,
            metadata={
                "raw": "x is temporarily rate-limited upstream. Please retry shortly.",
                "provider_name": "Chutes",
            },
        ),
        None,
    ),
    (429, openai("Provider returned error", 429, metadata={"retry_after_seconds": 7}), 7),
    (429, {"detail": "Rate limit exceeded", "retry_after": 9}, 9),
    (429, {"error": "Too Many Requests", "retryAfter": "3s"}, 3),
    (429, "<html><head><title>429 Too Many Requests</title></head></html>", None),
    (429, "", None),
]
"""With the pause that each asks for. The answers are of 2026-10-21, 07:28 UTC."""

OVERLOADED: list[Said] = [
    (529, anthropic("overloaded_error", "Overloaded")),
    (503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
    (503, siliconflow(50505, "Model service overloaded. Please try again later.")),
    (503, siliconflow(50603, "System is too busy now. Please try again later.")),
    (500, openai("The engine is currently overloaded, please try again later", None, "engine_overloaded_error")),
    (500, zhipu("1305", "该模型当前访问量过大，请您稍后再试")),
    (503, "no healthy upstream"),
    (503, openai("The server is currently overloaded with other requests.", None, "server_error")),
    (498, openai("Flex tier capacity exceeded", "capacity_exceeded", "server_error")),
    (502, {"error": {"message": "Backend is at capacity", "code": 502}}),
    (200, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    (200, {"error": {"message": "服务繁忙，请稍后再试", "type": "server_error"}}),
]

NO_SUCH_MODEL: list[Said] = [
    (404, openai("The model `x` does not exist or you do not have access to it.", "model_not_found")),
    (404, anthropic("not_found_error", "model: claude-none")),
    (404, google(404, "NOT_FOUND", "models/x is not found for API version v1beta")),
    (400, openai("x/y is not a valid model ID", 400)),
    (400, zhipu("1211", "模型不存在，请检查模型代码。")),
    (400, zhipu("1211", "Unknown Model, please check the model code.")),
    (400, siliconflow(20012, "Model does not exist. Please check it carefully.")),
    (404, openai("Not found the model kimi-x or Permission denied", None, "resource_not_found_error")),
    (
        404,
        {
            "error": {
                "code": "InvalidEndpointOrModel.NotFound",
                "message": "The model or endpoint x does not exist or you do not have access to it.",
                "type": "NotFound",
            }
        },
    ),
    (
        404,
        {
            "error": {
                "code": "ModelNotOpen",
                "message": "Your account 1 has not activated the model x. Please activate "
                "the model service in the Ark Console.",
                "type": "NotFound",
            }
        },
    ),
    (404, {"error": 'model "x" not found, try pulling it first'}),
    (404, {"message": "model 'x' not found, make sure the correct model ID was used"}),
    (503, openai("分组 default 下模型 x 无可用渠道（distributor）", "model_not_found", "new_api_error")),
    (403, openai("Project `p` does not have access to model `x`", "model_not_found")),
    (404, {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}),
    (404, openai("The API deployment for this resource does not exist.", "DeploymentNotFound", "")),
]

TOO_LONG: list[Said] = [
    (
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
            "context_length_exceeded",
        ),
    ),
    (400, openai("Your input exceeds the context window of this model.", "context_length_exceeded")),
    (400, anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")),
    (
        400,
        anthropic(
            "invalid_request_error", "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000"
        ),
    ),
    (
        400,
        google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ),
    ),
    (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    (400, openai("Please reduce the length of the messages or completion.", "context_length_exceeded")),
    (
        400,
        openai("the request exceeds the available context size, try increasing it", 400, "exceed_context_size_error"),
    ),
    (
        500,
        {"error": {"code": 500, "message": "the request exceeds the available context size.", "type": "server_error"}},
    ),
    (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length"}),
    (
        400,
        {
            "error": "Trying to keep the first 4534 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens"
        },
    ),
    (400, minimax(2013, "invalid params, context window exceeds limit")),
    (500, anthropic("api_error", "invalid params, context window exceeds limit (2013)")),
    (400, openai("Invalid request: Your request exceeded model token limit: 131072 (requested: 200000)")),
    (400, zhipu("1261", "Prompt 超长")),
    (
        400,
        openai(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
            "invalid_parameter_error",
        ),
    ),
    (400, siliconflow(20015, "length of prompt_tokens (40000) must be less than max_seq_len (32768).")),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
    (400, {"message": "too many tokens: size limit exceeded by 1000 tokens. The limit for this model is 4081 tokens."}),
    (400, {"message": "Input is too long for requested model."}),
    (400, openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 400)),
    (400, openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 10000 `inputs`")),
    (
        400,
        {
            "object": "error",
            "message": "Requested token count exceeds the model's maximum context length of 202752 tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    (400, openai("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 400)),
    (400, openai("prompt token count of 70000 exceeds the limit of 64000", "model_max_prompt_tokens_exceeded")),
    (400, {"error": "the input length exceeds the context length"}),
    (
        400,
        {
            "error": {
                "code": "InvalidParameter",
                "message": "Total tokens of image and text exceed max message tokens.",
                "type": "BadRequest",
            }
        },
    ),
    (
        400,
        openai(
            "Provider returned error",
            400,
            metadata={"raw": '{"error":{"message":"Input length (265330) exceeds model\'s maximum context length"}}'},
        ),
    ),
]

FILTERED: list[tuple[int, Any, str]] = [
    (
        400,
        openai(
            "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content.",
            "data_inspection_failed",
            "data_inspection_failed",
        ),
        "data_inspection_failed",
    ),
    (
        400,
        {"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."},
        "DataInspectionFailed",
    ),
    (
        400,
        zhipu("1301", "系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入易产生敏感内容的提示语。"),
        "content_filter",
    ),
    (400, minimax(1026, "input new_sensitive"), "content_filter"),
    (500, anthropic("api_error", "input new_sensitive (1026)"), "content_filter"),
    (
        400,
        openai("The request was rejected because it was considered high risk", None, "content_filter"),
        "content_filter",
    ),
    (
        400,
        {
            "error": {
                "code": "SensitiveContentDetected",
                "message": "The request failed because the input text may contain sensitive information.",
                "type": "BadRequest",
            }
        },
        "SensitiveContentDetected",
    ),
    (
        400,
        {"error": {"code": "InputTextRiskDetection", "message": "the input text includes sensitive content"}},
        "InputTextRiskDetection",
    ),
    (
        400,
        openai(
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "content_filter",
            None,
            innererror={"code": "ResponsibleAIPolicyViolation"},
        ),
        "content_filter",
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
    (
        400,
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "content_filter",
                    "content_filter_results": {
                        "error": {"code": "content_filter", "message": "The prompt was filtered."}
                    },
                }
            ],
        },
        "content_filter",
    ),
    (
        422,
        {"error": {"code": "content_policy_violation", "message": "Blocked by our content policy."}},
        "content_policy_violation",
    ),
]
"""With the code that the client gets."""

BAD_REQUEST: list[Said] = [
    (400, openai("Invalid value for 'temperature': must be at most 2.")),
    (
        400,
        google(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user turn."),
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
    (413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000", "rate_limit_exceeded")),
    (400, 'id:1\nevent:error\n:HTTP_STATUS/400\ndata:{"code":"InvalidParameter","message":"bad stop"}\n\n'),
    (400, ""),
    (500, openai("Failed to apply the chat template: Unexpected message role.", 500, "server_error")),
]

OWN_FAILURE: list[Said] = [
    (500, openai("The server had an error while processing your request.", None, "server_error")),
    (500, minimax(1013, "internal service error")),
    (500, {"detail": "Internal Server Error"}),
    (502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"),
    (520, "error code: 520"),
    (403, "<html><head><title>Just a moment...</title></head></html>"),
    (403, "<html><head><title>Attention Required! | Cloudflare</title></head></html>"),
    (404, {"detail": "Not Found"}),
    (404, {"code": 500, "msg": "404 NOT_FOUND", "success": False}),
    (404, {"error": "Not Found", "message": "No message available", "path": "/v1"}),
    (500, ""),
]

STATE_GONE: list[Said] = [
    (404, openai("Previous response with id 'resp_1' not found.")),
    (404, {"error": {"message": "Response with id 'resp_1' not found.", "type": "NotFoundError", "code": 404}}),
    (404, openai("Prediction history node with id 'resp_1' not found while building", None, "")),
    (404, {"error": {"message": "previous response resp_1 not found", "type": "not_found_error"}}),
    (400, openai("Previous response with id 'resp_1' not found.", "previous_response_not_found")),
]
