from tests.tui.owner import press, screen, shown


async def test_channels_are_listed_in_the_order_they_are_asked_with_their_health() -> None:
    async with shown("channels") as (app, _, _):
        text = screen(app)
        assert "▲ cooling" in text
        assert "12m00s 402: no bal…" in text
        assert "6 channels · 4 ok · 1 cooling · 1 off   deepseek: 402: no balance   z clears" in text


async def test_the_pane_never_shows_a_key() -> None:
    async with shown("channels", size=(200, 50)) as (app, pilot, _):
        await press(app, pilot, "j", "enter")
        assert "asked again in 12m00s, z clears" in screen(app)
        assert "key …3kQA" in screen(app)
