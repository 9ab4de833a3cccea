"""What the keys of the page Channels do: adding, editing, keys, lists of models, tests and removal.

Long: all verbs of one page share its screens.
"""

from typing import Any

import msgspec
import pytest
from textual.widgets import Input, Static

from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.units import Millis, local_datetime
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.views import KeyView, Offer
from tests.tui.owner import Owner, listed, listing, press, price_of, screen, see, shown, text_of
from tests.tui.stage import NOW, channel, words
from tui.app import Console
from tui.pages.channel_actions import offer_text
from tui.pages.channel_form import KEEP, REMOVE, RESUME, keys_command
from tui.widgets.choices import MultiSelect
from tui.widgets.form import FormRow


async def test_a_channel_is_made_of_an_address_and_a_key() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "n", "=mine", "down", "down", "down", "=https://host/v1/", "down", "=sk-secret-1")
        assert "sk-secret-1" not in screen(app)
        assert text_of(app, ".command") == "$ tollkeeper channel add mine --key - --base-url https://host/v1"
        await press(app, pilot, "enter")
        ((verb, body),) = owner.did
        assert (verb, body["name"], body["dialect"]) == ("add_channel", "mine", "openai")
        assert (body["base_url"], body["key"], "models" in body) == ("https://host/v1", "sk-secret-1", False)
        assert words(app) == ["Channel mine created with 2 models. Press t to test it, u to undo."]


@pytest.mark.parametrize(("refused", "effect"), [(False, "counted, not charged"), (True, "calls are refused")])
async def test_a_new_channel_says_which_prices_it_brought(refused: bool, effect: str) -> None:
    price = msgspec.structs.replace(price_of("claude-sonnet-4-5"), model="model-a", source="genai-prices 0.2.3")
    owner = Owner(refuses_unpriced=refused, new_prices=(price,), unpriced=("model-b",))
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "n", "=mine", "down", "down", "down", "=https://host/v1/", "enter")
        (news,) = words(app)
        assert "Prices from genai-prices 0.2.3: model-a $3 / $15. Page 5 changes them." in news
        assert f"1 model has no price: {effect}. Page 5 sets prices." in news


@pytest.mark.parametrize(
    ("param", "field"),
    [("base_url", "base_url"), ("key", "key"), ("keys", "key"), ("patterns", "models"), ("models", "models")],
)
async def test_the_focus_goes_to_the_field_at_fault(param: str, field: str) -> None:
    async with shown("channels", refuses=BadRequest("this is wrong", param=param)) as (app, pilot, _):
        await press(app, pilot, "n", "=mine", "down", "down", "down", "=https://host/v1", "enter")
        assert text_of(app, f"#wrong-{field}") == "this is wrong"
        assert app.screen.query_one(f"#field-{field}").has_focus


async def test_the_dialect_can_be_changed() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "e", "down", "down", "right")
        assert "--dialect" in text_of(app, ".command").replace("\n", " ")
        await press(app, pilot, "enter")
        ((_, _, patch),) = owner.did
        assert set(patch) == {"dialect"}


async def test_a_channel_that_is_used_again_as_its_key_was_entered_once_more_is_not_called_unchanged() -> None:
    class Saves(Owner):
        async def edit_channel(self, ref: str, patch: Any) -> SavedChannel:
            found = next(one for one in self.channels_now if one.id == ref)
            return msgspec.structs.replace(self.saved(found), unchanged=True, state="ok")

    async with shown("channels", Saves()) as (app, pilot, _):
        await press(app, pilot, "j", "e", "end", "=2", "enter")
        assert words(app) == ["Channel deepseek saved unchanged; it is in use again."]
        await press(app, pilot, "k", "e", "end", "=2", "enter")
        assert words(app)[-1] == "Nothing was changed."


async def test_marked_channels_are_resumed_together() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "g", "m", "m", "z")
        names = [one.id for one in sorted(owner.channels_now, key=lambda one: one.name)]
        assert [did[0] for did in owner.did] == ["clear_channel"] * 2
        assert {did[1] for did in owner.did} < set(names)
        assert words(app) == ["2 channels resumed."]
        await press(app, pilot, "z")
        assert len(owner.did) == 3


async def test_a_model_that_an_upstream_does_not_have_is_named_and_tried_again() -> None:
    owner = Owner(channels_now=[channel("anthropic", missing_models={"claude-sonnet-4-5": Millis(NOW + 600_000)})])
    async with shown("channels", owner, size=(140, 30)) as (app, pilot, _):
        missing = "the upstream does not have claude-sonnet-4-5; retry in 10m00s"
        assert missing in screen(app).splitlines()[2]
        await see(app, pilot, "10m00s, z tries again now", "enter")
        await press(app, pilot, "z")
        assert words(app) == ["Channel anthropic: the next call tries claude-sonnet-4-5 again."]
        await see(app, pilot, "anthropic (paused)", "5", "j", "enter")


