"""Item pairs: each call among the items of a response's input gets its output, where the upstream refuses it without.

Interrupted conversations lack outputs, and shortened ones the calls. The relay and the translation of items are long
enough without this.
"""

import re
from typing import Any

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.domain.transcript import NO_OUTPUT

PAIRS = "input[].call_id"
"""The name of items that were added or changed."""
PAIRS_REFUSED = re.compile(r"no tool (?:output|call) found for", re.IGNORECASE)
"""Matches OpenAI's refusals of calls without an output, and of outputs without a call."""
_OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""The type of an output by that of its call."""


def with_outputs(items: list[Fields]) -> list[Fields]:
    """Returns the items with an output for each call that has none. An output without a call becomes the user's."""
    answered = {rawjson.text_at(item.get("call_id")) for item in items if _type(item) in _OUTPUTS.values()}
    called = set[str]()
    fitting: list[Fields] = []
    for item in items:
        kind, call_id = _type(item), rawjson.text_at(item.get("call_id"))
        if kind in _OUTPUTS.values() and call_id not in called:
            fitting.append(_as_users(item))
            continue
        fitting.append(item)
        if kind in _OUTPUTS:
            called.add(call_id)
            if call_id not in answered:
                output = {"type": rawjson.raw(_OUTPUTS[kind]), "call_id": item["call_id"], "output": NO_OUTPUT.raw}
                fitting.append(output)
    return fitting


def _type(item: Fields) -> str:
    return rawjson.text_at(item.get("type"))


def _as_users(output: Fields) -> Fields:
    label: dict[str, Any] = {"type": "input_text", "text": "[tool result]"}
    said = rawjson.maybe(output.get("output"))
    parts = said if isinstance(said, list) else [{"type": "input_text", "text": said}] if said else []
    content = rawjson.raw([label, *parts])
    return {"type": rawjson.raw("message"), "role": rawjson.raw("user"), "content": content}
