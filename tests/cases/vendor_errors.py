"""Failures as vendors, relays and model servers really report them, from their documentation and issue trackers.

Each row is a status and a body; a list says what all of its rows mean.
"""

# ruff: noqa: RUF001 - Chinese punctuation

from typing import Any

Said = tuple[int, Any]
"""Status and body: text as it came, or values of JSON."""


def at(status: int, *bodies: Any) -> list[Said]:
    """What comes with this status."""
    return [(status, body) for body in bodies]


def openai(message: str, code: str | int | None = None, kind: str | None = "invalid_request_error", **more: Any) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def failure(message: str, **fields: Any) -> Any:
    """An error with other fields than OpenAI's."""
    return {"error": {"message": message, **fields}}


def anthropic(kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def on_hold(code: str, message: str) -> Any:
    """Anthropic's error with its exact code."""
    fields = {"type": "invalid_request_error", "details": {"error_code": code}}
    return {"type": "error", "error": {**fields, "message": message}}


def huawei(number: str, message: str) -> Any:
    return {"error": {"code": f"ModelArts.{number}", "message": message}}


def google(code: int, status: str, message: str, *details: Any) -> Any:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def minimax(number: int, message: str) -> Any:
    return {"id": "x", "choices": None, "created": 1, "base_resp": {"status_code": number, "status_msg": message}}


def zhipu(number: str, message: str) -> Any:
    return {"error": {"code": number, "message": message}}


def siliconflow(number: int, message: str) -> Any:
    return {"code": number, "message": message, "data": None}


BROKE = "Your account org-1 <ak-1> is suspended due to insufficient balance, please recharge your account"

NO_RESOURCES = "You have either run out of available resources or do not have an active Grok subscription."  # xAI

OUT_OF_CREDIT: list[Said] = [
    (403, {"code": "The caller does not have permission to execute the operation", "error": NO_RESOURCES}),
    (200, {"type": "error", "error": {"message": NO_RESOURCES}}),
    (429, failure("Credits are used up.", code="insufficient_quota_error")),  # Sarvam
    (403, failure("No.", code="BILLING_BALANCE_NOT_ENOUGH")),  # Novita
    *(
        (400, {"code": 400, "message": text})  # Gitee
        for text in (
            "Today the free API access limit exceeded.",
            "该令牌不能访问任何资源,请绑定或购买资源后使用",
            "Resources are not purchased or authorized. Purchase or authorize resources before using them.",
        )
    ),
    (412, openai("Account x is suspended, possibly due to reaching the monthly spending limit")),  # Fireworks
    (403, {"statusCode": 403, "message": "Token quota is exceeded. Try again in 12 days."}),  # Azure API Management
    (404, failure("Your account does not have a valid CodingPlan subscription", code="InvalidSubscription")),
    (429, failure("Your coding plan hour quota is exceeded", code="coding_plan_hour_quota_exceeded")),  # Baidu
    (429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}),  # Cohere
    (500, anthropic("api_error", "insufficient balance (1008)")),  # MiniMax's Anthropic surface
    (500, openai("insufficient balance", "1008", "insufficient_balance_error")),
    (400, minimax(1008, "insufficient balance")),
    (500, {"error": True, "message": 'Error code: 429, with error text {"code":"1113","message":"余额不足"}'}),
    (400, openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage")),
    (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}),
    (400, openai("Not enough credits to run this model", "bad_request")),
    (400, openai("Your organization needs more prepaid credits", "bad_request")),
    (200, {"error_code": 17, "error_msg": "Open api daily request limit reached"}),
    (402, openai("Insufficient Balance", "invalid_request_error", "unknown_error")),  # DeepSeek
    (402, {"error": {"message": "Insufficient credits. Add more using https://openrouter.ai/credits", "code": 402}}),
    (402, {"error": {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}}),
    (402, {"error": "INSUFFICIENT_BALANCE"}),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
    (
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        ),
    ),
    (401, openai("该令牌额度已用尽 !token.UnlimitedQuota && token.RemainQuota = -12", None, "new_api_error")),
    (402, "Payment Required"),
    (400, openai("Budget has been exceeded! Current cost: 3.1, Max budget: 3.0", "400", "budget_exceeded")),  # LiteLLM
    (400, anthropic("invalid_request_error", "You're out of extra usage. Add more and keep going.")),
    (400, {"message": "Your request exceeds the service quota for your account."}),  # Bedrock
    *at(
        429,
        {"errors": [{"message": "you have used up your daily free allocation of 10,000 neurons", "code": 4006}]},
        {"error": {"http_code": "429", "message": "insufficient balance (1008)", "type": "insufficient_balance_error"}},
        minimax(2056, "usage limit exceeded, 5-hour usage limit reached"),
        zhipu("1113", "余额不足或无可用资源包,请充值。"),
        zhipu("1113", "Insufficient balance or no resource package. Please recharge."),
        {"type": "error", "error": {"type": "1113", "message": "Insufficient balance or no resource package."}},
        zhipu("1309", "您的GLM Coding Plan套餐已到期，请前往官网续费"),
        openai(BROKE, None, "exceeded_current_quota_error"),
        openai("Provider returned error", 429, metadata={"raw": '{"error":{"message":"' + BROKE + '"}}'}),
        failure(
            "Your account 1 has exhausted its free trial quota for the doubao model.",
            code="QuotaExceeded",
            type="TooManyRequests",
        ),
        openai("You exceeded your current quota, please check your plan.", "insufficient_quota", "insufficient_quota"),
        failure(
            (
                '{"error":{"code":429,"message":"You exceeded your current quota, please check your plan '
                'and billing details.","status":"RESOURCE_EXHAUSTED"}}'
            ),
            code=429,
            status="Too Many Requests",
        ),
        {
            "code": "personal-team-blocked:spending-limit",
            "error": "You have run out of credits or need a Grok subscription: reached the monthly spending limit.",
        },
        {"error": {"message": "API key budget limit exceeded (daily limit)", "code": 429}},
        openai("You have exceeded the 5-hour usage quota.", "AccountQuotaExceeded", "TooManyRequests"),  # Volcengine
        anthropic("FreeUsageLimitError", "Rate limit exceeded."),  # OpenCode Zen
    ),
    *at(
        403,
        openai("Your account is not active, organization exceeded current quota", None, "exceeded_current_quota_error"),
        anthropic("permission_error", "You've reached your usage limit for this billing cycle."),
        {"code": "AllocationQuota.FreeTierOnly", "message": "The free tier of the model has been exhausted."},
        failure(
            "The request failed because your account has an overdue balance. Request ID: 1",
            code="AccountOverdueError",
            param="",
            type="Forbidden",
        ),
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Your newly created team doesn't have any credits or licenses yet. You can purchase those at ...",
        },  # xAI
        {"error": {"message": "You have no credits left", "type": "forbidden"}},
        {
            "errors": [{"code": "token_quota_reached", "message": "This api request exceeds the token quota."}],
            "trace": "1f",
            "status_code": 403,
        },  # watsonx
        siliconflow(30001, "Sorry, your account balance is insufficient"),
        siliconflow(30011, "The selected model requires paid balance. Your paid balance is insufficient."),
        {"code": "INSUFFICIENT_BALANCE", "message": "Insufficient account balance"},
        openai("用户额度不足, 剩余额度: ＄-0.01", "insufficient_user_quota", "new_api_error"),
        openai("预扣费额度失败, 用户剩余额度: 0.1", "pre_consume_token_quota_failed", "new_api_error"),
        {"error": {"code": "403", "message": "Out of call volume quota. Quota will be replenished in 02:13:45."}},
        {"ResponseMetadata": {"Error": {"Code": "AccountOverdueError", "Message": "The account is overdue."}}},
        {"error": {"message": "Key limit exceeded (total limit). Manage it using https://openrouter.ai", "code": 403}},
        {"detail": "User is locked. Reason: Exhausted balance."},  # fal
    ),
    (412, {"status": "failure", "message": "Budget exhausted"}),  # Portkey
    (429, zhipu("1304", "该 API 已达今日调用次数限额,如有更多需求,请联系客服购买")),
    (429, {"code": "QUOTA_USER_DAILY_REQUEST", "message": "Daily request quota per user for AI Search exceeded"}),
    (429, {"Response": {"Error": {"Code": "x", "Message": "免费资源包余量已用尽"}, "RequestId": "r"}}),  # Tencent
    (429, {"errors": {"message": "You have exceeded today's quota for model Qwen/Qwen3, please try again tomorrow"}}),
]

