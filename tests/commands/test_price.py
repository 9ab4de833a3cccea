"""Taking over list prices."""

from urllib.parse import quote

import pytest
from msgspec.structs import replace

from gateway.commands import output
from gateway.commands.exit_codes import Exit
from gateway.domain.channel import ServedModel
from gateway.domain.errors import NotFound
from gateway.domain.price import Tier, UpstreamPrices
from gateway.domain.price_view import PriceNews
from gateway.domain.settings import Settings
from gateway.domain.units import Millis, Nanos
from gateway.domain.upstream_views import PriceProposal
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, CHANNEL, DETAIL, MODEL, PRICE

NEW = PriceProposal(
    model="o3", channel="openai", now=None, listed=PRICE, kept=False, differs=True, change="new", applied=True
)
MINE = replace(NEW, model="gpt-4o", now=PRICE, kept=True, change="up", applied=False)
LEAP = replace(NEW, model="gpt-5", now=PRICE, change="up", guard="input rises steeply: from $1 to $9", applied=False)
SAME = replace(NEW, model="gpt-6", now=PRICE, change="same", differs=False, applied=False)
ALL = [NEW, MINE, LEAP, SAME]
NEWS = {"GET /prices/news": PriceNews()}
OFFERED = {"GET /models": [MODEL], "GET /channels": [CHANNEL], "GET /prices": []}


def answers() -> Control:
    return Control({"POST /prices/import": ALL})


def test_what_changes_is_shown_with_its_new_value() -> None:
    ran = run("price", "import", control=answers())
    rows = {line.split()[0]: line for line in ran.out.splitlines()[1:]}
    assert "imported" in rows["o3"]
    assert "set by you, kept" in rows["gpt-4o"]
    assert "rises steeply" in rows["gpt-5"]
    assert "same" in rows["gpt-6"]
    assert "imported: 1 price\nnot imported: 1 price; see the notes (--accept" in ran.err
    stale = replace(NEW, listed=replace(PRICE, stale=True))
    assert "the price list is old" in run("price", "import", answers={"POST /prices/import": [stale]}).err


def test_prices_for_longer_inputs_are_in_every_list() -> None:
    tier = Tier(above=200_000, input=Nanos(6 * 10**9), output=Nanos(22_500_000_000))
    tiered = replace(PRICE, tier_count=1, tiers=(tier,))
    listed = run("price", "list", answers={"GET /prices": [PRICE, tiered], **NEWS}).out.splitlines()
    assert listed[0].endswith("Updated              Longer inputs")
    assert [line.split()[-1] for line in listed[1:]] == ["-", "200k=6/22.50"]
    assert "Longer" not in run("price", "list", answers={"GET /prices": [PRICE], **NEWS}).out
    models = run("model", "list", answers={"GET /models": [replace(MODEL, price=tiered)], "GET /account": ACCOUNT})
    assert "$2.50 / $10.00, 1 tier" in models.out
    shown = run("model", "show", "gpt-4o", answers={"GET /models/gpt-4o": replace(DETAIL, price=tiered)}).out
    assert "above 200k=6/22.50" in next(line for line in shown.splitlines() if line.startswith("price"))


def test_a_model_with_several_prices_has_a_range() -> None:
    several = replace(MODEL, prices=[PRICE, replace(PRICE, input=Nanos(0))])
    models = run("model", "list", answers={"GET /models": [several], "GET /account": ACCOUNT})
    assert "$0.00 - $2.50 / $10.00" in models.out


def test_the_same_price_looks_the_same_on_both_sides_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    tiered = replace(PRICE, tier_count=1)
    same = Control({"POST /prices/import": [replace(SAME, now=tiered, listed=tiered), NEW]})
    line = next(x for x in run("price", "import", "--dry-run", control=same).out.splitlines() if "gpt-6" in x)
    assert line.count("$2.50 / $10.00, 1 tier") == 2
    monkeypatch.setattr(output, "terminal_width", lambda: 60)
    assert max(map(len, run("price", "import", "--dry-run", control=same).out.splitlines())) <= 60


def test_nothing_changes_in_a_dry_run() -> None:
    control = answers()
    ran = run("price", "import", "--dry-run", "--provider", "openai", "--model", "o3,gpt-5", control=control)
    assert control.bodies == [{"apply": False, "accept": False, "channel": "openai", "models": ["o3", "gpt-5"]}]
    assert "would import: 1 price" in ran.err


