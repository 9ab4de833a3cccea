"""A client's chat request as a request to Anthropic's Messages, ``reasoning_effort`` included."""

import re
from typing import Any

import msgspec

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.adapter import LearnedRefusals, Order, PreparedRequest
from gateway.upstream.anthropic import cache_marks, tools
from gateway.upstream.anthropic.messages import Dialogue, dialogue
from gateway.upstream.anthropic.models import ALL_EFFORTS, AnthropicModel, AnthropicThinking, row_of
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.output_limit import LEAST_OUTPUT, OutputLimit, limit_of
from gateway.upstream.rawjson import Fields
from gateway.upstream.translate.conversation import read_turns
from gateway.upstream.translate.request import (
    ChatFields,
    Toolbox,
    left_out,
    open_order,
    read_caps,
    read_request,
    read_tools,
    refusal_of,
    unsupported_param,
)
from gateway.upstream.translate.tool_names import Signatures

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens to think with. They count towards ``max_tokens`` and must stay below it."""
LEAST_BUDGET = 1024


class ThinkingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into the request."""

    fields: dict[str, Any] = {}
    """``thinking`` and ``output_config``, where there are any."""
    dropped: bool = False
    """The effort could not be put into words."""

    @property
    def on(self) -> bool:
        """Whether thinking is requested explicitly; it forbids sampling parameters."""
        return self.fields.get("thinking", {}).get("type") in {"enabled", "adaptive"}


def plan_thinking(request: ChatFields, row: AnthropicModel, max_tokens: int, *, bound: bool) -> ThinkingPlan:
    """The plan. ``bound``: a tool call is demanded, or earlier thoughts are lost, and a thinking budget allows neither.

    Adaptive thinking allows both.
    """
    effort = request.reasoning_effort
    if effort is None:
        return ThinkingPlan()
    if effort == "none":
        return ThinkingPlan(fields={"thinking": {"type": row.off}} if row.off else {})
    if effort not in BUDGETS or row.thinking is AnthropicThinking.NONE:
        return ThinkingPlan(dropped=True)
    if row.thinking is AnthropicThinking.ADAPTIVE:
        thinking = {"type": "adaptive", "display": "summarized"}
        return ThinkingPlan(fields={"thinking": thinking, "output_config": {"effort": _word(effort, row)}})
    if bound or max_tokens <= LEAST_BUDGET:
        return ThinkingPlan(dropped=True)
    budget = min(BUDGETS[effort], max_tokens - 1)
    return ThinkingPlan(fields={"thinking": {"type": "enabled", "budget_tokens": budget}})


def _word(effort: str, row: AnthropicModel) -> str:
    """The strongest word the model knows that is not stronger than the requested one."""
    wanted = ALL_EFFORTS.index("low" if effort == "minimal" else effort)
    known = [word for word in row.efforts if ALL_EFFORTS.index(word) <= wanted]
    return known[-1] if known else row.efforts[0]


VERSION = "2023-06-01"
"""Of the API. For what is sent here 2026-10-21 differs only by refusing sampling parameters; older models take them."""

UNDERSTOOD = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "tools", "functions", "tool_choice", "function_call"),
        *("parallel_tool_calls", "response_format", "max_completion_tokens", "max_tokens", "temperature", "top_p"),
        *("top_k", "stop", "n", "logprobs", "top_logprobs", "modalities", "reasoning_effort", "service_tier", "user"),
        *("safety_identifier", "thinking", "output_config", "cache_control", "metadata"),
    }
)
"""Fields with a counterpart, and those that are refused instead of left out."""

_TIERS = {"auto": "auto", "default": "standard_only"}
_PERSONAL = re.compile(r".*@.*|\+?[\d\s()./-]{7,}")
"""What looks like an e-mail address or a telephone number; the vendor wants neither."""


class _Metadata(msgspec.Struct):
    user_id: msgspec.Raw = rawjson.NULL


_METADATA = msgspec.json.Decoder(_Metadata)
_TINY = 16
"""Bytes of a JSON value that may be an empty one."""


