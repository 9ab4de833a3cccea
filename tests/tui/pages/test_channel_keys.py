from gateway.domain.units import Millis
from gateway.domain.views import ChannelView, KeyView
from tests.tui.owner import Owner, press, said, screen, shown
from tests.tui.stage import NOW, channel, words
from tui.pages.channel_actions import AGAIN, GOES, STAYS, keys_command


def two() -> ChannelView:
    good = KeyView(number=1, key="…3kQA", state="ok", reason="", until_ms=None)
    rests = KeyView(number=2, key="env:B", state="cooling", reason="429", until_ms=Millis(NOW + 30_000))
    return channel("anthropic", keys=[good, rests])


def owner() -> Owner:
    made = Owner()
    made.channels_now[0] = two()
    return made


async def test_a_key_is_added_without_being_shown() -> None:
    async with shown("channels", owner()) as (app, pilot, asked):
        await press(app, pilot, "A", "tab", "tab", "=sk-new")
        assert "sk-new" not in screen(app)
        assert said(app, ".twin") == "$ tollkeeper channel key add anthropic --key -"
        await press(app, pilot, "enter")
        assert asked.did == [("add_key", "ch_anthropic", "sk-new")]
        assert words(app) == ["anthropic: a key was added"]


async def test_one_is_removed_and_one_is_tried_again() -> None:
    async with shown("channels", owner()) as (app, pilot, asked):
        await press(app, pilot, "A", "right", "down", "right", "enter")
        assert asked.did == [("clear_key", "ch_anthropic", 2), ("remove_key", "ch_anthropic", 1)]
        assert words(app) == ["anthropic: key 2 is tried again, key 1 was removed"]


async def test_the_pane_tells_each_key_with_its_state() -> None:
    async with shown("channels", owner()) as (app, pilot, _):
        await press(app, pilot, "enter")
        assert "1 …3kQA   A changes them" in screen(app)
        assert "2 env:B   cooling 30s 429" in screen(app)


def test_the_commands_do_the_same_in_the_same_order() -> None:
    values = {"key-1": GOES, "key-2": AGAIN, "key": "env:C"}
    assert keys_command(two(), values) == (
        "channel key add anthropic --key env:C; tollkeeper channel key clear anthropic 2; "
        "tollkeeper channel key remove anthropic 1"
    )
    assert keys_command(two(), {"key-1": STAYS, "key-2": STAYS, "key": ""}) == ""
