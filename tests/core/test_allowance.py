"""What is held covers all that an upstream can bill that keeps the caps it received, whoever changed the request."""

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.core.admission import admit, demand, group_of, visible_entry
from gateway.core.allowance import Need, effects_of, need_of, with_limit
from gateway.core.attempts import Attempts
from gateway.core.call import Call, Visit
from gateway.core.catalog import Catalog
from gateway.core.channel_health import ChannelHealth
from gateway.core.channel_limits import ChannelLimits
from gateway.core.chooser import Chooser, StickyRoutes
from gateway.core.memory import AnswerMemory
from gateway.core.preparation import Preparer, Worker
from gateway.core.ratelimit import Limiter, Used
from gateway.core.retry import RetryBudget
from gateway.core.settlement import Meter, record_of
from gateway.domain.channel import Channel, Dialect, Overrides, Served, TokenLimitField
from gateway.domain.errors import BadRequest, QuotaExceeded, UpstreamError
from gateway.domain.estimate import BOUND_NAME_TOKENS, BOUND_TOOL_TOKENS, BOUND_TOOLS_TOKENS
from gateway.domain.group import Fallback, Group
from gateway.domain.limits import Budget, Window
from gateway.domain.price import Price, Tier
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, MILLION, CallId, Nanos
from gateway.domain.usage import UsageSource
from gateway.upstream import dialects
from gateway.upstream.adapter import Order, Whole
from gateway.upstream.dialects import output_limit
from gateway.upstream.learned_params import LearnedParams
from gateway.upstream.output_limit import DEFAULT_OUTPUT, LEAST_OUTPUT, MOST_NAMES, MOST_TOKENS
from tests.core import kit
from tests.core.clocks import NOON, Watch
from tests.core.ends import FakeClient, FakeReply, FakeUpstreams
from tests.core.generous import GenerousUpstream
from tests.core.rig import Rig
from tests.core.test_quota import Purse

OPUS = Served(name="m", upstream="claude-opus-5-5")
OLD_OPUS = Served(name="m", upstream="claude-3-opus")


def needed(*offers: tuple[Channel, Served], price: Price | None = kit.PRICE, **fields: Any) -> Need:
    """What a call needs at these channels, or at one of OpenAI's dialect."""
    found = offers or ((kit.channel(), Served(name="m")),)
    return need_of(kit.ask(**fields), effects_of(found), price, MILLION)


def output(*offers: tuple[Channel, Served], **fields: Any) -> tuple[int, int]:
    """Output tokens that must be paid for, and those that are held for if possible."""
    found = needed(*offers, **fields)
    return found.capped, found.output


def capped(tokens: int) -> tuple[int, int]:
    return tokens, tokens


def test_the_larger_of_two_caps_is_held_for() -> None:
    assert output(max_completion_tokens=1, max_tokens=50_000) == capped(50_000)
    assert output(max_completion_tokens=50_000, max_tokens=1) == capped(50_000)


@pytest.mark.parametrize("preset", ["ollama", "mistral", "deepseek"])
def test_where_one_of_two_caps_goes_out_that_one_is_held_for(preset: str) -> None:
    offer = (kit.channel(preset=preset), Served(name="m"))
    assert output(offer, max_completion_tokens=10, max_tokens=50_000) == capped(10)


