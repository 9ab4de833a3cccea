"""Anthropic's Messages: the dialect, and how requests are written. ``messages`` writes their conversations."""

import re
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import MIN_OUTPUT, OutputLimit, limit_of, read_limit
from gateway.domain.rawjson import Fields, is_nothing
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.answer_formats import JSON_FORMATS, JSON_LINE
from gateway.upstream.anthropic.cache_marks import CACHE_MARK, marks_cache, remove_marks, set_marks
from gateway.upstream.anthropic.messages import Dialogue, tools_and_choice
from gateway.upstream.anthropic.models import AnthropicModel, model_of
from gateway.upstream.anthropic.reader import MessageReader
from gateway.upstream.call_memory import Recall
from gateway.upstream.efforts import BUDGETS, nearest_level
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.tool_schemas import STRICT, fit_schemas, strict_schema
from gateway.upstream.translation import Parameters, conversation_of, read_caps, with_limit

VERSION = "2023-06-01"
"""The version of the API. 2026-10-21 differs only by refusing sampling parameters, which older models accept."""
_OWN_NAMES = {
    **dict.fromkeys(("thinking", "enabled", "adaptive", "disabled", "effort", "output_config"), "reasoning_effort"),
    "stop_sequences": "stop",
    "user_id": "user",
}
"""The client's names of fields by the vendor's; of a path such as ``thinking.type.enabled``, by its last part."""
_TIERS = {"auto": "auto", "default": "standard_only"}
_PERSONAL = re.compile(r".*@.*|\+?[\d\s()./-]{7,}")
"""Matches what looks like an e-mail address or a telephone number, which the vendor does not want."""


class AnthropicDialect(ChannelDialect):
    """Anthropic's dialect. Clients must send back the thoughts that came before a tool call."""

    own_names = _OWN_NAMES

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        parameters, model = Parameters(order, learned), model_of(served.upstream_name)
        served = with_limit(served, learned)
        if STRICT in learned.dropped:
            model = msgspec.structs.replace(model, structured=False)
        cap = parameters.take_output_cap()
        max_tokens = _max_tokens(cap, model, served, order.output_budget)
        # a limit that the gateway chose leaves half of it to the answer
        max_thinking = max_tokens if cap or order.output_budget is None else max_tokens // 2
        recall = partial(self._memory.recall, order.owner)
        body = {"max_tokens": max_tokens, **_body(parameters, model, max_thinking, recall)}
        if order.stream:
            body["stream"] = True
        if remove_marks(body, refused=CACHE_MARK in learned.dropped):
            parameters.drop(CACHE_MARK)
        elif marks_cache(channel, learned) and conversation_of(order).size >= 2048:  # bytes; less is never cached
            set_marks(body)
        fit_schemas(body, learned.dropped)
        return PreparedRequest(
            url=endpoint(root(channel), "/v1/messages"),
            headers=request_headers(channel, stream=order.stream),
            body=rawjson.encode({"model": served.upstream_name, **body}),
            dropped=parameters.dropped_names,
            lowered_cap=max_tokens if max_tokens < (cap or _max_tokens(None, model, served)) else None,
        )

    def reader(self, order: Order, channel: Channel) -> MessageReader:
        return MessageReader(order, channel, self._memory)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """See ``ChannelDialect``. ``max_tokens`` limits thinking and text together, and always goes out.

        Less may be held only if the client sets no limit, so that it is the gateway's own default.
        """
        cap, _ = read_caps(fields)
        max_tokens = _max_tokens(cap, model_of(served.upstream_name), served)
        thinking, answers = 0, 1
        own: Fields = {name: fields[name] for name in ("thinking", "output_config", CACHE_MARK) if name in fields}
        if own:
            limit = read_limit({**own, "max_tokens": msgspec.Raw(b"1")}, thinks_within=True)
            thinking, answers = limit.capped, limit.choices
        if cap:
            return limit_of(max(max_tokens, thinking), choices=answers)
        minimum = max(thinking, min(max_tokens, MIN_OUTPUT + thinking))
        return limit_of(None, expected=max(max_tokens, thinking), choices=answers, minimum=minimum)

    def model_limit(self, upstream_model: str) -> int | None:
        return model_of(upstream_model).max_output

    def models_request(self, channel: Channel, after: str) -> PreparedRequest:
        """Returns the request for a page of a thousand models."""
        url = endpoint(root(channel), "/v1/models") + "?limit=1000"
        if after:
            url += "&after_id=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=request_headers(channel, stream=False), body=b"")