KEY_REFUSED: list[Said] = [
    (
        403,
        failure("This resource has been temporarily blocked: violates our content policy.", code="Forbidden"),
    ),  # Azure
    (400, huawei("81002", "Failed to get the authorization header.")),
    (400, openai("Upstream request failed: [user_blocked] Your access has been restricted")),  # OpenCode Zen
    (400, google(400, "FAILED_PRECONDITION", "Gemini API free tier is not available in your country.")),
    (401, openai("Incorrect API key provided: sk-x.", "invalid_api_key")),
    (401, anthropic("authentication_error", "invalid x-api-key")),
    (400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
    (400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
    (400, anthropic("invalid_request_error", "This organization has been disabled.")),
    (400, on_hold("organization_on_hold", "Anthropic has disabled this organization for trust and safety reasons.")),
    (400, on_hold("claude_code_key_creator_not_member", "The user who created this API key has left.")),
    (403, openai("Country, region, or territory not supported", "unsupported_country_region_territory")),
    (500, anthropic("api_error", "login fail: Please carry the API secret key in the 'Authorization' field (1004)")),
    (400, minimax(2049, "invalid api key")),
    (429, zhipu("1112", "Your account has been locked. Please contact customer service to unlock it.")),
    (429, zhipu("1121", "账户存违规行为，账号已被锁定")),
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


def limited(pause: float | None, message: str, *code: Any, **more: Any) -> tuple[int, Any, float | None]:
    """A limit in OpenAI's form, with the pause that it asks for."""
    return 429, openai(message, *code, **more), pause


def exhausted(pause: float, message: str, *details: Any) -> tuple[int, Any, float]:
    """Google's."""
    return 429, google(429, "RESOURCE_EXHAUSTED", message, *details), pause


def free(pause: float, message: str, limit: str, reset: str) -> tuple[int, Any, float]:
    """OpenRouter's, for models that cost nothing."""
    headers = {"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    return 429, failure(message, code=429, metadata={"headers": headers}), pause


TOKENS_PER_MINUTE = (  # Alibaba
    "You exceeded your current quota, please check your plan and billing details. For details, see: "
    "https://help.aliyun.com/zh/model-studio/error-code#token-limit"
)

PACED: list[tuple[int, Any, float | None]] = [
    (402, failure("This request would exceed your available credits given your current in-flight requests."), None),
    (
        402,
        failure(
            "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only"
            " afford 12000. To increase, visit https://openrouter.ai/settings/credits",
            code=402,
        ),
        None,
    ),
    (
        429,
        failure("All providers are at capacity.", availability={"code": "capacity_exhausted", "retry_after": 40}),
        40,
    ),
    exhausted(
        34.07,
        "You exceeded your current quota, please check your plan and billing details."
        " * Quota exceeded for metric: generate_content_free_tier_requests, limit: 10 Please retry in 34.07s.",
    ),
    exhausted(
        34.074824224,
        "Quota exceeded.",
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074824224s"},
    ),
    (429, [google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.")], None),
    (429, google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), None),
    limited(
        20,
        "Rate limit reached for gpt-4o in organization org-1 on requests per min (RPM): Limit 3, Used 3, "
        "Requested 1. Please try again in 20s.",
        "rate_limit_exceeded",
        "requests",
    ),
    limited(
        62.5,
        "Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000. "
        "Please try again in 1m2.5s. Need more tokens?",
        "rate_limit_exceeded",
        "tokens",
    ),
    limited(
        754,
        "Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 12m34s.",
        "rate_limit_exceeded",
        "tokens",
    ),
    (429, openai("Please try again in 6ms.", "rate_limit_exceeded"), 0.006),
    limited(
        1,
        "Your account org-1 request reached organization max RPM: 3, please try again after 1 seconds",
        None,
        "rate_limit_reached_error",
    ),
    limited(
        26,
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded call rate limit. "
        "Please retry after 26 seconds.",
        "429",
    ),
    (429, zhipu("1302", "您的账户已达到速率限制，请您控制请求频率"), None),
    (429, zhipu("1302", "请求过于频繁，请在 12 秒后重试"), 12),
    (429, zhipu("1308", "已达到 5 小时的使用次数，您的限额将在 2026-10-21 15:30:00 重置。"), 120),
    (200, zhipu("1302", "您的账户已达到速率限制，请您控制请求频率"), None),
    (200, zhipu("1302", "High concurrency usage of this API, please reduce concurrency"), None),
    (200, zhipu("1303", "High frequency usage of this API, please reduce frequency"), None),
    (200, openai("Too many concurrent requests for this model", None), None),
    (200, openai("request reached organization max concurrency: 50, please try again after 1 seconds", None), 1),
    (200, openai("Concurrent request limit exceeded", None), None),
    (200, openai("Request rate increased too quickly.", None), None),
    (200, openai("You exceeded your current requests list.", None), None),
    (429, openai(TOKENS_PER_MINUTE, "insufficient_quota", "insufficient_quota"), None),
    (200, openai(TOKENS_PER_MINUTE, "insufficient_quota", "insufficient_quota"), None),
    (200, minimax(1002, "rate limit"), None),
    (500, openai("AppIdQpsOverFlowError:(qps error)", "11202", "api_error"), None),  # iFlytek
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
        failure(
            "The Tokens Per Minute (TPM) limit of the associated model has been exceeded",
            code="ModelAccountTpmRateLimitExceeded",
            type="TooManyRequests",
        ),
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
    free(45, "Rate limit exceeded: free-models-per-min.", "20", "1792567725000"),
    free(
        3600,
        "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
        "50",
        "1792627200000",
    ),
    limited(
        None,
        "Provider returned error",
        429,
        metadata={"raw": "x is temporarily rate-limited upstream. Please retry shortly.", "provider_name": "Chutes"},
    ),
    (429, openai("Provider returned error", 429, metadata={"retry_after_seconds": 7}), 7),
    (429, {"detail": "Rate limit exceeded", "retry_after": 9}, 9),
    (429, openai("You have exceeded the 5-hour usage quota. It will reset at 2026-10-21 15:30:00 +0800 CST"), 120),
    (429, {"error": "Too Many Requests", "retryAfter": "3s"}, 3),
    (429, "<html><head><title>429 Too Many Requests</title></head></html>", None),
    (429, "", None),
]
"""With the pause that each asks for. The answers are of 2026-10-21, 07:28 UTC."""

OUT_OF_MEMORY = (
    "oMLX prefill memory guard rejected this prompt: predicted peak would require ~78.31 GB but prefill safety cap is"
    " 77.76 GB. Raise kernel iogpu.wired_limit_mb in Terminal, or reduce context length."
)

OVERLOADED: list[Said] = [
    (400, openai(OUT_OF_MEMORY, "prefill_memory_exceeded")),
    *at(
        200,
        openai("predicted peak would exceed prefill safety cap 77.8GB, or reduce context length.", None),
        openai("Request aborted: process memory limit exceeded (usage 49.8 GB). Reduce context length.", None),
        {"success": False, "errors": [{"code": 3040, "message": "Capacity temporarily exceeded, please try again."}]},
    ),
    (529, anthropic("overloaded_error", "Overloaded")),
    (400, openai("Selected model is at capacity. Please try a different model.", None, "server_error")),
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
    (200, zhipu("1305", "The model has too many visits at the moment, please try again later")),
    (200, google(503, "UNAVAILABLE", "This model is currently experiencing high demand.")),
]
