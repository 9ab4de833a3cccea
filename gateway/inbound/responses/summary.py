"""Requests a summary that replaces a conversation, and seals it for the client.

If an upstream cannot compact a conversation, the same model writes a summary. Clients keep it in a ``compaction`` item,
sealed like reasoning, and send it back in place of the conversation. Any model can continue from it.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import Seal, SealKind, parse_seal, seal_text
from gateway.domain.json_text import contains
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL

COMPACTION = "compaction"
"""The type of the item, and the mark of the call."""
COMPACTIONS = frozenset({COMPACTION, "compaction_summary"})
"""The types of items that stand for a conversation; the second is Codex's older name."""
TRIGGER = b'"compaction_trigger"'
"""The type of the item that requests a compaction."""
PROMPT = """\
This conversation is about to be replaced by what you write now. Write a summary from which another model can continue \
without having seen it:
- what the user wants, in the user's own words where they matter, and every rule or preference that the user stated;
- what was decided, and why;
- what was done, with the names of files, commands and results, and what failed;
- what remains to be done, and the next step.
Keep every fact, name, number and agreement that may be needed later. Call no tools. Write the summary and nothing else.
"""
PROMPT_BOUND = 300
"""The maximum input tokens of the prompt."""
_INTRODUCTION = "The conversation so far was replaced by this summary of it:\n\n"
_KEPT_FIELDS = frozenset(
    {
        *("model", "instructions", "tools", "parallel_tool_calls", "max_output_tokens", "reasoning", "service_tier"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user", "metadata"),
        *("previous_response_id", "conversation", "stream"),
    }
)
"""Fields that the request for a summary keeps from the client's."""


def seal_summary(text: str) -> str:
    """Returns the content of a ``compaction`` item."""
    return seal_text(Seal(SealKind.COMPACTION, rawjson.encode(text)))


def summary_in(sealed: str) -> str | None:
    """Returns the summary in a ``compaction`` item's content, for the model; None if it was not sealed here."""
    seal = parse_seal(sealed)
    text = rawjson.maybe(seal.content) if seal is not None and seal.kind is SealKind.COMPACTION else None
    return _INTRODUCTION + text if isinstance(text, str) else None


def summary_order(order: Order) -> Order:
    """Returns the request for a summary of the client's conversation, in the same API."""
    fields = {name: raw for name, raw in order.fields.items() if name in _KEPT_FIELDS}
    content = order.fields.get("input", NULL)
    items: list[Any] = []
    if rawjson.is_text(content):
        items.append({"type": "message", "role": "user", "content": content})
    elif not rawjson.is_null(content):
        items += [raw for raw in rawjson.items(content) if not _is_trigger(raw)]
    fields["input"] = rawjson.raw([*items, {"type": "message", "role": "user", "content": PROMPT}])
    fields["store"] = msgspec.Raw(b"false")
    if contains(content, b'"additional_tools"') or not rawjson.is_null(fields.get("tools")):
        fields["tool_choice"] = msgspec.Raw(b'"none"')
    form = msgspec.structs.replace(order.form, compacts=False)
    return msgspec.structs.replace(order, fields=fields, body=b"", form=form)


def _is_trigger(raw: msgspec.Raw) -> bool:
    return contains(raw, TRIGGER) and rawjson.maybe(rawjson.fields(raw).get("type")) == "compaction_trigger"
