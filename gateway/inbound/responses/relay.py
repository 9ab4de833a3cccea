"""Responses at channels that speak it: request and answer pass unchanged.

These things change in a request: the model's name, what the channel's owner overrides, an output limit above the
model's own, and reasoning that the gateway sealed for another vendor, because OpenAI did not make it. In an answer only
the name of the model changes, if the client knows it by another one.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SEAL_PREFIX
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.conversation import join_texts
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.json_text import as_utf8, contains, refuse_many_elements
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import read_limit
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import BLANK, is_stream, parse, with_line_feeds
from gateway.domain.usage import NOTHING
from gateway.inbound.relay import NativeStream, lower_cap, native_failure, native_headers
from gateway.inbound.responses.native_events import items_in
from gateway.inbound.responses.reader import ResponsesReader
from gateway.inbound.responses.summary import COMPACTIONS, summary_in
from gateway.upstream.adapter import Adapter, RequestWriter, WholeAnswer, failing_attempt
from gateway.upstream.call_memory import THOUGHTS_REFUSED
from gateway.upstream.error_body import ErrorBody, read_error
from gateway.upstream.failures import REJECTED
from gateway.upstream.null_values import NULLS
from gateway.upstream.openai.dialect import MIN_LIMIT, endpoint
from gateway.upstream.openai.responses import NOT_CONVERTED, PATH
from gateway.upstream.openai.responses_reader import OutputReader
from gateway.upstream.overrides import with_parameters
from gateway.upstream.request_rules import fit_request, is_rule
from gateway.upstream.translation import with_limit
from gateway.upstream.vendors import OPENAI, vendor_of

_PARAMETER_NAMES: Mapping[str, str | None] = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    "user": "safety_identifier",
    **dict.fromkeys(("stop", "top_k", "n", "seed", "presence_penalty", "frequency_penalty", "logit_bias")),
}
"""The names of chat completion parameters here."""
CONTENT_FIELDS = frozenset({"model", "input", "instructions", "tools", "tool_choice"})
"""Fields that the model reads."""

REASONING = "input[].reasoning"
"""The name of reasoning items that a channel cannot read."""

_NEEDED = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "max_output_tokens", "stream", "text", "reasoning"),
        *("previous_response_id", "conversation", "prompt", "store", "background"),
    }
)
"""Fields without which the answer is another one. A server that refuses any other field gets requests without it."""
_OPTIONAL = {"verbosity": ("text.verbosity",), "summary": ("reasoning.summary",)}
"""The paths of members that may be left out, by the names in a refusal."""
_PATHS = frozenset(path for paths in _OPTIONAL.values() for path in paths)
_MAKERS = frozenset({OPENAI.name, "azure"})
"""Vendors that have all of the API."""
_UNKNOWN_TOOL = re.compile(
    r"tool type|unsupported (?:responses )?tool|\btool must be 'function'|must be a function tool"
    r"|cannot determine type of 'item'|output of tool call should be|\btools[.\[]\d+\]?\.type\b",
    re.IGNORECASE,
)
"""Matches refusals of tools that are not functions, or of their results, by llama.cpp, vLLM, Ollama and LM Studio."""
_ITEMS_REFUSED = re.compile(
    r"\('body', 'input'|\binput items? (?:must|type)|\bitem\['|\binput(?:[.\[](?:\d|list)|\Z)", re.IGNORECASE
)
"""Matches refusals of how usual items are written, by vLLM, llama.cpp, Ollama and relays: a chat may be accepted."""
KIND_FIELDS = ("tools", "input")
"""Fields whose elements have a type that a server with only a part of the API may refuse."""
_COMMON_KINDS = frozenset({"", "function", "message", "function_call", "function_call_output", "reasoning"})
"""Types that every such server takes. If one is refused, something other than its type is at fault."""
_ELEMENT = re.compile(r"\b(tools|input)[.\[](\d{1,4})\b")
"""Matches the place of a tool or an item in a refusal."""

_FOLLOWED_BY_NOTHING = re.compile(r"Item '([^']{1,100})' of type 'reasoning' was provided without its required")
"""Matches the refusal of one reasoning, which a program keeps of a stream that broke: the others may stay."""

_FIELD_REFUSED = re.compile(r"Invalid 'input\[\d+\]\.(id|content)'|Item with (id) '[^']{1,100}' not found")
"""Matches refusals of ids and reasoning of other makers, or that were not stored. Copilot's ids are longer."""

_SEALED = b'"' + SEAL_PREFIX.encode()


