import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest, Unavailable
from gateway.domain.units import Nanos
from gateway.domain.views import ChannelView, Offer
from tests.tui.owner import KEY, Owner, preset, press, price_of, public, screen, see, settle, shown, text_of, until
from tests.tui.stage import DOLLAR, channel, console, model, token, words
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.pages.live import LivePage
from tui.widgets.connect import Connect
from tui.widgets.form import Form, FormRow, Values
from tui.wizard import ADDRESS, Body, _name_of as name_of, balance_plan, channel_plan, is_fresh, model_options


async def test_a_known_vendor_needs_no_address() -> None:
    asked: list[Body | None] = []

    async def choose(_values: Values, body: Body | None) -> ChannelView:
        asked.append(body)
        return channel("made")

    groq = preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    plan = channel_plan([], choose, [groq])
    typed = {"source": ADDRESS, "base_url": "groq", "key": "sk-1", "name": ""}
    assert plan.command(typed) == "channel add groq --preset groq --key -"
    assert (
        plan.preview(typed)
        == "groq: dialect openai, at https://api.groq.com/openai/v1; its key is usually env:GROQ_API_KEY"
    )
    await plan.save({field.id: field.parse(typed[field.id]) for field in plan.fields})
    assert asked == [{"name": "groq", "preset": "groq", "key": "sk-1"}]
    with pytest.raises(BadRequest):  # then the form shows no command
        plan.command(typed | {"base_url": "http://["})


def test_names_lengths_and_prices_of_models_are_columns() -> None:
    made = msgspec.structs.replace(
        channel("made"),
        models=(
            ServedModel(name="claude-sonnet-4-5", context=200_000),
            ServedModel(name="gpt-5-mini"),
            ServedModel(name="\u65e5\u672c", context=8_192),
        ),
    )
    session = console().session
    session.board.models = [model("claude-sonnet-4-5"), model("gpt-5-mini")]
    assert [text for _, text in model_options(session, made)] == [
        "claude-sonnet-4-5   200k tokens       3 / 15",
        "gpt-5-mini                         0.25 / 2",
        "\u65e5\u672c                8.19k tokens   no price yet",
    ]


def test_a_balance_that_stays_as_it_is_needs_no_grant() -> None:
    plan = balance_plan(console().session, Nanos(10_000_000_000))
    assert plan.command({"balance": "10"}) == "account show"
    assert plan.command({"balance": "12.50"}) == "account grant 2.50"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1"),
        ("http://box/v1", "box"),
        ("http://[::1]:80/v1", "::1"),
    ],
)
def test_a_channel_is_named_after_its_host(url: str, name: str) -> None:
    assert name_of(url) == name


async def step(app: Console, pilot: Pilot[ExitStatus], number: int, *keys: str) -> None:
    """Press keys that lead to this step."""
    await see(app, pilot, f"First steps, {number} of 4", *keys)


def fresh() -> Owner:
    """A home in which nothing was done yet."""
    demo = channel("demo", dialect="mock", models=[ServedModel(name="claude-sonnet-4-5")])
    return Owner(0, channels_now=[demo], tokens_now=[token("first", last_used_ms=None)], now_running=[])


async def test_it_comes_by_itself_in_a_fresh_home_and_only_once() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        assert "First steps, 1 of 4" in screen(app)
        await press(app, pilot, "escape")
        assert words(app)[0].startswith("Continue any time")
        owner.end()
        await settle(app, pilot)
        assert not isinstance(app.screen, Form)
        assert app.session.state.view("wizard").choices == {"seen": "yes"}


async def test_it_does_not_come_where_work_is_done() -> None:
    async with shown("live") as (app, _, _):
        assert not isinstance(app.screen, Form)
        assert not is_fresh(app.session.board)


async def test_the_demo_leads_to_a_call_with_its_receipt_in_four_steps() -> None:
    owner = fresh()
    async with public(owner), shown("live", owner) as (app, pilot, _):
        owner.records = Owner().records
        await step(app, pilot, 2, "=25", "enter")
        assert text_of(app, ".command") == "$ tollkeeper channel show demo"
        await step(app, pilot, 3, "enter")
        await step(app, pilot, 4, "enter")
        await see(app, pilot, owner.records[0].id, "enter")
        assert isinstance(app.screen, Connect)
        assert KEY in screen(app)
        assert owner.did == [("grant", 13 * DOLLAR, "first steps"), ("add_token", {"name": "laptop"})]
        await press(app, pilot, "escape")
        assert isinstance(app.page, LivePage)
        assert words(app)[-1] == "All set. Calls will appear here."


async def test_an_address_makes_a_channel_and_its_models_are_chosen() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        await step(app, pilot, 2, "enter")
        await press(app, pilot, "right", "enter")
        assert text_of(app, "#wrong-base_url").startswith("an address is required")
        await press(app, pilot, "=https://api.acme.com/v1", "down", "=sk-1")
        assert text_of(app, ".command") == "$ tollkeeper channel add acme --base-url https://api.acme.com/v1 --key -"
        await step(app, pilot, 3, "enter")
        assert "model-a   no price yet" in screen(app)
        await press(app, pilot, "space", "enter")
        made = {"name": "acme", "dialect": "openai", "base_url": "https://api.acme.com/v1", "key": "sk-1"}
        assert owner.did == [
            ("add_channel", made),
            ("edit_channel", "ch_acme", {"models": [{"name": "model-b"}], "patterns": []}),
        ]


