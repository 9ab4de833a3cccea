"""Pages: how an upstream is asked which models it has, page by page."""

from typing import Protocol

import msgspec

from gateway.domain.channel import Channel, Served
from gateway.upstream.adapter import Prepared
from gateway.upstream.listing import read_models

HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    models: list[Served]
    after: str = ""
    """What to ask for the next page with; empty: this is the last one."""


class Listing(Protocol):
    """How one dialect lists models. Pure."""

    def ask(self, channel: Channel, after: str) -> Prepared:
        """The request for the first page, or for the one after another."""

    def read(self, body: bytes) -> Page | None:
        """The page; None if the body is none."""


class PlainListing:
    """OpenAI's way: everything at once."""

    def ask(self, channel: Channel, after: str) -> Prepared:
        """See ``Listing``."""
        return Prepared(url=channel.base_url.rstrip("/") + "/models", headers=HEADERS, body=b"")

    def read(self, body: bytes) -> Page | None:
        """See ``Listing``."""
        models = read_models(body)
        return None if models is None else Page(models=models)