def test_leaps_can_be_accepted() -> None:
    control = answers()
    ran = run("price", "import", "--accept", "--json", control=control)
    assert control.bodies == [{"apply": True, "accept": True, "channel": ""}]
    assert [row["change"] for row in ran.json] == ["new", "up", "up", "same"]
    assert "not imported" not in ran.err


def test_prices_are_listed_in_dollars_with_the_day_of_their_list_and_whether_it_is_old() -> None:
    listed = replace(PRICE, source="genai-prices 0.2.3", as_of_ms=Millis(1_790_000_000_000), stale=True)
    row = run("price", "list", answers={"GET /prices": [listed], **NEWS}).out.splitlines()[1]
    assert row.split()[:6] == ["gpt-4o", "$2.50", "$1.25", "-", "-", "$10.00"]
    assert "genai-prices 0.2.3 of 2026-09-21, stale" in row


def test_models_without_a_price_are_in_one_place() -> None:
    published = UpstreamPrices(input=Nanos(10**9), output=Nanos(2 * 10**9))
    control = Control({"GET /models": [MODEL, replace(MODEL, name="odd", price=None, published=published)], **NEWS})
    ran = run("price", "list", "--unpriced", control=control)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["Model", "odd"]
    assert "$1.00 / $2.00" in ran.out
    assert [row["name"] for row in run("price", "list", "--unpriced", "--json", control=control).json] == ["odd"]


def test_rates_that_a_new_price_does_not_have_any_more_are_named() -> None:
    tier = Tier(above=200_000, input=Nanos(6_000_000_000), output=Nanos(22_500_000_000))
    full = replace(PRICE, cached_input=Nanos(1_250_000_000), tiers=(tier,))
    bare = replace(PRICE, cached_input=None, cache_write=None, tiers=())
    control = Control({**OFFERED, "GET /prices": [full], f"PUT /prices/{quote(PRICE.model)}": bare})
    ran = run("price", "set", PRICE.model, "--input", "2.5", "--output", "10", control=control)
    assert ran.err.splitlines()[1].endswith("the new price no longer has: --cached 1.25 --tier 200k=6/22.50")
    longer = replace(tier, above=1_000_000)
    free = replace(PRICE, cached_input=Nanos(0), tiers=(tier, longer))
    answers = {
        **OFFERED,
        "GET /prices": [free],
        f"PUT /prices/{quote(PRICE.model)}": replace(bare, tiers=(longer,)),
    }
    ran = run("price", "set", PRICE.model, "--input", "2.5", "--output", "10", answers=answers)
    assert ran.err.splitlines()[1].endswith("no longer has: --cached 0 --tier 200k=6/22.50 --tier 1M=6/22.50")
    kept = {**OFFERED, "GET /prices": [full], f"PUT /prices/{quote(PRICE.model)}": full}
    ran = run("price", "set", PRICE.model, "--input", "2.5", "--output", "10", answers=kept)
    assert "no longer has" not in ran.err
    made_free = {**OFFERED, "GET /prices": [full], f"PUT /prices/{quote(PRICE.model)}": bare}
    assert "no longer has" not in run("price", "set", PRICE.model, "--free", answers=made_free).err


def test_longer_inputs_may_cost_something_else() -> None:
    control = Control({**OFFERED, "PUT /prices/x": PRICE})
    run("price", "set", "x", "--input=1", "--output=2", "--tier=1M=4/8", "--tier=200k=2/4", control=control)
    tiers = [
        {"above": above, "input": given * 10**9, "output": 2 * given * 10**9}
        for above, given in ((200_000, 2), (1_000_000, 4))
    ]
    (body,) = control.bodies
    assert (body["input"], body["output"]) == (10**9, 2 * 10**9)
    assert [{name: tier[name] for name in ("above", "input", "output")} for tier in body["tiers"]] == tiers


