"""A client's chat request as a request to Gemini's generateContent.

The conversation has ``user`` and ``model`` in turn, with the system's words apart. Newer models refuse a function call
that comes back without the thought signature it was made with. The signature is looked for where Google's own
compatible API puts it, then among those kept in ``translate.tool_names``; a placeholder is the last resort.
"""

import base64
import re
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.upstream import rawjson
from gateway.upstream.adapter import LearnedRefusals, Order, PreparedRequest
from gateway.upstream.gemini.models import LEVELS, GeminiModel, GeminiThinking, row_of
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.output_limit import LEAST_OUTPUT, OutputLimit, limit_of
from gateway.upstream.rawjson import Fields
from gateway.upstream.translate.conversation import Media, TextPart, Turn, TurnToolCall, read_turns
from gateway.upstream.translate.request import (
    ChatFields,
    Function,
    Toolbox,
    left_out,
    open_order,
    read_caps,
    read_request,
    read_tools,
    refusal_of,
    unsupported_param,
)
from gateway.upstream.translate.tool_names import Signatures, Spelling

_EFFORTS = {"minimal": 0, "low": 1, "medium": 2, "high": 3, "xhigh": 3, "max": 3}
"""The level of each word, as an index of ``LEVELS``."""
_BUDGETS = {1: 1024, 2: 8192, 3: 24576}
"""Tokens by level; Google's own numbers for its compatible surface."""


