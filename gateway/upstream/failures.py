"""Failures: why an attempt failed, judged by what the upstream answered or did, and what the client is told.

The words of an error count before its status: vendors report an empty account under 200, 400, 403, 429 and 500. Codes
that begin with ``upstream_`` are ours, and all but ``upstream_rejected`` have a status of their own. Any other code has
the upstream's status: the client's request was at fault, or it asks for an unknown model.
"""

import re
from collections.abc import Mapping
from typing import Any

from gateway.domain.advice import REDIRECT_ADVICE, WRONG_PATH_ADVICE
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError
from gateway.domain.failure import Failure, UpstreamText
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.screen import ID_HEADERS
from gateway.domain.text import plain
from gateway.upstream.error_body import ErrorBody
from gateway.upstream.pauses import pause_in_words, reset_s, retry_after_s
from gateway.upstream.refused_params import max_output, refused_params
from gateway.upstream.request_rules import rules_in

REJECTED = "upstream_rejected"
"""The code of an error that the upstream sent without one."""
TIMEOUT = "upstream_timeout"
_TIMEOUTS = {"response head": "head", "first event": "head", "comments only": "comments"}
"""The timeouts of a channel, by the names of their deadlines where these differ."""
BAD_RESPONSE = "upstream_bad_response"

_FAULT = frozenset(range(500, 600)) - {504, 524, 529}
"""Statuses of an upstream's own failure. Some upstreams report every error under one of them."""

