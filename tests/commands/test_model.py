"""The list of models."""

import pytest
from msgspec.structs import replace

from gateway.domain.account import AccountStatus
from gateway.domain.price import UpstreamPrices
from gateway.domain.units import Nanos
from gateway.domain.views import NewToken
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, DETAIL, GROUP, MODEL, TOKEN

ACTIVE = {"GET /account": ACCOUNT}


PUBLISHED = UpstreamPrices(input=Nanos(150_000_000), output=Nanos(600_000_000))
LISTED = replace(DETAIL, context_source="genai-prices 1.0")


@pytest.mark.parametrize(
    ("line", "view", "told"),
    [
        ("list", [MODEL], "$2.50 / $10.00"),
        ("list", [replace(MODEL, price=None)], "unpriced"),
        ("list", [replace(MODEL, price=None, published=PUBLISHED)], "unpriced (listed at $0.15 / $0.60)"),
        ("show x", DETAIL, "128,000 tokens\n"),
        ("show x", replace(DETAIL, context_source="upstream"), "128,000 tokens by the upstream's list\n"),
        ("show x", LISTED, "128,000 tokens by genai-prices 1.0\n"),
        ("show x", replace(DETAIL, name="x", routes=[]), "answers instead of it in default  gpt-4o-mini\n"),
    ],
)
def test_models_are_shown(line: str, view: object, told: str) -> None:
    answers = {**ACTIVE, "GET /models": view, "GET /models/x": view}
    assert told in run("model", *line.split(), answers=answers).out


def test_the_list_may_be_one_tokens() -> None:
    control = Control({**ACTIVE, "GET /models": [MODEL]})
    assert MODEL.name in run("model", "list", "--token", "laptop", control=control).out
    assert control.asked[0] == ("GET /models?token=laptop", None)


@pytest.mark.parametrize(
    ("sees", "text"),
    [
        ([], "its group 'default' has none; see: tollkeeper group show default"),
        (
            ["gpt-4o"],
            (
                "its own list of models is 'demo-*', which matches no model of its group 'default'; "
                "to let it see all: tollkeeper token edit laptop --models '*'"
            ),
        ),
    ],
    ids=["its group has none", "its own patterns"],
)
def test_a_token_that_sees_no_models_has_a_reason(sees: list[str], text: str) -> None:
    blind, group = replace(TOKEN, sees=[]), replace(GROUP, sees=sees)
    answers = {**ACTIVE, "GET /models": [], "GET /tokens/laptop": blind, "GET /groups/default": group}
    ran = run("model", "list", "--token", "laptop", answers=answers)
    assert ran.err == f"token 'laptop' sees no models: {text}\n"
    answers = {
        "GET /tokens/laptop": replace(TOKEN, models=()),
        f"GET /tokens/{TOKEN.id}": blind,
        "POST /batch": {"done": "changed models of token 'laptop'"},
        "GET /groups/default": group,
    }
    ran = run("token", "edit", "laptop", "--models", "demo-*", answers=answers)
    assert ran.err == f"Changed models of token 'laptop'.\nnote: token 'laptop' sees no models: {text}\n"
    answers = {"POST /tokens": NewToken(key="sk-tk-x", token=blind), "GET /groups/default": group}
    ran = run("token", "add", "laptop", answers=answers)
    assert ran.err.endswith(f"\nnote: token 'laptop' sees no models: {text}\n")


def test_one_model_says_who_serves_it_in_which_order_and_how_long_it_may_be() -> None:
    control = Control({"GET /models/gpt-4o": DETAIL})
    lines = run("model", "show", "gpt-4o", control=control).out.splitlines()
    assert "longest answer               16,384 tokens" in lines
    assert "answers after it in default  gpt-4o-mini" in lines
    assert lines[-1].split()[:8] == ["default", "1", "openai", "priority", "5", "2", "paused:", "429"]
    assert lines[-1].endswith("gpt-4o             128k   16.4k  60 requests a minute")
    assert run("model", "show", "gpt-4o", "--json", control=control).json["routes"][0]["place"] == "priority 5"


def test_a_suspended_account_is_shown_beside_the_list() -> None:
    suspended = replace(ACCOUNT, status=AccountStatus.SUSPENDED)
    ran = run("model", "list", answers={"GET /account": suspended, "GET /models": [MODEL]})
    assert MODEL.name in ran.out
    assert "the account is suspended, so all calls are rejected" in ran.err