def prepare(
    order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals, signatures: Signatures
) -> PreparedRequest:
    """The request. Raises AttemptFailed (``client``, not sent) for what Anthropic has no counterpart of."""
    order = open_order(order)
    fields = {name: value for name, value in order.fields.items() if name not in learned.dropped}
    dropped = [name for name in learned.dropped if name in order.fields]
    row = row_of(served.upstream_name)
    try:
        request = read_request(fields)
        max_tokens = _max_tokens(request.output_cap, row, served, order.output_budget)
        thinking_room = max_tokens if request.output_cap or order.output_budget is None else max_tokens // 2
        body = _body(request, row, (max_tokens, thinking_room), signatures, dropped)
    except BadRequest as fault:
        raise refusal_of(channel, fault) from fault
    if order.stream:
        body["stream"] = True
    if cache_marks.FIELD in learned.dropped:
        if cache_marks.remove(body):
            dropped.append(cache_marks.FIELD)
    elif marks_cache(channel, learned) and (order.long.mark or _size(fields) >= cache_marks.LEAST_BYTES):
        cache_marks.mark(body)
    return PreparedRequest(
        url=endpoint(root(channel), "/v1/messages"),
        headers=headers(channel, stream=order.stream),
        body=rawjson.encode({"model": served.upstream_name, **body}),
        dropped=tuple(dict.fromkeys((*dropped, *left_out(fields, UNDERSTOOD)))),
        lowered=max_tokens if max_tokens < (request.output_cap or _max_tokens(None, row, served)) else None,
    )


def _size(fields: Fields) -> int:
    return sum(len(memoryview(value)) for value in fields.values())


def marks_cache(channel: Channel, learned: LearnedRefusals) -> bool:
    """Whether requests to this channel get marks for the vendor's prompt cache where the client sets none."""
    wanted = channel.dialect is Dialect.ANTHROPIC and channel.cache_marks
    return wanted and cache_marks.FIELD not in learned.dropped


def output_limit(fields: Fields, served: ServedModel) -> OutputLimit:
    """The most output that the request allows as it goes out: ``max_tokens`` bounds thinking and text together.

    A limit always goes out; only if the client named none, and the default is the gateway's own, may less be held.
    """
    cap, _ = read_caps(fields)
    max_tokens = _max_tokens(cap, row_of(served.upstream_name), served)
    if cap:
        return limit_of(max_tokens)
    return limit_of(None, expected=max_tokens, minimum=min(max_tokens, LEAST_OUTPUT + _own_budget(fields)))


def _own_budget(fields: Fields) -> int:
    """Tokens to think with that the client names in Anthropic's own words; ``max_tokens`` must be above them."""
    thinking = rawjson.maybe(fields.get("thinking"))
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return max(0, budget) if isinstance(budget, int) else 0


def _max_tokens(cap: int | None, row: AnthropicModel, served: ServedModel, budget: int | None = None) -> int:
    """The client's limit or else the row's and what can be paid, but not more than the model can write."""
    wanted = cap or (row.max_tokens if budget is None else min(row.max_tokens, max(1, budget)))
    return wanted if served.max_output is None else min(wanted, served.max_output)


def root(channel: Channel) -> str:
    """The base URL, which may be given with ``/v1`` at its end."""
    return channel.base_url.rstrip("/").removesuffix("/v1")


def headers(channel: Channel, *, stream: bool) -> dict[str, str]:
    """The request's headers, with the API's version unless the channel names another."""
    out = dict(STREAM_HEADERS if stream else PLAIN_HEADERS)
    if not any(name.lower() == "anthropic-version" for name in channel.headers):
        out["anthropic-version"] = VERSION
    return out