_NO_MONEY = lazy_pattern(
    r"insufficient[_ ](?:[a-z\d-]{1,30}[_ ]){0,4}(?:quota|balance|credits?|funds?)(?![a-z])|credit[_ ]balance"
    r"|\b(?:balance|credits?|quota)\b[^.]{0,30}(?:insufficient|not enough|too low|exhausted|depleted|used up)"
    r"|spend(?:ing)?[_ ]limit|billing_(?:hard_limit_reached|not_active)|usage[_ ]?limit|perday|exceeded_current_quota"
    r"|(?<!thinking )\bbudget[_ ](?:has been |limit )?ex(?:ceed|haust)ed|key limit exceeded|credit ?limit|extra usage"
    r"|out[_ ]of[_ ]credit|exhausted balance|user is locked|balance_not_enough|free api access limit"
    r"|insufficientbalance|quota_(?:exhausted|reached)|overdue|arrear|in good standing|payment[_ ]required"
    r"|please (?:recharge|top up)|exceeds the service quota|token quota is exceeded|invalidsubscription"
    r"|\b(?:ha(?:ve|s) (?:no|any)|not enough|needs? more) (?:\w+ )?(?:credits?|balance|funds)\b"
    r"|free ?(?:tier|trial)[^.]{0,60}(?:exhausted|used up)|exhausted[^.]{0,20}free|freetieronly|set inference limit"
    r"|(?:plan|subscription|package)[^.]{0,40}has expired|out of call volume|run out of available resources"
    r"|authorize resources to|not purchased or authorized|购买资源|未购买|无任何可用资源|余额(?:不足|已)|欠费|请充值"
    r"|额度(?:不足|失败|已用|已耗)|配额(?:不足|已用)|资源包|使用上限|套餐已(?:过期|到期)"
)
_ALLOWANCE = lazy_pattern(
    r"exceeded (?:your |the |its |today's )?(?:(?:current|monthly|daily|weekly|\d+-hour|usage) ){0,2}quota"
    r"|(?:daily|weekly|monthly) (?:\w+ )?(?:limit|allocation|quota)"
    r"|per[-_ ]day\b|(?:calls|requests|tokens) (?:/|per) month\b|plan_(?:hour|week|month)_quota_exceeded"
    r"|[每今][日天周月].{0,8}(?:上限|限额)"
)
"""Limits that last for hours, unless the upstream says how long to wait."""
_RATE = lazy_pattern(
    r"rate[_ -]?limit|too[_ ]many[_ ]requests|throttl|(?:requests|tokens) per (?:second|minute)|\b[rtq]p[ms] limit"
    r"|\bqps\b[^.]{0,20}limit|concurren(?:cy|t requests?)[^.]{0,40}(?:limit|exceed|reach)|limit_requests"
    r"|(?:high|max|maximum|many|number of) concurren|high frequency usage|request rate increased|current requests list"
    r"|qpsoverflow|(?:error|status)(?: code)?:? ?429|速率限制|频率(?!惩罚)|限流|并发"
)
_TOO_EXPENSIVE = lazy_pattern(r"in[- _]flight|can only afford [1-9]")
"""The account has money, but less than this request and the running ones may cost. OpenRouter says so with 402."""
_TOKEN_RATE = lazy_pattern(r"error-code#token-limit")
"""Matches Alibaba's limit on tokens per minute, whose words are otherwise OpenAI's for an account without credit."""
_NO_MEMORY = lazy_pattern(r"prefill_memory|prefill safety cap|memory (?:guard|ceiling|limit exceeded)")
"""Matches oMLX's refusals for lack of memory. They advise a shorter context, although the model could take this one."""
_BUSY = lazy_pattern(
    r"overload|over capacity|no capacity|capacity_exhausted|at capacity|too busy|(?:server|service|system) (?:is )?busy"
    r"|insufficient_system_resource|unable to handle additional|high (?:demand|traffic)|too many visits"
    r"|capacity temporarily exceeded|繁忙|访问量过大|负载|" + _NO_MEMORY.pattern
)
_BAD_KEY = lazy_pattern(
    r"invalid[_ ](?:api|iam|access|auth)[_ ](?:key|token)|incorrect api key"
    r"|api[_ ]?key[^.]{0,20}(?:not valid|invalid|incorrect|expired|无效)|(?:authentication|permission)[_ ]error"
    r"|invalid[_ ]authentication|unauthori[sz]ed|login fail|\bnot authorized|authorization (?:request )?header"
    r"|authorization token|token (?:is )?(?:invalid|expired|not match)|令牌.{0,8}(?:无效|过期|不可用)"
    r"|location is not supported|free tier is not available|(?:country|region)[^.]{0,20}not supported"
)
_SUSPENDED = lazy_pattern(
    r"account[^.]{0,40}(?:deactivated|suspended|locked)|被锁定|organi[sz]ation(?:_on_hold| has been disabled)"
    r"|resource has been temporarily blocked|cmek_key_disabled|key_creator_not_member|\[user_blocked\]"
)
"""The account is suspended, for whatever reason."""
_NO_MODEL = lazy_pattern(
    r"model_not_(?:found|supported)|not_found_error model|modelnotopen|not a valid model|unknown[_ ]model|no such model"
    r"|not found the model|invalid_model\b|invalid model(?:\.| name passed)|provider not provided"
    r"|specified model is not valid|requested service \S+ is unavailable|deploymentnotfound"
    r"|deployment[^.]{0,60}not exist|no '[^']*' with this string"
    r"|model(?:s|code)?\b.{0,200}?(?:not found|not exist|is not available|not supported for generatecontent)"
    r"|models?\b.{0,200}?(?:decommissioned|deactivated|end of (?:its )?life|no longer available)|no allowed providers"
    r"|model (?:id|identifier)[^.]{0,20} is invalid|on-demand throughput|model is not supported when using"
    r"|no endpoints (?:found|available) (?:for|matching)|no_endpoints|free_variant_ended|(?:privacy|region)_restricted"
    r"|model_(?:deprecated|unavailable_upstream)|not (?:activated|opened) the model"
    r"|function '[^']*': not found for account|specified function in account|check the model (?:you provided|name\b)"
    r"|endpoint with name '[^']*' does not exist|given endpoint does not exist|unsupported_?model\b|unsupported model:"
    r"|supported (?:api )?model names are|repository not found|model type \S+ not supported"
    r"|model_(?:terms_required|permission_blocked)|marked by provider as legacy|use case details have not been"
    r"|marketplace subscription for this model|model fade out|entity with key \S+ not found"
    r"|authorization failed or requested resource|model\b[^.]{0,80} unavailable in your region|model_not_available"
    r"|model '[^']*' was removed|model \S+ is not supported\. supported models|模型.{0,40}(?:不存在|无可用|未开通)"
)
_CERTAINLY_NO_MODEL = lazy_pattern(
    r"model_not_found|not_found_error model|unknown model|no such model|model not found|not support (?:the )?model\b"
    r"|模型.{0,40}(?:不存在|无可用)"
)
"""A narrower pattern for statuses of an upstream's own failure, such as a model that cannot be loaded."""
_DENIED = lazy_pattern(
    r"(?:access to|(?:allowed|authorized|permitted|entitled) to (?:use|access|call|invoke|(?:\w+ ){1,2}from))"
    r" (?:the |this |that |requested |specified )*models?\b"
    r"|\bmodels?\b.{0,120}?(?:not have access|no access|access denied)"
    r"|\bmodels?\b.{0,120}?not (?:enabled|supported|allowed|authorized|permitted)"
    r"|no permission to use the model|not support the model|\bmodel requires a subscription"
    r"|1220 .{0,40}permission to access|无权访问|only available for coding agents"
    r"|by api key model allowlist|modelarts\.81004|\bmodel is gated|model_access_denied|model is only available to"
)
"""The key is valid, but not for this model, or at Kimi's plan not for this program."""
_OTHER_API = lazy_pattern(
    r"unsupported_api_for_model|wrong_endpoint|\bmodel\b.{0,200}? not (?:support the '[^']*' api|supported for format)"
    r"|\bmodel (?:\S+ )?(?:is not supported|does not support)\b.{0,12}\bresponses api"
    r"|this (?:model is only|is (?:not )?a chat model and (?:thus )?not) supported in"
    r"|operation does not work with the specified model|isn't supported on this route"
)
"""The upstream has the model, but not in the API of the request: Copilot, Bedrock, OpenCode Zen, vLLM and others."""
_NO_STATE = lazy_pattern(
    r"(?:previous[_ ]response|response (?:with )?id|item with id|\bresp_\w|prediction history node)"
    r"[^.]{0,160}(?:not[_ ]found|not exist|no longer|expired)|item id does not belong to this connection"
)
_NO_ITEM = lazy_pattern(
    r"\b(?:item|conversation|container|vector store)\b[^.]{0,80}not (?:found|exist)|no endpoints found that support"
    r"|image_not_found|constraint_filtered"
)
_WANTS_TLS = lazy_pattern(r"plain http request was sent to https|http request to an https server")
_FILTER = lazy_pattern(
    r"content[_ ]filter|data_?inspection|content[_ ]polic(?:y|ies)|contain sensi?tive|responsibleai|high risk"
    r"|sensitive[_ ]?content|risk_?detection|censorship|inappropriate content|our safety system"
    r"|prompt injection (?:\w+ )?detected|guardrail|blocked due to security|blocked (?:in|out)put:"
    r"|violates? (?:\w+ )?usage guidelines|new_sensitive|prompt filtered|can.?t help with that request"
    r"|敏感|不安全|违规"
)
_FLAGGED = lazy_pattern(_FILTER.pattern + r"|moderation|flagged|safety|blocked_by_policy|\brefusal\b")
_TOO_LONG = lazy_pattern(
    r"context[_ ]?(?:length|window|size|limit)|context_exceeded|maximum context|max(?:imum)? (?:model )?context"
    r"|prompt(?:s|_tokens)? (?:is |are )?(?:too long|too large|longer than|超长)|maximum (?:prompt|input) length"
    r"|prompt contains \d+ tokens|prompt \([a-z ]{0,20}length \d+\) is (?:too long|longer)|prompt length \d+ exceeds"
    r"|exceed max_num_tokens|tokens in request more than max|must have less than \d+ tokens"
    r"|input exceeds the maximum number of tokens"
    r"|input (?:context )?(?:is )?too long|too many (?:input )?tokens(?!, please wait)|exceeded model token limit"
    r"|max_seq_len|max message tokens|max_tokens must be at least ?1, got -|n_keep[^.]{0,20}>= n_ctx"
    r"|(?:tokens|characters)_too_long|prompt exceeds max length|max_prompt_tokens_exceeded|tokens_limit_reached"
    r"|too_many_prompt_tokens"
    r"|input request: expected maxlength"
    r"|input[_ ](?:length|token count|tokens?)[^.]{0,60}(?:exceed|too long|should be)|token count[^.]{0,40}exceed"
    r"|input \(\d+ tokens\) is too large|reduce the length of|`[^`]*` tokens|supported sequence length"
    r"|上下文.{0,8}(?:长度|超|过长)|压缩上下文|输入.{0,12}(?:超长|过长)"
)
_BLOCKED = lazy_pattern(r"cloudflare|just a moment|attention required|been blocked|captcha")
_BAD_REQUEST = lazy_pattern(
    r"unexpected message role|roles are supported, got|unknown variant|extra_forbidden|invalid params"
    r"|system messages? must be|roles must alternate|system role not supported|no user query found"
    r"|prefill is incompatible|(?:image|audio|video) input is not|only '[^']*' content type|could not process image"
    r"|tool call arguments as json|' object has no attribute|requires --jinja|cannot use both json_schema and grammar"
    r"|invalid_prompt|(?:bio|cyber)_policy|policy_violation|(?:empty|invalid|to_download|base64)_image"
    r"|unsupported_image_|image_(?:file_not_|file_too_|parse_error|too_(?:large|small))"
)
_OWN_FAULT = lazy_pattern(
    r"(?:(?<!\w )|(?:_error|server|timeout|overloaded|unavailable|unmapped) )provider returned error(?:: error)?\s*\Z"
    r"|no models provided|failed to get response from provider"
    r"|upstream request failed(?:: \[invalid_request_error\] invalid upload request)?\.?\s*\Z"
    r"|no models? loaded|not ready for inference|model (?:is |was )?(?:not |un)loaded|model has crashed"
    r"|failed to load model|model is (?:at capacity|overloaded)|server is busy|enginecore encountered an issue"
    r"|\bloading model\s*\Z|\b(?:channel|compute) error\.?\s*\Z|no healthy deployments|cuda error:"
    r"|closed or temporarily unavailable|degraded function|(?:tool_use|json_validate|output_parse)_failed"
)
"""Failures of an upstream that it reports as the client's mistake: OpenRouter, Cloudflare, LiteLLM and OpenCode Zen do
if the provider behind them fails, LM Studio, llama.cpp and Groq if the model does."""

