from typing import Any

from gateway.domain.channel import Served
from gateway.domain.errors import BadRequest
from gateway.domain.views import ChannelView, Offer
from tests.tui.owner import Owner, press, screen, shown
from tests.tui.stage import words
from tui.pages.channel_actions import discovered_body, discovered_options

LOCAL = Offer(
    name="ollama",
    dialect="openai",
    preset="ollama",
    base_url="http://127.0.0.1:11434/v1",
    key="",
    models=[Served(name="qwen3:8b")],
)
VENDOR = Offer(
    name="groq", dialect="openai", preset="groq", base_url="https://api.groq.com/openai/v1", key="env:G", models=[]
)


def owner() -> Owner:
    made = Owner()
    made.offered = [LOCAL, VENDOR]
    return made


def test_a_name_that_is_taken_becomes_another() -> None:
    assert discovered_body(LOCAL, {"ollama", "ollama-2"})["name"] == "ollama-3"
    assert "models" not in discovered_body(VENDOR, ())


def test_where_it_is_and_what_it_has_is_said() -> None:
    assert [text.split("   ")[-1] for _, text in discovered_options([LOCAL, VENDOR])] == [
        "qwen3:8b",
        "with env:G",
    ]


async def test_what_is_chosen_becomes_a_channel() -> None:
    async with shown("channels", owner()) as (app, pilot, asked):
        await press(app, pilot, "a")
        assert "Local servers that answer" in screen(app)
        await press(app, pilot, "space", "enter")
        ((_, made),) = asked.did
        assert (made["name"], made["preset"], made["models"]) == ("ollama-2", "ollama", [{"name": "qwen3:8b"}])
        assert words(app)[0].startswith("made ollama-2;")


async def test_one_that_fails_stops_no_other() -> None:
    class Picky(Owner):
        async def add_channel(self, discovered_body: Any) -> ChannelView:
            if discovered_body["name"] == "ollama-2":
                raise BadRequest("it does not answer")
            return await super().add_channel(discovered_body)

    picky = Picky()
    picky.offered = [LOCAL, VENDOR]
    async with shown("channels", picky) as (app, pilot, _):
        await press(app, pilot, "a", "a", "enter")
        assert [told.split(";")[0] for told in words(app)] == ["made groq", "ollama: it does not answer"]


async def test_nothing_found_says_so() -> None:
    async with shown("channels") as (app, pilot, asked):
        await press(app, pilot, "a")
        assert words(app)[0].startswith("nothing new")
        assert asked.did == []
