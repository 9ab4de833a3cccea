"""Budget fields: what a token or a group may spend, and how fast; in both forms."""

from gateway.domain.views import GroupView, TokenView
from tui.limits import reader, written
from tui.parse import budgets, token_budgets, written_budgets, written_token_budgets
from tui.widgets.form import Field


def fields(view: TokenView | GroupView | None) -> list[Field]:
    """The fields, filled from what there is."""
    return [
        Field(
            id="budgets",
            label="Budget, dollars",
            value=written_budgets(view.budgets) if view else "",
            hint="none, or day=5 week=20 month=50 ever=100",
            parse=budgets,
        ),
        Field(
            id="token_budgets",
            label="Budget, tokens",
            value=written_token_budgets(view.budgets) if view else "",
            hint="none, or day=1M",
            parse=token_budgets,
        ),
        Field(
            id="limits",
            label="Limits",
            value=written(view.limits) if view else "",
            hint="none, or rpm=60 tpm=200k rpd= tpd= concurrent=8",
            parse=reader(),
        ),
    ]
