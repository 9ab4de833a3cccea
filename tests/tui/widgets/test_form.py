from typing import Any

from msgspec.structs import replace
from textual.widgets import Input, Static

from gateway.domain.errors import BadRequest, Unavailable
from gateway.domain.human_values import count_of
from tests.tui.widgets.stage import WidgetStage
from tui.widgets.dialogs import BACK
from tui.widgets.form import Field, Form, FormPlan, Values, required


def plan(saved: list[Values], **changes: Any) -> FormPlan:
    async def save(values: Values) -> str:
        if values["name"] == "taken":
            raise BadRequest("the name is taken", param="name")
        if values["name"] == "down":
            raise Unavailable("the server is gone")
        saved.append(values)
        return "made"

    fields = [
        Field(id="name", label="Name", hint="laptop", parse=required),
        Field(id="limit", label="Calls a minute", value="60", parse=count_of),
        Field(id="state", label="State", value="on", options=("on", "off")),
        Field(id="key", label="Key", secret=True),
    ]
    return FormPlan(
        title="New [b]thing[/]",
        fields=fields,
        save=save,
        command=lambda values: f"thing add {values['name']} --limit {values['limit']} --key {values['key']}",
        live=lambda values: f"{values['limit']} calls for {values['name']}",
        **changes,
    )


def said(app: WidgetStage, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


async def test_what_is_typed_is_parsed_and_saved() -> None:
    saved: list[Values] = []
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan(saved)))
        await pilot.pause()
        await pilot.press(*"box", "tab", "end", "k", "tab", "right", "tab", *"sk-1", "enter")
        await pilot.pause()
        assert saved == [{"name": "box", "limit": 60_000, "state": "off", "key": "sk-1"}]
        assert app.answers == ["made"]


async def test_a_field_says_what_is_wrong_while_one_types() -> None:
    saved: list[Values] = []
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan(saved)))
        await pilot.pause()
        assert said(app, "#wrong-name") == "required"
        await pilot.press("x", "tab", "end", "z")
        assert said(app, "#wrong-name") == ""
        assert "is not a whole number" in said(app, "#wrong-limit")
        await pilot.press("enter")
        await pilot.pause()
        assert saved == []


async def test_the_sentence_and_the_command_change_with_what_is_typed() -> None:
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan([])))
        await pilot.pause()
        await pilot.press(*"box", "tab", "tab", "tab", "x")
        assert said(app, ".live") == "60 calls for box"
        assert said(app, ".command") == "$ tollkeeper thing add box --limit 60 --key ..."


async def test_a_refusal_is_shown_at_its_field() -> None:
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan([])))
        await pilot.pause()
        await pilot.press(*"taken", "tab", "enter")
        await pilot.pause()
        await pilot.pause()
        assert said(app, "#wrong-name") == "the name is taken"
        assert app.focused is not None
        assert app.focused.id == "field-name"
        assert app.answers == []


async def test_another_refusal_is_shown_below_and_one_may_try_again() -> None:
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan([])))
        await pilot.pause()
        await pilot.press(*"down", "enter")
        await pilot.pause()
        await pilot.pause()
        assert said(app, ".live") == "the server is gone"
        await pilot.press("x", "enter")
        await pilot.pause()
        assert app.answers == ["made"]


async def test_the_command_can_be_copied_and_holds_no_secret() -> None:
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan([])))
        await pilot.pause()
        await pilot.press(*"box", "tab", "tab", "tab", *"sk-1")
        await pilot.click("#copy")
        await pilot.pause()
        assert app.clipboard == "tollkeeper thing add box --limit 60 --key ..."


async def test_it_can_be_left() -> None:
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(plan([])))
        await pilot.pause()
        await pilot.press("x", "escape")
        await pilot.pause()
        assert app.answers == [None]


async def test_the_first_field_that_is_wrong_is_gone_to() -> None:
    app = WidgetStage()
    fields = [Field(id="a", label="A"), Field(id="b", label="B", parse=required), Field(id="c", label="C")]
    async with app.run_test() as pilot:
        app.ask(Form(FormPlan(title="T", fields=fields, save=nothing)))
        await pilot.pause()
        await pilot.press("enter")
        assert app.screen.query_one("#field-b").has_focus


async def test_back_is_there_only_where_a_step_is_before() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Form(FormPlan(title="T", fields=[Field(id="a", label="A")], save=nothing)))
        await pilot.pause()
        await pilot.press("pageup", "escape")
        app.ask(Form(FormPlan(title="T", fields=[Field(id="a", label="A")], save=nothing, back=True)))
        await pilot.pause()
        await pilot.press("pageup")
        assert app.answers == [None, BACK]


async def test_down_goes_to_the_next_field_also_where_they_do_not_all_fit() -> None:
    app = WidgetStage()
    fields = [Field(id=f"f{number}", label=f"F{number}") for number in range(40)]
    async with app.run_test(size=(80, 24)) as pilot:
        app.ask(Form(FormPlan(title="T", fields=fields, save=nothing)))
        await pilot.pause()
        await pilot.press("down", "down", "up")
        assert app.screen.query_one("#field-f1").has_focus


async def nothing(_values: Values) -> None:
    raise AssertionError("it was saved")


async def test_what_is_left_as_it_is_is_saved_as_it_was_also_where_it_cannot_be_shown() -> None:
    saved: list[Values] = []
    made = plan(saved)
    heart = "a\N{BLACK HEART SUIT}\N{VARIATION SELECTOR-16}b"
    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(replace(made, fields=[replace(made.fields[0], value=heart), *made.fields[1:]])))
        await pilot.pause()
        assert app.screen.query_one("#field-name", Input).value == "a\N{BLACK HEART SUIT}b"
        await pilot.press("enter")
        await pilot.pause()
        assert saved[0]["name"] == heart


async def test_what_no_command_can_say_has_none() -> None:
    def fail(_values: Values) -> str:
        raise BadRequest("no option takes this")

    app = WidgetStage()
    async with app.run_test(size=(100, 30)) as pilot:
        app.ask(Form(replace(plan([]), command=fail)))
        await pilot.pause()
        assert said(app, ".command") == ""
        assert not app.screen.query_one("#copy").display
