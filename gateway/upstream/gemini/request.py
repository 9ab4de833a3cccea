"""A conversation as a request to Gemini's generateContent.

The conversation has ``user`` and ``model`` in turn, with the system's words apart. Newer models refuse a function call
that comes back without the thought signature it was made with. The signature is looked for where Google's own
compatible API puts it, then among those in ``call_memory``; a placeholder is the last resort.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from gateway.domain import rawjson
from gateway.domain.answer import SealKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.conversation import (
    CallPart,
    Conversation,
    MediaPart,
    ResultPart,
    TextPart,
    ToolOffer,
    Turn,
    join_texts,
)
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import LEAST_OUTPUT, OutputLimit, limit_of
from gateway.domain.rawjson import Fields
from gateway.upstream.call_memory import Recall
from gateway.upstream.gemini.models import LEVELS, GeminiModel, GeminiThinking, row_of
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.translation import (
    FILLER,
    JSON_FORMATS,
    NameRules,
    Parameters,
    ResponseFormat,
    check_address,
    read_caps,
    refusal_of,
    schema_fields,
)

_EFFORTS = {"minimal": 0, "low": 1, "medium": 2, "high": 3, "xhigh": 3, "max": 3}
"""The level of each word, as an index of ``LEVELS``."""
_BUDGETS = {1: 1024, 2: 8192, 3: 24576}
"""Tokens by level; Google's own numbers for its compatible surface."""


def config_of(parameters: Parameters, row: GeminiModel, cap: int | None, *, own_cap: bool = False) -> dict[str, Any]:
    """Returns the config with this output limit. ``own_cap``: the gateway chose it, and half of it is left to the
    answer.
    """
    choices = parameters.take("n", int)
    out: dict[str, Any] = {
        "maxOutputTokens": cap,
        "stopSequences": parameters.take_stops(bool, 5) or None,
        "candidateCount": choices if choices != 1 else None,
        "seed": parameters.take("seed", int),
    }
    sampling: dict[str, type[float]] = {"temperature": float, "top_p": float, "top_k": int}
    penalties: dict[str, type[float]] = {"presence_penalty": float, "frequency_penalty": float}
    out |= _rename_values(parameters, sampling, supported=row.sampling)
    out |= _rename_values(parameters, penalties, supported=row.penalties)
    out |= _probabilities(parameters, row)
    out |= _form(parameters.take_format())
    out |= _modalities(parameters)
    effort = parameters.take("reasoning_effort", str)
    thinking = _thinking(effort, row)
    if thinking is not None and cap is not None:  # it bounds thoughts and text together, but not every server knows
        room = cap // 2 if own_cap else cap
        if thinking.get("thinkingBudget", 0) > room:
            thinking = {**thinking, "thinkingBudget": room} if room >= row.budget_minimal else None
    if thinking is None and effort not in {None, "none"}:
        parameters.drop("reasoning_effort")
    out["thinkingConfig"] = thinking
    return {name: value for name, value in out.items() if value is not None}


def _rename_values(parameters: Parameters, kinds: Mapping[str, type[float]], *, supported: bool) -> dict[str, Any]:
    """Returns the parameters of these types under Google's names, unless the model refuses them."""
    values = {name: parameters.take(name, kind) for name, kind in kinds.items()}
    fields = {name: value for name, value in values.items() if value is not None}
    if supported:
        return {camel(name): value for name, value in fields.items()}
    parameters.drop(*fields)
    return {}


def camel(name: str) -> str:
    """Returns a name with underscores as Google's APIs write it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _probabilities(parameters: Parameters, row: GeminiModel) -> dict[str, Any]:
    wanted, alternatives = parameters.take("logprobs", bool), parameters.take("top_logprobs", int)
    if not wanted:
        return {}
    if not row.logprobs:
        parameters.drop("logprobs")
        return {}
    return {"responseLogprobs": True, "logprobs": alternatives}


def _form(form: ResponseFormat) -> dict[str, Any]:
    """Sets the form of the answer. A JSON schema is sent unchanged: ``responseSchema`` would accept a subset only."""
    if form.type not in JSON_FORMATS:
        return {}
    schema = {} if rawjson.is_null(form.schema) else {"responseJsonSchema": form.schema}
    return {"responseMimeType": "application/json", **schema}


def _modalities(parameters: Parameters) -> dict[str, Any]:
    """Sets whether the answer may have images. Models that make images do so by default."""
    wanted = parameters.take("modalities", list[str]) or ["text"]
    if "audio" in wanted:
        raise parameters.refusal("modalities", "Gemini's chat models have no audio output")
    return {} if wanted == ["text"] else {"responseModalities": [word.upper() for word in wanted]}


def _thinking(effort: str | None, row: GeminiModel) -> dict[str, Any] | None:
    """Returns the thinking config; None if it is not needed, or cannot be expressed."""
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
"""Media types by the ending of an address."""


def parts_of(parts: Iterable[TextPart | MediaPart], row: GeminiModel) -> list[Part]:
    """Returns the parts, without empty texts. Raises BadRequest for what the model does not accept.

    The name of a file is a text before it, for it has no other place.
    """
    out: list[Part] = []
    for part in parts:
        if isinstance(part, MediaPart):
            out += [{"text": part.name}] if part.name else []
            out.append(_media(part, row))
        elif bytes(part.raw) != b'""':
            out.append({"text": part.raw})
    return out


def result_parts(result: ResultPart, row: GeminiModel) -> list[Part]:
    """Returns a tool's result, and beside it the media that the model does not accept inside."""
    texts = [part for part in result.parts if isinstance(part, TextPart)]
    media = [_media(part, row) for part in result.parts if isinstance(part, MediaPart)]
    given = _response(texts, failed=result.failed)
    response: Part = {"id": result.call_id, "name": TOOLS.valid_name(result.name), "response": given}
    if not row.media_results:
        return [{"functionResponse": response}, *media]
    return [{"functionResponse": {**response, "parts": media} if media else response}]


