import msgspec

from gateway.domain.account import AccountStatus
from gateway.domain.human_values import parse_tier
from gateway.domain.price_view import example_cost
from gateway.domain.units import Nanos
from gateway.domain.views import ModelView
from tests.tui.owner import listing_of, price_of
from tests.tui.stage import FakeClient, calls, console, model, sums
from tui.pages.models import ModelsPage
from tui.trends import Trends


def listing(*models: ModelView) -> ModelsPage:
    return listing_of(ModelsPage, models=models)


def test_an_example_counts_the_price_a_call() -> None:
    price = price_of("claude-sonnet-4-5")
    assert example_cost(price) == 45_000_000
    dear = msgspec.structs.replace(price, per_call=Nanos(5_000_000))
    assert example_cost(dear, 500_000) == 25_000_000


def test_an_example_has_the_rates_of_its_tier() -> None:
    tiered = msgspec.structs.replace(price_of("claude-sonnet-4-5"), tiers=(parse_tier("5k=6/22.50"),))
    assert example_cost(tiered) == 82_500_000


def test_the_command_sets_the_price_there_is() -> None:
    unpriced = msgspec.structs.replace(model("gpt-5-mini", price=None), name="m\u2764\ufe0f")
    made = listing(model("claude-sonnet-4-5"), unpriced)
    assert [made.command(row) for row in made.rows()] == [
        "tollkeeper price set claude-sonnet-4-5 --input 3 --output 15 --cached 0.30",
        "tollkeeper price set 'm\u2764\ufe0f' --input DOLLARS --output DOLLARS",
    ]
    assert "no channel offers any" in made.empty().plain


def test_the_command_sets_all_of_the_price() -> None:
    whole = msgspec.structs.replace(
        price_of("claude-sonnet-4-5"),
        cached_input=Nanos(300_000_000),
        cache_write=Nanos(3_750_000_000),
        cache_write_long=Nanos(6_000_000_000),
        per_call=Nanos(10_000_000),
        tiers=(parse_tier("200k=6/22.50/0.60"),),
    )
    free, others = (
        msgspec.structs.replace(whole, free=True),
        "--cached 0.30 --cache-write 3.75 --cache-write-long 6 --per-call 0.01",
    )
    made = listing(model("claude-sonnet-4-5", price=whole), model("gpt-5-mini", price=free))
    assert [made.command(row) for row in made.rows()] == [
        f"tollkeeper price set claude-sonnet-4-5 --input 3 --output 15 {others} --tier 200k=6/22.50/0.60",
        "tollkeeper price set gpt-5-mini --free",
    ]


def test_prices_are_below_each_other_by_their_points() -> None:
    price = price_of("claude-sonnet-4-5")
    cheap = msgspec.structs.replace(price, input=Nanos(28_000_000), output=Nanos(150 * 10**9))
    made = listing(
        model("gpt-5-mini", price=price), model("deepseek-chat", price=cheap), model("claude-haiku-4-5", price=None)
    )
    columns = {column.id: column for column in made.all_columns()}
    assert [columns["input"].text(row) for row in made.rows()] == ["3.00 ", "0.028", "?    "]
    assert [columns["output"].text(row) for row in made.rows()] == ["15.00 ", "150.00 ", "?    "]
    assert all(len(column.text(row)) <= column.width for column in [*made.all_columns()][2:5] for row in made.rows())


def test_a_rate_that_all_channels_share_is_one_number() -> None:
    price = price_of("claude-sonnet-4-5")
    dear = msgspec.structs.replace(price, output=Nanos(20 * 10**9))
    made = listing(model("gpt-5-mini", price=price, prices=[price, dear]))
    assert "channels 3 / 15 - 20\n" in made.detail(made.rows()[0], 100).plain


def test_prices_are_reported_in_words() -> None:
    whole = msgspec.structs.replace(
        price_of("claude-sonnet-4-5"),
        cache_write=Nanos(10**9),
        per_call=Nanos(10**7),
        tier_count=1,
        tiers=(parse_tier("200k=6/22.50"),),
    )
    made = listing(
        model("claude-sonnet-4-5", price=whole), model("qwen3-coder:30b"), model("gpt-5-mini", price=None, channels=[])
    )
    first, free, none = [made.detail(row, 100).plain for row in made.rows()]
    assert "in 3   out 15   cached 0.30   cache write 1   $0.01 a call" in first
    assert "above 200k=6/22.50" in first
    assert "free" in free
    assert "no price: counted, not charged, and no dollar budget stops it; e on page 5 (Models)" in none
    assert "by no channel" in none