@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.GEMINI])
def test_dialects_with_one_cap_send_the_newer_one(dialect: Dialect) -> None:
    offer = (kit.channel(dialect=dialect), Served(name="m"))
    assert output(offer, max_completion_tokens=10, max_tokens=50_000, num_predict=90) == capped(10)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_new_tokens": 50_000}, 50_000),
        ({"n_predict": 50_000}, 50_000),
        ({"options": {"num_predict": 50_000}}, 50_000),
        ({"extra_body": {"generationConfig": {"maxOutputTokens": 50_000}}}, 50_000),
        ({"parameters": {"max_new_tokens": "50000"}}, 50_000),
        ({"max_length": 5e4}, 50_000),
        ({"min_tokens": 50_000}, 50_000),
        ({"output_length": 50_000}, 50_000),
        ({"generationLimit": 50_000}, 50_000),
        ({"maxlength": 50_000}, 50_000),
        ({"Max-Tokens": 50_000}, 50_000),
        ({"a": [[{"b": {"RESPONSE_MAX": 50_000}}]]}, 50_000),
        ({"output_len": 50_000}, 50_000),
        ({"max_seq_len": 50_000}, 50_000),
        ({"max_answer_length": 50_000}, 50_000),
        ({"generation_len": 50_000}, 50_000),
        ({"maxLength": 50_000}, 50_000),
        ({"max_new_tokens": [1, "50000"]}, 50_000),
        *(({"max_new_tokens": text}, 50_000) for text in ("50000.0", " 50000 ", "+50000", "5e4", "50_000")),
        ({"max_new_tokens": "9" * 23}, MOST_TOKENS),
        ({"thinking_budget": "50000.0"}, 50_010),
        ({"num_samples": 5}, 50),
        ({"nChoices": "5"}, 50),
        ({"thinking": {"type": "enabled", "budget_tokens": 50_000}}, 50_010),
        ({"reasoning": {"max_tokens": 50_000}}, 50_010),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 50_000}}}}, 50_010),
        ({"reasoning": {"effort": "high"}, "thinking_budget": -1}, 10),
        ({"prediction": {"type": "content", "content": "x" * 264}}, 110),
        ({"best_of": 5}, 50),
        ({"best_of": 5, "n": 7}, 70),
        ({"parameters": {"n": 3}}, 30),
    ],
)
def test_what_vendors_take_for_a_cap_counts(fields: dict[str, Any], tokens: int) -> None:
    assert output(max_tokens=10, **fields) == capped(tokens)


@pytest.mark.parametrize(
    "fields",
    [
        {"truncate_prompt_tokens": 9000},
        {"max_input_tokens": 9000, "num_ctx": 9000},
        {"stop_token_ids": [9000], "eos_token_id": 9000},
        {"skip_special_tokens": True, "tokenizer": "9000"},
        {"limit": 9000, "history_length": 9000, "a\nmax_tokens\nb": 9000, "n\n": 9},
        {"guided_json": {"type": "string", "maxLength": 9000}},
        {"metadata": {"max_tokens": "9000"}, "tools": [{"max_tokens": 9000}], "seed": 9000, "top_k": 9000},
        {"max_new_tokens": None, "num_predict": "many", "n_predict": float(5)},
    ],
)
def test_what_is_no_cap_does_not(fields: dict[str, Any]) -> None:
    assert output(max_tokens=10, **fields) == capped(10)


def test_a_cap_that_an_upstream_may_not_know_bounds_nothing_but_must_be_paid() -> None:
    assert output(max_new_tokens=10) == (10, DEFAULT_OUTPUT)
    assert output(max_new_tokens=50_000) == capped(50_000)
    assert output(max_tokens=10, n_predict=-1) == (10, DEFAULT_OUTPUT)
    assert output(max_tokens=10, max_new_tokens="Infinity") == (10, DEFAULT_OUTPUT)


def test_without_a_cap_the_usual_is_held_or_what_the_dialect_puts_there_itself() -> None:
    assert output() == (0, DEFAULT_OUTPUT)
    assert output(n=3) == (0, 3 * DEFAULT_OUTPUT)
    assert output((kit.channel(dialect=Dialect.GEMINI), Served(name="m")), n=3) == (0, 3 * DEFAULT_OUTPUT)
    assert output((kit.channel(dialect=Dialect.ANTHROPIC), OPUS)) == (0, 32_000)


@pytest.mark.parametrize(("effort", "budget"), [("high", 24_576), ("low", 1024), ("none", 128), ("odd", 0)])
def test_thinking_that_the_gateway_allows_in_tokens_is_held_for(effort: str, budget: int) -> None:
    offer = kit.channel(dialect=Dialect.GEMINI), Served(name="m", upstream="gemini-2.5-pro")
    assert output(offer, reasoning_effort=effort) == (0, DEFAULT_OUTPUT + budget)
    assert output(offer, reasoning_effort=effort, max_tokens=90) == capped(90)
    own = kit.channel(dialect=Dialect.GEMINI, overrides=Overrides(default={"reasoning_effort": effort}))
    assert output((own, offer[1])) == (0, DEFAULT_OUTPUT + budget)


