from tests.tui.owner import Owner, press, proposal, screen, shown
from tests.tui.stage import words
from tui.pages.models import about_prices, guarded_prices, price_changes, price_options, usual_prices


def test_only_what_changes_is_offered_and_what_is_new_comes_first() -> None:
    rows = price_changes(Owner().proposals)
    assert [text for _, text in price_options(rows)] == [
        "new     my-finetune-7   no price > 1 / 5   openai-main",
        "dearer  gpt-5-mini   0.25 / 2 > 1 / 5   openai-main   ! five times as much",
    ]


def test_what_looks_wrong_is_not_taken_over_unless_it_is_chosen() -> None:
    rows = price_changes(Owner().proposals)
    assert usual_prices(rows) == ["my-finetune-7"]
    assert not guarded_prices(rows, ["my-finetune-7"])
    assert guarded_prices(rows, ["gpt-5-mini"])


def test_what_stays_is_counted() -> None:
    assert about_prices(Owner().proposals).startswith("2 would change, 1 are as listed; 1 that you set yourself stays.")


async def test_the_preview_changes_nothing_and_what_is_chosen_is_taken_over() -> None:
    async with shown("models") as (app, pilot, owner):
        await press(app, pilot, "P")
        assert "2 would change" in screen(app)
        assert owner.did == []
        await press(app, pilot, "enter")
        assert owner.did == [("import_prices", ["my-finetune-7"], {"apply": True, "accept": False})]
        assert words(app) == ["1 price taken over; u takes that back"]


async def test_choosing_what_looks_wrong_accepts_it() -> None:
    async with shown("models") as (app, pilot, owner):
        await press(app, pilot, "P", "j", "space", "enter")
        assert owner.did == [("import_prices", ["gpt-5-mini", "my-finetune-7"], {"apply": True, "accept": True})]


async def test_with_nothing_to_take_over_it_says_so() -> None:
    owner = Owner()
    owner.proposals = [proposal("gpt-5-mini", differs=False)]
    async with shown("models", owner) as (app, pilot, _):
        await press(app, pilot, "P")
        assert words(app)[0].startswith("nothing to take over: 0 would change, 1 are as listed")
        owner.proposals = []
        await press(app, pilot, "P")
        assert words(app)[1] == "nothing to take over: no list knows a price for any of these models"
