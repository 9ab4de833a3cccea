"""Every check is made, in its order, before anything is committed."""

from typing import Any

import pytest

from gateway.core.admission import NAMED_MODELS, admit, today_of, visible_entry
from gateway.core.call import Call
from gateway.core.catalog import Catalog
from gateway.core.ratelimit import Limiter
from gateway.domain.account import Account, AccountStatus
from gateway.domain.budget import Amounts, Budget, Window, window_end, window_start
from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest, GatewayError, NotFound, QuotaExceeded, RateLimited
from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from tests.core import kit
from tests.core.clocks import NOON, Mono
from tests.core.test_quota import Purse


def call_of(token: Token, catalog: Catalog, model: str = "m", **fields: Any) -> Call:
    return kit.call(kit.ask(model, **fields), catalog=catalog, token=token, group=catalog.registry.groups[token.group])


def offered(*models: str, **fields: Any) -> Catalog:
    return kit.catalog(kit.channel("up", *(models or ("m",)), groups=("home",)), **fields)


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(Mono(), lambda _: (0, 0, 0.0))


def refusal(
    limiter: Limiter, token: Token, catalog: Catalog, model: str = "m", purse: Purse | None = None
) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        admit(call_of(token, catalog, model), limiter, purse or Purse())
    return caught.value


def test_a_good_call_is_admitted_with_what_is_to_be_committed(limiter: Limiter) -> None:
    call = call_of(kit.token(limits=Limits(rpm=1)), offered(), max_tokens=20, n=2)
    found = admit(call, limiter, Purse(10**9))
    assert (found.entry.name, call.need.rate_tokens, found.hold_plan.tokens) == ("m", 16 + 40, 16 + 40)
    assert found.hold_plan.nanos == 16 * 2500 + 40 * 10_000
    assert found.entry.routes[0].served.price == kit.PRICE


def test_what_a_channel_s_owner_adds_is_held_too(limiter: Limiter) -> None:
    edits = Overrides(system="x" * 30, set={"max_tokens": 50})
    catalog = kit.catalog(kit.channel("up", "m", groups=("home",), overrides=edits))
    found = admit(call_of(kit.token(), catalog, max_tokens=10), limiter, Purse(10**9))
    assert found.hold_plan.nanos == (16 + 14) * 2500 + 50 * 10_000


def test_an_advisor_without_a_price_is_held_for_at_the_price_of_the_model(limiter: Limiter) -> None:
    tools = [{"type": "advisor_20260301", "name": "advisor", "model": "big", "max_uses": 1, "max_tokens": 100}]
    call = call_of(kit.token(), offered(), max_tokens=20, tools=tools)
    found = admit(call, limiter, Purse(10**9))
    read = call.need.input
    assert found.hold_plan.nanos == read * 2500 + 20 * 10_000 + (read + 20) * 2500 + 100 * 10_000


def test_nothing_is_taken_by_checking(limiter: Limiter) -> None:
    token, catalog = kit.token(limits=Limits(rpm=1, concurrent=1)), offered()
    for _ in range(5):
        admit(call_of(token, catalog), limiter, Purse(10**9))
    assert limiter.concurrency.slots_taken(("token", token.id)) == 0


def test_the_model_is_looked_at_before_everything_else(limiter: Limiter) -> None:
    blocked = Account(status=AccountStatus.SUSPENDED)
    token = kit.token(limits=Limits(rpm=0))
    assert type(refusal(limiter, token, offered(), "other", Purse(0, blocked))) is NotFound


def test_a_missing_price_is_reported_before_the_rate(limiter: Limiter) -> None:
    catalog = offered(prices=(), settings=Settings(refuse_unpriced=True))
    error = refusal(limiter, kit.token(limits=Limits(rpm=0)), catalog)
    assert (type(error), error.code) == (BadRequest, "model_price_missing")
    assert "--input DOLLARS --output DOLLARS" in error.message, "the command is whole"


def test_the_rate_is_looked_at_before_the_money(limiter: Limiter) -> None:
    assert type(refusal(limiter, kit.token(limits=Limits(rpm=0)), offered(), purse=Purse(0))) is RateLimited


def test_the_money_comes_last(limiter: Limiter) -> None:
    assert type(refusal(limiter, kit.token(limits=Limits(rpm=1)), offered(), purse=Purse(0))) is QuotaExceeded