def config_of(request: ChatFields, row: GeminiModel, cap: int | None, dropped: list[str]) -> dict[str, Any]:
    """The config with this output limit; adds to ``dropped`` what the model does not take."""
    out: dict[str, Any] = {
        "maxOutputTokens": cap,
        "stopSequences": request.stops or None,
        "candidateCount": request.n if request.n != 1 else None,
        "seed": request.seed,
    }
    sampling = {"temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k}
    penalties = {"presence_penalty": request.presence_penalty, "frequency_penalty": request.frequency_penalty}
    out |= _rename_values(sampling, dropped, supported=row.sampling)
    out |= _rename_values(penalties, dropped, supported=row.penalties)
    out |= _probabilities(request, row, dropped)
    out |= _form(request)
    thinking = _thinking(request.reasoning_effort, row)
    if thinking is not None and request.output_cap is None and cap is not None and "thinkingBudget" in thinking:
        thinking["thinkingBudget"] = min(thinking["thinkingBudget"], cap // 2)
    if thinking is None and request.reasoning_effort not in {None, "none"}:
        dropped.append("reasoning_effort")
    out["thinkingConfig"] = thinking
    return {name: value for name, value in out.items() if value is not None}


def _rename_values(values: dict[str, Any], dropped: list[str], *, supported: bool) -> dict[str, Any]:
    """The values under Google's names; if they are not taken, the client's names are added to ``dropped``."""
    fields = {name: value for name, value in values.items() if value is not None}
    if supported:
        return {_camel(name): value for name, value in fields.items()}
    dropped += fields
    return {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _probabilities(request: ChatFields, row: GeminiModel, dropped: list[str]) -> dict[str, Any]:
    if not request.logprobs:
        return {}
    if not row.logprobs:
        dropped.append("logprobs")
        return {}
    return {"responseLogprobs": True, "logprobs": request.top_logprobs}


def _form(request: ChatFields) -> dict[str, Any]:
    """The form of the answer. A JSON schema goes as it is: ``responseSchema`` would take a subset only."""
    form = request.response_format
    if form is None or form.type not in {"json_object", "json_schema"}:
        return {}
    out: dict[str, Any] = {"responseMimeType": "application/json"}
    if form.json_schema is not None and not rawjson.is_null(form.json_schema.schema):
        out["responseJsonSchema"] = form.json_schema.schema
    return out


def _thinking(effort: str | None, row: GeminiModel) -> dict[str, Any] | None:
    """The thinking config; None if there is nothing to say, or no way to say it."""
    if effort is None or row.thinking is GeminiThinking.NONE or effort not in {"none", *_EFFORTS}:
        return None
    if effort == "none":
        level, budget = row.levels[0], row.budget_off
    else:
        rank = _EFFORTS[effort]
        level = next((word for word in reversed(LEVELS[: rank + 1]) if word in row.levels), row.levels[0])
        budget = _BUDGETS.get(rank, row.budget_minimal)
    amount = {"thinkingLevel": level} if row.thinking is GeminiThinking.LEVEL else {"thinkingBudget": budget}
    return amount if effort == "none" else {**amount, "includeThoughts": True}


Part = dict[str, Any]

_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "pdf": "application/pdf",
}
"""By the ending of an address."""


def parts_of(parts: tuple[TextPart | Media, ...], row: GeminiModel) -> list[Part]:
    """The parts; empty texts are left out. Raises BadRequest for what the model does not take."""
    return [
        {"text": part.raw} if isinstance(part, TextPart) else _media(part, row)
        for part in parts
        if not (isinstance(part, TextPart) and bytes(part.raw) == b'""')
    ]


def result_parts(turn: Turn, name: str, row: GeminiModel) -> list[Part]:
    """A tool's result, and beside it the media that the model does not take inside."""
    texts = [part for part in turn.parts if isinstance(part, TextPart)]
    media = [_media(part, row) for part in turn.parts if isinstance(part, Media)]
    response: Part = {"id": turn.answers, "name": name, "response": _response(texts, failed=turn.failed)}
    if not row.media_results:
        return [{"functionResponse": response}, *media]
    return [{"functionResponse": {**response, "parts": media} if media else response}]


def _response(texts: list[TextPart], *, failed: bool) -> Part:
    """Must be an object. The text goes as it is, even if it is JSON: else its layout and large numbers would be lost.

    ``output`` and ``error`` are the keys that the vendor documents.
    """
    text = texts[0].raw if len(texts) == 1 else "".join(part.value for part in texts)
    return {"error" if failed else "output": text}


def _media(media: Media, row: GeminiModel) -> Part:
    if not media.url:
        return {"inlineData": {"mimeType": media.type, "data": media.data}}
    if not row.urls:
        raise unsupported_param(media.where, "this model does not fetch URLs; send a base64 data: URL")
    kind = _TYPES.get(urlsplit(media.url).path.rpartition(".")[2].lower())
    return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": media.url}}


TOOLS = Spelling(
    fit=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"), odd=re.compile(r"[^A-Za-z0-9_.:-]"), limit=64, first="_"
)
"""Names of functions."""

PLACEHOLDER = base64.b64encode(b"skip_thought_signature_validator").decode()
"""Google's documented way to replay a call that it did not sign."""

FILLER = "."
"""What the user says in a conversation of system messages alone."""


class GeminiConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation."""

    system: list[Part]
    contents: list[dict[str, Any]]


def talk(turns: list[Turn], signatures: Signatures, row: GeminiModel) -> GeminiConversation:
    """The conversation. Raises BadRequest for parts that the model does not take."""
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            system += parts_of(turn.parts, row)
            continue
        parts = _parts(turn, signatures, row)
        role = "model" if turn.role == "assistant" else "user"
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return GeminiConversation(system=system, contents=contents or [{"role": "user", "parts": [{"text": FILLER}]}])


def _parts(turn: Turn, signatures: Signatures, row: GeminiModel) -> list[Part]:
    if turn.role == "tool":
        if not turn.name:
            where = f"a tool message answers the call '{turn.answers}', which is not in the conversation"
            raise BadRequest(where, param="messages")
        return result_parts(turn, TOOLS.sent(turn.name), row)
    return parts_of(turn.parts, row) + _calls(turn.calls, signatures, row)


def _calls(calls: tuple[TurnToolCall, ...], signatures: Signatures, row: GeminiModel) -> list[Part]:
    """Of parallel calls only the first must be signed."""
    parts: list[Part] = []
    for call in calls:
        part: Part = {"functionCall": {"id": call.id, "name": TOOLS.sent(call.name), "args": call.arguments}}
        signature = call.signature or signatures.recall(call.id).decode()
        if not signature and row.signatures and not parts:
            signature = PLACEHOLDER
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def tools_of(toolbox: Toolbox) -> dict[str, Any]:
    """The fields ``tools`` and ``toolConfig`` of the request, if there are any tools."""
    if not toolbox.offers:
        return {}
    out: dict[str, Any] = {"tools": [{"functionDeclarations": [_declaration(o.function) for o in toolbox.offers]}]}
    if toolbox.mode:
        calling: dict[str, Any] = {"mode": _MODES[toolbox.mode]}
        if toolbox.mode == "named":
            calling["allowedFunctionNames"] = [TOOLS.sent(toolbox.name)]
        out["toolConfig"] = {"functionCallingConfig": calling}
    return out


def _declaration(function: Function) -> dict[str, Any]:
    """A function. An object without properties is refused as a schema, so none is given then."""
    out: dict[str, Any] = {"name": TOOLS.sent(function.name), "description": function.description or ""}
    if not out["description"]:
        del out["description"]
    if _has_properties(function.parameters):
        out["parametersJsonSchema"] = function.parameters
    return out


def _has_properties(parameters: msgspec.Raw) -> bool:
    if rawjson.is_null(parameters):
        return False
    try:
        schema = rawjson.fields(parameters)
    except ValueError as error:
        where = "tools[].function.parameters"
        raise BadRequest(f"{where}: must be a JSON schema", param=where) from error
    return bytes(schema.get("properties", b"{}")) != b"{}" or "$ref" in schema


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


def prepare(
    order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals, signatures: Signatures
) -> PreparedRequest:
    """The request. Raises AttemptFailed (``client``, not sent) for what Gemini has no counterpart of."""
    order = open_order(order)
    fields = {name: value for name, value in order.fields.items() if name not in learned.dropped}
    dropped = [name for name in learned.dropped if name in order.fields]
    try:
        request = read_request(fields)
        row = row_of(served.upstream_name)
        cap = request.output_cap if request.output_cap is not None else _chosen_cap(request, order.output_budget)
        cap = _lower_cap(cap, served)
        body = _body(request, row, cap, signatures, dropped)
    except BadRequest as fault:
        raise refusal_of(channel, fault) from fault
    dropped += left_out(fields, UNDERSTOOD)
    if request.parallel_tool_calls is False:
        dropped.append("parallel_tool_calls")
    return PreparedRequest(
        url=root(channel) + _path(served.upstream_name, stream=order.stream),
        headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
        body=rawjson.encode(body),
        dropped=tuple(dict.fromkeys(dropped)),
        lowered=cap if cap != request.output_cap else None,
    )


def output_limit(fields: Fields, served: ServedModel) -> OutputLimit:
    """The most output that the request allows as it goes out: ``maxOutputTokens`` bounds thoughts and text together."""
    cap, choices = read_caps(fields)
    if cap is not None:
        return limit_of(_lower_cap(cap, served), choices=max(1, choices))
    budget = _budget(rawjson.maybe(fields.get("reasoning_effort")), row_of(served.upstream_name))
    least = LEAST_OUTPUT if budget else 0
    return limit_of(None, expected=DEFAULT_OUTPUT + budget, choices=max(1, choices), minimum=least)


def _budget(effort: object, row: GeminiModel) -> int:
    """Tokens to think with that the request allows; 0 where it names no number."""
    thinking = _thinking(effort, row) if isinstance(effort, str) else None
    return 0 if thinking is None else thinking.get("thinkingBudget", 0)


def _chosen_cap(request: ChatFields, output_budget: int | None) -> int | None:
    """The limit that the hold pays for, where the client names none and the hold covers less than a usual answer."""
    if output_budget is None:
        return None
    return max(1, output_budget // max(1, request.n or 1))  # the hold pays for one at least


def _lower_cap(cap: int | None, served: ServedModel) -> int | None:
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


def _body(
    request: ChatFields, row: GeminiModel, cap: int | None, signatures: Signatures, dropped: list[str]
) -> dict[str, Any]:
    if "audio" in (request.modalities or ()):
        raise unsupported_param("modalities", "Gemini's chat models have no audio output")
    conversation = talk(read_turns(request.messages), signatures, row)
    body: dict[str, Any] = {"contents": conversation.contents}
    if conversation.system:
        body["systemInstruction"] = {"parts": conversation.system}
    body |= tools_of(read_tools(request))
    if config := config_of(request, row, cap, dropped):
        body["generationConfig"] = config
    return body
