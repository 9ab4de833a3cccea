"""Gemini's requests: writes a conversation, its tools and its parameters as generateContent wants them.

``user`` and ``model`` take turns, and the system prompt is apart. Newer models refuse a function call that comes back
without its thought signature. That is in the field where Google's own compatible API puts it, else in ``call_memory``;
a placeholder is the last resort.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from gateway.domain import rawjson
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
from gateway.domain.errors import unsupported_param
from gateway.upstream.answer_formats import JSON_FORMATS, format_lines
from gateway.upstream.call_memory import Recall
from gateway.upstream.efforts import nearest_level
from gateway.upstream.gemini.models import GeminiModel
from gateway.upstream.message_shapes import FILLER, UNSIGNED
from gateway.upstream.translation import NameRules, Parameters, check_address, schema_fields

Part = dict[str, Any]

_BUDGETS = {"low": 1024, "medium": 8192, **dict.fromkeys(("high", "xhigh", "max"), 24576)}
"""The budget of each effort in tokens. They are Google's own numbers for its compatible API."""


def config_of(parameters: Parameters, model: GeminiModel, cap: int | None, *, own_cap: bool = False) -> dict[str, Any]:
    """Returns the ``generationConfig``. ``cap`` is the output limit; ``own_cap`` says that the gateway chose it."""
    choices = parameters.take("n", int)
    config: dict[str, Any] = {
        "maxOutputTokens": cap,
        "stopSequences": parameters.take_stops(bool, 5) or None,
        "candidateCount": choices if choices != 1 else None,
        "seed": parameters.take("seed", int),
    }
    config |= _sampling(parameters, model)
    wants_logprobs, alternatives = parameters.take("logprobs", bool), parameters.take("top_logprobs", int)
    if wants_logprobs and model.logprobs:
        config |= {"responseLogprobs": True, "logprobs": alternatives}
    elif wants_logprobs:
        parameters.drop("logprobs")
    form = parameters.take_format()
    if form.type in JSON_FORMATS:  # responseJsonSchema takes any schema; responseSchema would not
        schema = None if rawjson.is_null(form.schema) else form.schema
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    modalities = parameters.take("modalities", list[str]) or ["text"]
    if "audio" in modalities:
        raise parameters.refusal("modalities", "Gemini's chat models have no audio output")
    if modalities != ["text"]:  # models that make images do so by default
        config["responseModalities"] = [word.upper() for word in modalities]
    config["thinkingConfig"] = _limited_thinking(parameters, model, cap, own_cap=own_cap)
    return {name: value for name, value in config.items() if value is not None}


def _limited_thinking(
    parameters: Parameters, model: GeminiModel, cap: int | None, *, own_cap: bool
) -> dict[str, Any] | None:
    """Returns the thinking config, with a budget that is not above the output limit. If the gateway chose the limit,
    half of it is left to the answer.

    Thoughts and text share the limit, but not every server knows that.
    """
    effort = parameters.take("reasoning_effort", str)
    thinking = thinking_config(effort, model)
    if thinking is not None and cap is not None:
        highest_budget = cap // 2 if own_cap else cap
        if thinking.get("thinkingBudget", 0) > highest_budget:
            is_enough = highest_budget >= model.budget_minimal
            thinking = {**thinking, "thinkingBudget": highest_budget} if is_enough else None
    if thinking is None and effort not in {None, "none"}:
        parameters.drop("reasoning_effort")
    return thinking


def _sampling(parameters: Parameters, model: GeminiModel) -> dict[str, Any]:
    """Returns the sampling parameters under Google's names. Drops them unless the model accepts them."""
    names = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
    values = {name: parameters.take(name, int if name == "top_k" else float) for name in names}
    sampling = {name: value for name, value in values.items() if value is not None}
    if model.sampling:
        return {camel(name): value for name, value in sampling.items()}
    parameters.drop(*sampling)
    return {}


def camel(name: str) -> str:
    """Returns a name with underscores as Google's APIs write it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def take_format_lines(parameters: Parameters) -> list[Part]:
    """Returns the system prompt's words about JSON. The parameter counts as left out: nothing forces the model."""
    form = parameters.take_format()
    if form.type not in JSON_FORMATS:
        return []
    parameters.drop("response_format")
    return [{"text": line} for line in format_lines(form)]


def thinking_config(effort: str | None, model: GeminiModel) -> dict[str, Any] | None:
    """Returns the thinking config of an effort; None if it is not needed, or the effort cannot be expressed."""
    if effort is None or effort not in {"none", "minimal", *_BUDGETS} or not (model.levels or model.budget_minimal):
        return None
    amount: dict[str, Any] = {"thinkingLevel": nearest_level(effort, model.levels)}
    if not model.levels:
        default = model.budget_off if effort == "none" else model.budget_minimal
        amount = {"thinkingBudget": _BUDGETS.get(effort, default)}
    return amount if effort == "none" else {**amount, "includeThoughts": True}


_MEDIA_TYPES = {
    "jpg": "image/jpeg",
    **{kind: f"image/{kind}" for kind in ("png", "jpeg", "webp", "gif")},
    **{kind: f"video/{kind}" for kind in ("mp4", "webm")},
    "pdf": "application/pdf",
}
"""The media types of URLs, by their endings."""


