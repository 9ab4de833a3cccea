from tests.tui.owner import press, screen, shown


async def test_groups_are_listed_with_route_and_factor() -> None:
    async with shown("groups", size=(140, 40)) as (app, _, _):
        row = next(line for line in screen(app).splitlines() if line.startswith(" batch"))
        assert "x0.5" in row
        assert "anthropic → openai-main → ollama" in row


async def test_the_pane_tells_all_of_one() -> None:
    async with shown("groups") as (app, pilot, _):
        await press(app, pilot, "enter")
        assert "tokens  ci" in screen(app)
        assert "41% $16.4/40   lasts at this pace" in screen(app)
