"""Deferred tools: tools that are loaded later, at a channel of dialect anthropic whose server does not know them.

Claude Code sends only the tools that its own search has found. They are marked ``defer_loading``, the search's results
refer to them by ``tool_reference``, and a beta allows both. A server that refuses one of these gets the request again
without the marks, with the references as text: the tools themselves are in it anyway.
"""

import re

import msgspec

from gateway.domain import rawjson
from gateway.domain.failure import Failure
from gateway.domain.order import Order

MARK = "defer_loading"
BETA_HEADER = "anthropic-beta"

_REFUSED = re.compile(r"defer_loading|tool[ _]reference|tool_result|\bbeta\b", re.IGNORECASE)
"""What a server says about them: some name the mark or the block, some the result that contains it, some only
the beta."""
_BETA = re.compile(r"tool-search-tool-|advanced-tool-use-")
_IN_REQUEST = re.compile(rb'"(?:defer_loading|tool_reference)"')


def without_deferred_tools(order: Order, failure: Failure) -> Order | None:
    """Returns the request without deferred tools; None if it has none, or failed for another reason."""
    said = failure.verbatim.cleared(str)
    if failure.status not in (400, 422) or not _REFUSED.search(said):
        return None
    betas = order.forward.get(BETA_HEADER, "")
    changed = {
        name: value
        for name, value in (("tools", _unmarked_tools), ("messages", _with_texts))
        if name in order.fields and _IN_REQUEST.search(memoryview(order.fields[name]))
    }
    if not changed and not ("beta" in said and _BETA.search(betas)):
        return None
    try:
        fields = {**order.fields, **{name: change(order.fields[name]) for name, change in changed.items()}}
    except ValueError:  # invalid for the API: the upstream's error stands
        return None
    forward = {**order.forward, BETA_HEADER: _without_beta(betas)} if betas else order.forward
    return msgspec.structs.replace(
        order, fields=fields, body=b"" if changed else order.body, forward=forward, removed=(*order.removed, MARK)
    )


def _unmarked_tools(tools: msgspec.Raw) -> msgspec.Raw:
    return rawjson.raw(
        [{name: value for name, value in tool.items() if name != MARK} for tool in rawjson.objects(tools)]
    )


def _with_texts(messages: msgspec.Raw) -> msgspec.Raw:
    """Returns the content with every reference as the text that channels of other dialects get."""
    turns = rawjson.value(messages)
    for turn in turns if isinstance(turns, list) else ():
        for block in _objects(turn, "content"):
            for part in _objects(block, "content"):
                if part.get("type") == "tool_reference":
                    name = part.get("tool_name", "")
                    part.clear()
                    part |= {"type": "text", "text": f"[tool_reference {name}]"}
    return rawjson.raw(turns)


def _objects(holder: object, name: str) -> list[dict[str, object]]:
    inner = holder.get(name) if isinstance(holder, dict) else None
    return [part for part in inner if isinstance(part, dict)] if isinstance(inner, list) else []


def _without_beta(betas: str) -> str:
    return ",".join(name for name in map(str.strip, betas.split(",")) if name and not _BETA.match(name))