async def test_the_list_of_models_is_shown_as_a_difference() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "L")
        assert isinstance(app.screen, MultiSelect)
        assert "1 new, 1 gone, 1 offered" in screen(app)
        await press(app, pilot, "space", "j", "space", "enter")
        _, (verb, ref, patch) = owner.did
        assert (verb, ref) == ("edit_channel", "ch_anthropic")
        assert [model["name"] for model in patch["models"]] == ["claude-sonnet-4-5", "claude-opus-5"]


async def test_what_changed_since_the_row_was_drawn_stays() -> None:
    """Another console adds models while the list is shown."""
    owner = Owner(listing=listing(listed("claude-sonnet-4-5"), listed("o3"), listed("late", served=False)))
    async with shown("channels", owner) as (app, pilot, _):
        await press(app, pilot, "L", "space")
        shown_one = owner.channels_now[0]
        models = [ServedModel(name=name) for name in ("claude-sonnet-4-5", "o3", "late")]
        owner.channels_now[0] = msgspec.structs.replace(shown_one, models=models)
        await press(app, pilot, "enter")
        (patch,) = [what[2] for what in owner.did if what[0] == "edit_channel"]
        assert [model["name"] for model in patch["models"]] == ["o3", "late"]


async def test_a_second_press_at_once_switches_back() -> None:
    async with shown("channels") as (app, pilot, owner):
        before = owner.channels_now[0].enabled
        first, *others = app.session.board.channels
        app.session.board.channels = [msgspec.structs.replace(first, enabled=not before), *others]  # not drawn yet
        await press(app, pilot, "space")
        assert owner.did == [("batch", "channels", {owner.channels_now[0].id: {"enabled": before}})]


async def test_a_preset_needs_no_address() -> None:
    async with shown("channels") as (app, pilot, owner):
        await press(app, pilot, "n", "=mine", "down", "=groq")
        assert text_of(app, ".preview").startswith(
            "groq: dialect openai, at https://api.groq.com/openai/v1; its key is usually"
        )
        assert text_of(app, ".command") == "$ tollkeeper channel add mine --preset groq"
        await press(app, pilot, "enter", "enter")
        ((_, body),) = owner.did
        assert (body["preset"], "base_url" in body, "dialect" in body) == ("groq", False, False)


FIRST = KeyView(number=1, key="…3kQA", state="ok", reason="", until_ms=None)
SECOND = KeyView(number=2, key="env:B", state="cooling", reason="429", until_ms=Millis(NOW + 30_000))


def owner(**second: Any) -> Owner:
    """A server whose first channel has two keys."""
    made = Owner()
    made.channels_now[0] = channel("anthropic", keys=[FIRST, msgspec.structs.replace(SECOND, **second)])
    return made


async def test_a_key_is_added_without_being_shown() -> None:
    async with shown("channels", owner()) as (app, pilot, asked):
        await press(app, pilot, "A", "=sk-new")
        assert "sk-new" not in screen(app)
        assert text_of(app, ".command") == "$ tollkeeper channel key add anthropic --key -"
        await press(app, pilot, "enter")
        assert asked.did == [("add_key", "ch_anthropic", "sk-new")]
        assert words(app) == ["anthropic: key added"]


async def test_without_a_server_no_form_is_opened_and_one_that_is_open_keeps_what_was_entered() -> None:
    made = owner()
    async with shown("channels", made) as (app, pilot, _):
        app.session.mark_server_gone("it stopped")
        for key in ("n", "e", "A"):
            await press(app, pilot, key)
            assert (key, words(app)) == (key, ["The server is not running. Press r to start it."])
            app.clear_notifications()
        app.session.attach(made)
        await press(app, pilot, "A", "=env:NEW")
        app.session.mark_server_gone("it stopped")
        await press(app, pilot, "enter")
        text = " ".join(screen(app).split())
        assert "What you entered stays here" in text
        assert "channel key add anthropic --key" in text


async def test_the_missing_variable_of_a_key_is_named_at_once() -> None:
    reason = "set NOPE_KEY where the server runs, then restart the server"
    made = owner(key="env:NOPE_KEY", state="unset", reason=reason, until_ms=None)
    async with shown("channels", made) as (app, pilot, _):
        await press(app, pilot, "A")
        assert str(app.screen.query_one(".note", Static).visual) == f"not set: {reason}"
        assert "resume" not in screen(app)
        await press(app, pilot, "=env:NOPE_KEY", "enter")
        assert words(app) == [f"anthropic: key added; {reason}"]


async def test_one_is_removed_and_one_is_tried_again() -> None:
    async with shown("channels", owner()) as (app, pilot, asked):
        await press(app, pilot, "A", "down", "right", "down", "right", "enter")
        assert asked.did == [("clear_key", "ch_anthropic", 2), ("remove_key", "ch_anthropic", 1)]
        assert words(app) == ["anthropic: key 2 resumed, key 1 removed"]


async def test_the_pane_tells_each_key_with_its_state() -> None:
    async with shown("channels", owner()) as (app, pilot, _):
        await see(app, pilot, "1 …3kQA   A edits them", "enter")
        assert "2 env:B   paused 30s: 429" in screen(app)