def test_days_are_read_from_the_books(limiter: Limiter) -> None:
    purse, token = Purse(10**9), kit.token(limits=Limits(rpd=10, tpd=1000))
    purse.spendings[("token", "tok_laptop"), window_start(Window.DAY, NOON)] = Amounts(calls=7, tokens=900)
    purse.holds["token", "tok_laptop"] = Amounts(calls=2, tokens=50)
    used = today_of(purse, lambda: NOON)(("token", token.id))
    end = window_end(Window.DAY, NOON)
    assert end is not None
    assert used[:2] == (9, 950)
    assert (end - NOON) / 1000 <= used[2] < (end - NOON) / 1000 + 1


def test_a_new_day_begins_at_midnight() -> None:
    purse, now = Purse(10**9), [NOON]
    today = today_of(purse, lambda: now[0])
    midnight = window_end(Window.DAY, NOON)
    assert midnight is not None
    purse.spendings[("group", "home"), window_start(Window.DAY, NOON)] = Amounts(calls=7)
    purse.spendings[("group", "home"), midnight] = Amounts(calls=1)
    purse.holds["group", "home"] = Amounts(calls=2)
    assert today(("group", "home"))[0] == 9
    now[0] = Millis(midnight - 1)
    assert today(("group", "home"))[::2] == (9, 1)
    now[0] = midnight
    assert today(("group", "home"))[0] == 1


def test_a_refusal_names_what_is_visible() -> None:
    with pytest.raises(NotFound) as caught:
        visible_entry("other", kit.token(), offered("b", "a"))
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert "visible: a, b;" in caught.value.message


@pytest.mark.parametrize(
    "fields",
    [
        {"models": ["m", "hidden"]},
        {"fallbacks": ["hidden"]},
        {"fallbacks": [{"model": "hidden"}]},
        {"tools": [{"type": "advisor_20260301", "model": "hidden"}]},
    ],
)
def test_a_token_for_some_models_reaches_no_other_through_the_upstream(
    fields: dict[str, Any], limiter: Limiter
) -> None:
    catalog, some = offered("m=up-m", "hidden"), kit.token(models=("m", "n*"))
    with pytest.raises(NotFound, match="model 'hidden' is not visible"):
        admit(call_of(some, catalog, **fields), limiter, Purse(10**12))
    admit(call_of(kit.token(), catalog, **fields), limiter, Purse(10**12))
    admit(call_of(some, catalog, models=["m", "up-m", "new"], tools=[{"type": "function"}]), limiter, Purse(10**12))


def test_an_error_names_only_some_of_many_models() -> None:
    names = [f"model-{n:02d}" for n in range(NAMED_MODELS + 1)]
    with pytest.raises(NotFound, match=f"… \\({NAMED_MODELS + 1} in all\\)") as caught:
        visible_entry("other", kit.token(), offered(*names))
    assert names[-1] not in caught.value.message


def test_a_token_without_models_is_reported() -> None:
    with pytest.raises(NotFound, match="no model is visible"):
        visible_entry("m", kit.token(models=("x-*",)), offered())


@pytest.mark.parametrize("model", ["\x1b[31m", "\u202e", "m" * 256, "a\nb"])
def test_a_strange_name_is_repeated_harmlessly(model: str) -> None:
    with pytest.raises(NotFound) as caught:
        visible_entry(model, kit.token(), offered())
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


def test_a_tight_group_budget_refuses_too(limiter: Limiter) -> None:
    catalog = offered(groups=(Group(name="home", budgets=(Budget(nanos=Nanos(1)),)),))
    assert refusal(limiter, kit.token(), catalog, purse=Purse(10**9)).code == "group_quota_exceeded"


def test_a_full_gate_is_reported_and_not_those_that_were_passed(limiter: Limiter) -> None:
    token, catalog = kit.token(limits=Limits(concurrent=1, streams=1)), offered()
    calls, streams = catalog.call_scopes(token).stream_gates
    limiter.concurrency.enter((calls.key, streams.key))
    call = call_of(token, catalog, stream=True)
    assert admit(call, limiter, Purse(10**9)).full == calls
    call.limits.gates = (calls.key,)
    assert admit(call, limiter, Purse(10**9)).full == streams
    call.limits.gates = (calls.key, streams.key)
    assert admit(call, limiter, Purse(10**9)).full is None


def test_a_plain_call_is_not_a_stream(limiter: Limiter) -> None:
    token, catalog = kit.token(limits=Limits(streams=1)), offered()
    limiter.concurrency.enter([gate.key for gate in catalog.call_scopes(token).stream_gates])
    assert admit(call_of(token, catalog), limiter, Purse(10**9)).full is None