def edited(**edits: Any) -> tuple[Channel, Served]:
    return kit.channel(overrides=Overrides(**edits)), Served(name="m")


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({"set": {"temperature": 1}, "remove": ("user",)}, capped(10)),
        ({"set": {"max_tokens": 500}}, capped(500)),
        ({"set": {"max_completion_tokens": 5}}, capped(5)),
        ({"set": {"max_tokens": 500, "max_completion_tokens": 5}}, capped(500)),
        ({"default": {"max_completion_tokens": 500}}, capped(10)),
        ({"set": {"max_tokens": None}}, (0, DEFAULT_OUTPUT)),
        ({"set": {"max_tokens": -1}}, (0, DEFAULT_OUTPUT)),
        ({"set": {"max_tokens": "700"}}, (700, DEFAULT_OUTPUT)),
        ({"remove": ("max_tokens",)}, (0, DEFAULT_OUTPUT)),
        ({"remove": ("max_completion_tokens",)}, capped(10)),
        ({"set": {"num_predict": 500}}, capped(500)),
        ({"set": {"thinking": {"budget_tokens": 500}}}, capped(510)),
        ({"set": {"n": 3}}, capped(30)),
        ({"default": {"n": 2}}, capped(20)),
    ],
)
def test_what_the_owner_makes_of_the_output(edits: dict[str, Any], found: tuple[int, int]) -> None:
    assert output(edited(**edits), max_tokens=10) == found


def test_a_default_of_the_owner_is_a_cap() -> None:
    assert output(edited(default={"max_tokens": 70})) == capped(70)


def test_of_several_channels_the_one_that_allows_most_counts() -> None:
    plain, free, long = (
        (kit.channel(), Served(name="m")),
        edited(remove=("max_tokens",)),
        edited(set={"max_tokens": 70}),
    )
    assert output(plain, free, max_tokens=10) == (10, DEFAULT_OUTPUT)
    assert output(plain, free, max_tokens=50_000) == capped(50_000)
    assert output(plain, free, long, max_tokens=10) == (70, DEFAULT_OUTPUT)


@pytest.mark.parametrize(
    ("edits", "tokens"),
    [
        ({"system": "x" * 30}, 10),
        ({"system": "ä" * 2}, 2),
        ({"set": {"tools": ["x" * 10]}}, 5 + BOUND_TOOLS_TOKENS),
        ({"default": {"documents": ["x" * 26]}, "set": {"temperature": 1}}, 10),
    ],
)
def test_what_the_owner_adds_to_the_input(edits: dict[str, Any], tokens: int) -> None:
    assert needed(edited(**edits)).input == kit.ask().input_bound + tokens
    assert needed(edited(**edits), edited()).input == kit.ask().input_bound + tokens


def test_a_limit_of_the_model_bounds_the_cap_that_goes_out_and_so_the_hold() -> None:
    small, large = Served(name="m", max_output=100), Served(name="m", max_output=900)
    up, other = kit.channel(), kit.channel("other")
    assert output((up, small), max_tokens=50_000) == capped(100)
    assert output((up, small), (other, large), max_tokens=50_000) == capped(900)
    assert output((up, small), (other, Served(name="m")), max_tokens=50_000) == capped(50_000)
    assert output((up, small), max_completion_tokens=5, max_tokens=50_000) == capped(100)


def test_a_limit_bounds_nothing_that_goes_out_beside_it() -> None:
    small = (kit.channel(), Served(name="m", max_output=100))
    assert output(small, max_tokens=50_000, num_predict=50_000) == capped(50_000)
    assert output(small) == (0, DEFAULT_OUTPUT)


@pytest.mark.parametrize(
    ("dialect", "served", "price", "limit"),
    [
        (Dialect.ANTHROPIC, OLD_OPUS, None, 4096),
        (Dialect.ANTHROPIC, Served(name="m", upstream="claude-3-opus", max_output=9), None, 9),
        (Dialect.GEMINI, Served(name="gemini-2.5-pro"), None, 65_536),
        (Dialect.OPENAI, OLD_OPUS, None, None),
        (Dialect.OPENAI, Served(name="m"), msgspec.structs.replace(kit.PRICE, context=128_000), 128_000),
        (Dialect.ANTHROPIC, OLD_OPUS, msgspec.structs.replace(kit.PRICE, context=200_000), 4096),
    ],
)
def test_where_a_limit_comes_from(dialect: Dialect, served: Served, price: Price | None, limit: int | None) -> None:
    assert with_limit(kit.channel(dialect=dialect), served, price).max_output == limit


