"""The list of models."""

from msgspec.structs import replace

from gateway.domain.channel import UpstreamPrices
from gateway.domain.units import Nanos
from tests.commands.runner import Control, run
from tests.commands.samples import MODEL


def test_models_are_listed_with_their_price() -> None:
    ran = run("model", "list", control=Control({"GET /models": [MODEL, replace(MODEL, price=None)]}))
    assert "$2.50 / $10.00" in ran.out
    assert "unpriced" in ran.out


def test_what_an_upstream_asks_stands_beside_an_unpriced_model() -> None:
    told = UpstreamPrices(input=Nanos(150_000_000), output=Nanos(600_000_000))
    ran = run("model", "list", control=Control({"GET /models": [replace(MODEL, price=None, told=told)]}))
    assert "unpriced (there $0.15 / $0.60)" in ran.out


def test_the_list_may_be_one_tokens() -> None:
    control = Control({"GET /models": []})
    ran = run("model", "list", "--token", "laptop", control=control)
    assert control.asked == [("GET /models?token=laptop", None)]
    assert "tollkeeper token show laptop" in ran.err
