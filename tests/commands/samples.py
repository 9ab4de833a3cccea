"""Views as a server would send them, for commands to print."""

from msgspec.structs import replace

from gateway.domain.budget import Window
from gateway.domain.call import Attempt, FailureKind
from gateway.domain.channel import Check, Dialect, ServedModel
from gateway.domain.diagnosis import Verdict
from gateway.domain.limits import Limits
from gateway.domain.price import Rates
from gateway.domain.price_view import PriceView
from gateway.domain.units import Millis, Nanos
from gateway.domain.upstream_views import ModelDetail, ModelRoute
from gateway.domain.views import (
    AccountView,
    BudgetView,
    CallView,
    ChannelView,
    GroupView,
    KeyView,
    ModelView,
    Status,
    Summary,
    SumRow,
    TokenView,
    iso,
)

NOW = Millis(1_763_500_000_000)

HOSTILE = "x\x1b]0;owned\x07\u202e\n\x9b2J[/]=cmd"
"""A terminal's title, a bidirectional override, a line end, a C1 control: none of it may get out."""

BUDGET = BudgetView(
    window=Window.DAY,
    nanos=Nanos(5_000_000_000),
    spent_nanos=Nanos(1_200_000_000),
    held_nanos=Nanos(0),
    tokens=1_000_000,
    spent_tokens=12_345,
    resets_at_ms=NOW,
)

ACCOUNT = AccountView(
    granted_nanos=Nanos(10_000_000_000),
    spent_nanos=Nanos(4_380_000),
    held_nanos=Nanos(0),
    balance_nanos=Nanos(9_995_620_000),
    available_nanos=Nanos(9_995_620_000),
    budgets=(BUDGET,),
)

TOKEN = TokenView(
    id="tok_1",
    name="laptop",
    group="default",
    hint="sk-tk-abcd…wxyz",
    state="active",
    created_ms=NOW,
    last_used_ms=NOW,
    calls=12,
    spent_nanos=Nanos(4_380_000),
    held_nanos=Nanos(0),
    budgets=(BUDGET,),
    limits=Limits(rpm=60),
    models=("demo-*",),
    sees=["demo-echo", "demo-story"],
)

GROUP = GroupView(
    name="default",
    sees=["demo-echo"],
    multiplier=1_500_000,
    tokens=["laptop"],
    channels=["demo"],
    calls=12,
    spent_nanos=Nanos(4_380_000),
    created_ms=NOW,
)

CHANNEL = ChannelView(
    id="ch_1",
    name="openai",
    dialect=Dialect.OPENAI,
    base_url="https://api.openai.com/v1",
    key="env:OPENAI_API_KEY",
    models=(ServedModel(name="fast", upstream="gpt-4o-mini"), ServedModel(name="gpt-4o")),
    state="cooling",
    reason="429 from upstream",
    until_ms=NOW,
    in_flight=0,
    headers={"X-Team": "…"},
    calls=3,
    errors=1,
    spent_nanos=Nanos(4_380_000),
    possible_nanos=Nanos(1_000),
    created_ms=NOW,
    last_check=Check(time=NOW, ok=True, ms=Millis(85), text="2 models"),
)

TWO_KEYS = [
    KeyView(number=1, key="env:FIRST", state="ok", reason="", until_ms=None),
    KeyView(number=2, key="…abcd", state="cooling", reason="429 \x1b[2J", until_ms=NOW),
]

PRICE = PriceView(
    model="gpt-4o",
    input=Nanos(2_500_000_000),
    cached_input=Nanos(1_250_000_000),
    output=Nanos(10_000_000_000),
    per_call=Nanos(0),
    free=False,
    source="manual",
    updated_ms=NOW,
    tier_count=0,
)

MODEL = ModelView(
    name="gpt-4o",
    channels=["openai"],
    groups=["default"],
    context=128_000,
    price=PRICE,
    calls=3,
    spent_nanos=Nanos(4_380_000),
)

DETAIL = ModelDetail(
    name="gpt-4o",
    channels=["openai"],
    price=PRICE,
    context=128_000,
    max_output=16_384,
    groups=["default"],
    fallbacks={"default": ["gpt-4o-mini"]},
    tokens=["laptop"],
    routes=[
        ModelRoute(
            group="default",
            order=1,
            place="priority 5",
            channel="openai",
            dialect="openai",
            upstream_model="gpt-4o",
            state="cooling",
            reason="429 from upstream",
            weight=2,
            limits=Limits(rpm=60),
            context=128_000,
            max_output=16_384,
        )
    ],
    calls=1_234,
    spent_nanos=Nanos(4_380_000),
)

CALL = CallView(
    id="req_019aa0c3d2f15b8e3c5e4d6a7b",
    time=iso(NOW),
    time_ms=NOW,
    state="settled",
    token="laptop",
    token_id="tok_1",
    group="default",
    group_id="default",
    model="fast",
    upstream_model="gpt-4o-mini",
    channel="openai",
    app="my-editor",
    status=200,
    outcome="done",
    finish_reason="stop",
    stream=True,
    duration_ms=Millis(1_250),
    first_byte_ms=Millis(320),
    overhead_us=850,
    input_tokens=1_200,
    cached_tokens=200,
    output_tokens=150,
    usage_source="reported",
    cost_nanos=Nanos(4_380_000),
    rates=Rates(2_500_000_000, 1_250_000_000, 2_500_000_000, 10_000_000_000, 0, 1_000_000),
    held_nanos=Nanos(9_000_000),
    balance_nanos=Nanos(9_995_620_000),
    attempts=[
        Attempt(channel="other", status=500, ms=Millis(90), kind=FailureKind.SERVER, reason="oops", billed=True),
        Attempt(channel="openai", status=200, ms=Millis(1_100)),
    ],
    upstream_id="chatcmpl-1",
    marks=["dropped=seed"],
)

STATUS = Status(
    version="0.1.0",
    instance="abc",
    pid=4711,
    address="http://127.0.0.1:8655/v1",
    home="/home/me/.local/share/tollkeeper",
    started_ms=NOW,
    uptime_s=65,
    in_flight=0,
    watchers=1,
    state="serving",
    durability="interval",
    channels={"ok": 2},
    records=12,
)

VERDICT = Verdict(
    equal=True,
    calls=12,
    cost_nanos=Nanos(4_380_000),
    granted_nanos=Nanos(10_000_000_000),
    balance_nanos=Nanos(9_995_620_000),
    checks=40,
    difference="",
)


def sum_row(name: str, calls: int = 3, cost: int = 4_380_000) -> SumRow:
    return SumRow(
        key=name,
        name=name,
        calls=calls,
        errors=1,
        input_tokens=1_200,
        cached_tokens=200,
        output_tokens=150,
        cost_nanos=Nanos(cost),
        possible_nanos=Nanos(0),
        duration_ms=3_750,
        first_byte_ms=900,
    )


def timed_row(name: str) -> SumRow:
    """Averages of 1.25 s and 300 ms over three calls, with percentiles."""
    return replace(
        sum_row(name),
        first_bytes=3,
        duration_p50_ms=Millis(900),
        duration_p95_ms=Millis(3_100),
        first_byte_p50_ms=Millis(250),
        first_byte_p95_ms=Millis(700),
    )


SUMMARY = Summary(
    since_ms=NOW,
    until_ms=Millis(NOW + 86_400_000),
    by="model",
    total=sum_row("", calls=5, cost=5_000_000),
    rows=[sum_row("cheap", calls=2, cost=620_000), sum_row("dear")],
    series=[],
)