def _response(texts: list[TextPart], *, failed: bool) -> Part:
    """Returns the response, which must be an object. The text is sent unchanged, even if it is JSON: otherwise its
    layout and large numbers would be lost. ``output`` and ``error`` are the vendor's documented keys.
    """
    return {"error" if failed else "output": join_texts((part.raw for part in texts), b"")}


def _media(media: MediaPart, row: GeminiModel) -> Part:
    if not media.url:
        return {"inlineData": {"mimeType": media.type, "data": media.data}}
    if not row.urls:
        raise unsupported_param(media.where, "this model does not fetch URLs; send a base64 data: URL")
    check_address(media)
    kind = _TYPES.get(urlsplit(media.url).path.rpartition(".")[2].lower())
    return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": media.url}}


TOOLS = NameRules(
    valid=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
    invalid_character=re.compile(r"[^A-Za-z0-9_.:-]"),
    max_length=64,
    prefix="_",
)
"""Names of functions."""

PLACEHOLDER = base64.b64encode(b"skip_thought_signature_validator").decode()
"""Google's documented value for a call that it did not sign."""


def talk(turns: Iterable[Turn], recall: Recall, row: GeminiModel) -> dict[str, Any]:
    """Returns ``contents`` and ``systemInstruction``. Raises BadRequest for parts that the model does not accept."""
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            system += parts_of(turn.parts, row)
            continue
        parts = _parts(turn, recall, row)
        role = "model" if turn.role == "assistant" else "user"
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    if not contents or contents[0]["role"] != "user":  # only system messages, or the model begins
        contents.insert(0, {"role": "user", "parts": [{"text": FILLER}]})
    out: dict[str, Any] = {"contents": contents}
    return {**out, "systemInstruction": {"parts": system}} if system else out


def _parts(turn: Turn, recall: Recall, row: GeminiModel) -> list[Part]:
    if turn.role == "tool":
        parts = [part for block in turn.blocks if isinstance(block, ResultPart) for part in result_parts(block, row)]
        return sorted(parts, key=lambda part: "functionResponse" not in part)  # results come first, without a gap
    said = parts_of(turn.parts, row)
    return said + _calls(turn.calls, recall, row) if turn.role == "assistant" else said


def _calls(calls: list[CallPart], recall: Recall, row: GeminiModel) -> list[Part]:
    """Returns the calls. Of parallel ones only the first must be signed."""
    parts: list[Part] = []
    for call in calls:
        part: Part = {"functionCall": {"id": call.id, "name": TOOLS.valid_name(call.name), "args": call.arguments}}
        signature = call.signature or recall(call.id).decode()
        if not signature and row.signatures and not parts:
            signature = PLACEHOLDER
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def tools_of(conversation: Conversation) -> dict[str, Any]:
    """Returns the fields ``tools`` and ``toolConfig`` of the request, if it has any tools."""
    offers, choice = conversation.allowed_tools, conversation.choice
    if not offers:
        return {}
    out: dict[str, Any] = {"tools": [{"functionDeclarations": [_declaration(offer) for offer in offers]}]}
    if choice.mode:
        calling: dict[str, Any] = {"mode": _MODES[choice.mode]}
        if choice.mode == "named":
            calling["allowedFunctionNames"] = [TOOLS.valid_name(choice.name)]
        out["toolConfig"] = {"functionCallingConfig": calling}
    return out


_SAYS_NOTHING = frozenset({"type", "title", "description", "required", "additionalProperties", "$schema", "$id"})
"""Words of a schema that leaves a function without arguments, if its ``properties`` are missing or empty."""