_INVALID_FIELD = lazy_pattern(
    r"\A(?:unknown_parameter|unsupported_(?:parameter|value)|invalid_(?:value|type)) |\btools\.\d+\.model\b"
)
"""Matches OpenAI's codes for a field, whose name and value may be any words with quotes of their own in them, and the
field with the model of Anthropic's advisor, which is not the request's model."""

_RULES: tuple[tuple[FailureKind, frozenset[int], re.Pattern[str] | None], ...] = (
    (FailureKind.CLIENT, frozenset({400}), _INVALID_FIELD),
    (FailureKind.RATE, frozenset({402}), _TOO_EXPENSIVE),
    (FailureKind.QUOTA, frozenset({402}), None),
    (FailureKind.RATE, frozenset({429, *_FAULT}), _TOKEN_RATE),
    (FailureKind.QUOTA, frozenset({400, 401, 403, 404, 412, 422, 429, *_FAULT}), _NO_MONEY),
    (FailureKind.QUOTA, frozenset({400, 403, 429, *_FAULT}), _ALLOWANCE),
    (FailureKind.AUTH, frozenset({400, 403, 429, *_FAULT}), _SUSPENDED),
    (FailureKind.SERVER, frozenset({400, *_FAULT}), _NO_MEMORY),
    (FailureKind.CLIENT, frozenset({400, 403, 421}), _FLAGGED),
    (FailureKind.CLIENT, frozenset({422, 424, 446, 451, 498, *_FAULT}), _FILTER),
    (FailureKind.SERVER, frozenset({400}), _WANTS_TLS),
    (FailureKind.MISSING, frozenset({429}), lazy_pattern(r"plan does not (?:yet )?include access to|套餐暂未开放")),
    (FailureKind.RATE, frozenset({429}), None),
    (FailureKind.CLIENT, frozenset({400, 403, 422, *_FAULT}), _TOO_LONG),
    (FailureKind.RATE, frozenset({400, 403, *_FAULT}), _RATE),
    (FailureKind.CLIENT, frozenset({400, 401, 404, 422}), _OTHER_API),
    (FailureKind.CLIENT, frozenset({401, 404}), _NO_STATE),
    (FailureKind.CLIENT, frozenset({403}), lazy_pattern(r"cachedcontent not found|permission to access the file ")),
    (FailureKind.MISSING, frozenset({401, 403}), _DENIED),
    (FailureKind.MISSING, frozenset({403}), _NO_MODEL),
    (FailureKind.AUTH, frozenset({401, 403}), None),
    (FailureKind.AUTH, frozenset({400, *_FAULT}), _BAD_KEY),
    (FailureKind.MISSING, frozenset({400, 404, 422}), _NO_MODEL),
    (FailureKind.MISSING, frozenset({410}), None),
    (FailureKind.MISSING, _FAULT, _CERTAINLY_NO_MODEL),
    (FailureKind.CLIENT, frozenset({404}), _NO_ITEM),
    (FailureKind.SERVER, frozenset({404}), lazy_pattern(r"invalid url|unknown_url")),
    (FailureKind.CLIENT, frozenset({404}), lazy_pattern(r"invalid_request_error")),
    (FailureKind.CLIENT, frozenset({404, *_FAULT}), _BAD_REQUEST),
    (FailureKind.SERVER, frozenset({400, 422}), _OWN_FAULT),
    (FailureKind.SLOW, frozenset({408, 504, 524}), None),
    (FailureKind.CLIENT, frozenset({400, 413, 415, 422, 451}), None),
)
"""The first rule whose status and pattern match applies. Without a match, it is the upstream's own failure."""


