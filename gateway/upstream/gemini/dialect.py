"""Gemini dialect: requests to Google's generateContent. ``request`` writes their conversation and parameters."""

import re
from functools import partial
from typing import Any
from urllib.parse import quote

from gateway.domain import rawjson
from gateway.domain.answer import SealKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import MIN_OUTPUT, OutputLimit, limit_of
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.call_memory import Recall
from gateway.upstream.efforts import chat_effort
from gateway.upstream.gemini.models import GeminiModel, model_of
from gateway.upstream.gemini.reader import ResponseReader
from gateway.upstream.gemini.request import config_of, take_format_lines, thinking_config, tools_of, write_contents
from gateway.upstream.model_list import LIST_HEADERS
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.translation import Parameters, read_caps, with_limit

_OWN_NAMES = {
    **dict.fromkeys(("thinking_config", "thinking_level", "thinking_budget"), "reasoning_effort"),
    "stop_sequences": "stop",
    "response_logprobs": "logprobs",
}
"""Names of fields in Google's API, and the names that clients use for them."""
_COLLECTIONS = frozenset({"models", "tunedModels"})


class GeminiDialect(ChannelDialect):
    """Google's dialect. Signatures of tool calls are remembered, because the API wants them back."""

    own_names = _OWN_NAMES

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        parameters = Parameters(order, learned)
        served = with_limit(served, learned)
        model = model_of(served.upstream_name)
        client_cap = cap = parameters.take_output_cap()
        if cap is None and order.output_budget is not None:  # what the hold pays for, else a typical answer
            cap = max(1, order.output_budget // max(1, read_caps(order.fields)[1]))
        cap = _lower_cap(cap, served)
        method = "streamGenerateContent?alt=sse" if order.stream else "generateContent"
        recall = partial(self._memory.recall, order.owner)
        body = _body(parameters, model, cap, recall, own_cap=client_cap is None)
        return PreparedRequest(
            url=root(channel) + method_path(served.upstream_name, method),
            headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
            body=rawjson.encode(body),
            dropped=parameters.dropped_names,
            lowered_cap=cap if cap != client_cap else None,
        )

    def reader(self, order: Order, channel: Channel) -> ResponseReader:
        return ResponseReader(order, channel, self._memory)

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """See ``ChannelDialect``. ``maxOutputTokens`` limits thoughts and text together."""
        cap, choices = read_caps(fields)
        if cap is not None:
            return limit_of(_lower_cap(cap, served), choices=max(1, choices))
        budget = (thinking_config(chat_effort(fields), model_of(served.upstream_name)) or {}).get("thinkingBudget", 0)
        minimum = MIN_OUTPUT if budget else 0
        return limit_of(None, expected=DEFAULT_OUTPUT + budget, choices=max(1, choices), minimum=minimum)

    def model_limit(self, upstream_model: str) -> int | None:
        return model_of(upstream_model).max_output

    def models_request(self, channel: Channel, after: str) -> PreparedRequest:
        """Returns the request for a page of a thousand models."""
        url = root(channel) + "/models?pageSize=1000"
        if after:
            url += "&pageToken=" + quote(after, safe="")
        return PreparedRequest(url=url, headers=LIST_HEADERS, body=b"")


def root(channel: Channel) -> str:
    """Returns the base URL with the API's version. The URL of Google's OpenAI-compatible API works as well."""
    base = channel.base_url.rstrip("/").removesuffix("/openai")
    return base if re.search(r"/v\d\w*\Z", base) else endpoint(base, "/v1beta")


def method_path(model: str, method: str) -> str:
    """Returns the path of a model's method. A name may have its collection in front, as tuned models do."""
    collection, slash, name = model.partition("/")
    if not slash or collection not in _COLLECTIONS or "/" in name or name in {".", ".."}:
        collection, name = "models", model
    return f"/{collection}/{quote(name, safe='')}:{method}"


def _lower_cap(cap: int | None, served: ServedModel) -> int | None:
    return cap if cap is None or served.max_output is None else min(cap, served.max_output)


def _body(
    parameters: Parameters, model: GeminiModel, cap: int | None, recall: Recall, *, own_cap: bool
) -> dict[str, Any]:
    """Returns the request's body. ``own_cap``: the gateway chose the output limit. Raises BadRequest."""
    conversation = parameters.conversation
    body = write_contents(conversation.turns, recall, model) | tools_of(conversation)
    if "tools" in body and not model.json_with_tools and (lines := take_format_lines(parameters)):
        body.setdefault("systemInstruction", {"parts": []})["parts"] += lines
    if config := config_of(parameters, model, cap, own_cap=own_cap):
        body["generationConfig"] = config
    if parameters.take("parallel_tool_calls", bool) is False:
        parameters.drop("parallel_tool_calls")
    if not rawjson.is_null(store := parameters.take_raw("store")):  # new projects keep requests unless it is false
        body["store"] = store
    if conversation.cached:
        parameters.drop("cache_control")
    # its own thoughts are not lost: their signatures are sent with the calls
    parameters.drop(*conversation.dropped_reasoning(lambda thought: thought.maker is SealKind.GEMINI or thought.empty))
    if any(tool.strict for tool in conversation.tools):
        parameters.drop("tools[].strict")
    return body