def test_several_models_get_the_same_price() -> None:
    prices = [replace(PRICE, model=model) for model in ("a", "x", "y")]
    control = Control({**OFFERED, "POST /batch": {"done": "set 2 prices"}, "GET /prices": prices})
    ran = run("price", "set", "x", "y", "x", "--free", "--json", control=control)
    edits = [{"ref": model, "patch": {"input": 0, "output": 0}} for model in ("x", "y")]
    assert (ran.code, control.bodies) == (0, [{"kind": "prices", "edits": edits}])
    assert [row["model"] for row in ran.json] == ["x", "y"]
    assert run("price", "set", "x", "2", "10", answers={}).code == Exit.USAGE


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (
            "--input 2.50 --output 10 --cached 0.000000001 --per-call 0.01",
            {"input": 2_500_000_000, "output": 10_000_000_000, "cached_input": 1, "per_call": 10_000_000},
        ),
        ("--like gpt-4o", {"like": "gpt-4o"}),
    ],
)
def test_a_price_is_set_in_nano_dollars_or_copied_from_another_model(options: str, body: dict[str, object]) -> None:
    control = Control({**OFFERED, "PUT /prices/org%2Fgpt-4o": PRICE})
    assert run("price", "set", "org/gpt-4o", *options.split(), control=control).code == 0
    assert control.bodies == [body]


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("gpt4o", "note: no channel offers 'gpt4o' now; did you mean 'gpt-4o' or 'gpt-4o-mini'?\n"),
        (
            "gpt-4*",
            "note: no channel offers 'gpt-4*' now; a price is for one model, not for a pattern: gpt-4o, gpt-4o-mini\n",
        ),
        ("my-own", "note: no channel offers 'my-own' now\n"),
        ("gpt-4o", ""),
        ("gpt-4o-mini", ""),
    ],
    ids=["misspelt", "a pattern", "unlike any", "offered", "an upstream's name"],
)
def test_a_price_of_a_name_that_nobody_offers_is_set_with_a_note(model: str, note: str) -> None:
    price = replace(PRICE, model=model)
    control = Control({**OFFERED, f"PUT /prices/{quote(model)}": price})
    ran = run("price", "set", model, "--input", "2.5", "--output", "10", control=control)
    assert (ran.code, ran.err) == (0, f"Price of '{model}': $2.50 / $10.00\n{note}")


@pytest.mark.parametrize(
    "args",
    [
        ("--like", "x", "--free"),
        ("--like", "x", "--input", "1"),
        (),
        ("--input", "1"),
        ("--free", "--input", "1"),
        ("--input", "1", "--output", "x"),
        ("--input", "-1x"),
    ],
)
def test_half_a_price_is_a_usage_error(args: tuple[str, ...]) -> None:
    ran = run("price", "set", "x", *args, answers={})
    assert (ran.code, ran.asked, ran.err.count("\n")) == (Exit.USAGE, [], 1)


def test_one_price_is_shown_with_every_rate() -> None:
    dear = replace(PRICE, source="like gpt-4o", tiers=(Tier(above=200_000, input=Nanos(10**9), output=Nanos(0)),))
    dear = replace(dear, context=400_000)
    lines = run("price", "show", "mine", answers={"GET /models/mine": replace(DETAIL, price=dear)}).out.splitlines()
    assert "input             $2.50" in lines
    assert "longer inputs     200k=1/0" in lines
    assert "example           10,000 input and 1,000 output tokens: $0.035" in lines
    assert "source            like gpt-4o" in lines
    assert "context           400,000 tokens" in lines


def test_a_price_that_is_another_model_s_says_so() -> None:
    price = replace(PRICE, model="fast", inherited_from="gpt-4o-mini")
    control = Control({"GET /prices": [], "GET /models/fast": replace(DETAIL, name="fast", price=price)})
    ran = run("price", "show", "fast", control=control)
    assert "price of          gpt-4o-mini, which fast stands for\n" in ran.out
    assert "updated" in ran.out
    assert run("price", "show", "fast", "--json", control=control).json["inherited_from"] == "gpt-4o-mini"


@pytest.mark.parametrize(("input_nanos", "is_listed"), [(2_500_000_000, False), (1_000_000_000, True)])
def test_channels_are_listed_if_calls_cost_something_else_there(input_nanos: int, is_listed: bool) -> None:
    route = replace(DETAIL.routes[0], price=replace(PRICE, input=Nanos(input_nanos)))
    ran = run("price", "show", "gpt-4o", answers={"GET /models/gpt-4o": replace(DETAIL, routes=[route])})
    assert ("Calls there cost" in ran.out) is is_listed


