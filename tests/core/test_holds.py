"""No call costs more than its hold, whatever the channels make of the request: a property over all of them."""

import asyncio
from typing import Any, NamedTuple

import msgspec
from hypothesis import example, given, settings, strategies as st

from gateway.core.admission import admit, needs_by_model, visible_entry
from gateway.core.answer_memory import AnswerMemory, AnswerShare
from gateway.core.call import Call
from gateway.core.catalog import Catalog
from gateway.core.channel_health import ChannelHealth
from gateway.core.event_bus import EventBus
from gateway.core.progress import ProgressReporter
from gateway.core.quota import call_need
from gateway.core.ratelimit import Limiter
from gateway.core.settlement import Meter, record_of
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Dialect, Overrides, ServedModel, TokenLimitField
from gateway.domain.errors import UpstreamError
from gateway.domain.group import Fallback, Group
from gateway.domain.price import Price, Tier
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import UsageSource
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.upstream.adapter import WholeAnswer
from tests.core import kit
from tests.core.clocks import Watch
from tests.core.ends import FakeUpstreams
from tests.core.generous import GenerousUpstream
from tests.core.rig import new_attempts
from tests.core.test_quota import Purse
from tests.house import amount

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
        self.limiter = Limiter(clock.mono, lambda _: (0, 0, 0.0))
        progress = ProgressReporter(EventBus(), Purse())
        health = ChannelHealth(clock.mono, lambda: None)
        self.attempts = new_attempts(self.upstreams, health, self.limiter, progress, clock)
        for made in catalog.registry.channels.values():
            self.upstreams.on(made.name, self.at(made, self.upstreams))

    async def spend(
        self, request: dict[str, Any], left: tuple[int, int] | None = None, api: InboundApi = CHAT
    ) -> Spending:
        """What was held for a call, and what it used. Raises GatewayError.

        ``left``: percent of the money and of the tokens that are there between the least that the call needs at its
        first model, and all that it may need at any; None for as much as it wants.
        """
        origin = kit.origin(api=api, began=self.clock.mono())
        body = msgspec.json.encode({"model": "m", **request})  # without spaces, which would be held for
        asked, token = api.parse(HttpRequest(body=body, target="", headers={})), kit.token()
        group = self.catalog.registry.groups[token.group]
        call = kit.call(asked, origin=origin, catalog=self.catalog, token=token, group=group)
        call.share = AnswerShare(AnswerMemory(Settings, ()))
        money = Purse(10**18) if left is None else self._restrict(call, left)
        admission = admit(call, self.limiter, money, self.attempts.preparer.recalled_tokens)
        choice = self.attempts.chooser.first(call, admission.entry)
        assert choice.route is not None
        call.hold = admission.hold_plan
        call.begin_attempt(choice.route, choice.reason)
        got = await self.attempts.answer(call, admission.entry)
        assert isinstance(got, WholeAnswer)
        call.result.usage = self.meter.usage(call, got.state)
        assert left is None or call.result.usage.source is UsageSource.REPORTED
        record = record_of(call, 200, mono=self.clock.mono())
        return Spending(call.hold.nanos, record.cost, call.hold.tokens, record.input + record.output)

    def _restrict(self, call: Call, left: tuple[int, int]) -> Purse:
        """Give the call's token a budget of tokens; the money there is."""
        token = call.context.token
        needs = needs_by_model(call, visible_entry("m", token, self.catalog), self.attempts.preparer.recalled_tokens)
        first, need = (call_need(some, call.context.group.multiplier) for some in (needs[:1], needs))
        tokens = between(first.input + first.output.minimum, need.input + need.output.expected, left[1])
        limited = msgspec.structs.replace(token, budgets=(Budget(window=Window.EVER, tokens=tokens),))
        call.context = msgspec.structs.replace(call.context, token=limited)
        return Purse(max(1, between(first.min_nanos, need.nanos, left[0])))


def between(least: int, most: int, percent: int) -> int:
    return least + (most - least) * percent // 100


def configured(channels: list[Any], prices: list[Price], multiplier: int) -> Catalog:
    """Every other channel serves ``n``, which may answer for ``m``."""
    made = []
    for number, (place, edits, field, limit) in enumerate(channels):
        dialect, preset, upstream_name = place
        served = ServedModel(name="mn"[number % 2], upstream=upstream_name, max_output=limit)
        more = {"dialect": dialect, "preset": preset, "overrides": edits, "token_limit_field": field}
        channel = kit.channel(f"c{number}", "m", groups=("home",), priority=-number, **more)
        made.append(msgspec.structs.replace(channel, models=(served,)))
    group = Group(name="home", multiplier=multiplier, fallbacks=(Fallback(model="m", to=("n",)),))
    named = (msgspec.structs.replace(price, model=name) for name, price in zip("mn", prices, strict=True))
    return kit.catalog(*made, groups=(group,), prices=tuple(named))


@settings(max_examples=amount(50, 250))
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
    than its hold only where that was made smaller, for lack of money.
    """
    middle = StorelessGateway(configured(channels, prices, multiplier), parts)
    middle.refuses, middle.broken = {refused} - {""}, broken

    async def work() -> None:
        for request in requests:
            try:
                spent = await middle.spend({"messages": kit.MESSAGES, **request}, left)
            except UpstreamError as error:
                if error.code not in ("unsupported_parameter", "upstream_rejected", "upstream_error"):
                    raise
            else:
                if middle.bounded or left == (100, 100):
                    assert spent.cost <= spent.held, middle.upstreams.asked[-1]
                    assert spent.tokens <= spent.held_tokens, middle.upstreams.asked[-1]

    asyncio.run(work())