def test_a_request_with_no_end_of_caps_is_refused() -> None:
    with pytest.raises(BadRequest, match="look like limits"):
        needed(options={f"max_tokens_{n}": n for n in range(MOST_NAMES + 1)})
    with pytest.raises(BadRequest, match="look like limits"):
        needed(price=None, **{f"max_tokens_{n}": n for n in range(MOST_NAMES + 1)})


@pytest.mark.parametrize(
    "options",
    [
        b'{"num_predict":50000,"num_predict":1}',
        b'[[{"a":{"num_predict":50000,"num\\u005fpredict":1}}]]',
        b'{"a\\"":{"b":1,"b":1}}',
    ],
)
def test_a_name_that_stands_twice_in_an_object_is_refused(options: bytes) -> None:
    """One upstream would obey the first, another the last."""
    fields = kit.ask(max_tokens=1).fields | {"options": msgspec.Raw(options)}
    with pytest.raises(BadRequest, match="twice"):
        output_limit(fields, kit.channel(), Served(name="m"))


def test_colons_and_braces_in_texts_are_no_names() -> None:
    assert output(max_tokens=10, options={'{"a": ": {': ['"a":1,"a":1', "\\", '\\"']}) == capped(10)


def test_the_same_names_may_come_again_and_again() -> None:
    documents = [{"text": "x", "token_count": 90}] * (MOST_NAMES + 1)
    assert output(documents=documents, max_tokens=10) == capped(90)


def test_one_limit_is_found_among_many_other_names() -> None:
    assert output(options={"num_predict": 700, **{f"x{n}": n for n in range(5000)}}, max_tokens=10) == capped(700)


def test_the_dearest_part_of_a_price_is_held_for() -> None:
    price = Price(
        model="m",
        input=Nanos(2 * MILLION),
        output=Nanos(MILLION),
        cache_write=Nanos(9 * MILLION),
        tiers=(Tier(above=10, input=Nanos(MILLION), output=Nanos(0)),),
        per_call=Nanos(5),
    )
    found = needed(price=price, max_tokens=10)
    assert (found.input, found.nanos) == (16, 10 * 9 + 10 + 5)