def _declaration(offer: ToolOffer) -> dict[str, Any]:
    """Returns a function. A schema of an object without properties is refused, so it is left out then.

    A schema of alternatives (``anyOf`` and others) is one of an object, whether it says so or not.
    """
    out: dict[str, Any] = {"name": TOOLS.valid_name(offer.name)}
    if offer.description:
        out["description"] = offer.description
    schema = schema_fields(offer)
    if not _has_arguments(schema):
        return out
    typed = "type" in schema or "$ref" in schema
    out["parametersJsonSchema"] = offer.parameters if typed else {"type": "object", **schema}
    return out


def _has_arguments(schema: Fields) -> bool:
    if bytes(schema.get("properties", b"{}")) != b"{}" or bytes(schema.get("additionalProperties", b""))[:1] == b"{":
        return True
    return not _SAYS_NOTHING.issuperset(name for name in schema if name != "properties")


_COLLECTIONS = frozenset({"models", "tunedModels"})
_VERSION = re.compile(r"/v\d\w*\Z")


def prepare(
    order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals, recall: Recall
) -> PreparedRequest:
    """Returns the request. Raises AttemptFailed (``client``, not sent) for what Gemini has no counterpart of."""
    parameters, row = Parameters(order, learned), row_of(served.upstream_name)
    try:
        asked = parameters.take_output_cap()
        cap = asked if asked is not None else _chosen_cap(order)
        cap = _lower_cap(cap, served)
        body = _body(parameters, row, cap, recall, own_cap=asked is None)
    except BadRequest as fault:
        raise refusal_of(channel, fault) from fault
    return PreparedRequest(
        url=root(channel) + _path(served.upstream_name, stream=order.stream),
        headers=STREAM_HEADERS if order.stream else PLAIN_HEADERS,
        body=rawjson.encode(body),
        dropped=parameters.left_out,
        lowered=cap if cap != asked else None,
    )


def output_limit(fields: Fields, served: ServedModel) -> OutputLimit:
    """Returns the most output that the outgoing request allows: ``maxOutputTokens`` limits thoughts and text
    together.
    """
    cap, choices = read_caps(fields)
    if cap is not None:
        return limit_of(_lower_cap(cap, served), choices=max(1, choices))
    budget = _budget(rawjson.maybe(fields.get("reasoning_effort")), row_of(served.upstream_name))
    least = LEAST_OUTPUT if budget else 0
    return limit_of(None, expected=DEFAULT_OUTPUT + budget, choices=max(1, choices), minimum=least)


def _budget(effort: object, row: GeminiModel) -> int:
    """Returns the tokens for thinking that the request allows; 0 if it names no number."""
    thinking = _thinking(effort, row) if isinstance(effort, str) else None
    return 0 if thinking is None else thinking.get("thinkingBudget", 0)


def _chosen_cap(order: Order) -> int | None:
    """Returns the limit that the hold pays for, if the client names none and the hold covers less than a typical
    answer.
    """
    if order.output_budget is None:
        return None
    return max(1, order.output_budget // max(1, read_caps(order.fields)[1]))  # the hold pays for one at least


def _lower_cap(cap: int | None, served: ServedModel) -> int | None:
    """Returns the client's limit, but not more than the model can write."""
    return cap if cap is None or served.max_output is None else min(cap, served.max_output)


def root(channel: Channel) -> str:
    """Returns the base URL with the API's version, which may be omitted; that of the compatible API works as well."""
    base = channel.base_url.rstrip("/").removesuffix("/openai")
    return base if _VERSION.search(base) else endpoint(base, "/v1beta")


def _path(model: str, *, stream: bool) -> str:
    """Returns the path of a model. Only tuned ones have a collection of their own."""
    collection, slash, name = model.partition("/")
    if not slash or collection not in _COLLECTIONS or "/" in name or name in {".", ".."}:
        collection, name = "models", model
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/{collection}/{quote(name, safe='')}:{verb}"


def _body(
    parameters: Parameters, row: GeminiModel, cap: int | None, recall: Recall, *, own_cap: bool
) -> dict[str, Any]:
    conversation = parameters.conversation
    body = talk(conversation.turns, recall, row) | tools_of(conversation)
    if config := config_of(parameters, row, cap, own_cap=own_cap):
        body["generationConfig"] = config
    if parameters.take("parallel_tool_calls", bool) is False:
        parameters.drop("parallel_tool_calls")
    if conversation.cached:
        parameters.drop("cache_control")
    # it reads the signatures of its own thoughts at the calls
    lost = conversation.dropped_reasoning(lambda thought: thought.maker is SealKind.GEMINI or thought.empty)
    parameters.drop(*lost)
    if any(tool.strict for tool in conversation.tools):
        parameters.drop("tools[].strict")
    return body