def parts_of(parts: Iterable[TextPart | MediaPart], model: GeminiModel) -> list[Part]:
    """Returns Gemini's parts. The name of a file becomes a text before it. Raises BadRequest for refused media."""
    written: list[Part] = []
    for part in parts:
        if isinstance(part, MediaPart):
            written += [{"text": part.name}] if part.name else []
            written.append(_media_part(part, model))
        elif bytes(part.raw) != b'""':
            written.append({"text": part.raw})
    return written


def result_parts(result: ResultPart, model: GeminiModel) -> list[Part]:
    """Returns a tool's result, and its media after it if the model does not accept them inside.

    The response must be an object; ``output`` and ``error`` are the vendor's documented keys. A text stays a text, even
    if it is JSON, because otherwise its layout and large numbers would be lost.
    """
    texts = [part.raw if isinstance(part, TextPart) else rawjson.raw(part.name) for part in result.parts]
    text = join_texts(texts)  # with the names of files
    media = [_media_part(part, model) for part in result.parts if isinstance(part, MediaPart)]
    output = {"error" if result.failed else "output": text}
    response: Part = {"id": result.call_id, "name": TOOLS.valid_name(result.name), "response": output}
    if not model.media_results:
        return [{"functionResponse": response}, *media]
    return [{"functionResponse": {**response, "parts": media} if media else response}]


def _media_part(media: MediaPart, model: GeminiModel) -> Part:
    if not media.url:
        return {"inlineData": {"mimeType": media.type, "data": media.data}}
    if not model.fetches_urls:
        raise unsupported_param(media.param, "this model does not fetch URLs; send a base64 data: URL")
    check_address(media)
    mime_type = _MEDIA_TYPES.get(urlsplit(media.url).path.rpartition(".")[2].lower())
    if mime_type is None and not media.type.endswith("*"):
        mime_type = media.type
    return {"fileData": {**({"mimeType": mime_type} if mime_type else {}), "fileUri": media.url}}


TOOLS = NameRules(invalid_character=re.compile(r"\A(?![A-Za-z_])|[^A-Za-z0-9_.:-]"), max_length=64)
"""The names of functions."""


def write_contents(turns: Iterable[Turn], recall: Recall, model: GeminiModel) -> dict[str, Any]:
    """Returns ``contents`` and ``systemInstruction``. Raises BadRequest for media that the model does not accept."""
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            system += parts_of(turn.parts, model)
            continue
        parts = _turn_parts(turn, recall, model)
        role = "model" if turn.role == "assistant" else "user"
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    if not contents or contents[0]["role"] != "user":  # only system messages, or the model begins
        contents.insert(0, {"role": "user", "parts": [{"text": FILLER}]})
    return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


def _turn_parts(turn: Turn, recall: Recall, model: GeminiModel) -> list[Part]:
    if turn.role == "tool":
        parts = [part for block in turn.blocks if isinstance(block, ResultPart) for part in result_parts(block, model)]
        return sorted(parts, key=lambda part: "functionResponse" not in part)  # all results come before all media
    parts = parts_of(turn.parts, model)
    return parts + _call_parts(turn.calls, recall, model) if turn.role == "assistant" else parts


def _call_parts(calls: list[CallPart], recall: Recall, model: GeminiModel) -> list[Part]:
    """Returns the parts of the calls. Only the first of parallel calls must be signed."""
    parts: list[Part] = []
    for call in calls:
        part: Part = {"functionCall": {"id": call.id, "name": TOOLS.valid_name(call.name), "args": call.arguments}}
        signature = call.signature or recall(call.id).decode()
        if not signature and model.signatures and not parts:
            signature = UNSIGNED
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def tools_of(conversation: Conversation) -> dict[str, Any]:
    """Returns ``tools`` and ``toolConfig``, if the conversation has any tools."""
    offers, choice = conversation.allowed_tools, conversation.choice
    if not offers:
        return {}
    fields: dict[str, Any] = {"tools": [{"functionDeclarations": [_declaration(offer) for offer in offers]}]}
    if choice.mode:
        calling: dict[str, Any] = {"mode": _MODES[choice.mode]}
        if choice.mode == "named":
            calling["allowedFunctionNames"] = [TOOLS.valid_name(choice.name)]
        fields["toolConfig"] = {"functionCallingConfig": calling}
    return fields


_KEYWORDS_WITHOUT_ARGUMENTS = frozenset({"type", "title", "description", "required", "$schema", "$id"})
"""Keywords that a schema without arguments may have."""
_NO_ARGUMENTS = frozenset({b"{}", b"[]", b"true", b"false"})
"""Values of other keywords, such as ``properties``, that name no argument."""


def _declaration(offer: ToolOffer) -> dict[str, Any]:
    """Returns the declaration of a function. The API refuses a schema without arguments, so it is left out.

    A schema without a type, such as one of alternatives (``anyOf``), is given the type object.
    """
    declaration: dict[str, Any] = {"name": TOOLS.valid_name(offer.name)}
    if offer.description:
        declaration["description"] = offer.description
    schema = schema_fields(offer)
    others = (bytes(raw) for name, raw in schema.items() if name not in _KEYWORDS_WITHOUT_ARGUMENTS)
    has_arguments = not _NO_ARGUMENTS.issuperset(others)
    if has_arguments:
        has_type = "type" in schema or "$ref" in schema
        declaration["parametersJsonSchema"] = schema if has_type else {"type": "object", **schema}
    return declaration