NUMBERS = st.sampled_from((1, 7, 300, 50_000))
NAMES = ("max_new_tokens", "num_predict", "n_predict", "max_output_tokens", "max_length", "best_of", "thinking_budget")
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": NUMBERS,
    "max_completion_tokens": NUMBERS,
    "n": st.integers(1, 4),
    "options": st.fixed_dictionaries({}, optional={"num_predict": NUMBERS, "max_new_tokens": NUMBERS}),
    "thinking": st.fixed_dictionaries({"type": st.just("enabled"), "budget_tokens": NUMBERS}),
    "reasoning": st.fixed_dictionaries({"max_tokens": NUMBERS}),
    "prediction": st.fixed_dictionaries({"type": st.just("content"), "content": st.just("x" * 90)}),
    **dict.fromkeys(NAMES, st.integers(1, 5)),
}
TOOL = {"type": "function", "function": {"name": "f", "description": "Finds.", "parameters": {"type": "object"}}}
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "tools": st.just([TOOL]),
    "response_format": st.just({"type": "json_object"}),
    "reasoning_effort": st.sampled_from(("low", "high")),
    "temperature": st.just(0.5),
    "documents": st.just([{"text": "x" * 300}]),
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MESSAGES = st.lists(
    st.sampled_from(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi" * 50},
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},
            {"role": "assistant", "content": "Hello."},
        ]
    ),
    max_size=3,
).map(lambda turns: [*turns, {"role": "user", "content": "Go on."}])
REQUESTS = st.fixed_dictionaries({"messages": MESSAGES}, optional=LIMITS | OTHERS)
SETTABLE = st.fixed_dictionaries({}, optional=LIMITS | {name: OTHERS[name] for name in ("tools", "documents")})
EDITS = st.none() | st.builds(
    lambda always, usual, remove, system: Overrides(
        set=always,
        default={name: value for name, value in usual.items() if name not in always},
        remove=tuple(name for name in remove if name not in always),
        system=system,
    ),
    SETTABLE,
    SETTABLE,
    st.lists(st.sampled_from(("max_tokens", "max_completion_tokens", "n", "tools")), max_size=2, unique=True),
    st.sampled_from(("", "Speak of the sea. " * 20)),
)
PLACES = st.sampled_from(
    [
        (Dialect.OPENAI, "", "some-model"),
        (Dialect.OPENAI, "openai", "gpt-5-x"),
        (Dialect.OPENAI, "mistral", "large"),
        (Dialect.OPENAI, "ollama", "llama"),
        (Dialect.OPENAI, "groq", "llama"),
        (Dialect.OPENAI, "gemini-openai", "gemini-2.5-pro"),
        (Dialect.ANTHROPIC, "", "claude-3-opus"),
        (Dialect.ANTHROPIC, "", "claude-opus-4-5"),
        (Dialect.ANTHROPIC, "", "some-claude"),
        (Dialect.GEMINI, "", "gemini-2.5-flash"),
        (Dialect.GEMINI, "", "some-model"),
        (Dialect.MOCK, "", "demo"),
    ]
)
CHANNELS = st.lists(
    st.tuples(PLACES, EDITS, st.none() | st.sampled_from(TokenLimitField), st.sampled_from((None, None, 5, 40_000))),
    min_size=1,
    max_size=3,
)
RATES = st.integers(0, 30).map(lambda dollars: Nanos(dollars * DOLLAR))
TIERS = st.lists(st.builds(Tier, above=st.sampled_from((5, 40, 900)), input=RATES, output=RATES), max_size=2)
PRICES = st.builds(
    Price,
    model=st.just("m"),
    input=RATES,
    output=RATES,
    cached_input=st.none() | RATES,
    cache_write=st.none() | RATES,
    per_call=st.sampled_from((Nanos(0), Nanos(3_000_000))),
    tiers=TIERS.map(tuple),
)
PARTS = st.sampled_from((0, 40, 100))
LEFT = st.sampled_from((100, 100, 0, 1, 60, 99))


class Spending(NamedTuple):
    """Nano-dollars and tokens of a call."""

    held: int
    cost: int
    held_tokens: int
    tokens: int


class StorelessGateway(GenerousUpstream):
    """A gateway's middle without its store: from admission to the record, with a generous upstream."""

    def __init__(self, catalog: Catalog, parts: tuple[int, int]) -> None:
        super().__init__(cached=parts[0], written=parts[1])
        self.upstreams = FakeUpstreams()
        clock = self.clock = Watch().clock
        self.catalog, self.meter = catalog, Meter()
        self.limiter = Limiter(clock.mono, lambda _: Used(0, 0, 0.0))
        health, rooms = ChannelHealth(clock.mono, lambda: None), ChannelLimits(self.limiter)
        adapter_of = dialects.adapters()
        self.attempts = Attempts(
            sender=self.upstreams,
            adapter_of=adapter_of,
            preparer=Preparer(adapter_of, LearnedParams(), Worker()),
            health=health,
            clock=clock,
            progress=NoProgress(),
            chooser=Chooser(
                health=health,
                draw=lambda _: 0,
                retries=RetryBudget(clock.mono, lambda: 10),
                rooms=rooms,
                sticky=StickyRoutes(clock.mono),
            ),
            rooms=rooms,
        )
        for made in catalog.registry.channels.values():
            self.upstreams.on(made.name, lambda made=made: self.reply(made, self.upstreams.asked[-1][1]))  # type: ignore[misc]

    async def spend(self, request: dict[str, Any], left: tuple[int, int]) -> Spending:
        """What was held for a call, and what it used. Raises GatewayError.

        ``left``: percent of the money and of the tokens that are there between the least that the call needs, and all.
        """
        visit = Visit(id=CallId("req_1"), key="", app="", retry=0, ts=NOON, began=self.clock.mono())
        asked = kit.ask(**request)
        token = kit.token()
        call = Call(visit, asked, FakeClient(), self.catalog, token, group_of(token, self.catalog))
        call.share = AnswerMemory(Settings, ()).share()
        need = demand(call, visible_entry("m", token, self.catalog), self.attempts.recalled)
        money = Purse(max(1, between(need.least, need.nanos, left[0])))
        tokens = between(need.input + need.minimum, need.input + need.output, left[1])
        call.token = msgspec.structs.replace(token, budgets=(Budget(window=Window.EVER, tokens=tokens),))
        admission = admit(call, self.limiter, money, self.attempts.recalled)
        first = self.attempts.first(call, admission.entry)
        assert first.route is not None
        call.held, call.held_tokens = admission.hold_plan.nanos, admission.hold_plan.tokens
        call.take_route(first.route, first.why, 1)
        order = Order(fields=asked.fields, body=asked.body, model=asked.model)
        got = await self.attempts.answer(call, admission.entry, order, first)
        assert isinstance(got, Whole)
        call.usage = self.meter.whole(call, got)
        assert call.usage.source is UsageSource.REPORTED
        record = record_of(call, 200, mono=self.clock.mono())
        return Spending(call.held, record.cost, call.held_tokens, record.input + record.output)


