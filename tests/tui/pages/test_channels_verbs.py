import msgspec
import pytest

from gateway.domain.errors import BadRequest, UpstreamError
from gateway.domain.upstream_views import ListingView
from tests.tui.owner import Owner, listed, listing, press, said, screen, shown
from tests.tui.stage import words
from tui.widgets.choices import MultiSelect


async def test_a_channel_is_made_of_an_address_and_a_key() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "n", "=mine", "down", "down", "down", "=https://host/v1/", "down", "=sk-secret-1")
        assert "sk-secret-1" not in screen(app)
        assert said(app, ".twin") == "$ tollkeeper channel add mine --base-url https://host/v1/ --key -"
        await press(app, pilot, "enter")
        ((verb, body),) = owner.did
        assert (verb, body["name"], body["dialect"], body["base_url"]) == (
            "add_channel",
            "mine",
            "openai",
            "https://host/v1",
        )
        assert (body["key"], "models" in body) == ("sk-secret-1", False)
        assert words(app) == ["channel mine was made with 2 models; t tests it, u takes it back"]


async def test_an_address_is_needed() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "n", "=mine", "enter")
        assert said(app, "#wrong-base_url").startswith("a base URL is needed")
        assert owner.did == []


async def test_what_the_upstream_refuses_stands_at_the_models() -> None:
    owner = Owner()
    owner.refuses = BadRequest("channel 'mine' gave no list of its models", param="models")
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "n", "=mine", "down", "down", "down", "=https://host/v1", "enter")
        assert said(app, "#wrong-models") == "channel 'mine' gave no list of its models"


async def test_an_edit_without_a_key_keeps_it() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "e", "end", "=2", "enter")
        ((verb, ref, patch),) = owner.did
        assert (verb, ref, patch["name"], "key" in patch) == ("edit_channel", "ch_anthropic", "anthropic2", False)
        assert [model["name"] for model in patch["models"]] == ["claude-sonnet-4-5", "claude-haiku-4-5"]


async def test_one_key_clears() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "j", "z")
        assert owner.did == [("clear_channel", "ch_deepseek")]
        assert words(app) == ["deepseek takes calls again"]


async def test_priorities_go_up_and_down() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "K", "J")
        assert [one[2] for one in owner.did] == [{"priority": 2}, {"priority": 0}]


async def test_a_test_without_a_call_is_the_default() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "t", "enter")
        assert owner.did == [("test_channel", "ch_anthropic", "")]
        assert words(app) == ["anthropic is fine, 0.41s:\nit lists 2 models"]


async def test_a_test_with_a_call_that_fails_is_said_loudly() -> None:
    owner = Owner()
    owner.check = msgspec.structs.replace(owner.check, ok=False, text="401: the key is refused")
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "t", "right", "enter")
        assert owner.did == [("test_channel", "ch_anthropic", "claude-sonnet-4-5")]
        assert words(app) == ["anthropic FAILED its test, 0.41s:\n401: the key is refused"]


async def test_the_list_of_models_is_shown_as_a_difference() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "L")
        assert isinstance(app.screen, MultiSelect)
        assert "1 new, 1 gone, 1 offered" in screen(app)
        await press(app, pilot, "space", "j", "space", "enter")
        _, (verb, ref, patch) = owner.did
        assert (verb, ref) == ("edit_channel", "ch_anthropic")
        assert [model["name"] for model in patch["models"]] == ["claude-sonnet-4-5", "claude-opus-5"]


async def test_taking_nothing_changes_nothing() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "L", "enter")
        assert words(app) == ["nothing was changed"]
        assert len(owner.did) == 1


async def test_an_upstream_that_does_not_answer_is_told() -> None:
    owner = Owner()

    async def refresh(ref: str) -> ListingView:
        raise UpstreamError("the upstream cannot be reached")

    owner.refresh_channel = refresh  # type: ignore[method-assign]
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "L")
        assert words(app) == ["the upstream cannot be reached"]


async def test_deleting_names_what_nobody_else_serves() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "d")
        assert "Nobody else serves claude-haiku-4-5, claude-sonnet-4-5." in screen(app)
        await press(app, pilot, "y")
        assert owner.did == [("remove_channel", "ch_anthropic")]


async def test_space_switches_it() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "G", "space")
        assert owner.did == [("edit_channel", "ch_openrouter", {"enabled": True})]


async def test_a_list_that_is_not_to_be_had_is_told() -> None:
    owner = Owner()
    owner.listing = listing(error="connection refused", stale=True)
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "L")
        assert words(app) == ["anthropic gave no list: connection refused"]


async def test_the_last_good_list_says_that_it_is_one() -> None:
    owner = Owner()
    owner.listing = listing(listed("claude-sonnet-4-5"), error="connection refused", stale=True)
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "L")
        assert "This is its last good list: connection refused" in screen(app)


async def test_a_preset_needs_no_address() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "n", "=mine", "down", "down", "=groq")
        assert said(app, ".live").startswith("groq speaks openai at https://api.groq.com/openai/v1; its key is usually")
        assert said(app, ".twin") == "$ tollkeeper channel add mine --preset groq"
        await press(app, pilot, "enter")
        ((_, body),) = owner.did
        assert (body["preset"], "base_url" in body, "dialect" in body) == ("groq", False, False)


@pytest.mark.parametrize("key", ["e", "D", "space", "d", "t", "L", "z", "K"])
async def test_without_a_channel_there_is_nothing_to_do(key: str) -> None:
    owner = Owner()
    owner.channels_now = []
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, key)
        assert words(app) == ["there is no channel here; n makes one"]