REJECTED = "the upstream refused the key of the channel (HTTP 401). Set a valid key for this channel."


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (140, 40)])
async def test_under_a_key_stands_why_it_is_not_in_use_and_until_when(size: tuple[int, int]) -> None:
    made = owner(state="attention", reason=REJECTED, until_ms=Millis(NOW + 600_000))
    async with shown("channels", made, size=size) as (app, pilot, _):
        await press(app, pilot, "A", "down", "down")
        note = app.screen.query_one(".note", Static)
        assert str(note.visual) == f"needs attention until {local_datetime(NOW + 600_000):%H:%M}: {REJECTED}"
        assert app.screen.query_one(".fields").region.contains_region(note.region)


def test_the_commands_do_the_same_in_the_same_order() -> None:
    values = {"key-1": REMOVE, "key-2": RESUME, "key": "env:C"}
    two = channel("anthropic", keys=[FIRST, SECOND])
    assert keys_command(two, values) == (
        "channel key add anthropic --key env:C; tollkeeper channel key resume anthropic 2; "
        "tollkeeper channel key remove anthropic 1"
    )
    assert keys_command(two, {"key-1": KEEP, "key-2": KEEP, "key": ""}) == ""


def offer(preset: str, base_url: str, key: str, *models: str) -> Offer:
    served = [ServedModel(name=name) for name in models]
    return Offer(name=preset, dialect="openai", preset=preset, base_url=base_url, key=key, models=served)


LOCAL = offer("ollama", "http://127.0.0.1:11434/v1", "", "qwen3:8b")
VENDOR = offer("groq", "https://api.groq.com/openai/v1", "env:G")


def test_a_name_that_is_taken_becomes_another_and_where_it_is_and_what_it_has_is_shown() -> None:
    assert LOCAL.channel_body({"ollama", "ollama-2"})["name"] == "ollama-3"
    assert "models" not in VENDOR.channel_body()
    assert [offer_text(one).split("   ")[-1] for one in (LOCAL, VENDOR)] == ["qwen3:8b", "with env:G"]


async def test_a_chosen_offer_becomes_a_channel() -> None:
    async with shown("channels", offered=[LOCAL, VENDOR]) as (app, pilot, asked):
        await see(app, pilot, "Local servers that answer", "a")
        await press(app, pilot, "space", "enter")
        ((_, made),) = asked.did
        assert (made["name"], made["preset"], made["models"]) == ("ollama-2", "ollama", [{"name": "qwen3:8b"}])
        assert words(app)[0].startswith("Created ollama-2.")


async def test_one_that_fails_stops_no_other() -> None:
    class Picky(Owner):
        async def add_channel(self, discovered_body: Any) -> SavedChannel:
            if discovered_body["name"] == "ollama-2":
                raise BadRequest("it does not answer")
            return await super().add_channel(discovered_body)

    async with shown("channels", Picky(offered=[LOCAL, VENDOR])) as (app, pilot, _):
        await press(app, pilot, "a", "a", "enter")
        assert [text.split(".")[0] for text in words(app)] == ["Created groq", "ollama: it does not answer"]


def rows_shown(app: Console) -> list[str]:
    """The fields that a form shows, the advanced ones aside."""
    return [row.field.id for row in app.screen.query(FormRow) if row.display and not row.field.advanced]


async def test_presets_are_listed_and_searched_in_the_form() -> None:
    async with shown("channels") as (app, pilot, _):
        await see(app, pilot, "http://127.0.0.1:11434/v1", "n", "=mine", "tab")
        assert "https://api.groq.com/openai/v1" in screen(app)
        await press(app, pilot, "l", "l")
        assert "https://api.groq.com/openai/v1" not in screen(app)
        await press(app, pilot, "enter")
        assert text_of(app, ".command") == "$ tollkeeper channel add mine --preset ollama"
        assert rows_shown(app) == ["name", "preset", "base_url", "key", "models", "groups"]


async def test_the_built_in_demo_has_no_address_and_no_key() -> None:
    async with shown("channels") as (app, pilot, _):
        await press(app, pilot, "n")
        assert rows_shown(app) == ["name", "preset", "dialect", "base_url", "key", "models", "groups"]
        app.screen.query_one("#field-dialect").focus()
        await press(app, pilot, "left")
        assert rows_shown(app) == ["name", "preset", "dialect", "models", "groups"]


async def test_groups_are_completed_one_by_one() -> None:
    async with shown("channels") as (app, pilot, _):
        await press(app, pilot, "n")
        line = app.screen.query_one("#field-groups", Input)
        line.focus()
        await see(app, pilot, "batch", "end", "=, ba")
        await press(app, pilot, "down", "enter")
        assert line.value == "default, batch"


async def test_each_press_raises_the_priority_even_before_the_list_shows_the_last_one() -> None:
    async with shown("channels") as (app, pilot, owner):
        first, *others = owner.channels_now
        owner.channels_now = [msgspec.structs.replace(first, priority=first.priority + 1), *others]  # not reported yet
        await press(app, pilot, "g", "K")
        assert owner.did == [("edit_channel", first.id, {"priority": first.priority + 2})]
