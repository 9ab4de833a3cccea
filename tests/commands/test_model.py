"""The list of models."""

import pytest
from msgspec.structs import replace

from gateway.domain.account import AccountStatus
from gateway.domain.channel import UpstreamPrices
from gateway.domain.units import Nanos
from gateway.domain.views import NewToken
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, DETAIL, GROUP, MODEL, TOKEN

ACTIVE = {"GET /account": ACCOUNT}


def test_models_are_listed_with_their_price() -> None:
    ran = run("model", "list", control=Control({**ACTIVE, "GET /models": [MODEL, replace(MODEL, price=None)]}))
    assert "$2.50 / $10.00" in ran.out
    assert "unpriced" in ran.out


def test_an_upstream_s_price_is_shown_beside_an_unpriced_model() -> None:
    published = UpstreamPrices(input=Nanos(150_000_000), output=Nanos(600_000_000))
    ran = run(
        "model", "list", control=Control({**ACTIVE, "GET /models": [replace(MODEL, price=None, published=published)]})
    )
    assert "unpriced (listed at $0.15 / $0.60)" in ran.out


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
                "its own list of models is 'demo-*', which matches none of its group 'default'; "
                "to let it see all: tollkeeper token edit laptop --models '*'"
            ),
        ),
    ],
    ids=["its group has none", "its own patterns"],
)
def test_a_token_that_sees_no_models_has_a_reason(sees: list[str], text: str) -> None:
    blind, group = replace(TOKEN, sees=[]), replace(GROUP, sees=sees)
    answers = {**ACTIVE, "GET /models": [], "GET /tokens/laptop": blind, "GET /groups/default": group}
    ran = run("model", "list", "--token", "laptop", control=Control(answers))
    assert ran.err == f"token 'laptop' sees no models: {text}\n"
    answers = {
        "GET /tokens/laptop": replace(TOKEN, models=()),
        f"GET /tokens/{TOKEN.id}": blind,
        "POST /batch": {"done": "changed models of token 'laptop'"},
        "GET /groups/default": group,
    }
    ran = run("token", "edit", "laptop", "--models", "demo-*", control=Control(answers))
    assert ran.err == f"Changed models of token 'laptop'.\nnote: token 'laptop' sees no models: {text}\n"
    answers = {"POST /tokens": NewToken(key="sk-tk-x", token=blind), "GET /groups/default": group}
    ran = run("token", "add", "laptop", control=Control(answers))
    assert ran.err.endswith(f"\nnote: token 'laptop' sees no models: {text}\n")


def test_one_model_says_who_serves_it_in_which_order_and_how_long_it_may_be() -> None:
    control = Control({"GET /models/gpt-4o": DETAIL})
    lines = run("model", "show", "gpt-4o", control=control).out.splitlines()
    assert "longest answer               16,384 tokens" in lines
    assert "answers after it in default  gpt-4o-mini" in lines
    assert lines[-1].split()[:8] == ["default", "1", "openai", "priority", "5", "2", "paused", "429"]
    assert lines[-1].endswith("gpt-4o             128k   16.4k  60 requests a minute")
    assert run("model", "show", "gpt-4o", "--json", control=control).json["routes"][0]["place"] == "priority 5"


@pytest.mark.parametrize(
    ("source", "text"),
    [("upstream", " by the upstream's list"), ("genai-prices 1.0", " by genai-prices 1.0"), ("", "")],
)
def test_a_context_has_its_source(source: str, text: str) -> None:
    ran = run("model", "show", "x", control=Control({"GET /models/x": replace(DETAIL, context_source=source)}))
    assert f"128,000 tokens{text}\n" in ran.out


def test_an_alias_says_what_answers_instead_of_it() -> None:
    ran = run("model", "show", "x", control=Control({"GET /models/x": replace(DETAIL, name="x", routes=[])}))
    assert "answers instead of it in default  gpt-4o-mini\n" in ran.out


def test_a_suspended_account_is_shown_beside_the_list() -> None:
    suspended = replace(ACCOUNT, status=AccountStatus.SUSPENDED)
    ran = run("model", "list", control=Control({"GET /account": suspended, "GET /models": [MODEL]}))
    assert MODEL.name in ran.out
    assert "the account is suspended, so all calls are rejected" in ran.err