async def test_known_prices_are_shown_beside_the_models_to_choose_from() -> None:
    owner, price = fresh(), price_of("claude-sonnet-4-5")
    owner.new_prices = (msgspec.structs.replace(price, model="model-a", source="genai-prices 0.2.3"),)
    async with shown("live", owner) as (app, pilot, _):
        await step(app, pilot, 2, "enter")
        await step(app, pilot, 3, "right", "down", "=https://api.acme.com/v1", "enter")
        assert "Prices from genai-prices 0.2.3: model-a $3 / $15. Page 5 changes them." in screen(app)
        assert "model-a   3 / 15" in screen(app)
        assert "model-b   no price yet" in screen(app)


async def test_what_is_found_on_this_machine_comes_first() -> None:
    owner = fresh()
    local, key = "http://127.0.0.1:11434/v1", "env:OPENAI_API_KEY"
    served = [ServedModel(name="qwen3:8b")]
    owner.offered = [
        Offer(name="ollama", dialect="openai", preset="ollama", base_url=local, key="", models=served),
        Offer(
            name="openai", dialect="openai", preset="openai", base_url="https://api.openai.com/v1", key=key, models=[]
        ),
    ]
    async with shown("live", owner) as (app, pilot, _):
        await see(app, pilot, "< ollama on this machine, 1 model >", "enter")
        await press(app, pilot, "right")
        assert text_of(app, ".preview") == (
            "openai at https://api.openai.com/v1: its key stays in the environment, as env:OPENAI_API_KEY"
        )
        await step(app, pilot, 3, "left", "enter")
        ((verb, body),) = owner.did
        assert (verb, body["name"], body["preset"], body["models"]) == (
            "add_channel",
            "ollama",
            "ollama",
            [{"name": "qwen3:8b"}],
        )


async def test_the_same_answer_makes_no_second_channel_and_another_one_takes_its_place() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        await step(app, pilot, 2, "enter")
        await step(app, pilot, 3, "right", "tab", "=https://api.acme.com/v1", "enter")
        await step(app, pilot, 2, "b")
        assert "https://api.acme.com/v1" in screen(app)
        await step(app, pilot, 3, "enter")
        assert [did[0] for did in owner.did] == ["add_channel"]
        await step(app, pilot, 2, "b")
        await step(app, pilot, 3, "left", "enter")
        assert [did[:2] for did in owner.did][1:] == [("remove_channel", "ch_acme")]


async def test_back_keeps_what_was_typed_in_every_step() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        await step(app, pilot, 2, "enter")
        await step(app, pilot, 1, "right", "tab", "=https://api.acme.com/v1", "down", "=sk-1", "pageup")
        await step(app, pilot, 2, "enter")
        assert "https://api.acme.com/v1" in screen(app)
        await step(app, pilot, 3, "enter")
        await step(app, pilot, 2, "space", "b")
        await step(app, pilot, 3, "enter")
        assert "[ ] model-a" in screen(app)
        await step(app, pilot, 4, "enter")
        await step(app, pilot, 3, "=notebook", "pageup")
        assert "[ ] model-a" in screen(app)
        await step(app, pilot, 4, "enter")
        assert "notebook" in screen(app)
        assert owner.did[0][1]["key"] == "sk-1"
        assert [did[0] for did in owner.did].count("add_channel") == 1


async def test_back_from_the_channel_is_the_balance_and_there_is_nothing_before_it() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        await step(app, pilot, 2, "=20", "enter")
        await step(app, pilot, 1, "pageup")
        await step(app, pilot, 2, "pageup", "enter")
        assert owner.did == [("grant", 8 * DOLLAR, "first steps")]


async def test_without_a_search_of_this_machine_the_steps_go_on() -> None:
    async def fail() -> list[Offer]:
        raise Unavailable("the server is busy", code="busy")

    async with shown("live", owner := fresh()) as (app, pilot, _):
        owner.offers = fail
        await step(app, pilot, 2, "enter")
        assert words(app) == []


async def test_the_demo_asks_for_no_address_key_or_name() -> None:
    async with shown("live", fresh()) as (app, pilot, _):
        await step(app, pilot, 2, "enter")
        rows = {row.field.id: row for row in app.screen.query(FormRow)}
        assert [id_ for id_, row in rows.items() if row.display] == ["source"]
        await press(app, pilot, "right")
        assert [id_ for id_, row in rows.items() if row.display] == ["source", "base_url", "key", "name"]


async def test_vendors_are_listed_where_the_address_is_typed() -> None:
    async with shown("live", fresh()) as (app, pilot, owner):
        await step(app, pilot, 2, "enter")
        await see(app, pilot, "https://api.groq.com/openai/v1", "right", "tab")
        await step(app, pilot, 3, "g", "down", "enter", "enter")
        ((_, body),) = owner.did
        assert body == {"name": "groq", "preset": "groq"}


async def test_a_part_of_a_vendor_stands_for_it_and_an_address_for_itself() -> None:
    async with shown("live", fresh()) as (app, pilot, _):
        await step(app, pilot, 2, "enter")
        await press(app, pilot, "right", "tab", "=gro", "enter")
        address = app.screen.query_one("#field-base_url", Input)
        assert address.value == "groq"
        address.value = ""
        await press(app, pilot, "=https://api.groq.com", "tab")
        assert address.value == "https://api.groq.com"


async def test_a_first_call_that_failed_is_not_all_set() -> None:
    owner = fresh()
    async with public(owner, 503), shown("live", owner) as (app, pilot, _):
        for step in (1, 2, 3, 4):
            await until(app, pilot, f"First steps, {step} of 4")
            owner.records = Owner().records
            await press(app, pilot, "enter")
        await until(app, pilot, "the test call failed")
        await press(app, pilot, "escape")
        assert not any("All set" in text for text in words(app))
        assert any("the test call failed" in text for text in words(app))