def classify(channel: Channel, status: int, error: ErrorBody, headers: Mapping[str, str]) -> Failure:
    """Returns the failure that an answer means. ``status`` may also come from the body of an answer of status 200."""
    headers = {**error.headers, **headers} if error.headers else headers
    pause_s = _requested_pause_s(error, headers)
    kind = _kind(status, error, pauses=pause_s is not None)
    if kind is FailureKind.RATE and pause_s is None:
        pause_s = reset_s(headers)
    code, text = _code_and_text(channel, kind, status, error)
    is_clients_fault = kind is FailureKind.CLIENT
    is_other_api = is_clients_fault and bool(_OTHER_API.search(error.own_words))
    is_fixable = is_clients_fault and status != 413 and not is_other_api
    is_unseen = is_other_api or (is_clients_fault and status == 501)
    names = () if is_unseen else refused_params(error)
    return Failure(
        kind=kind,
        code=code,
        text=UpstreamText(text),
        for_owner=_text_for_owner(kind, text, error),
        status=status,
        param="model" if kind is FailureKind.MISSING and not error.param else None,
        origin={
            "type": UpstreamText(error.type),
            "code": UpstreamText(error.code),
            "param": UpstreamText(error.param),
            "request_id": UpstreamText(error.request_id or upstream_id(headers)),
        },
        retry_after_s=pause_s,
        parameters=(*names, *rules_in(error.words)) if is_fixable else (),
        max_output=max_output(error) if is_fixable else None,
        sent=not is_unseen,  # no model has seen it, and another channel may have the model in this API
    )


