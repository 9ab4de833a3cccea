"""A call is admitted only if every budget has room for it, and holds no more than is there."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.core.channel_effects import NO_EFFECTS, effects_of
from gateway.core.incident_watch import budget_use
from gateway.core.quota import CallNeed, HoldPlan, ModelNeed, affordable_output, call_need, money_until_stop, plan_hold
from gateway.domain.account import Account, AccountStatus
from gateway.domain.budget import EVER, Amounts, Budget, Window, window_start
from gateway.domain.call import ACCOUNT, Running, Scope
from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.errors import QuotaExceeded
from gateway.domain.group import Group
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.media_size import NO_MEDIA
from gateway.domain.output_limit import MIN_OUTPUT, OutputLimit
from gateway.domain.price import Price
from gateway.domain.prompt_size import InputBound
from gateway.domain.token import Token
from gateway.domain.units import MILLION, CallId, Millis, Nanos, TokenId
from gateway.inbound.api import HttpRequest
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.responses.api import RESPONSES
from gateway.store.books import scopes
from tests.core import kit
from tests.core.clocks import NOON

PRICE = Price(model="m", input=Nanos(2 * MILLION), output=Nanos(10 * MILLION))
"""2 nano-dollars an input token, 10 an output token."""


class Purse:
    """Books made of plain numbers: spent by scope and window start, held by scope."""

    def __init__(self, available: int = 1_000_000, account: Account = Account()) -> None:  # noqa: B008 - frozen
        self.nanos = available
        self.owner = account
        self.spendings: dict[tuple[Scope, Millis], Amounts] = {}
        self.holds: dict[Scope, Amounts] = {}
        """Of calls that began at noon."""
        self.running: dict[CallId, Running] = {}

    def account(self) -> Account:
        return self.owner

    def available(self) -> Nanos:
        return Nanos(self.nanos)

    def spent(self, scope: Scope, since: Millis, until: Millis | None = None) -> Amounts:
        return self.spendings.get((scope, since), Amounts())

    def held(self, scope: Scope, since: Millis = EVER) -> Amounts:
        return self.holds.get(scope, Amounts()) if since <= NOON else Amounts()

    def running_in(self, scope: Scope, since: Millis = EVER) -> list[Running]:
        return [call for call in self.running.values() if call.ts >= since and scope in scopes(call)]

    def update(self, call: Running) -> None:
        self.running[call.id] = call


TOKEN: Scope = ("token", "tok_1")
GROUP: Scope = ("group", "home")


def take(purse: Purse, need: CallNeed, **budgets: Budget) -> HoldPlan:
    """The grip of a call with a budget of the account, group or token."""

    def of(name: str) -> tuple[Budget, ...]:
        return (budgets[name],) if name in budgets else ()

    token = Token(id=TokenId("tok_1"), name="laptop", group="home", digest="", hint="", budgets=of("token"))
    group = Group(name="home", budgets=of("group"))
    purse.owner = Account(budgets=of("account"))
    return plan_hold(purse, group, token, need, now=NOON)


def need(
    input: int = 100,
    cap: int | None = 50,
    *,
    choices: int = 1,
    price: Price | None = PRICE,
    multiplier: int = MILLION,
    hold_output: int = 0,
) -> CallNeed:
    effects = effects_of([(kit.channel(), ServedModel(name="m"))])
    asked = msgspec.structs.replace(kit.ask(max_tokens=cap, n=choices), bound=InputBound(input, NO_MEDIA))
    prices = [] if price is None else [price]
    return kit.need(asked, effects, prices, multiplier, hold_output=hold_output)


def refusal(purse: Purse, what: CallNeed, **budgets: Budget) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        take(purse, what, **budgets)
    return caught.value


def test_a_call_with_a_cap_holds_its_whole_possible_cost() -> None:
    assert take(Purse(), need()) == HoldPlan(Nanos(100 * 2 + 50 * 10), 150)


def test_each_choice_may_be_as_long_as_the_cap() -> None:
    assert take(Purse(), need(choices=3)) == HoldPlan(Nanos(100 * 2 + 150 * 10), 250)
    assert take(Purse(), need(cap=None, choices=3)).tokens == 100 + 3 * DEFAULT_OUTPUT


def test_the_groups_multiplier_counts() -> None:
    assert take(Purse(), need(multiplier=2 * MILLION)).nanos == 1400


@pytest.mark.parametrize(("available", "fits"), [(699, False), (700, True), (701, True)])
def test_a_call_with_a_cap_must_fit_whole(available: int, fits: bool) -> None:
    if fits:
        assert take(Purse(available), need()).nanos == 700
    else:
        assert refusal(Purse(available), need()).code == "insufficient_quota"


def test_an_account_that_owes_learns_what_and_how_much_is_enough() -> None:
    error = refusal(Purse(-10_000_081_200), need())
    assert "the account has -$10.0000812 left" in error.message
    assert error.message.endswith("'tollkeeper account grant 11'")


@pytest.mark.parametrize(
    ("available", "held"), [(360, 360), (361, 361), (1000, 1000), (41_160, 41_160), (41_161, 41_160)]
)
def test_a_call_without_a_cap_holds_the_default_or_all_that_is_left(available: int, held: int) -> None:
    assert take(Purse(available), need(cap=None)).nanos == held


def test_a_budget_that_is_used_up_says_so_without_an_amount() -> None:
    message = refusal(Purse(), need(), token=Budget(nanos=Nanos(0))).message
    assert message.startswith("the budget of token 'laptop' is used up; ")
    assert "left" not in message


@pytest.mark.parametrize("available", [359, 200, 199, 1, 0, -5])
def test_a_prompt_that_cannot_be_paid_with_the_least_output_is_refused(available: int) -> None:
    assert refusal(Purse(available), need(cap=None)).code == "insufficient_quota"


@pytest.mark.parametrize("available", [0, -1])
def test_nothing_left_refuses_even_a_free_prompt(available: int) -> None:
    price = Price(model="m", input=Nanos(0), output=Nanos(10 * MILLION))
    assert refusal(Purse(available), need(cap=None, price=price)).code == "insufficient_quota"


@pytest.mark.parametrize("price", [None, Price(model="m", input=Nanos(0), output=Nanos(0))], ids=["unpriced", "free"])
def test_free_calls_need_no_money(price: Price | None) -> None:
    budget = Budget(nanos=Nanos(0))
    assert take(Purse(-10), need(price=price), account=budget, group=budget, token=budget) == HoldPlan(Nanos(0), 150)


def test_a_multiplier_of_nothing_makes_all_calls_free() -> None:
    assert take(Purse(-10), need(multiplier=0), token=Budget(nanos=Nanos(0))) == HoldPlan(Nanos(0), 150)


def test_a_free_model_with_an_advisor_holds_what_the_advisor_may_cost() -> None:
    tools = [{"type": "advisor_20260301", "name": "advisor", "model": "big", "max_uses": 2, "max_tokens": 10}]
    free = msgspec.structs.replace(PRICE, input=Nanos(0), output=Nanos(0))
    found = kit.need(
        msgspec.structs.replace(kit.ask(max_tokens=50, tools=tools), bound=InputBound(100, NO_MEDIA)),
        effects_of([(kit.channel(), ServedModel(name="m"))]),
        [free],
        MILLION,
        prices_of=lambda _: [PRICE],
    )
    assert found.nanos == 2 * (150 * 2 + 10 * 10)


def test_what_costs_nothing_still_counts_its_tokens() -> None:
    assert refusal(Purse(), need(price=None), token=Budget(tokens=149)).code == "token_quota_exceeded"


CODES = {"account": "insufficient_quota", "group": "group_quota_exceeded", "token": "token_quota_exceeded"}
SCOPES: dict[str, Scope] = {"account": ACCOUNT, "group": GROUP, "token": TOKEN}


@pytest.mark.parametrize("owner", CODES)
@pytest.mark.parametrize("window", list(Window))
@pytest.mark.parametrize(("spent", "held", "fits"), [(100, 200, True), (101, 200, False), (100, 201, False)])
@pytest.mark.parametrize("what", ["nanos", "tokens"])
def test_every_budget_of_money_or_tokens_is_looked_at(
    owner: str, window: Window, spent: int, held: int, fits: bool, what: str
) -> None:
    purse, needed = Purse(), {"nanos": 700, "tokens": 150}[what]
    purse.spendings[SCOPES[owner], window_start(window, NOON)] = msgspec.structs.replace(Amounts(), **{what: spent})
    purse.holds[SCOPES[owner]] = msgspec.structs.replace(Amounts(), **{what: held})
    budget = {owner: msgspec.structs.replace(Budget(window=window), **{what: 300 + needed})}
    if fits:
        assert getattr(take(purse, need(), **budget), what) == needed
    else:
        assert refusal(purse, need(), **budget).code == CODES[owner]


def test_without_a_cap_the_tightest_budget_bounds_the_hold() -> None:
    tight = {"account": Budget(nanos=Nanos(900)), "token": Budget(nanos=Nanos(800), tokens=500)}
    assert take(Purse(1000), need(cap=None), **tight) == HoldPlan(Nanos(800), 500)


def test_other_windows_do_not_count() -> None:
    purse = Purse()
    purse.spendings[TOKEN, Millis(0)] = Amounts(nanos=Nanos(10**9))
    assert take(purse, need(), token=Budget(window=Window.DAY, nanos=Nanos(700))).nanos == 700


def test_a_refusal_names_the_budget_its_rest_the_need_and_the_way_out() -> None:
    found = refusal(Purse(), need(), token=Budget(window=Window.DAY, nanos=Nanos(600)))
    for part in (
        "token 'laptop'",
        "the daily budget of",
        "$0.0000006 left",
        "$0.0000007",
        "resets at",
        "'tollkeeper token edit laptop --budget day=AMOUNT' raises it",
    ):
        assert part in found.message
    budget = {"budget_of": "token", "budget_window": "day", "budget_unit": "dollars"}
    assert {name: value for name, value in found.details.items() if name != "resets_at"} == budget


def test_a_budget_for_ever_has_no_day_of_return() -> None:
    found = refusal(Purse(), need(), account=Budget(tokens=6))
    assert found.details == {"budget_of": "account", "budget_window": "ever", "budget_unit": "tokens"}


def test_an_empty_account_is_not_a_budget() -> None:
    assert refusal(Purse(0), need()).details == {"missing_nanos": 700}


@pytest.mark.parametrize(
    ("budget", "marks"),
    [
        ({}, ["exceeded=balance"]),
        ({"account": Budget(window=Window.DAY, nanos=Nanos(0))}, ["exceeded=day:account:"]),
        ({"group": Budget(tokens=0)}, ["exceeded=ever:group:home"]),
        ({"token": Budget(window=Window.MONTH, tokens=0)}, ["exceeded=month:token:tok_1"]),
    ],
    ids=["balance", "account", "group", "token"],
)
def test_the_record_of_a_refusal_names_the_budget_unless_running_calls_hold_its_rest(
    budget: dict[str, Budget], marks: list[str]
) -> None:
    assert refusal(Purse(10_000 if budget else 0), need(), **budget).marks == marks
    purse = Purse(10_000 if budget else 0)
    purse.running[CallId("a")] = holder(7, "tok_1", held=Nanos(700), held_tokens=150)
    assert refusal(purse, need(), **budget).marks == []


def test_the_day_of_return_is_reported_in_local_time_and_to_programs_in_utc() -> None:
    found = refusal(Purse(), need(), token=Budget(window=Window.DAY, nanos=Nanos(600)))
    resets = datetime.fromisoformat(str(found.details["resets_at"]))
    assert f"resets at {resets.astimezone().isoformat(' ')};" in found.message


def holder(number: int, token: str, **amounts: Any) -> Running:
    return Running(id=CallId(f"req_{number}"), ts=NOON, token=token, group="home", model="opus", **amounts)


def test_the_running_calls_that_hold_the_most_are_named() -> None:
    purse = Purse(500)
    holds = (("tok_1", 40), ("tok_2", 900), ("tok_1", 70), ("tok_1", 0), ("tok_3", 60))
    for number, (token, nanos) in enumerate(holds):
        purse.running[CallId(str(number))] = holder(number, token, held=Nanos(nanos))
    found = refusal(purse, need()).message
    assert "; running calls hold $0.00000107: req_1 (another token's) $0.0000009, req_2 (opus) $0.00000007, " in found
    assert "req_4 (another token's) $0.00000006 and 1 more; top up" in found
    found = refusal(Purse(), need(), token=Budget(nanos=Nanos(600))).message
    assert "running calls" not in found
    purse.nanos = 1_000_000
    found = refusal(purse, need(), token=Budget(nanos=Nanos(600))).message
    assert "; running calls hold $0.00000011: req_2 (opus) $0.00000007, req_0 (opus) $0.00000004;" in found


def test_the_call_that_holds_the_rest_of_a_budget_is_named() -> None:
    purse = Purse()
    purse.holds[GROUP] = Amounts(tokens=300)
    purse.running[CallId("a")] = holder(7, "tok_1", held_tokens=300)
    found = refusal(purse, need(), group=Budget(tokens=300)).message
    assert found.startswith("running calls hold the rest of the budget of group 'home': req_7 (opus) 300 tokens;")


def test_calls_of_an_earlier_window_hold_nothing_of_a_shown_budget() -> None:
    purse, tomorrow = Purse(), Millis(NOON + 86_400_000)
    purse.holds[ACCOUNT] = Amounts(nanos=Nanos(800))
    budgets = (Budget(window=Window.DAY, nanos=Nanos(900)), Budget(nanos=Nanos(900)))
    assert [view.held_nanos for view in budget_use(purse, ACCOUNT, budgets, NOON)] == [800, 800]
    assert [view.held_nanos for view in budget_use(purse, ACCOUNT, budgets, tomorrow)] == [0, 800]


@pytest.mark.parametrize(
    ("account", "token", "named"),
    [
        (Budget(window=Window.DAY, nanos=Nanos(0)), Budget(window=Window.MONTH, nanos=Nanos(0)), "token 'laptop'"),
        (Budget(window=Window.MONTH, nanos=Nanos(0)), Budget(window=Window.DAY, nanos=Nanos(0)), "the account"),
        (Budget(window=Window.DAY, nanos=Nanos(0)), Budget(tokens=0), "token 'laptop'"),
        (Budget(window=Window.DAY, tokens=0), Budget(window=Window.DAY, tokens=0), "the account"),
        (Budget(nanos=Nanos(900)), Budget(window=Window.DAY, nanos=Nanos(0)), "token 'laptop'"),
    ],
)
def test_the_budget_that_stays_too_small_for_longest_is_named(account: Budget, token: Budget, named: str) -> None:
    purse = Purse()
    purse.holds[ACCOUNT] = Amounts(nanos=Nanos(800))
    purse.running[CallId("a")] = holder(7, "tok_2", held=Nanos(800))
    assert named in refusal(purse, need(), account=account, token=token).state


def test_a_call_for_much_output_learns_how_to_hold_less() -> None:
    assert "--hold-output" not in refusal(Purse(100), need()).message
    found = refusal(Purse(100), need(cap=64_000)).message
    edit = "'tollkeeper token edit laptop --hold-output 8000'"
    assert found.endswith(f"than the 64000 output tokens that it allows: {edit}")
    program = Token(id=TokenId("tok_1"), name="laptop", group="home", digest="", hint="", temporary=True)
    with pytest.raises(QuotaExceeded) as caught:
        plan_hold(Purse(100), Group(name="home"), program, need(cap=64_000), now=NOON)
    assert caught.value.message.endswith(
        f"{edit}, or for the next program 'tollkeeper run --hold-output 8000 -- PROGRAM'"
    )
    fitting = msgspec.structs.replace(program, fit_output=True)  # the least that is useful was tried already
    with pytest.raises(QuotaExceeded) as caught:
        plan_hold(Purse(100), Group(name="home"), fitting, need(cap=64_000), now=NOON)
    assert "--hold-output" not in caught.value.message


def test_the_budget_of_a_program_is_that_of_its_run() -> None:
    token = Token(id=TokenId("tok_1"), name="claude-x", group="home", digest="", hint="", budgets=(Budget(tokens=1),))
    found = []
    for temporary in (False, True):
        one = msgspec.structs.replace(token, temporary=temporary)
        with pytest.raises(QuotaExceeded) as caught:
            plan_hold(Purse(), Group(name="home"), one, need(), now=NOON)
        found.append("tollkeeper run --budget AMOUNT" in caught.value.message)
    assert found == [False, True]


@pytest.mark.parametrize(
    ("cap", "hold_output", "held", "counted"),
    [
        (50, 0, 50, 50),
        (50, 20, 20, 20),
        (50, 51, 50, 50),
        (64_000, 8000, 8000, 8000),
        (None, 0, DEFAULT_OUTPUT, 0),
        (None, 20, 20, 0),
        (None, 9000, 9000, 0),
    ],
)
def test_a_token_may_hold_less_than_the_cap_and_as_much_as_its_owner_says_without_one(
    cap: int | None, hold_output: int, held: int, counted: int
) -> None:
    found = need(cap=cap, hold_output=hold_output)
    assert take(Purse(), found) == HoldPlan(Nanos(100 * 2 + held * 10), 100 + held)
    assert (found.output.capped, found.rate_tokens) == (cap or 0, 100 + counted)


@pytest.mark.parametrize(("available", "fits"), [(399, False), (400, True)])
def test_what_is_held_of_a_cap_must_fit_whole(available: int, fits: bool) -> None:
    what = need(cap=50, hold_output=20)
    if fits:
        assert take(Purse(available), what).nanos == 400
    else:
        assert refusal(Purse(available), what).code == "insufficient_quota"


def test_a_cap_that_the_gateway_chooses_is_not_higher_than_what_the_owner_holds() -> None:
    effects = effects_of([(kit.channel(dialect=Dialect.ANTHROPIC), ServedModel(name="claude-opus-4-5"))])
    what = kit.need(kit.ask(), effects, [PRICE], hold_output=3000)
    plan = take(Purse(10**9), what)
    assert plan.tokens == what.input + 3000
    assert affordable_output(what, plan.nanos, plan.tokens, [PRICE], MILLION) == 3000
    small = kit.need(kit.ask(), effects, [PRICE], hold_output=10)
    assert (small.output.expected, small.output.minimum) == (MIN_OUTPUT, MIN_OUTPUT)


@pytest.mark.parametrize(("held", "tokens"), [(700, 50), (450, 10), (399, 0)])
def test_a_hold_pays_for_as_much_as_the_highest_price_allows(held: int, tokens: int) -> None:
    """The other price is 4 nano-dollars an input token, 5 an output token."""
    prices = [PRICE, Price(model="m", input=Nanos(4 * MILLION), output=Nanos(5 * MILLION))]
    assert affordable_output(need(cap=100), held, 1000, prices, MILLION) == tokens


def test_the_need_of_several_models_is_the_largest_amount_of_each_kind() -> None:
    """The second one has the longer input, at which the first one is priced too. The owner limits its output."""
    first = ModelNeed(100, OutputLimit(minimum=10, expected=50), [PRICE], NO_EFFECTS)
    cheap = Price(model="other", input=Nanos(MILLION), output=Nanos(MILLION))
    other = ModelNeed(300, OutputLimit(capped=70, minimum=20, expected=70), [cheap], NO_EFFECTS, owner_limit=True)
    what = call_need([first, other], MILLION)
    assert (what.input, what.owner_limit) == (300, True)
    assert what.output == OutputLimit(capped=70, minimum=70, expected=70)
    assert (what.nanos, what.min_nanos) == (300 * 2 + 50 * 10, 300 * 2 + 10 * 10)
    assert call_need([first], MILLION).owner_limit is False


@pytest.mark.parametrize(("held", "tokens"), [(-5, 40), (0, 40), (10**9, 40)])
def test_what_costs_nothing_is_affordable_whatever_is_owed(held: int, tokens: int) -> None:
    free = Price(model="m", input=Nanos(0), output=Nanos(0))
    assert affordable_output(need(price=free), held, 140, [free], MILLION) == tokens


def test_without_output_nothing_is_held_for_it() -> None:
    request = EMBEDDINGS.parse(HttpRequest(body=b'{"model":"m","input":"Hi"}', target="/", headers={}))
    effects = effects_of([(kit.channel(), ServedModel(name="m"))])
    assert kit.need(request, effects, [PRICE], hold_output=8000).output == OutputLimit()


@pytest.mark.parametrize(
    ("field", "least"),
    [("", 16), (',"max_output_tokens":20', 20), (',"max_output_tokens":1', 1)],
    ids=["none", "20", "1"],
)
def test_the_least_output_is_the_smallest_limit_of_the_clients_api(field: str, least: int) -> None:
    """OpenAI refuses limits below 16 for responses. A smaller one of the client is sent to other dialects as it is."""
    body = '{"model":"m","input":"Hi"' + field + "}"
    request = RESPONSES.parse(HttpRequest(body=body.encode(), target="/", headers={}))
    effects = effects_of([(kit.channel(dialect=Dialect.GEMINI), ServedModel(name="m"))])
    assert kit.need(request, effects, [PRICE]).output.minimum == least


def test_each_request_needs_what_its_own_parameters_allow() -> None:
    effects = effects_of([(kit.channel(), ServedModel(name="m"))])
    asked = [
        kit.ask(max_tokens=30),
        kit.ask(max_tokens=20, n=2),
        kit.ask(messages=kit.MESSAGES * 2, max_tokens=30),
        kit.ask(),
    ]
    asked += [kit.ask(metadata={str(n): "x" * 99}, max_tokens=n) for n in (50, 70)]
    vectors = HttpRequest(body=b'{"model":"m","input":"Hi","max_tokens":30}', target="/", headers={})
    asked.append(EMBEDDINGS.parse(vectors))
    assert [effects.output_need(request).capped for request in asked * 2] == [30, 40, 30, 0, 50, 70, 0] * 2


def test_what_only_names_a_call_is_not_read_again() -> None:
    effects, asked = effects_of([(kit.channel(), ServedModel(name="m"))]), list[object]()

    def rule(fields: object, *_: object) -> OutputLimit:
        asked.append(fields)
        return OutputLimit(capped=50)

    def capped_output(**fields: Any) -> int:
        request = msgspec.structs.replace(kit.ask(max_tokens=50, **fields), output_rule=rule)
        return effects.output_need(request).capped

    assert [capped_output(user=name, prompt_cache_key=name) for name in ("a", "b")] == [50, 50]
    assert len(asked) == 1
    assert [capped_output(seed=number) for number in range(16)] == [50] * 16
    assert (capped_output(), len(asked)) == (50, 18)  # no more than sixteen results are kept
    assert effects.output_need(kit.ask(user={"max_tokens": 90}, max_tokens=50)).capped == 90


def test_a_suspended_account_refuses_all() -> None:
    token = Token(id=TokenId("tok_1"), name="laptop", group="home", digest="", hint="")
    purse = Purse(account=Account(status=AccountStatus.SUSPENDED))
    with pytest.raises(QuotaExceeded) as caught:
        plan_hold(purse, Group(name="home"), token, need(price=None), now=NOON)
    assert caught.value.code == "account_suspended"


@given(
    st.integers(-10, 10_000),
    st.integers(0, 500),
    st.none() | st.integers(1, 500),
    st.integers(0, 5_000_000),
    st.lists(st.integers(0, 2000), max_size=3),
)
def test_holds_fit_any_budget(available: int, input: int, cap: int | None, multiplier: int, budgets: list[int]) -> None:
    """What is held fits everywhere, and with a cap it is all the call can cost."""
    what = need(input, cap, multiplier=multiplier)
    owners = dict(zip(CODES, (Budget(nanos=Nanos(n)) for n in budgets), strict=False))
    try:
        found = take(Purse(available), what, **owners)
    except QuotaExceeded:
        return
    assert found.nanos == 0 or 0 < found.nanos <= min([available, *budgets])
    if cap is not None:
        assert 2 * 10**6 * found.nanos >= (input * 2 + cap * 10) * multiplier * 2 - 10**6


def token(stops: bool, *budgets: Budget) -> Token:
    return Token(id=TokenId("tok_1"), name="t", group="g", digest="", hint="", budgets=budgets, stop_when_empty=stops)


def test_no_stream_is_to_be_stopped() -> None:
    assert money_until_stop(Purse(), token(False, Budget(nanos=Nanos(5))), began=NOON) is None


def test_the_account_may_want_a_stream_stopped() -> None:
    assert money_until_stop(Purse(70, Account(stop_when_empty=True)), token(False), began=NOON) == 70


def test_a_token_may_want_a_stream_stopped_by_its_tightest_budget() -> None:
    purse = Purse()
    purse.spendings[TOKEN, window_start(Window.DAY, NOON)] = Amounts(nanos=Nanos(30))
    purse.holds[TOKEN] = Amounts(nanos=Nanos(20))
    budgets = (Budget(nanos=Nanos(90)), Budget(window=Window.DAY, nanos=Nanos(100)), Budget(tokens=1))
    assert money_until_stop(purse, token(True, *budgets), began=NOON) == 50


def test_calls_of_the_next_day_leave_a_stream_of_yesterday_what_it_had() -> None:
    """Of a budget of 100 a day 30 are spent, and 50 held: 20 by calls of the stream's own day."""
    purse, midnight = Purse(), Millis(window_start(Window.DAY, NOON) + 86_400_000)
    purse.spendings[TOKEN, window_start(Window.DAY, NOON)] = Amounts(nanos=Nanos(30))
    purse.spendings[TOKEN, midnight] = Amounts(nanos=Nanos(95))
    purse.holds[TOKEN] = Amounts(nanos=Nanos(50))
    purse.update(msgspec.structs.replace(holder(1, "tok_1", held=Nanos(30)), ts=midnight))
    daily = token(True, Budget(window=Window.DAY, nanos=Nanos(100)))
    assert money_until_stop(purse, daily, began=NOON) == 50
