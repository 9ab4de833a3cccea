from tests.tui.owner import press, screen, shown


async def test_models_are_listed_with_prices_and_what_has_none() -> None:
    async with shown("models") as (app, _, _):
        assert "7 models · 1 without a price: counted, not charged" in screen(app)
        row = next(line for line in screen(app).splitlines() if "my-finetune-7" in line)
        assert "! no price openai-main" in row


async def test_the_pane_has_examples_for_the_groups_factors() -> None:
    async with shown("models") as (app, pilot, _):
        await press(app, pilot, "j", "enter")
        assert "10k in + 1k out = $0.045 (default x1)   $0.0225 (batch x0.5)   $0.00 (free x0)" in screen(app)
