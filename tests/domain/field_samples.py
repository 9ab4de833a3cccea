"""Entities with every field set, and with none, for tests of the tables of fields."""

from gateway.domain.account import AccountFields, AccountStatus
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import ChannelFields, Overrides, Timeouts, TokenLimitField
from gateway.domain.fields import ACCOUNT, CHANNEL, GROUP, SETTINGS, TOKEN, Table
from gateway.domain.group import Fallback, GroupFields, Policy
from gateway.domain.limits import Limits
from gateway.domain.price import PriceDraft, PriceHours, PriceRule, Tier
from gateway.domain.settings import Durability, Settings
from gateway.domain.token import Color, TokenFields
from gateway.domain.units import Millis, Nanos

NOW = Millis(1_763_500_020_000)
"""A whole minute."""

BUDGETS = (
    Budget(window=Window.DAY, nanos=Nanos(5_500_000_000), tokens=1_000_000),
    Budget(window=Window.EVER, tokens=1_234_567),
)
LIMITS = Limits(rpm=60, tpm=200_000, rpd=7, tpd=123_457, concurrent=8, queue=0, queue_s=30)

TokenPair = tuple[TokenFields, TokenFields]

TOKENS: TokenPair = (
    TokenFields(name="a", group="default"),
    TokenFields(
        name="b's",
        group="work",
        models=("gpt-*", "!gpt-4"),
        budgets=BUDGETS,
        limits=Limits(rpm=60, streams=2),
        expires=Millis(NOW + 60_000 * 60 * 24 * 400),
        stop_when_empty=True,
        hold_output=8000,
        fit_output=True,
        color=Color.RED,
        note="two words",
    ),
)
GROUPS = (
    GroupFields(name="a"),
    GroupFields(
        name="b c",
        models=("gpt-*",),
        multiplier=1_500_000,
        policy=Policy.CHEAPEST,
        sticky=True,
        fallbacks=(Fallback(model="gpt-*", to=("a b", "c")), Fallback(model="o3", to=("x/y:z",))),
        budgets=BUDGETS[:1],
        limits=LIMITS,
        note="n",
    ),
)
CHANNELS = (
    ChannelFields(name="a"),
    ChannelFields(
        name="b",
        preset="groq",
        base_url="https://h/v1",
        groups=("default", "my friends"),
        priority=-3,
        weight=0,
        cost_factor=500_000,
        limits=LIMITS,
        timeouts=Timeouts(head=60, idle=0.5),
        overrides=Overrides(
            set={"temperature": 0.2, "stop": ["a", 'b "c"'], "text": "1"},
            default={"max_tokens": 100, "a b": "it's"},
            remove=("logprobs",),
            system="Be\nbrief.",
            replace_system=True,
        ),
        headers={"X-Team": "env:TEAM", "X-Other": "env:OTHER"},
        proxy="http://127.0.0.1:3128",
        options={"latency": 200, "text": "a b", "bad_json": True, "number": "1"},
        token_limit_field=TokenLimitField.MAX_TOKENS,
        strict=True,
        finish_abandoned=False,
        cache_marks=False,
        note="x",
    ),
)
PRICES = (
    PriceDraft(),
    PriceDraft(
        input=Nanos(2_500_000_000),
        output=Nanos(10_000_000_000),
        cached_input=Nanos(28_000_000),
        cache_write=Nanos(0),
        cache_write_long=Nanos(1),
        per_call=Nanos(1_234_000_000_000),
        tiers=(
            Tier(above=200_000, input=Nanos(6_000_000_000), output=Nanos(22_500_000_000)),
            Tier(above=1_234_567, input=Nanos(7_000_000_000), output=Nanos(0), cached_input=Nanos(600_000_000)),
        ),
        extras={"input_audio": Nanos(32_000_000_000), "searches": Nanos(10_000_000)},
        rules=(
            PriceRule(
                since=Millis(1_796_083_200_000),
                during=(PriceHours(days=("mon", "wed"), start=60, end=240), PriceHours(start=1380, end=60)),
                variant="flex",
                input=Nanos(1_250_000_000),
                output=Nanos(5_000_000_000),
                cached_input=Nanos(1),
                per_call=Nanos(0),
                extras={"output_audio": Nanos(64_000_000_000)},
                tiers=(Tier(above=200_000, input=Nanos(6_000_000_000), output=Nanos(0)),),
            ),
            PriceRule(since=Millis(1_796_083_260_000), input=Nanos(1), output=Nanos(0)),
        ),
    ),
)
"""Of a price each option adds; none removes anything, because a price is set as a whole."""
ACCOUNTS = (AccountFields(), AccountFields(status=AccountStatus.SUSPENDED, budgets=BUDGETS, stop_when_empty=True))
SETTINGS_PAIR = (
    Settings(),
    Settings(
        refuse_unpriced=True,
        durability=Durability.CALL,
        hosts=("a.lan", "b.lan"),
        origins=("https://x.example",),
        ollama_token="apps",
        ollama_port=11434,
        list_for_claude=True,
        keep_days=1,
        refresh_models_h=0,
        stop_on_leave=True,
        token_streams=0,
        channel_calls=1_500_001,
        memory_mib=0,
    ),
)

EACH: dict[str, tuple[Table, tuple[object, object]]] = {
    "token": (TOKEN, TOKENS),
    "group": (GROUP, GROUPS),
    "channel": (CHANNEL, CHANNELS),
    "account": (ACCOUNT, ACCOUNTS),
    "settings": (SETTINGS, SETTINGS_PAIR),
}
"""By noun: the table, an entity as created, and one with other values everywhere."""

ODD = ["m bad", "a,b", "it's", 'say "hi" now', '"', "'", '""', "x=y", "a\N{NO-BREAK SPACE}b", "'a' \"b\"", "=", "plain"]
"""Names that are allowed and that hold what separates others, also used by the tests of forms."""