def test_the_list_says_which_prices_have_tiers() -> None:
    flat = price_of("claude-sonnet-4-5")
    tiered = msgspec.structs.replace(flat, tier_count=1, tiers=(parse_tier("200k=6/22.50"),))
    made = listing(
        model("claude-sonnet-4-5", price=tiered),
        model("claude-haiku-4-5", price=msgspec.structs.replace(tiered, inherited_from="a")),
        model("gpt-5-mini", price=msgspec.structs.replace(tiered, free=True)),
        model("deepseek-chat", price=flat),
    )
    source = next(column for column in made.all_columns() if column.id == "source")
    assert [source.text(row) for row in made.rows()] == ["manual, 1 tier", "as a, 1 tier", "free", "manual"]


def test_a_paused_channel_is_marked() -> None:
    made = listing(model("deepseek-chat"))
    served = next(column for column in made.all_columns() if column.id == "served")
    assert served.text(made.rows()[0]) == "deepseek ▲"
    assert served.tone is not None
    assert served.tone(made.rows()[0]) == "warn"


def test_a_suspended_account_is_shown_above_the_list() -> None:
    session = console().session
    session.board.apply(FakeClient(calls(3)).snapshot())
    assert "suspended" not in ModelsPage(session).lead(120).plain
    assert session.board.account is not None
    session.board.account = msgspec.structs.replace(session.board.account, status=AccountStatus.SUSPENDED)
    assert "the account is suspended: all calls are rejected" in ModelsPage(session).lead(120).plain


def test_a_context_of_the_price_list_is_marked() -> None:
    listed, known = (
        model("claude-sonnet-4-5", context=200_000, context_source=source) for source in ("upstream", "genai-prices 1")
    )
    texts = [listing(one).detail(listing(one).rows()[0], 100).plain.splitlines()[0] for one in (listed, known)]
    assert [text.partition("context ")[2].rstrip() for text in texts] == ["200k tokens", "200k tokens (list)"]


def test_an_example_is_that_of_groups_that_have_the_model() -> None:
    made = listing(model("claude-sonnet-4-5", groups=["default"]))
    groups = made.session.board.groups
    other = msgspec.structs.replace(groups[0], name="elsewhere", multiplier=1_200_000)
    assert "default" in {group.name for group in groups}
    made.session.board.groups = [*groups, other]
    assert "elsewhere" not in made.detail(made.rows()[0], 100).plain


def test_calls_are_those_of_the_days_whose_cost_is_beside_them() -> None:
    made = listing(model("claude-sonnet-4-5", calls=500))
    calls = next(column for column in made.all_columns() if column.id == "calls")
    assert calls.text(made.rows()[0]) == "0"


def test_calls_of_a_model_leave_out_refused_ones_in_the_list_and_in_the_total() -> None:
    made = listing(model("gpt-5-mini", calls=3))
    row = msgspec.structs.replace(sums(), key="gpt-5-mini", calls=5, errors=2, refused=2)
    made.trends = Trends(totals={"gpt-5-mini": row})
    column = next(column for column in made.all_columns() if column.id == "calls")
    assert column.text(made.rows()[0]) == "3"
    assert "3 calls, " in made.detail(made.rows()[0], 120).plain


def test_the_month_is_its_cost_or_else_its_tokens() -> None:
    paid = msgspec.structs.replace(sums(), input_tokens=900, cost_nanos=Nanos(2_500_000_000))
    free = msgspec.structs.replace(sums(), input_tokens=1_500, output_tokens=500)
    made = listing(*map(model, ("gpt-5-mini", "deepseek-chat", "claude-haiku-4-5")))
    made.trends = Trends(totals={"gpt-5-mini": paid, "deepseek-chat": free})
    column = next(column for column in made.all_columns() if column.id == "month")
    assert [column.text(row) for row in made.rows()] == ["$2.50", "2k tok", "·"]


def test_points_are_below_each_other_for_up_to_four_decimals() -> None:
    tiny = msgspec.structs.replace(price_of("claude-sonnet-4-5"), input=Nanos(1_234_567))
    made = listing(model("gpt-5-mini", price=tiny), model("deepseek-chat", price=price_of("claude-sonnet-4-5")))
    column = next(column for column in made.all_columns() if column.id == "input")
    assert [column.text(row) for row in made.rows()] == ["0.001234567", "3.00  "]
