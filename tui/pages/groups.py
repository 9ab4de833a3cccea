"""Groups: what ties tokens to channels, at which price, within which limits."""

from collections.abc import Mapping
from typing import ClassVar

from tui.actions import bindings
from tui.pages import groups_verbs, list_verbs
from tui.pages.base import Verb
from tui.pages.groups_listing import GroupListing, GroupRow
from tui.pages.listpage import ListPage
from tui.session import Session


class Groups(ListPage[GroupRow]):
    """A table of groups."""

    scopes = ("entity", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_verbs.VERBS, **groups_verbs.VERBS}
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))

    def __init__(self, session: Session) -> None:
        super().__init__(session, "groups", GroupListing(session))