def native_order(order: Order, overrides: Overrides | None) -> Order:
    """Returns the request with the owner's overrides, and without what only other vendors understand."""
    order = with_parameters(order, overrides, _PARAMETER_NAMES, required={"input"})
    changes, removed = dict[str, msgspec.Raw](), order.removed
    if overrides is not None and overrides.system:
        changes["instructions"] = _with_system(order.fields.get("instructions", NULL), overrides)
    content = order.fields.get("input", NULL)
    if contains(content, _SEALED):
        readable = [_readable_items(raw) for raw in rawjson.items(content)]
        changes["input"] = rawjson.raw([item for items in readable for item in items])
        removed = removed if all(readable) else (*removed, REASONING)
    if not changes:
        return order
    return msgspec.structs.replace(order, fields={**order.fields, **changes}, body=b"", removed=removed)


def repaired_order(order: Order, failure: Failure) -> Order | None:
    """Returns the request without what the upstream refuses in its items; None if it would not help."""
    message = failure.words
    items = rawjson.maybe_objects(order.fields.get("input")) or []
    name, kept = "", items
    if (lone := _FOLLOWED_BY_NOTHING.search(message)) and any(_has_id(item, lone[1]) for item in items):
        name, kept = "reasoning_dropped", [item for item in items if not _has_id(item, lone[1])]
    elif THOUGHTS_REFUSED.search(message):
        others = [item for item in items if rawjson.maybe(item.get("type")) != "reasoning"]
        name, kept = "reasoning_dropped", [_without_field(item, "id") for item in others]
    elif field := _FIELD_REFUSED.search(message):
        refused = field[1] or field[2]
        name, kept = f"input[].{refused}", [_without_field(item, refused) for item in items]
    if kept == items:
        return None
    fields = {**order.fields, "input": rawjson.raw(kept)}
    return msgspec.structs.replace(order, fields=fields, body=b"", removed=(*order.removed, name))


def _has_id(item: Fields, id: str) -> bool:
    return rawjson.text_at(item.get("id")) == id


def _refused_kinds(request: Fields, error: ErrorBody) -> list[str]:
    """Returns the types of tools and items that a refusal is about. It names a type, or a place; a refusal of the whole
    input or of tools in general may mean each of them.
    """
    lists = {name: rawjson.list_at(request.get(name)) for name in KIND_FIELDS}
    kinds = {name: [rawjson.text_at(item, "type") for item in items] for name, items in lists.items()}
    words, every_kind = f"{error.message} {error.param}", kinds["tools"] + kinds["input"]
    places = [(kinds[field], int(number)) for field, number in _ELEMENT.findall(words)]
    refused = [types[number] for types, number in places if number < len(types)]
    names = set(re.findall(r"(?<![\w.])\w+(?![\w.])", words))
    refused += [kind for kind in every_kind if kind in names]
    if _COMMON_KINDS.issuperset(refused) and (error.param == "input" or _UNKNOWN_TOOL.search(words)):
        refused = kinds["input"] if error.param == "input" else every_kind
    return [kind for kind in dict.fromkeys(refused) if kind not in _COMMON_KINDS]


def _without_field(item: Fields, name: str) -> Fields:
    """Returns an item without its own id, or reasoning without its text."""
    kind = rawjson.maybe(item.get("type"))
    if kind == "item_reference" or (name == "content" and kind != "reasoning"):
        return item
    return {key: value for key, value in item.items() if key != name}


def _with_system(instructions: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns the instructions with the owner's system prompt at the end."""
    system = rawjson.raw(overrides.system)
    if rawjson.is_null(instructions) or overrides.replace_system:
        return system
    if rawjson.is_list(instructions):
        return rawjson.raw([*rawjson.items(instructions), {"role": "developer", "content": system}])
    return join_texts([instructions, system])


def _readable_items(raw: msgspec.Raw) -> list[Any]:
    """Returns what the upstream gets for an item: nothing for reasoning sealed here, a message for a summary."""
    if not contains(raw, _SEALED):
        return [raw]
    item = rawjson.fields(raw)
    content = item.get("encrypted_content", NULL)
    kind = rawjson.maybe(item.get("type")) if bytes(content).startswith(_SEALED) else ""
    if isinstance(kind, str) and kind in COMPACTIONS and (summary := summary_in(rawjson.text(content))) is not None:
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]}]
    return [] if kind == "reasoning" else [raw]


def model_kind(fields: Fields) -> str:
    """Returns the name of a request's model among refused kinds: some upstreams lack the API for some models."""
    return f"model {rawjson.text_at(fields.get('model'))}"


def _is_own(name: str) -> bool:
    """Returns whether this is the name of a rule, or of a field that may be left out."""
    return is_rule(name) or (name.isidentifier() and name not in _NEEDED)