def test_a_local_server_s_price_has_no_time() -> None:
    free = replace(PRICE, input=Nanos(0), output=Nanos(0), free=True, source="local server", updated_ms=Millis(0))
    control = Control({"GET /prices": [], "GET /models/fast": replace(DETAIL, name="fast", price=free)})
    shown = run("price", "show", "fast", control=control).out
    assert shown.startswith("model   fast\nprice   free\nsource  local server\n\n")


def test_a_missing_price_says_what_to_do() -> None:
    missing: dict[str, object] = {"GET /prices": []}
    for refused, effect in (
        (False, "counted, not charged, and no dollar budget stops it"),
        (True, "calls are refused"),
    ):
        detail = replace(DETAIL, name="odd one", price=None, refuses_unpriced=refused)
        control = Control({**missing, "GET /models/odd%20one": detail})
        for noun in ("price", "model"):
            ran = run(noun, "show", "odd one", control=control)
            text = f"no price: {effect}; 'tollkeeper price set 'odd one' --like"
            assert (ran.code, text in ran.out) == (0, True)
    assert run("price", "show", "nobody", answers=missing).code == Exit.NOT_FOUND


def test_nothing_known_is_nothing_to_import() -> None:
    for preset, more in (
        ("openai", ""),
        ("", ". The vendors of these channels are not known: openai; name them with "),
    ):
        channels = [replace(CHANNEL, preset=preset)]
        ran = run("price", "import", answers={"POST /prices/import": [], "GET /channels": channels})
        assert ran.err.startswith(f"no known prices; nothing to import{more}")
        assert ("'tollkeeper channel edit openai --preset VENDOR'" in ran.err) == bool(more)


def test_only_the_channel_asked_for_can_be_why_nothing_is_imported() -> None:
    channels = [replace(CHANNEL, name="openai", preset="openai"), replace(CHANNEL, name="mine", preset="")]
    control = Control({"POST /prices/import": [], "GET /channels": channels})
    assert run("price", "import", "--channel", "openai", control=control).err == "no known prices; nothing to import\n"
    assert "these channels are not known: mine;" in run("price", "import", "--channel", "mine", control=control).err
    assert "No channel offers gpt-9;" in run("price", "import", "--model", "gpt-9", control=control).err
    named = run("price", "import", "--channel", "openai", "--model", "gpt-9", control=control).err
    assert "'openai' does not offer gpt-9;" in named
    offered = channels[1].models[0].name
    control = Control({"POST /prices/import": [], "GET /channels": channels[1:]})
    assert "these channels are not known: mine;" in run("price", "import", "--model", offered, control=control).err


def test_several_prices_are_removed_as_one_change() -> None:
    ran = run("price", "remove", "x", "y", "--yes", answers={"POST /batch": {"done": "removed 2 prices"}})
    edits = [{"ref": "x", "patch": None}, {"ref": "y", "patch": None}]
    assert (ran.code, ran.bodies) == (0, [{"kind": "prices", "edits": edits}])
    assert ran.err == "Removed 2 prices.\n"


def test_a_channel_named_by_its_id_has_the_price_that_is_compared() -> None:
    before = replace(PRICE, channel="openai", cached_input=Nanos(1_250_000_000))
    after = replace(before, cached_input=None)
    answers = {f"GET /channels/{CHANNEL.id}": CHANNEL, f"PUT /prices/{quote(PRICE.model)}": after}
    control = Control({**OFFERED, **answers, "GET /prices": [before]})
    line = ("price", "set", PRICE.model, "--channel", CHANNEL.id, "--input", "2.5", "--output", "10")
    assert run(*line, control=control).err.splitlines()[1].endswith("no longer has: --cached 1.25")


def test_prices_of_a_channel_are_removed_after_a_question() -> None:
    prices = [replace(PRICE, model=model, channel="openai") for model in ("fast", "gpt-4o")]
    answers = {"POST /batch": {"done": "removed 2 prices at channel 'openai'"}, "GET /settings": Settings()}
    line = ("price", "remove", "fast", "gpt-4o", "fast", "--channel", CHANNEL.id)
    channel = {f"GET /channels/{CHANNEL.id}": CHANNEL, "GET /channels": [CHANNEL]}
    control = Control({**answers, **channel, "GET /prices": prices})
    ran = run(*line, control=control)
    assert (ran.code, [asked for asked, _ in control.asked if asked == "POST /batch"]) == (Exit.USAGE, [])
    assert (
        "Remove the price of 'fast', 'gpt-4o' at channel 'openai'? Calls there will then cost the general price"
        in ran.err
    )
    assert "without one, they will cost nothing" in ran.err
    control = Control(answers)
    ran = run(*line, "--yes", control=control)
    assert ran.err == "Removed 2 prices at channel 'openai'.\n"
    edits = [{"ref": model, "patch": None, "channel": CHANNEL.id} for model in ("fast", "gpt-4o")]
    assert control.asked == [("POST /batch", {"kind": "prices", "edits": edits})]


