import msgspec

from gateway.domain.price import PriceRule, Tier
from gateway.domain.units import DOLLAR, Nanos
from tests.tui.owner import Owner, press, price_of, screen, see, shown, text_of, until
from tui.pages.models import price_changes, price_list_summary, price_options
from tui.widgets.form import FormRow


def test_only_what_changes_is_offered_and_what_is_new_comes_first() -> None:
    rows = price_changes(Owner().proposals)
    assert [text for _, text in price_options(rows)] == [
        "new     my-finetune-7   no price > 1 / 5   openai-main",
        "higher  gpt-5-mini   0.25 / 2 > 1 / 5   openai-main   ! five times as much",
    ]


def test_prices_for_longer_inputs_are_offered_in_words() -> None:
    (one, *_) = price_changes(Owner().proposals)
    tier = Tier(above=200_000, input=Nanos(6_000_000_000), output=Nanos(22_500_000_000))
    tiered = msgspec.structs.replace(one.listed, tier_count=1, tiers=(tier,))
    ((_, text),) = price_options([msgspec.structs.replace(one, listed=tiered)])
    assert text == "new     my-finetune-7   no price > 1 / 5, above 200k 6 / 22.50   openai-main"


def test_kept_prices_are_counted() -> None:
    assert price_list_summary(Owner().proposals).startswith("2 would change, 1 already match; 1 set by you stays.")


async def test_hours_tiers_and_rates_are_edited_in_the_form() -> None:
    """What a price has beside its amounts is shown as it is typed, and can be changed or removed."""
    owner = Owner()
    flex = PriceRule(variant="flex", input=Nanos(DOLLAR), output=Nanos(5 * DOLLAR))
    price = price_of("claude-haiku-4-5")
    priced = msgspec.structs.replace(price, rules=[flex], extras={"searches": Nanos(DOLLAR // 100)})
    owner.models_now[0] = msgspec.structs.replace(owner.models_now[0], price=priced)
    async with shown("models", owner) as (app, pilot, _):
        await press(app, pilot, "e")
        rows = {row.field.id: row for row in app.screen.query(FormRow)}
        assert (rows["extras"].text, rows["rules"].text) == ("searches=0.01", "flex = 1/5")
        typed = {"rules": "mon-fri 01:00-04:00 UTC = 6/30; flex = 1/5", "extras": "none"}
        for name, text in typed.items():
            rows[name].input.focus()
            await press(app, pilot, f"={text}")
        await press(app, pilot, "enter")
        ((_, _, body),) = owner.did
        assert body.get("extras", {}) == {}
        assert [(rule["variant"], rule["input"], len(rule["during"])) for rule in body["rules"]] == [
            ("", 6 * DOLLAR, 1),
            ("flex", DOLLAR, 0),
        ]


async def test_a_price_may_be_for_one_channel_of_several() -> None:
    owner = Owner()
    owner.models_now[0] = msgspec.structs.replace(owner.models_now[0], channels=["anthropic", "relay"])
    async with shown("models", owner) as (app, pilot, _):
        await press(app, pilot, "e", "ctrl+o")
        rows = {row.field.id: row for row in app.screen.query(FormRow)}
        rows["channel"].input.focus()
        await press(app, pilot, "=relay")
        assert "--channel relay" in text_of(app, ".command")
        await press(app, pilot, "enter")
        assert [did[3:] for did in owner.did] == [("relay",)]


async def test_a_price_is_copied_from_another_model() -> None:
    async with shown("models") as (app, pilot, owner):
        await press(app, pilot, "G", "e", "=claude-sonnet-4-5")
        assert text_of(app, ".preview") == "$3 / 15 per million tokens"
        assert text_of(app, ".command") == "$ tollkeeper price set my-finetune-7 --like claude-sonnet-4-5"
        assert "Input, $" not in screen(app), "amounts that would not count are hidden"
        await press(app, pilot, "enter")
        assert owner.did == [("set_price", "my-finetune-7", {"like": "claude-sonnet-4-5"})]


async def test_a_mapping_says_whose_price_it_has() -> None:
    owner = Owner()
    inherited = msgspec.structs.replace(price_of("claude-haiku-4-5"), inherited_from="base-model")
    owner.models_now[0] = msgspec.structs.replace(owner.models_now[0], price=inherited)
    async with shown("models", owner) as (app, pilot, _):
        assert "as base-" in screen(app)
        await press(app, pilot, "enter")
        assert "the price of base-model, which it stands for" in screen(app).replace("\n", " ")


async def test_where_calls_without_a_price_are_refused_the_page_says_so() -> None:
    async with shown("models", refuses_unpriced=True) as (app, pilot, owner):
        assert "1 without a price: refused" in screen(app)
        await see(app, pilot, "no price: calls are refused; e on page 5 (Models)", "G", "enter")
        await see(app, pilot, "Its calls will be refused.", "escape", "g", "d")
        await press(app, pilot, "escape")
        owner.refuses_unpriced = False
        owner.changed()
        await until(app, pilot, "1 without a price: counted, not charged")


async def test_words_of_a_column_are_found() -> None:
    async with shown("models") as (app, pilot, _):
        await see(app, pilot, "my-finetune-7", "slash", *"no price", "enter")
        assert "1 of 7 models" in screen(app)