def root(channel: Channel) -> str:
    """Returns the base URL without the ``/v1`` that may be at its end."""
    return channel.base_url.rstrip("/").removesuffix("/v1")


def request_headers(channel: Channel, *, stream: bool) -> dict[str, str]:
    """Returns the request's headers, with the API's version unless the channel sets another."""
    headers = dict(STREAM_HEADERS if stream else PLAIN_HEADERS)
    if not any(name.lower() == "anthropic-version" for name in channel.headers):
        headers["anthropic-version"] = VERSION
    return headers


def _max_tokens(cap: int | None, model: AnthropicModel, served: ServedModel, budget: int | None = None) -> int:
    """Returns the client's limit, else the model's default within ``budget``, but never above the model's own limit."""
    max_tokens = cap or (model.max_tokens if budget is None else min(model.max_tokens, max(1, budget)))
    return max_tokens if served.max_output is None else min(max_tokens, served.max_output)


def _body(parameters: Parameters, model: AnthropicModel, max_thinking: int, recall: Recall) -> dict[str, Any]:
    """Returns the body without ``model``, ``stream`` and ``max_tokens``. Raises BadRequest."""
    conversation = parameters.conversation
    _refuse_inexpressible(parameters)
    dialogue = Dialogue(conversation.turns, recall, system_messages=model.system_messages, prefill=model.prefill)
    forces_call = conversation.choice.forced and bool(conversation.allowed_tools)
    effort, effort_name, own_thinking = _take_thinking(parameters)
    thinking = plan_thinking(effort, model, max_thinking, may_budget=not dialogue.thoughtless)
    if forces_call and not model.forced_thinking and _thinks(thinking or {}):
        thinking = None
    body: dict[str, Any] = {"system": dialogue.system, "messages": dialogue.messages, **(thinking or {})}
    body |= _tools_and_format(parameters, model, body)
    body["stop_sequences"] = parameters.take_stops(str.strip)  # blank ones are refused
    if thinking is None:
        parameters.drop(effort_name)
    parameters.drop(*conversation.dropped_reasoning(lambda thought: bool(thought.signed) or thought.empty))
    # fields of Anthropic's own names override others
    own = {"thinking": own_thinking, CACHE_MARK: parameters.take_raw(CACHE_MARK)}
    body |= {name: value for name, value in own.items() if not rawjson.is_null(value)}
    config = rawjson.maybe(parameters.take_raw("output_config"))
    if isinstance(config, dict):
        body["output_config"] = {**body.get("output_config", {}), **config}
    body |= _sampling(parameters, model, thinking=_thinks(body)) | _user_and_tier(parameters)
    return {name: value for name, value in body.items() if value is not None and value != []}


