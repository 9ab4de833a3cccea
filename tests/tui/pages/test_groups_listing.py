from gateway.domain.views import GroupView
from tests.tui.stage import FakeClient, console, group
from tui.pages.groups import GroupListing


def listing(*groups: GroupView) -> GroupListing:
    session = console().session
    client = FakeClient()
    client.groups_now = list(groups)
    session.board.apply(client.snapshot())
    return GroupListing(session)


def test_a_route_marks_what_does_not_answer() -> None:
    made = listing(group("g", channels=["deepseek", "openrouter", "google"]), group("h", channels=[]))
    route = next(column for column in made.columns() if column.id == "route")
    assert [route.text(row) for row in made.rows()] == ["deepseek ▲ → openrouter ○ → google", "no channel"]
    assert route.tone is not None
    assert [route.tone(row) for row in made.rows()] == ["", "warn"]


def test_a_group_without_anything_says_what_to_do() -> None:
    made = listing(group("g", channels=[], tokens=[], sees=[], budgets=[], models=["x-*"], note="for friends"))
    text = made.detail(made.rows()[0], 100).plain
    assert "none: name this group in a channel (4, e)" in text
    assert "shows x-*; none: its tokens see nothing" in text
    assert "for friends" in text


def test_the_command_shows_the_group() -> None:
    made = listing(group("g"))
    assert made.twin(made.rows()[0]) == "tollkeeper group show g"
    assert "n makes one" in made.empty().plain