def between(least: int, most: int, percent: int) -> int:
    return least + (most - least) * percent // 100


class NoProgress:
    """Nobody looks."""

    def routed(self, call: Call) -> None:
        pass

    def moved(self, call: Call) -> None:
        pass


def configured(channels: list[Any], prices: list[Price], multiplier: int) -> Catalog:
    """Every other channel serves ``n``, which may answer for ``m``."""
    made = []
    for number, (place, edits, field, limit) in enumerate(channels):
        dialect, preset, upstream_name = place
        served = Served(name="mn"[number % 2], upstream=upstream_name, max_output=limit)
        more = {"dialect": dialect, "preset": preset, "overrides": edits, "token_limit_field": field}
        channel = kit.channel(f"c{number}", "m", groups=("home",), priority=-number, **more)
        made.append(msgspec.structs.replace(channel, models=(served,)))
    group = Group(name="home", multiplier=multiplier, fallbacks=(Fallback(model="m", to=("n",)),))
    named = (msgspec.structs.replace(price, model=name) for name, price in zip("mn", prices, strict=True))
    return kit.catalog(*made, groups=(group,), prices=tuple(named))


@settings(max_examples=250)
@given(
    channels=CHANNELS,
    prices=st.lists(PRICES, min_size=2, max_size=2),
    multiplier=st.sampled_from((MILLION, 1_500_001)),
    requests=st.lists(REQUESTS, min_size=1, max_size=3),
    refused=st.sampled_from(("", "", "max_tokens", "max_completion_tokens", "n", "num_predict", "thinking")),
    parts=st.tuples(PARTS, PARTS),
    broken=st.sets(st.sampled_from(("c0", "c2"))),
    left=st.tuples(LEFT, LEFT),
)
@example(
    channels=[((Dialect.OPENAI, "", "x"), None, None, None)],
    prices=[kit.PRICE, kit.PRICE],
    multiplier=MILLION,
    requests=[{"max_completion_tokens": 1, "max_tokens": 50_000}],
    refused="",
    parts=(0, 0),
    broken=set(),
    left=(100, 100),
)
@example(
    channels=[((Dialect.ANTHROPIC, "", "claude-opus-5-5"), None, None, None)],
    prices=[kit.PRICE, kit.PRICE],
    multiplier=MILLION,
    requests=[{}],
    refused="",
    parts=(0, 0),
    broken=set(),
    left=(70, 100),
)
@example(
    channels=[((Dialect.GEMINI, "", "gemini-2.5-pro"), None, None, None)],
    prices=[kit.PRICE, kit.PRICE],
    multiplier=MILLION,
    requests=[{"reasoning_effort": "high"}],
    refused="",
    parts=(0, 0),
    broken=set(),
    left=(100, 30),
)
@example(
    channels=[((Dialect.OPENAI, "", "x"), None, None, None), ((Dialect.OPENAI, "", "x"), None, None, None)],
    prices=[kit.PRICE, Price(model="n", input=Nanos(DOLLAR), output=Nanos(90 * DOLLAR))],
    multiplier=MILLION,
    requests=[{"max_tokens": 300}],
    refused="",
    parts=(0, 0),
    broken={"c0"},
    left=(100, 100),
)
def test_no_settled_cost_exceeds_its_hold(
    *,
    channels: list[Any],
    prices: list[Price],
    multiplier: int,
    requests: list[dict[str, Any]],
    refused: str,
    parts: tuple[int, int],
    broken: set[str],
    left: tuple[int, int],
) -> None:
    """Over dialects, overrides, learned parameters, several channels, fallback models, limits, tiers and choices.

    What the gateway itself sends for a cap is one that the upstream received. A call that received none may cost more
    than its hold only where that was made smaller, for want of money.
    """
    middle = StorelessGateway(configured(channels, prices, multiplier), parts)
    middle.refuses, middle.broken = {refused} - {""}, broken

    async def work() -> None:
        for request in requests:
            try:
                spent = await middle.spend(request, left)
            except UpstreamError as error:
                if error.code not in ("unsupported_parameter", "upstream_rejected", "upstream_error"):
                    raise
            else:
                if middle.bounded or left == (100, 100):
                    assert spent.cost <= spent.held, middle.upstreams.asked[-1]
                    assert spent.tokens <= spent.held_tokens, middle.upstreams.asked[-1]

    asyncio.run(work())


