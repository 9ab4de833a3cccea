"""Listing: the models of Anthropic's ``GET /v1/models``, a thousand a page; retired ones are left out."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from gateway.domain.channel import Channel, Served
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.upstream import rawjson
from gateway.upstream.adapter import Prepared
from gateway.upstream.anthropic.request import headers, root
from gateway.upstream.listing import NAME_LIMIT
from gateway.upstream.openai.request import endpoint
from gateway.upstream.pages import Page


class AnthropicListing:
    """Implements ``pages.Listing``."""

    def ask(self, channel: Channel, after: str) -> Prepared:
        """See ``pages.Listing``."""
        url = endpoint(root(channel), "/v1/models") + "?limit=1000"
        if after:
            url += "&after_id=" + quote(after, safe="")
        return Prepared(url=url, headers=headers(channel, stream=False), body=b"")

    def read(self, body: bytes) -> Page | None:
        """See ``pages.Listing``."""
        found = rawjson.maybe(body.strip())
        entries = found.get("data") if isinstance(found, dict) else None
        if not isinstance(entries, list):
            return None
        models = [_model(entry) for entry in entries if isinstance(entry, dict)]
        last = found.get("last_id") if found.get("has_more") else ""
        return Page(models=[model for model in models if model], after=last if isinstance(last, str) else "")


def _model(entry: dict[str, Any]) -> Served | None:
    name = entry.get("id")
    if not isinstance(name, str) or not name or name != plain(name, NAME_LIMIT) or entry.get("lifecycle") == "retired":
        return None
    return Served(
        name=name,
        created=_moment(entry.get("created_at")),
        context=_positive(entry.get("max_input_tokens")),
        max_output=_positive(entry.get("max_tokens")),
    )


def _positive(number: object) -> int | None:
    return number if type(number) is int and number > 0 else None


def _moment(text: object) -> Millis:
    """RFC 3339 to milliseconds; 0 for what is none. The epoch itself means unknown."""
    try:
        return Millis(max(0, round(datetime.fromisoformat(str(text)).timestamp() * 1000)))
    except (ValueError, OverflowError):
        return Millis(0)
