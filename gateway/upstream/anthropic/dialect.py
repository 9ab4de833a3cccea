"""Anthropic's Messages: the dialect, how conversations become its requests, and what its errors mean.

The vendor caches a prompt only up to blocks marked with ``cache_control``, four at most. Clients of chat completions
set none, so they would pay the full price for the whole conversation in every turn. The marks go

- after the tools and after the system's words, which other conversations begin with as well;

- after the user's last message, so that the next turn finds everything that was sent in this one;

- after the user's last message but one, where the turn before put its last mark: the vendor looks back only twenty
blocks from a mark, and a turn may have more.

Writing to the cache costs more than plain input, usually a quarter, so a single question without tools is not marked at
its end: it may never be continued. A client that sets a mark itself is left alone. An upstream that refuses marks gets
none for an hour, not even the client's: see ``learned_params``.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import LEAST_OUTPUT, OutputLimit, limit_of, read_limit
from gateway.domain.rawjson import Fields, is_nothing
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.anthropic.messages import JSON_LINE, Dialogue, equip
from gateway.upstream.anthropic.models import ALL_EFFORTS, AnthropicModel, AnthropicThinking, row_of
from gateway.upstream.anthropic.reader import MessageReader
from gateway.upstream.call_memory import Recall
from gateway.upstream.error_body import read_error
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.translation import JSON_FORMATS, Parameters, conversation_of, read_caps, refusal_of
from gateway.upstream.vendors import ANTHROPIC

BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Tokens for thinking. They count towards ``max_tokens`` and must stay below it."""


def plan_thinking(effort: str | None, row: AnthropicModel, max_tokens: int, *, bound: bool) -> dict[str, Any] | None:
    """Returns ``thinking`` and ``output_config``, where needed; None: the effort cannot be expressed.

    ``bound``: a tool call is demanded, or earlier thoughts are lost; a thinking budget allows neither, adaptive
    thinking both.
    """
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": row.off}} if row.off else {}
    if effort not in BUDGETS or row.thinking is AnthropicThinking.NONE:
        return None
    if row.thinking is AnthropicThinking.ADAPTIVE:
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": _word(effort, row)}}
    if bound or max_tokens <= BUDGETS["minimal"]:
        return None
    budget = min(BUDGETS[effort], max_tokens - 1)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _word(effort: str, row: AnthropicModel) -> str:
    """Returns the model's strongest word that is not stronger than the requested one."""
    wanted = ALL_EFFORTS.index("low" if effort == "minimal" else effort)
    known = [word for word in row.efforts if ALL_EFFORTS.index(word) <= wanted]
    return known[-1] if known else row.efforts[0]


VERSION = "2023-06-01"
"""The version of the API. For what is sent here 2026-10-21 differs only by refusing sampling parameters; older models
accept them."""

_TIERS = {"auto": "auto", "default": "standard_only"}
_PERSONAL = re.compile(r".*@.*|\+?[\d\s()./-]{7,}")
"""What looks like an e-mail address or a telephone number, which the vendor does not want."""


def prepare(
    order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals, recall: Recall
) -> PreparedRequest:
    """Returns the request. Raises AttemptFailed (``client``, not sent) for what Anthropic has no counterpart of."""
    parameters, row = Parameters(order, learned), row_of(served.upstream_name)
    try:
        cap = parameters.take_output_cap()
        max_tokens = _max_tokens(cap, row, served, order.output_budget)
        thinking_room = max_tokens if cap or order.output_budget is None else max_tokens // 2
        body = _body(parameters, row, (max_tokens, thinking_room), recall)
    except BadRequest as fault:
        raise refusal_of(channel, fault) from fault
    if order.stream:
        body["stream"] = True
    if CACHE_MARK in learned.dropped:
        if _remove_marks(body):
            parameters.drop(CACHE_MARK)
    elif marks_cache(channel, learned) and conversation_of(order).size >= 2048:  # bytes; less is never cached
        _mark(body)
    return PreparedRequest(
        url=endpoint(root(channel), "/v1/messages"),
        headers=headers(channel, stream=order.stream),
        body=rawjson.encode({"model": served.upstream_name, **body}),
        dropped=parameters.left_out,
        lowered=max_tokens if max_tokens < (cap or _max_tokens(None, row, served)) else None,
    )


CACHE_MARK = "cache_control"
"""The field of a block that is a mark."""


def _mark(body: dict[str, Any]) -> None:
    """Set the marks in the body of a request, unless the client set one."""
    if any(CACHE_MARK in block for block in _blocks_of(body)):
        return
    tools, system, messages = body.get("tools", []), body.get("system", []), body["messages"]
    ends = [blocks[-1] for blocks in (tools, system) if blocks]
    if tools or any(message["role"] == "assistant" for message in messages):
        asked = [message["content"][-1] for message in messages if message["role"] == "user"]
        ends += asked[-2:]
    for block in ends:
        block[CACHE_MARK] = {"type": "ephemeral"}