class ResponsesRelay(Adapter):
    """Calls a channel that speaks the API."""

    path = PATH

    def __init__(self, dialect: RequestWriter) -> None:
        """``dialect`` is the channel's, which knows what errors mean."""
        self._dialect = dialect
        self._sent: Fields = {}
        """The fields of the last request."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        self._sent = order.fields
        rules = [name for name in vendor_of(channel).rules + learned.dropped if name in _PATHS or _is_own(name)]
        fields, dropped = fit_request(order.fields, rules)
        served = with_limit(served, learned)
        changes = lower_cap(fields, "max_output_tokens", served)
        lowered = served.max_output if changes else None
        changes["model"] = rawjson.raw(served.upstream_name)
        if rawjson.is_null(fields.get("max_output_tokens")) and order.output_budget is not None:
            limit = max(MIN_LIMIT, order.output_budget) // read_limit(fields, content=CONTENT_FIELDS).choices
            lowered = min(limit, served.max_output or limit)
            changes["max_output_tokens"] = rawjson.raw(lowered)
        return PreparedRequest(
            url=endpoint(channel.base_url, self.path),
            headers=native_headers(order, channel),
            body=order.body_with({**fields, **changes}),
            dropped=tuple(dropped),
            lowered_cap=lowered,
        )

    def reader(self, order: Order, channel: Channel) -> OutputReader:
        """See ``DialectAdapter``: a summary of the conversation is rendered."""
        return OutputReader(order, channel)

    def stream(self, order: Order, channel: Channel) -> NativeStream:
        return NativeStream(channel, ResponsesReader(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        body = as_utf8(body.strip())
        reader = ResponsesReader(order, channel)
        with failing_attempt(body, channel):
            if is_stream(body):
                body = _response_in(body, self.stream(order, channel))
            refuse_many_elements(body)
            sent = reader.read_whole(body)
        return WholeAnswer(body=sent, state=reader, render=lambda _: sent)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns the failure. A server may lack the API only for a model, or for Codex's tools or items."""
        failure = self._dialect.failure(channel, status, headers, body)
        failure = native_failure(failure, body, _OPTIONAL, self._may_change)
        error = read_error(body)
        if not failure.sent or NOT_CONVERTED.search(failure.words):
            return msgspec.structs.replace(failure, may_lack_api=True, refused_kinds=(model_kind(self._sent),))
        is_about_items = THOUGHTS_REFUSED.search(failure.words) or _FIELD_REFUSED.search(error.message)
        is_repairable = is_about_items or not {NULLS}.issuperset(failure.parameters)
        vendor = vendor_of(channel)
        if is_repairable or vendor.name in _MAKERS:
            return failure
        lacks_tools = bool(_UNKNOWN_TOOL.search(f"{error.message} {error.param}"))
        is_mistake = failure.kind is FailureKind.CLIENT and failure.code == REJECTED
        kinds = _refused_kinds(self._sent, error) if lacks_tools or is_mistake else []
        is_known = bool(vendor.key_variable)  # as a vendor with all that such items may contain
        if is_mistake and not (kinds or is_known) and _ITEMS_REFUSED.search(f"{error.message} {error.param}"):
            items = bytes(self._sent.get("input", NULL))  # those of a first request are written in one way only
            kinds = [kind for kind in ("assistant", "function_call_output") if b'"%b"' % kind.encode() in items]
        if not (kinds or lacks_tools):
            return failure
        return msgspec.structs.replace(failure, may_lack_api=True, refused_kinds=tuple(kinds))

    def _may_change(self, name: str) -> bool:
        """Returns whether this is the name of a rule or a field that would change the last request."""
        return _is_own(name) and fit_request(self._sent, [name])[0] != self._sent


def _response_in(body: bytes, stream: NativeStream) -> bytes:
    """Returns the whole response in a stream that was not requested. If its last event lists fewer items than the
    preceding events have, or shorter ones, theirs are its output. Raises AttemptFailed if the stream is incomplete.
    """
    events = stream.feed(body) + stream.end()
    if stream.failure is not None:
        raise AttemptFailed(stream.failure)
    events += stream.tail(stream.state.reported or NOTHING)
    parsed = map(parse, with_line_feeds(events).split(BLANK))
    values = [rawjson.maybe(event.data) for event in parsed if event is not None]
    decoded = [value for value in values if isinstance(value, dict)]
    response: dict[str, Any] = next((event["response"] for event in reversed(decoded) if "response" in event), {})
    outputs = rawjson.list_at(response, "output"), items_in(decoded)
    output = max(outputs, key=lambda items: (len(items), len(rawjson.encode(items))))
    return rawjson.encode({**response, "output": output})
