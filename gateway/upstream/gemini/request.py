"""Request: a client's chat request as a request to Gemini's generateContent."""

import re
from typing import Any
from urllib.parse import quote

from gateway.domain.channel import Channel, Served
from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.adapter import Learned, Order, Prepared
from gateway.upstream.chat.refused import refused, unsupported
from gateway.upstream.chat.request import Request, left_out, opened, read_caps, read_request
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.chat.tools import read_tools
from gateway.upstream.chat.turns import read_turns
from gateway.upstream.gemini.config import config_of
from gateway.upstream.gemini.contents import talk
from gateway.upstream.gemini.rows import Row, row_of
from gateway.upstream.gemini.tools import tools_of
from gateway.upstream.openai.request import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.output_limit import OutputLimit, limit_of
from gateway.upstream.rawjson import Fields

UNDERSTOOD = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "tools", "functions", "tool_choice", "function_call"),
        *(
            "response_format",
            "max_completion_tokens",
            "max_tokens",
            "temperature",
            "top_p",
            "top_k",
            "stop",
            "n",
            "seed",
        ),
        *("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "reasoning_effort", "modalities"),
        "parallel_tool_calls",
    }
)
"""Fields with a counterpart, and those that are refused instead of left out."""

_COLLECTIONS = frozenset({"models", "tunedModels"})
_VERSION = re.compile(r"/v\d\w*\Z")


def prepare(order: Order, channel: Channel, served: Served, learned: Learned, signatures: Signatures) -> Prepared:
    """The request. Raises AttemptFailed (``client``, not sent) for what Gemini has no counterpart of."""
    order = opened(order)
    fields = {name: value for name, value in order.fields.items() if name not in learned.dropped}
    dropped = [name for name in learned.dropped if name in order.fields]
    try:
        request = read_request(fields)
        cap = _lowered(request.output_cap, served)
        body = _body(request, row_of(served.upstream_name), cap, signatures, dropped)
    except BadRequest as fault:
        raise refused(channel, fault) from fault
    dropped += left_out(fields, UNDERSTOOD)
    if request.parallel_tool_calls is False:
        dropped.append("parallel_tool_calls")
    return Prepared(
        url=root(channel) + _path(served.upstream_name, stream=order.stream),
        headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
        body=rawjson.encode(body),
        dropped=tuple(dict.fromkeys(dropped)),
        lowered=cap if cap != request.output_cap else None,
    )


def output_limit(given: Fields, served: Served) -> OutputLimit:
    """The most output that the request allows as it goes out: ``maxOutputTokens`` bounds thoughts and text together."""
    cap, choices = read_caps(given)
    return limit_of(_lowered(cap, served), choices=max(1, choices))


def _lowered(cap: int | None, served: Served) -> int | None:
    """The client's limit, but not more than the model can write."""
    return cap if cap is None or served.max_output is None else min(cap, served.max_output)


def root(channel: Channel) -> str:
    """The base URL with the API's version, which may be left out; that of the compatible surface does as well."""
    base = channel.base_url.rstrip("/").removesuffix("/openai")
    return base if _VERSION.search(base) else endpoint(base, "/v1beta")


def _path(model: str, *, stream: bool) -> str:
    """A model keeps its place in the path whatever it is called; only tuned ones have a collection of their own."""
    collection, slash, name = model.partition("/")
    if not slash or collection not in _COLLECTIONS or "/" in name or name in {".", ".."}:
        collection, name = "models", model
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/{collection}/{quote(name, safe='')}:{verb}"


def _body(request: Request, row: Row, cap: int | None, signatures: Signatures, dropped: list[str]) -> dict[str, Any]:
    if "audio" in (request.modalities or ()):
        raise unsupported("modalities", "chat models of Gemini do not speak")
    said = talk(read_turns(request.messages), signatures, row)
    body: dict[str, Any] = {"contents": said.contents}
    if said.system:
        body["systemInstruction"] = {"parts": said.system}
    body |= tools_of(read_tools(request))
    if config := config_of(request, row, cap, dropped):
        body["generationConfig"] = config
    return body