def _tools_and_format(parameters: Parameters, model: AnthropicModel, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields for tools and the answer's form: a line in the system prompt for JSON without a schema."""
    form = parameters.take_format()
    schema = strict_schema(form.schema) if model.structured else None
    if schema is None and not rawjson.is_null(form.schema):
        model = msgspec.structs.replace(model, structured=False)
    forbids_parallel = parameters.take("parallel_tool_calls", bool) is False
    conversation, thinking = parameters.conversation, _thinks(body)
    tools, choice = tools_and_choice(conversation, form, model, thinking=thinking, forbids_parallel=forbids_parallel)
    if sum("strict" in tool for tool in tools) < sum(bool(offer.strict) for offer in conversation.allowed_tools):
        parameters.drop(STRICT)
    fields: dict[str, Any] = {"tools": tools, "tool_choice": choice}
    if rawjson.is_null(form.schema):
        line = [{"type": "text", "text": JSON_LINE}] if form.type in JSON_FORMATS else []
        return {**fields, "system": body["system"] + line}
    if schema is not None:
        output_format = {"type": "json_schema", "schema": schema}
        fields["output_config"] = {**body.get("output_config", {}), "format": output_format}
    return fields


def _refuse_inexpressible(parameters: Parameters) -> None:
    """Raises BadRequest for parameters that Anthropic does not have and that change the answer."""
    if (parameters.take("n", int) or 1) > 1:
        raise parameters.refusal("n", "Anthropic returns one choice per call")
    modalities = parameters.take("modalities", list[str]) or ["text"]
    if "audio" in modalities:
        raise parameters.refusal("modalities", "Anthropic has no audio output")
    if modalities != ["text"]:
        parameters.drop("modalities")
    if parameters.take("logprobs", bool):
        raise parameters.refusal("logprobs", "Anthropic does not return probabilities")


def plan_thinking(
    effort: str | None, model: AnthropicModel, max_tokens: int, *, may_budget: bool
) -> dict[str, Any] | None:
    """Returns the fields ``thinking`` and ``output_config``, if needed; None if the effort cannot be expressed.

    ``may_budget``: a thinking budget is allowed, since no earlier thought is lost. Adaptive thinking works anyway.
    """
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": model.thinking_off}} if model.thinking_off else {}
    if effort not in BUDGETS or not (model.efforts or model.thinking_budget):
        return None
    if model.efforts:
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": nearest_level(effort, model.efforts)}}
    if not may_budget or max_tokens <= BUDGETS["minimal"]:
        return None
    return {"thinking": {"type": "enabled", "budget_tokens": min(BUDGETS[effort], max_tokens - 1)}}


def _take_thinking(parameters: Parameters) -> tuple[str | None, str, msgspec.Raw]:
    """Returns the effort, the parameter that it is from, and the field ``thinking`` in Anthropic's form, or null.

    DeepSeek, Zhipu and Moonshot have the field ``thinking`` too, but without the budget that Anthropic requires.
    Zhipu's may have no type either; it is left out.
    """
    effort, own = parameters.take("reasoning_effort", str), parameters.take_raw("thinking")
    thinking = rawjson.maybe(own)
    if isinstance(thinking, dict) and "type" not in thinking:
        parameters.drop("thinking")
        own = rawjson.NULL
    if rawjson.at(thinking, "type") == "enabled" and "budget_tokens" not in thinking:
        return effort or "medium", "reasoning_effort" if effort else "thinking", rawjson.NULL
    return effort, "reasoning_effort", own


def _thinks(body: dict[str, Any]) -> bool:
    return rawjson.at(body.get("thinking"), "type") in ("enabled", "adaptive")


def _sampling(parameters: Parameters, model: AnthropicModel, *, thinking: bool) -> dict[str, Any]:
    temperature, top_p = parameters.take("temperature", float), parameters.take("top_p", float)
    sampling: dict[str, Any] = {
        "temperature": None if temperature is None else min(temperature, 1.0),
        "top_p": top_p,
        "top_k": parameters.take("top_k", int),
    }
    sampling = {name: value for name, value in sampling.items() if value is not None}
    if thinking or not model.sampling:
        parameters.drop(*sampling)
        return {}
    if model.one_sampler and "temperature" in sampling and sampling.pop("top_p", None) is not None:
        parameters.drop("top_p")
    return sampling


def _user_and_tier(parameters: Parameters) -> dict[str, Any]:
    fields, metadata = dict[str, Any](), parameters.take_raw("metadata")
    safety, user = (parameters.take(name, str) or "" for name in ("safety_identifier", "user"))
    own = rawjson.maybe_fields(metadata)
    own_id = rawjson.maybe(own.get("user_id"))  # other fields may be large
    if own_id is not None:
        fields["metadata"] = {"user_id": own_id}
    elif (name := safety or user) and not _PERSONAL.fullmatch(name):
        fields["metadata"] = {"user_id": name}
    elif name:
        parameters.drop("safety_identifier" if safety else "user")
    if own.keys() != {"user_id"} and not (is_nothing(metadata) or bytes(memoryview(metadata)[:2]) == b"{}"):
        parameters.drop("metadata")
    if (tier := parameters.take("service_tier", str) or "") in _TIERS:
        fields["service_tier"] = _TIERS[tier]
    elif tier:
        parameters.drop("service_tier")
    return fields