def _text_for_owner(kind: FailureKind, text: str, error: ErrorBody) -> UpstreamText | None:
    """Returns the text with the upstream's words about the account, which clients do not get; else None."""
    if kind not in (FailureKind.AUTH, FailureKind.QUOTA) or not (error.is_json and error.message):
        return None
    return UpstreamText(f"{text.partition('. ')[0].rstrip('.')}: {plain(error.message, 300)}")


def _requested_pause_s(error: ErrorBody, headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the upstream asks to wait, in a header, a header in the body, or its words."""
    if (pause_s := retry_after_s(headers)) is not None:
        return pause_s
    if error.headers and (pause_s := reset_s(headers)) is not None:  # they are about the limit that was reached
        return pause_s
    return pause_in_words(error.message.lower(), headers)


def _kind(status: int, error: ErrorBody, *, pauses: bool) -> FailureKind:
    """Returns the kind of an error; ``pauses``: the upstream says how long to wait."""
    words = error.own_words
    if not error.is_json and status == 403 and _BLOCKED.search(words):  # by a firewall in front of the upstream
        return FailureKind.SERVER
    for kind, statuses, pattern in _RULES:
        if status in statuses and (pattern is None or pattern.search(words)):
            return FailureKind.RATE if pattern is _ALLOWANCE and pauses else kind
    # llama.cpp answers so if it was started without what the request needs, such as audio or embeddings
    return FailureKind.CLIENT if status == 501 and error.is_json else FailureKind.SERVER


def _code_and_text(channel: Channel, kind: FailureKind, status: int, error: ErrorBody) -> tuple[str, str]:
    """Returns the code and the message for the client, who never gets the upstream's words about the account."""
    code, text = "upstream_error", _server_text(status, error)
    is_busy = status in (498, 503, 529) or (status != 429 and bool(_BUSY.search(error.own_words)))
    if kind is FailureKind.AUTH:
        fault = "refused the channel's key" if channel.key else "requires a key and the channel has none"
        code, text = "upstream_auth_failed", f"the upstream {fault} (HTTP {status}). Set a valid key for this channel."
    elif kind is FailureKind.QUOTA:
        code, text = "upstream_out_of_credit", f"the upstream account is out of credit or quota (HTTP {status})."
    elif kind is FailureKind.MISSING:
        code, text = "model_not_found", _own_words(status, error)
    elif kind is FailureKind.CLIENT:
        code, text = _client_code(status, error), _own_words(status, error)
    elif kind is FailureKind.SLOW:
        code, text = TIMEOUT, f"the upstream gave up waiting: {_own_words(status, error)}"
    elif is_busy:
        code, text = "upstream_overloaded", f"the upstream is overloaded: {_own_words(status, error)}"
    elif kind is FailureKind.RATE:
        code, text = "upstream_rate_limited", f"the upstream is limiting the rate: {_own_words(status, error)}"
    return code, f"channel '{channel.name}': {text}"


def _client_code(status: int, error: ErrorBody) -> str:
    """Returns a code that programs act on, or ``REJECTED``, which ``redaction`` replaces by the upstream's own code."""
    words = error.own_words
    if status in {400, 401, 404} and _NO_STATE.search(words):
        return "previous_response_not_found"
    if status != 404 and _TOO_LONG.search(words):
        return "context_length_exceeded"
    has_code = error.code and not error.code.isdigit()
    if status == 404 and not has_code and _NO_ITEM.search(words):
        return "not_found"
    return "content_filter" if not has_code and _FILTER.search(words) else REJECTED


def _own_words(status: int, error: ErrorBody) -> str:
    """Returns the upstream's own message, with the status if it was not in JSON."""
    if error.is_json and error.message:
        return error.message
    return f"HTTP {status}: {error.message}" if error.message else f"HTTP {status} with an empty body"


def _server_text(status: int, error: ErrorBody) -> str:
    if 300 <= status < 400:
        return f"redirect refused (HTTP {status}). {REDIRECT_ADVICE}"
    if status == 404:
        return f"the upstream does not know this path (HTTP 404: {error.message}). {WRONG_PATH_ADVICE}"
    if status == 400 and _WANTS_TLS.search(error.own_words):
        return f"the upstream is called without TLS ({_own_words(status, error)}). {WRONG_PATH_ADVICE}"
    return f"the upstream failed: {_own_words(status, error)}"


def lacks_path(failure: Failure) -> bool:
    """Returns whether the upstream lacks the path of the request, and the error is not about the model or the key."""
    return failure.status in (404, 405, 501) and failure.kind not in (FailureKind.MISSING, FailureKind.AUTH)


def upstream_id(headers: Mapping[str, str]) -> str:
    """Returns the upstream's id of the call, or an empty string."""
    return plain(next((headers[name] for name in ID_HEADERS if headers.get(name)), ""), 120)


def unreachable(channel: Channel, reason: str, *, sent: bool, lasting: bool = False) -> Failure:
    """Returns the failure of a connection that was not made, or was lost before an answer came."""
    problem, kind = f"cannot be reached: {reason}", FailureKind.NETWORK
    details = {"setting": "proxy"} if channel.proxy and reason.startswith("the proxy ") else {}
    return _failure(channel, kind, "upstream_unreachable", problem, sent=sent, lasting=lasting, details=details)


def too_slow(channel: Channel, deadline: str, seconds: float, *, sent: bool, place: str = "") -> Failure:
    """Returns the failure of an attempt that missed a deadline; ``deadline`` is its name, for example ``connect``."""
    problem = f"took too long: {deadline} deadline of {seconds:g} s passed{place}"
    kind, details = FailureKind.SLOW if sent else FailureKind.NETWORK, {"timeout": _TIMEOUTS.get(deadline, deadline)}
    return _failure(channel, kind, TIMEOUT, problem, sent=sent, details=details)


def bad_response(channel: Channel, reason: str) -> Failure:
    """Returns the failure of an invalid answer."""
    return _failure(channel, FailureKind.SERVER, BAD_RESPONSE, f"sent a bad answer: {reason}")


def out_of_memory(channel: Channel, subject: str, error: GatewayError) -> Failure:
    """Returns the failure of an answer that was abandoned because the gateway has no memory for it."""
    text = UpstreamText(f"channel '{channel.name}': {subject} was abandoned: {error.message}")
    return Failure(kind=FailureKind.SERVER, code=error.code, text=text, origin={})


def truncation(channel: Channel, reason: str) -> Failure:
    """Returns the failure of a stream that ended before its answer was complete."""
    problem = f"ended the stream before the answer was complete: {reason}"
    return _failure(channel, FailureKind.SERVER, "upstream_stream_truncated", problem)


def _failure(channel: Channel, kind: FailureKind, code: str, problem: str, **facts: Any) -> Failure:
    text = UpstreamText(f"channel '{channel.name}': the upstream {problem}")
    return Failure(kind=kind, code=code, text=text, origin={}, **facts)
