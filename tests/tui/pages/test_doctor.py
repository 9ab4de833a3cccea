import asyncio
from collections.abc import AsyncIterator

import pytest
from textual.content import Content

from gateway.client.doctor import Case
from gateway.domain.views import Status, Step
from tests.tui.owner import Owner, press, public, refused, screen, see, settle, shown
from tests.tui.stage import wait_until, words
from tui.pages import doctor


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor looks at the real environment, too."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_on_a_narrow_screen_the_introduction_goes_on_below_its_beginning() -> None:
    async with shown("doctor", size=(60, 24)) as (app, _, _):
        lines = screen(app).splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(" Finds the first thing"))
        assert lines[first + 1].startswith(" says how to fix it.")


WORKS = refused(works=True, status=200, code="", message="it would be sent", fix="", retry_after_s=None)
FULL_DISK = [Step(name="the disk", result="fail", text="0.1 GB are free", fix="make room")]


async def test_it_asks_step_by_step_to_the_end() -> None:
    owner = Owner(answer=WORKS)
    async with public(owner) as asked, shown("doctor", owner, size=(100, 45)) as (app, pilot, _):
        await see(app, pilot, "all checks passed: calls work", "tab", "=editor", "enter", "enter")
        assert "✓ token 'editor' is accepted; it sees 2 models" in screen(app)
        assert asked[0] == "/v1/health "
        assert asked[-1] == "/v1/chat/completions Bearer sk-tk-pass"
        assert "✓ 9.0 GB are free" in screen(app)


async def test_the_rounds_follow_and_what_they_find_needs_a_fix() -> None:
    owner = Owner(machine_now=FULL_DISK)
    async with public(owner), shown("doctor", owner, size=(100, 45)) as (app, pilot, _):
        await see(app, pilot, "fix this, then press enter to check again", "enter")
        text = screen(app)
        assert [told for told in ("the disk", "→ make room", "channel ") if told not in text] == []


async def test_about_one_call_the_rest_is_reported_as_another_matter() -> None:
    owner = Owner(answer=WORKS, machine_now=FULL_DISK)
    async with public(owner), shown("doctor", owner, size=(100, 45)) as (app, pilot, _):
        await see(app, pilot, "calls work; ▲ is a separate problem", "tab", "=editor", "enter", "enter")
        assert "▲ 0.1 GB are free" in screen(app)
        assert "→ make room" in screen(app)


async def test_the_first_bad_answer_says_what_to_do_and_ends_it() -> None:
    async with public(owner := Owner(), 503), shown("doctor", owner) as (app, pilot, _):
        await see(app, pilot, "fix this, then press enter to check again", "enter")
        assert "skipped; fix the failure above first" in screen(app)


async def test_letters_typed_into_a_field_search_and_after_esc_they_are_keys() -> None:
    async with shown("doctor") as (app, pilot, _):
        await see(app, pilot, "--token laptop", "tab", *"laptop")
        await press(app, pilot, "escape", "escape", "2")
        assert app.page.id == "tokens"


async def test_after_enter_ran_the_checks_the_next_name_is_typed_over_it() -> None:
    """A letter that was a key would do something else: u would undo the last change."""
    async with public(owner := Owner()), shown("doctor", owner) as (app, pilot, _):
        await press(app, pilot, "tab", *"lapt", "enter", "enter")
        await see(app, pilot, " token     editor\n", *"edu", "backspace", "enter", "enter")
        assert {did[0] for did in owner.did} == {"token_pass"}
        await press(app, pilot, "escape", "2")
        assert app.page.id == "tokens"


async def test_checks_end_when_what_they_are_about_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def slow(case: Case, **_more: object) -> AsyncIterator[Step]:
        try:
            await asyncio.sleep(60)
            yield Step(name="the gateway answers", result="ok", text="late")
        finally:
            ended.append(case.token_ref)

    monkeypatch.setattr(doctor, "examine", slow)
    async with shown("doctor") as (app, pilot, _):
        await see(app, pilot, "checking ...", "tab", "=editor", "enter", "enter")
        await press(app, pilot, "tab", "=laptop")
        await settle(app, pilot)
        assert "checking ..." not in screen(app)
        assert "enter runs the checks" in screen(app)
        assert ended == ["editor"]


async def test_what_was_chosen_stays_when_the_tables_change() -> None:
    async with shown("doctor") as (app, pilot, owner):
        await press(app, pilot, "tab", "=editor", "enter")
        owner.tokens_now = [one for one in owner.tokens_now if one.name != "ci"]
        owner.changed()
        await settle(app, pilot)
        assert "--token editor" in screen(app)
        owner.tokens_now = []
        owner.changed()
        await settle(app, pilot)
        assert "--token" not in screen(app)


async def test_without_a_server_it_says_so() -> None:
    async with shown("doctor") as (app, pilot, _):
        app.session.mark_server_gone("it stopped")
        await press(app, pilot, "enter")
        assert words(app) == ["The server is not running. Press r to start it."]


class Hanging(Owner):
    async def status(self) -> Status:
        await asyncio.Event().wait()
        raise AssertionError


async def test_leaving_while_the_checks_run_ends_without_an_error() -> None:
    async with shown("doctor", Hanging()) as (app, pilot, _):
        await pilot.press("enter")
        await pilot.pause()
        await app.page.remove()
        await pilot.pause()
        assert app.crash is None


async def test_thousands_of_channels_are_checked_without_drawing_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = []

    async def examine(*_: object, **__: object) -> AsyncIterator[Step]:
        for number in range(2007):
            result = "fail" if number == 5 else "ok"
            yield Step(name=f"channel c{number}", result=result, text=f"it is {result}", fix="")

    def draw(page: doctor.DoctorPage, width: int) -> Content:
        drawn.append(width)
        return report(page, width)

    report = doctor.DoctorPage.report
    monkeypatch.setattr(doctor.DoctorPage, "report", draw)
    monkeypatch.setattr(doctor, "examine", examine)
    async with shown("doctor", size=(100, 90)) as (app, pilot, _):
        await see(app, pilot, "it is fail", "enter")
        await wait_until(pilot, lambda: "fix this" in str(app.page.report(100)))
        assert len(drawn) < 90
