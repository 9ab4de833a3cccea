"""Tokens: the keys that clients present, what they may spend, and how to use them."""

from collections.abc import Mapping
from typing import ClassVar

from tui.actions import bindings
from tui.pages import list_verbs, tokens_verbs
from tui.pages.base import Verb
from tui.pages.tokens_listing import TokenListing, TokenRow
from tui.pages.trendpage import TrendPage
from tui.session import Session


class Tokens(TrendPage[TokenRow]):
    """A table of tokens."""

    scopes = ("entity", "tokens", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_verbs.VERBS, **tokens_verbs.VERBS}
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))
    by = "token"

    def __init__(self, session: Session) -> None:
        super().__init__(session, "tokens", TokenListing(session))
