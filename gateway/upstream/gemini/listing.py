"""Listing: the models of Gemini's ``GET /v1beta/models`` that can chat, a thousand a page."""

from typing import Any
from urllib.parse import quote

from gateway.domain.channel import Channel, Served
from gateway.domain.text import plain
from gateway.upstream import rawjson
from gateway.upstream.adapter import Prepared
from gateway.upstream.gemini.request import root
from gateway.upstream.listing import NAME_LIMIT
from gateway.upstream.pages import HEADERS, Page


class GeminiListing:
    """Implements ``pages.Listing``."""

    def ask(self, channel: Channel, after: str) -> Prepared:
        """See ``pages.Listing``."""
        url = root(channel) + "/models?pageSize=1000"
        if after:
            url += "&pageToken=" + quote(after, safe="")
        return Prepared(url=url, headers=HEADERS, body=b"")

    def read(self, body: bytes) -> Page | None:
        """See ``pages.Listing``."""
        found = rawjson.maybe(body.strip())
        entries = found.get("models") if isinstance(found, dict) else None
        if not isinstance(found, dict) or not isinstance(entries, list):
            return None
        models = [_model(entry) for entry in entries if isinstance(entry, dict)]
        after = found.get("nextPageToken")
        return Page(models=[model for model in models if model], after=after if isinstance(after, str) else "")


def _model(entry: dict[str, Any]) -> Served | None:
    name, methods = entry.get("name"), entry.get("supportedGenerationMethods")
    if not isinstance(name, str) or not name or name != plain(name, NAME_LIMIT):
        return None
    if not isinstance(methods, list) or "generateContent" not in methods:
        return None
    return Served(
        name=name.removeprefix("models/"),
        context=_positive(entry.get("inputTokenLimit")),
        max_output=_positive(entry.get("outputTokenLimit")),
    )


def _positive(number: object) -> int | None:
    return number if type(number) is int and number > 0 else None
