from gateway.domain.views import GroupView
from tests.tui.owner import listing_of, press, shown, text_of, typed_form
from tests.tui.stage import group
from tui.pages.groups import GroupForm, GroupsPage


def listing(*groups: GroupView) -> GroupsPage:
    return listing_of(GroupsPage, groups=groups)


def test_a_route_marks_what_does_not_answer() -> None:
    made = listing(group("g", channels=["deepseek", "openrouter", "google"]), group("h", channels=[]))
    route = next(column for column in made.all_columns() if column.id == "route")
    assert [route.text(row) for row in made.rows()] == ["deepseek ▲ → openrouter ○ → google", "no channel"]
    assert route.tone is not None
    assert [route.tone(row) for row in made.rows()] == ["", "warn"]


def test_a_group_without_anything_says_what_to_do() -> None:
    made = listing(group("g", channels=[], tokens=[], sees=[], budgets=[], models=["x-*"], note="for friends"))
    text = made.detail(made.rows()[0], 100).plain
    assert "no channel lists this group; add it on page 4 (e)" in text
    assert "shows x-*; none: its tokens see no models" in text
    assert "for friends" in text.replace("\n        ", "")


def test_the_command_shows_the_group() -> None:
    made = listing(group("g\u2764\ufe0f"))
    assert made.command(made.rows()[0]) == "tollkeeper group show 'g\u2764\ufe0f'"
    assert "n creates one" in made.empty().plain


async def test_an_edit_may_rename_and_says_what_will_be_seen() -> None:
    async with shown("groups") as (app, pilot, owner):
        await press(app, pilot, "e", "end", "=2", "down", "down", "=claude-*")
        assert text_of(app, ".preview") == "its tokens see 2 of the 4 models that its channels offer"
        assert text_of(app, ".command") == "$ tollkeeper group edit batch --rename batch2 --models 'claude-*'"
        await press(app, pilot, "enter")
        ((verb, name, patch),) = owner.did
        assert (verb, name, patch["name"], patch["models"]) == ("edit_group", "batch", "batch2", ["claude-*"])


def test_a_copy_has_all_but_the_name() -> None:
    body, _ = typed_form(GroupForm, group("x", sticky=True, budgets=()), copy=True)
    assert (body["name"], body["sticky"]) == ("x-2", True)
