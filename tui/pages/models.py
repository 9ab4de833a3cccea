"""Models: what clients may ask for, what it costs, and who serves it."""

from collections.abc import Mapping
from typing import ClassVar

from tui.actions import bindings
from tui.pages import list_verbs, models_verbs
from tui.pages.base import Verb
from tui.pages.models_listing import ModelListing, ModelRow
from tui.pages.trendpage import TrendPage
from tui.session import Session


class Models(TrendPage[ModelRow]):
    """A table of models and their prices."""

    scopes = ("models", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {**list_verbs.VERBS, **models_verbs.VERBS}
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))
    by = "model"

    def __init__(self, session: Session) -> None:
        super().__init__(session, "models", ModelListing(session))