def test_tools_that_a_dialect_makes_up_are_held_for() -> None:
    turns = [*kit.MESSAGES, {"role": "assistant", "tool_calls": []}]
    plain, more = needed(messages=turns), needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS), messages=turns)
    assert more.input == plain.input + BOUND_TOOLS_TOKENS
    calls = [{"id": f"c{n}", "function": {"name": f"f{n}"}} for n in range(9)]
    turns[-1] = {"role": "assistant", "tool_calls": calls}
    plain, more = needed(messages=turns), needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS), messages=turns)
    assert more.input == plain.input + BOUND_TOOLS_TOKENS + 9 * BOUND_TOOL_TOKENS
    assert needed((kit.channel(dialect=Dialect.ANTHROPIC), OPUS)).input == needed().input


def test_names_that_a_dialect_puts_beside_results_are_held_for() -> None:
    """A long name stands once in the request, at the call, and then goes out with every result."""
    turns = [*kit.MESSAGES, *[{"role": "tool", "tool_call_id": "c", "content": ""}] * 9]
    offer = (kit.channel(dialect=Dialect.GEMINI), Served(name="m"))
    assert needed(offer, messages=turns).input == needed(messages=turns).input + 9 * BOUND_NAME_TOKENS
    assert needed(offer).input == needed().input


async def test_calls_with_two_caps_spend_no_more_than_there_is(rig: Rig) -> None:
    """Fifty at once, against two cents: each may cost half a dollar."""
    up = rig.channel()
    upstream = GenerousUpstream()
    rig.upstreams.on("up", lambda: upstream.reply(up, rig.upstreams.asked[-1][1]))
    rig.grant(DOLLAR // 50 - rig.books.available())
    calls = [rig.start(max_completion_tokens=1, max_tokens=50_000) for _ in range(50)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, QuotaExceeded) for one in found)
    assert rig.books.available() == DOLLAR // 50
    await rig.call(max_completion_tokens=1, max_tokens=1000)
    assert 0 <= rig.books.balance() < DOLLAR // 50