def _body(
    request: ChatFields, row: AnthropicModel, limits: tuple[int, int], signatures: Signatures, dropped: list[str]
) -> dict[str, Any]:
    """Everything but ``model`` and ``stream``; adds to ``dropped`` what could not be put into words.

    ``limits``: the output limit, and the part of it that may be spent on thinking.
    """
    max_tokens, thinking_room = limits
    _refuse(request)
    toolbox = read_tools(request)
    talk = dialogue(read_turns(request.messages), signatures, system_inside=row.system_inside)
    plan = plan_thinking(request, row, thinking_room, bound=_bound(toolbox, talk))
    kit = tools.equip(request, toolbox, row, thinking=plan.on)
    system = [*talk.system, *([{"type": "text", "text": kit.line}] if kit.line else [])]
    body: dict[str, Any] = {"max_tokens": max_tokens, "system": system, "messages": talk.messages}
    body |= {"tools": kit.tools, "tool_choice": kit.choice, "stop_sequences": _stops(request)}
    body |= plan.fields
    if kit.format is not None:
        body["output_config"] = {**body.get("output_config", {}), "format": kit.format}
    if plan.dropped:
        dropped.append("reasoning_effort")
    _add_extras(body, request)
    body |= _sampling(request, row, dropped, thinking=_thinks(body))
    body |= _service(request, dropped)
    return {name: value for name, value in body.items() if value is not None and value != []}


def _refuse(request: ChatFields) -> None:
    """What cannot be left out without giving another answer than the requested one."""
    if request.n is not None and request.n > 1:
        raise unsupported_param("n", "Anthropic returns one choice per call")
    if "audio" in (request.modalities or ()):
        raise unsupported_param("modalities", "Anthropic has no audio output")
    if request.logprobs:
        raise unsupported_param("logprobs", "Anthropic does not return probabilities")


def _bound(toolbox: Toolbox, talk: Dialogue) -> bool:
    return talk.thoughtless or bool(toolbox.forced and toolbox.offers)


def _stops(request: ChatFields) -> list[str]:
    """Blank ones are refused by the API."""
    return [stop for stop in request.stops if stop.strip()]


def _add_extras(body: dict[str, Any], request: ChatFields) -> None:
    """Fields in Anthropic's own words win."""
    for name in ("thinking", "cache_control"):
        value: msgspec.Raw = getattr(request, name)
        if not rawjson.is_null(value):
            body[name] = value
    config = rawjson.maybe(request.output_config)
    if isinstance(config, dict):
        body["output_config"] = {**body.get("output_config", {}), **config}


def _thinks(body: dict[str, Any]) -> bool:
    found = body.get("thinking")
    if isinstance(found, msgspec.Raw):
        found = rawjson.maybe(found)
    return isinstance(found, dict) and found.get("type") in ("enabled", "adaptive")


def _sampling(request: ChatFields, row: AnthropicModel, dropped: list[str], *, thinking: bool) -> dict[str, Any]:
    temperature = None if request.temperature is None else min(request.temperature, 1.0)
    wanted = {"temperature": temperature, "top_p": request.top_p, "top_k": request.top_k}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if thinking or not row.sampling:
        dropped += wanted
        return {}
    if row.one_sampler and "temperature" in wanted and wanted.pop("top_p", None) is not None:
        dropped.append("top_p")
    return wanted


def _service(request: ChatFields, dropped: list[str]) -> dict[str, Any]:
    """The user's id and the service tier."""
    out: dict[str, Any] = {}
    own = _user_of(request.metadata)
    user = request.safety_identifier or request.user
    if own is not None:
        out["metadata"] = {"user_id": own}
    elif user and not _PERSONAL.fullmatch(user):
        out["metadata"] = {"user_id": user}
    elif user:
        dropped.append("safety_identifier" if request.safety_identifier else "user")
    if own is None and (len(memoryview(request.metadata)) > _TINY or rawjson.maybe(request.metadata)):
        dropped.append("metadata")
    if request.service_tier in _TIERS:
        out["service_tier"] = _TIERS[request.service_tier]
    elif request.service_tier is not None:
        dropped.append("service_tier")
    return out


def _user_of(metadata: msgspec.Raw) -> Any:
    """Its ``user_id``; what else there is may be a lot, and is not decoded."""
    try:
        return rawjson.maybe(_METADATA.decode(metadata).user_id)
    except msgspec.DecodeError:
        return None