@pytest.mark.parametrize(
    ("general", "effect"),
    [
        ("gpt-4o-mini", "Its calls will cost what gpt-4o-mini costs."),
        ("", "Its calls will cost nothing, and no dollar budget will limit them."),
    ],
)
def test_a_name_for_another_model_will_cost_what_that_one_does(general: str, effect: str) -> None:
    fast = replace(PRICE, model="fast")
    prices = [fast, replace(PRICE, model="gpt-4o-mini", channel="" if general else "openai")]
    channel = replace(CHANNEL, models=[ServedModel(name="fast", upstream="gpt-4o-mini")])
    answers = {"GET /prices": prices, "GET /channels": [channel], "GET /settings": Settings()}
    assert f"Remove the price of 'fast'? {effect}" in run("price", "remove", "fast", answers=answers).err


def test_only_some_of_several_names_may_stand_for_another_model() -> None:
    prices = [replace(PRICE, model=model) for model in ("fast", "gpt-4o-mini", "gpt-4o")]
    channel = replace(CHANNEL, models=[ServedModel(name="fast", upstream="gpt-4o-mini"), ServedModel(name="gpt-4o")])
    answers = {"GET /prices": prices, "GET /channels": [channel], "GET /settings": Settings()}
    assert (
        "Their calls will cost what gpt-4o-mini costs, or else cost nothing, and no dollar budget will limit them."
        in run("price", "remove", "fast", "gpt-4o", answers=answers).err
    )


def test_no_price_of_a_channel_is_removed_if_one_does_not_exist() -> None:
    prices = [replace(PRICE, model="fast", channel="openai"), replace(PRICE, model="gpt-4o")]
    control = Control({"GET /channels/openai": CHANNEL, "GET /prices": prices, "POST /batch": {"done": ""}})
    ran = run("price", "remove", "fast", "gpt-4o", "--channel", "openai", control=control)
    assert (ran.code, "POST /batch" in dict(control.asked)) == (Exit.NOT_FOUND, False)
    assert "model 'gpt-4o' has no price at channel 'openai'" in ran.err


def test_cached_input_that_costs_more_is_pointed_out() -> None:
    dear = replace(PRICE, cached_input=Nanos(5 * PRICE.input))
    for view, noted in ((dear, True), (PRICE, False)):
        ran = run("price", "set", "x", "--input", "1", "--output", "2", answers={**OFFERED, "PUT /prices/x": view})
        assert ("note: cached input costs more than other input: $12.50" in ran.err) is noted


def test_removing_looks_and_then_asks() -> None:
    for refused, effect in ((False, "Its calls will cost nothing"), (True, "Its calls will be refused")):
        settings = Settings(refuse_unpriced=refused)
        control = Control({"GET /prices": [PRICE], "GET /channels": [CHANNEL], "GET /settings": settings})
        ran = run("price", "remove", PRICE.model, control=control)
        assert (ran.code, effect in ran.err) == (Exit.USAGE, True)
    ran = run("price", "remove", PRICE.model, "nope", answers={"GET /prices": [PRICE]})
    assert (ran.code, "nothing was changed: model 'nope' has no price" in ran.err) == (Exit.NOT_FOUND, True)
    answers = {"POST /batch": NotFound("no price for 'nope'", param="model")}
    ran = run("price", "remove", PRICE.model, "nope", "--yes", answers=answers)
    assert (ran.code, ran.err) == (Exit.NOT_FOUND, "tollkeeper: nothing was changed: no price for 'nope'\n")


def test_news_say_that_there_are_none() -> None:
    ran = run("price", "news", answers={"GET /prices/news": PriceNews(as_of="2026-11-03")})
    assert ran.err == "price list of 2026-11-03\nno news: an import would change nothing\n"
    raised = Control({"GET /prices/news": PriceNews(as_of="2026-11-03", raised=2)})
    assert "no news" not in run("price", "news", control=raised).err
