"""Responses dialect: sends chats to OpenAI's Responses API if chat completions refuses their model or their tools.

A channel of OpenAI's dialect speaks both APIs. Pro and codex models are only in this one, and since GPT-5.4 models that
think take tools only here. So a chat that is refused for this reason is written again (see ``OpenAIDialect``).

Nothing is stored at the vendor. The reasoning before a tool call comes encrypted. It is remembered, and goes back with
the call to the same account, because other accounts cannot read it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.conversation import (
    CallPart,
    MediaPart,
    ResultPart,
    TextPart,
    ToolChoice,
    ToolOffer,
    Turn,
    join_texts,
)
from gateway.domain.failure import Failure, ResponsesNeed
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import JsonObject
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.call_memory import Recall
from gateway.upstream.efforts import EFFORT
from gateway.upstream.failures import lacks_path
from gateway.upstream.learned_params import INCLUDE
from gateway.upstream.message_shapes import FILLER
from gateway.upstream.openai.dialect import MIN_LIMIT, PLAIN_HEADERS, STREAM_HEADERS, endpoint
from gateway.upstream.openai.request import OPENAI_TOOLS, error_text
from gateway.upstream.openai.responses_reader import COMMENTARY, OutputReader, account_of
from gateway.upstream.request_rules import STREAM
from gateway.upstream.tool_schemas import fit_schemas
from gateway.upstream.translation import NameRules, Parameters, schema_fields, with_limit

PATH = "/responses"
ENCRYPTED = "reasoning.encrypted_content"
"""What ``include`` asks for: reasoning that only its account can read."""
_CALL_IDS = NameRules(invalid_character=re.compile("(?!)"), max_length=64)
_SHARED_PARAMETERS = (
    *("temperature", "top_p", "top_logprobs", "service_tier", "metadata", "store", "user", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention"),
)
"""Parameters that are the same in both APIs. ``prompt_cache_options`` is left out: its mode ``explicit`` caches nothing
without the client's marks, which are left out as well, and without it OpenAI caches by itself.
"""
NOT_CONVERTED = re.compile(r"(?i)convert_request_failed.*not implemented|responses api is enabled only for")
"""Matches the words of new-api for a model that its channel has only in another API, and of old versions of Azure."""


class ResponsesDialect(ChannelDialect):
    """Implements ``ChannelDialect`` for chats that a channel of OpenAI's dialect takes only as responses."""

    own_names: Mapping[str, str] = {"effort": EFFORT, "format": "response_format", "summary": "reasoning.summary"}

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        parameters, served = Parameters(order, learned), with_limit(served, learned)
        streams = order.stream or STREAM in learned.dropped
        cap = parameters.take_output_cap()
        limit = order.output_budget if cap is None else cap
        if limit is not None:
            limit = max(MIN_LIMIT, limit if served.max_output is None else min(limit, served.max_output))
        recall = partial(self._memory.recall, order.owner, key=account_of(channel))
        body = {"max_output_tokens": limit, "store": False, **_body(parameters, recall)}
        fit_schemas(body, learned.dropped)
        refused = {INCLUDE}.intersection(learned.dropped)
        body = {name: value for name, value in body.items() if value is not None and name not in refused}
        return PreparedRequest(
            url=endpoint(channel.base_url, PATH),
            headers=STREAM_HEADERS if streams else PLAIN_HEADERS,
            body=rawjson.encode({"model": served.upstream_name, **body, **({"stream": True} if streams else {})}),
            dropped=parameters.dropped_names,
            lowered_cap=limit if limit != cap else None,
        )

    def reader(self, order: Order, channel: Channel) -> OutputReader:
        return OutputReader(order, channel, self._memory)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``ChannelDialect``. An upstream that does not know the path, or the model there, lacks the API."""
        failure = super().failure(channel, status, headers, body)
        is_lacking = lacks_path(failure) or not failure.sent or NOT_CONVERTED.search(failure.words)
        return msgspec.structs.replace(failure, needs_responses=ResponsesNeed.NOTHING) if is_lacking else failure


def _body(parameters: Parameters, recall: Recall) -> JsonObject:
    """Returns the body without ``model``, ``stream`` and the output limit. Raises BadRequest."""
    _refuse_inexpressible(parameters)
    conversation = parameters.conversation
    nothing = {"type": "message", "role": "user", "content": FILLER}  # OpenAI refuses an empty input
    body: JsonObject = {"input": _input_items(conversation.turns, recall) or [nothing]}
    tools, forbids_parallel = conversation.allowed_tools, parameters.take("parallel_tool_calls", bool) is False
    include = []
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
        body["tool_choice"] = _choice(conversation.choice)
        body["parallel_tool_calls"] = False if forbids_parallel else None
        include.append(ENCRYPTED)
    if parameters.take("logprobs", bool):
        include.append("message.output_text.logprobs")
    body |= {INCLUDE: include or None, "reasoning": _reasoning(parameters), "text": _text(parameters)}
    if conversation.cached:
        parameters.drop("cache_control")
    parameters.drop(*conversation.dropped_reasoning(lambda thought: thought.empty))
    unchanged = {name: parameters.take_raw(name) for name in _SHARED_PARAMETERS}
    return body | {name: raw for name, raw in unchanged.items() if not rawjson.is_null(raw)}


def _refuse_inexpressible(parameters: Parameters) -> None:
    """Raises BadRequest for parameters that the API does not have and that change the answer."""
    if (parameters.take("n", int) or 1) > 1:
        raise parameters.refusal("n", "this model returns one choice per call")
    if (parameters.take("modalities", list[str]) or ["text"]) != ["text"]:
        raise parameters.refusal("modalities", "this model returns text only")


def _reasoning(parameters: Parameters) -> JsonObject | None:
    """Returns the effort, and the summary that clients ask for in ``reasoning``, as with OpenRouter or in this API."""
    effort, options = parameters.take(EFFORT, str), rawjson.maybe(parameters.take_raw("reasoning"))
    summary = rawjson.text_at(options, "summary")
    reasoning = {"effort": effort, "summary": summary or None}
    return {name: value for name, value in reasoning.items() if value is not None} or None


def _text(parameters: Parameters) -> JsonObject | None:
    """Returns the ``text`` options. A schema is one level higher than in chats, as some clients send it already."""
    form, text = parameters.take("response_format", dict[str, msgspec.Raw]) or {}, dict[str, Any]()
    kind = rawjson.text_at(form.get("type"))
    given = form.get("schema", form.get("value", rawjson.NULL))
    if kind == "json_object" and not rawjson.is_null(given):
        form, kind = {"schema": given}, "json_schema"
    if kind == "json_schema":
        schema = rawjson.maybe_fields(form.pop("json_schema", rawjson.NULL))
        text["format"] = {"name": "answer", **form, **schema, "type": kind}
    elif kind not in ("", "text"):
        text["format"] = form
    if (verbosity := parameters.take("verbosity", str)) is not None:
        text["verbosity"] = verbosity
    return text or None


def _tool(tool: ToolOffer) -> JsonObject:
    """Returns a function. It always says whether it is strict, because the two APIs have opposite defaults."""
    schema = {"type": "object", "properties": {}, **schema_fields(tool)}
    written = {"type": "function", "name": OPENAI_TOOLS.valid_name(tool.name), "parameters": schema}
    description = {"description": tool.description} if tool.description else {}
    return {**written, **description, "strict": bool(tool.strict)}


def _choice(choice: ToolChoice) -> Any:
    if choice.mode == "named":
        return {"type": "function", "name": OPENAI_TOOLS.valid_name(choice.name)}
    return choice.mode or None


def _input_items(turns: Sequence[Turn], recall: Recall) -> list[Any]:
    """Returns a conversation as items, including system texts, because OpenAI looks for the word JSON in items."""
    items: list[Any] = []
    for turn in turns:
        match turn.role:
            case "tool":
                items += [_result(block) for block in turn.blocks if isinstance(block, ResultPart)]
            case "assistant":
                items += _answer_items(turn, recall)
            case role:
                items += _messages("developer" if role == "system" else role, turn.parts)
    if any("phase" in item for item in items):  # models that know phases want them in all of their messages
        for item in items:
            if item.get("role") == "assistant":
                item.setdefault("phase", "final_answer")
    return items


def _answer_items(turn: Turn, recall: Recall) -> list[Any]:
    """Returns texts and calls. The reasoning of a call comes before the text in front of it, as the answer had it."""
    items, texts = list[Any](), list[JsonObject]()
    for block in turn.blocks:
        match block:
            case TextPart() if bytes(block.raw) != b'""':  # as a string: parts of answers need ids in some servers
                texts.append({"type": "message", "role": "assistant", "content": block.raw})
            case MediaPart():  # answers have none
                texts += _messages("user", [block])
            case CallPart():
                kept = rawjson.objects(msgspec.Raw(recall(block.id) or rawjson.EMPTY_LIST))
                phase = COMMENTARY if COMMENTARY in kept else {}
                items += [item for item in kept if item != COMMENTARY]
                items += [*(text | phase for text in texts), _call(block)]
                texts = []
    return items + texts


def _messages(role: str, parts: Iterable[TextPart | MediaPart]) -> list[JsonObject]:
    """Returns a message with these parts, in a list that is empty if they are."""
    written = [_part(part) for part in parts if not (isinstance(part, TextPart) and bytes(part.raw) == b'""')]
    return [{"type": "message", "role": role, "content": written}] if written else []


def _call(call: CallPart) -> JsonObject:
    return {
        "type": "function_call",
        "call_id": _CALL_IDS.valid_name(call.id),
        "name": OPENAI_TOOLS.valid_name(call.name),
        "arguments": bytes(call.arguments).decode("utf-8", "surrogatepass"),
    }


def _result(result: ResultPart) -> JsonObject:
    """Returns a tool's result: a text, or parts if it has media."""
    texts = [part.raw for part in result.parts if isinstance(part, TextPart)]
    content: Any = error_text(join_texts(texts)) if result.failed else join_texts(texts)
    media = [_part(part) for part in result.parts if isinstance(part, MediaPart)]
    if media:
        content = [{"type": "input_text", "text": content}, *media] if texts else media
    return {"type": "function_call_output", "call_id": _CALL_IDS.valid_name(result.call_id), "output": content}


def _part(part: TextPart | MediaPart) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.raw}
    link = part.url or f"data:{part.type};base64,{part.data}"
    if not part.type or part.type.startswith("image/"):
        return {"type": "input_image", "image_url": link, "detail": part.detail or "auto"}
    if part.type.startswith("audio/"):
        data, kind = part.url or part.data, part.type.partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    if part.url:
        return {"type": "input_file", "file_url": link}
    return {"type": "input_file", "filename": part.name or "file", "file_data": link}