def _remove_marks(body: dict[str, Any]) -> bool:
    """Remove all marks from the body of a request. Returns whether there were any."""
    marks = [block.pop(CACHE_MARK) for block in _blocks_of(body) if CACHE_MARK in block]
    return bool(marks)


def _blocks_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns everything that may have a mark. Thoughts may be raw bytes, which cannot have any."""
    said = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return [body, *body.get("tools", []), *body.get("system", []), *said]


def marks_cache(channel: Channel, learned: LearnedRefusals) -> bool:
    """Returns whether requests to this channel get cache marks if the client sets none."""
    wanted = channel.dialect is Dialect.ANTHROPIC and channel.cache_marks
    return wanted and CACHE_MARK not in learned.dropped


def output_limit(fields: Fields, served: ServedModel) -> OutputLimit:
    """Returns the most output that the outgoing request allows: ``max_tokens`` limits thinking and text together.

    A limit always goes out. Less may be held only if the client named none, and the default is the gateway's own.
    """
    cap, _ = read_caps(fields)
    max_tokens = _max_tokens(cap, row_of(served.upstream_name), served)
    extra, answers = 0, 1
    own: Fields = {name: fields[name] for name in ("thinking", "output_config", "cache_control") if name in fields}
    if own:
        limit = read_limit({**own, "max_tokens": msgspec.Raw(b"1")}, thinks_within=True)
        extra, answers = limit.capped, limit.choices
    if cap:
        return limit_of(max(max_tokens, extra), choices=answers)
    least = max(extra, min(max_tokens, LEAST_OUTPUT + extra))
    return limit_of(None, expected=max(max_tokens, extra), choices=answers, minimum=least)


def _max_tokens(cap: int | None, row: AnthropicModel, served: ServedModel, budget: int | None = None) -> int:
    """Returns the client's limit, else the row's and what can be paid, but not more than the model can write."""
    wanted = cap or (row.max_tokens if budget is None else min(row.max_tokens, max(1, budget)))
    return wanted if served.max_output is None else min(wanted, served.max_output)


def root(channel: Channel) -> str:
    """Returns the base URL, which may be given with ``/v1`` at its end."""
    return channel.base_url.rstrip("/").removesuffix("/v1")


def headers(channel: Channel, *, stream: bool) -> dict[str, str]:
    """Returns the request's headers, with the API's version unless the channel names another."""
    out = dict(STREAM_HEADERS if stream else PLAIN_HEADERS)
    if not any(name.lower() == "anthropic-version" for name in channel.headers):
        out["anthropic-version"] = VERSION
    return out


def _body(parameters: Parameters, row: AnthropicModel, limits: tuple[int, int], recall: Recall) -> dict[str, Any]:
    """The body, except for ``model`` and ``stream``. Raises BadRequest for what cannot be left out.

    ``limits``: the output limit, and the part of it that may be spent on thinking.
    """
    max_tokens, thinking_room = limits
    take, conversation = parameters.take, parameters.conversation
    _refuse(parameters)
    talk = Dialogue(conversation.turns, recall, system_inside=row.system_inside)
    bound = talk.thoughtless or (conversation.choice.forced and bool(conversation.allowed_tools))
    effort, own_thinking, source = _thinking(parameters)
    plan = plan_thinking(effort, row, thinking_room, bound=bound)
    form, single = parameters.take_format(), take("parallel_tool_calls", bool) is False
    tools, choice = equip(conversation, form, row, thinking=_thinks(plan or {}), single=single)
    system, held = talk.system, not rawjson.is_null(form.schema)
    if form.type in JSON_FORMATS and not held:
        system = [*system, {"type": "text", "text": JSON_LINE}]
    stops = parameters.take_stops(str.strip)  # blank ones are refused
    body: dict[str, Any] = {"max_tokens": max_tokens, "system": system, "messages": talk.messages}
    body |= {"tools": tools, "tool_choice": choice, "stop_sequences": stops}
    body |= plan or {}
    if held and row.structured:
        body["output_config"] = {
            **body.get("output_config", {}),
            "format": {"type": "json_schema", "schema": form.schema},
        }
    if plan is None:
        parameters.drop(source)
    parameters.drop(*conversation.dropped_reasoning(lambda thought: bool(thought.signed) or thought.empty))
    _add_own_words(parameters, body, own_thinking)
    body |= _sampling(parameters, row, thinking=_thinks(body)) | _service(parameters)
    return {name: value for name, value in body.items() if value is not None and value != []}


def _refuse(parameters: Parameters) -> None:
    """Raises BadRequest for what cannot be left out without a different answer."""
    if (parameters.take("n", int) or 1) > 1:
        raise parameters.refusal("n", "Anthropic returns one choice per call")
    modalities = parameters.take("modalities", list[str]) or ["text"]
    if "audio" in modalities:
        raise parameters.refusal("modalities", "Anthropic has no audio output")
    if modalities != ["text"]:
        parameters.drop("modalities")
    if parameters.take("logprobs", bool):
        raise parameters.refusal("logprobs", "Anthropic does not return probabilities")


def _thinking(parameters: Parameters) -> tuple[str | None, msgspec.Raw, str]:
    """Returns the effort of thinking, what Anthropic's own words say of it, and the parameter with the effort.

    DeepSeek, Zhipu and Moonshot have the same words, but no budget, which Anthropic requires.
    """
    effort, own = parameters.take("reasoning_effort", str), parameters.take_raw("thinking")
    given = rawjson.maybe(own)
    if rawjson.at(given, "type") == "enabled" and "budget_tokens" not in given:
        return effort or "medium", rawjson.NULL, "reasoning_effort" if effort else "thinking"
    return effort, own, "reasoning_effort"


def _add_own_words(parameters: Parameters, body: dict[str, Any], thinking: msgspec.Raw) -> None:
    """Adds fields in Anthropic's own words, which override others."""
    own = {"thinking": thinking, "cache_control": parameters.take_raw("cache_control")}
    body |= {name: value for name, value in own.items() if not rawjson.is_null(value)}
    config = rawjson.maybe(parameters.take_raw("output_config"))
    if isinstance(config, dict):
        body["output_config"] = {**body.get("output_config", {}), **config}


