"""Channels: the upstream accounts that answer, how they do, and what they offer."""

from collections.abc import Mapping
from typing import ClassVar

from tui.actions import bindings
from tui.pages import channels_verbs, list_verbs
from tui.pages.base import Verb
from tui.pages.channels_listing import ChannelListing, ChannelRow
from tui.pages.trendpage import TrendPage
from tui.session import Session


class Channels(TrendPage[ChannelRow]):
    """A table of channels."""

    scopes = ("entity", "channels", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_verbs.VERBS, **channels_verbs.VERBS}
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))
    by = "channel"
    hourly = True

    def __init__(self, session: Session) -> None:
        super().__init__(session, "channels", ChannelListing(session))
