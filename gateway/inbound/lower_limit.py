"""A request with a lower output limit than its client set: where the money left does not pay for that one."""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.output_limit import LEAST_OUTPUT
from gateway.domain.rawjson import Fields
from gateway.inbound.api import InboundRequest

LEAST_BUDGET = 1024
"""Tokens to think with, at least, where Anthropic's API gets a number of them."""


def lower_limit(request: InboundRequest, names: tuple[str, ...], limit: int) -> InboundRequest | None:
    """The request with this limit, where it has a higher one under these names; None if that is not possible.

    A budget for thinking in Anthropic's words stays below the limit, with room for an answer.
    """
    fields = {name: rawjson.raw(limit) for name in names if _is_above(request.fields.get(name), limit)}
    thinking = rawjson.maybe(request.fields.get("thinking"))
    if isinstance(thinking, dict) and _exceeds(thinking.get("budget_tokens"), limit - LEAST_OUTPUT):
        if limit - LEAST_OUTPUT < LEAST_BUDGET:
            return None
        fields["thinking"] = rawjson.raw({**thinking, "budget_tokens": limit - LEAST_OUTPUT})
    if not fields:
        return None
    changed: Fields = {**request.fields, **fields}
    return msgspec.structs.replace(request, fields=changed, body=b"", output_cap=limit, lowered=limit)


def _is_above(raw: msgspec.Raw | None, limit: int) -> bool:
    return raw is not None and _exceeds(rawjson.maybe(raw), limit)


def _exceeds(value: Any, limit: int) -> bool:
    return type(value) is int and value > limit
