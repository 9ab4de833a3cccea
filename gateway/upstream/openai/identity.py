"""Identity: id, kind, time and model of an answer as the client sees them."""

import msgspec

from gateway.domain.text import plain
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.rawjson import Fields
from gateway.upstream.redaction.answers import Screen

ID_LIMIT = 200
"""Characters of an upstream's id; a longer one is replaced by ours."""

CHUNK = msgspec.Raw(b'"chat.completion.chunk"')
COMPLETION = msgspec.Raw(b'"chat.completion"')


def identity(answer: Fields, upstream_id: str, order: Order, kind: msgspec.Raw) -> Fields:
    """The upstream's id and time if they are good, else the order's; the model is always the one that was asked for."""
    created = rawjson.value(answer.get("created"))
    good = isinstance(created, int) and not isinstance(created, bool) and created > 0
    return {
        "id": rawjson.raw(upstream_id if 0 < len(upstream_id) < ID_LIMIT else order.answer_id),
        "object": kind,
        "created": rawjson.raw(created if good else order.created),
        "model": rawjson.raw(order.model),
    }


def upstream_id(answer: Fields, screen: Screen) -> str:
    """The id the upstream gave, made harmless and cut to ``ID_LIMIT``; empty if there is none, or it shows a secret."""
    found = rawjson.value(answer.get("id"))
    return plain(found, ID_LIMIT) if isinstance(found, str) and not screen.shows(found) else ""