def _sampling(parameters: Parameters, row: AnthropicModel, *, thinking: bool) -> dict[str, Any]:
    temperature, top_p = parameters.take("temperature", float), parameters.take("top_p", float)
    wanted: dict[str, Any] = {
        "temperature": None if temperature is None else min(temperature, 1.0),
        "top_p": top_p,
        "top_k": parameters.take("top_k", int),
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if thinking or not row.sampling:
        parameters.drop(*wanted)
        return {}
    if row.one_sampler and "temperature" in wanted and wanted.pop("top_p", None) is not None:
        parameters.drop("top_p")
    return wanted


def _service(parameters: Parameters) -> dict[str, Any]:
    """Adds the user's id and the service tier."""
    out, metadata = dict[str, Any](), parameters.take_raw("metadata")
    safety, user = (parameters.take(name, str) or "" for name in ("safety_identifier", "user"))
    own = rawjson.maybe(rawjson.maybe_fields(metadata).get("user_id"))  # the rest may be large
    if own is not None:
        out["metadata"] = {"user_id": own}
    elif (name := safety or user) and not _PERSONAL.fullmatch(name):
        out["metadata"] = {"user_id": name}
    elif name:
        parameters.drop("safety_identifier" if safety else "user")
    if own is None and not (is_nothing(metadata) or bytes(memoryview(metadata)[:2]) == b"{}"):
        parameters.drop("metadata")
    if (tier := parameters.take("service_tier", str) or "") in _TIERS:
        out["service_tier"] = _TIERS[tier]
    elif tier:
        parameters.drop("service_tier")
    return out


def _thinks(body: dict[str, Any]) -> bool:
    return rawjson.at(body.get("thinking"), "type") in ("enabled", "adaptive")


_OWN_NAMES = {
    **dict.fromkeys(("thinking", "enabled", "adaptive", "disabled", "effort", "output_config"), "reasoning_effort"),
    "stop_sequences": "stop",
}
"""Fields of the request that the client knows by another name; of ``thinking.type.enabled`` the last part is used."""

_NO_MARKS = re.compile(
    r"\b(?:extra|extraneous|unknown|unsupported|unexpected|unrecognized|invalid)\b[^.]{0,60}\bcache_control\b"
    r"|\bcache_control\b[^.]{0,60}(?:\bnot (?:permitted|supported|allowed|recognized|enabled)|\bunsupported|\bunknown)"
    r"|prompt caching[^.]{0,40}\bnot\b|\bnot (?:support|allow)[^.]{0,40}\bprompt caching",
    re.IGNORECASE,
)
"""How upstreams refuse cache marks; a wrong mark, or one too many, is refused in other words."""


class AnthropicDialect(ChannelDialect):
    """Anthropic's dialect. The API wants the thoughts before tool calls back."""

    base_url = ANTHROPIC.base_url
    own_names = _OWN_NAMES

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. Raises AttemptFailed for one without a counterpart there."""
        return prepare(order, channel, served, learned, partial(self._memory.recall, order.owner))

    def reader(self, order: Order, channel: Channel) -> MessageReader:
        return MessageReader(order, channel, self._memory)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        failure = super().failure(channel, status, headers, body)
        if failure.kind is FailureKind.CLIENT and _NO_MARKS.search(read_error(body).message[:1000]):
            return msgspec.structs.replace(failure, parameters=(*failure.parameters, CACHE_MARK))
        return failure

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        return output_limit(fields, served)

    def model_limit(self, upstream_model: str) -> int | None:
        return row_of(upstream_model).max_output

    def models_request(self, channel: Channel, after: str) -> PreparedRequest:
        """Returns the request for a page of a thousand models."""
        url = endpoint(root(channel), "/v1/models") + "?limit=1000"
        if after:
            url += "&after_id=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=headers(channel, stream=False), body=b"")
