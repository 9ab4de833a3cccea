"""The list of models."""

from msgspec.structs import replace

from tests.commands.runner import Control, run
from tests.commands.samples import MODEL


def test_models_are_listed_with_their_price() -> None:
    ran = run("model", "list", control=Control({"GET /models": [MODEL, replace(MODEL, price=None)]}))
    assert "$2.50 / $10.00" in ran.out
    assert "unpriced" in ran.out


def test_the_list_may_be_one_tokens() -> None:
    control = Control({"GET /models": []})
    ran = run("model", "list", "--token", "laptop", control=control)
    assert control.asked == [("GET /models?token=laptop", None)]
    assert "tollkeeper token show laptop" in ran.err