@pytest.mark.parametrize(
    ("dialect", "upstream_name", "fields"),
    [
        (Dialect.ANTHROPIC, "claude-opus-5-5", {}),
        (Dialect.ANTHROPIC, "claude-opus-4-5", {"reasoning_effort": "high"}),
        (Dialect.GEMINI, "gemini-2.5-pro", {"reasoning_effort": "high", "n": 2}),
    ],
)
async def test_a_cap_that_the_gateway_chooses_is_one_that_the_hold_pays_for(
    dialect: Dialect, upstream_name: str, fields: dict[str, Any], rig: Rig
) -> None:
    up = rig.channel(dialect=dialect)
    rig.put("channels", up.id, msgspec.structs.replace(up, models=(Served(name="m", upstream=upstream_name),)))
    upstream = GenerousUpstream()
    rig.upstreams.on("up", lambda: upstream.reply(up, rig.upstreams.asked[-1][1]))
    rig.grant(DOLLAR // 20 - rig.books.available())
    answered = await rig.call(**fields)
    (record,) = rig.records
    assert upstream.bounded
    assert 0.9 * DOLLAR // 20 < record.cost <= record.held == DOLLAR // 20
    assert record.marks == (f"output_limit={answered.headers['x-gateway-output-limit']}",)
    assert rig.books.balance() >= 0


@pytest.mark.parametrize("fields", [{}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}])
async def test_a_cap_that_would_be_too_small_to_be_of_use_is_not_chosen(fields: dict[str, Any], rig: Rig) -> None:
    """Anthropic wants a budget for thinking that is smaller than the cap."""
    up = rig.channel(dialect=Dialect.ANTHROPIC)
    upstream = GenerousUpstream()
    rig.upstreams.on("up", lambda: upstream.reply(up, rig.upstreams.asked[-1][1]))
    need = needed((up, Served(name="m")), **fields)
    assert (need.capped, need.minimum) == (0, LEAST_OUTPUT + (2000 if fields else 0))
    rig.grant(need.least - 1 - rig.books.available())
    with pytest.raises(QuotaExceeded):
        await rig.call(**fields)
    rig.grant(1)
    await rig.call(**fields)
    assert msgspec.json.decode(rig.upstreams.asked[-1][1].body)["max_tokens"] == need.minimum


async def test_a_limit_lowers_the_cap_in_the_request_which_is_told(rig: Rig) -> None:
    up = rig.channel()
    rig.put("channels", up.id, msgspec.structs.replace(up, models=(Served(name="m", max_output=100),)))
    upstream = GenerousUpstream()
    rig.upstreams.on("up", lambda: upstream.reply(up, rig.upstreams.asked[-1][1]))
    answered = await rig.call(max_tokens=50_000)
    assert msgspec.json.decode(rig.upstreams.asked[-1][1].body)["max_tokens"] == 100
    assert answered.headers["x-gateway-output-limit"] == "100"
    assert (rig.record.marks, rig.record.output) == (("output_limit=100",), 100)


THOUGHT = {"type": "thinking", "thinking": "Hm. " * 300, "signature": "s" * 90}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("times", [1, 9])
async def test_thoughts_that_are_put_back_into_a_request_are_held_for(times: int, rig: Rig) -> None:
    """Anthropic wants them back with the tool's result; the client has dropped them, and may write names in escapes."""
    up = rig.channel(dialect=Dialect.ANTHROPIC)
    use = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
    usage = {"input_tokens": 9, "output_tokens": 9}
    message = {"id": "up", "type": "message", "content": [THOUGHT, use], "stop_reason": "tool_use", "usage": usage}
    upstream = GenerousUpstream()
    rig.upstreams.on(
        "up",
        lambda: FakeReply(msgspec.json.encode(message)),
        lambda: upstream.reply(up, rig.upstreams.asked[-1][1]),
    )
    await rig.call(tools=[TOOL])
    found = {"role": "tool", "tool_call_id": "call_1", "content": "Found."}
    turns = [*kit.MESSAGES, *[{"role": "assistant", "tool_calls": [CALL]}, found] * times]
    body = kit.body("m", messages=turns, tools=[TOOL], max_tokens=10)
    await rig.run(body.replace(b"tool_calls", rb"tool\u005fcalls").replace(b'"id"', rb'"\u0069d"'))
    assert rig.upstreams.asked[-1][1].body.count(b'"signature"') == times
    assert rig.records[-1].input > 400 * times
    assert rig.records[-1].cost <= rig.records[-1].held


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("cap", [None, 70, 70_000])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_quick_way_to_the_limit_is_the_same_as_the_long_one(dialect: Dialect, cap: int | None, name: str) -> None:
    offer = (kit.channel(dialect=dialect), Served(name="m", max_output=5000))
    fields: dict[str, Any] = {name: cap}
    limit = output_limit(kit.ask(**fields).fields, *offer)
    assert output(offer, **fields) == (limit.capped_total, limit.total)
