import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from textual.pilot import Pilot

from gateway.domain.views import TokenView
from tests.tui.owner import KEY, Owner, press, public, screen, see, settle, shown, text_of, until
from tests.tui.stage import call, words
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.widgets import connect
from tui.widgets.connect import APP_NAMES, KINDS, Connect, TokenTest, make_test_call


async def test_every_kind_has_its_text() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c")
        found = []
        for _ in KINDS:
            found.append(text_of(app, ".text"))
            await press(app, pilot, "tab")
        starts = ("export OPENAI_BASE_URL", "set -gx", "$env:", "from openai", "import OpenAI", "curl ", "export ANTHR")
        assert [text.startswith(start) for text, start in zip(found, starts, strict=True)] == [True] * 7
        assert text_of(app, ".text") == found[0]


@asynccontextmanager
async def card(
    *keys: str, client: Owner | None = None, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[Console, Pilot[ExitStatus], Owner]]:
    """The card of the first token and its new key, after some keys."""
    async with shown("tokens", client, size=size) as (app, pilot, owner):
        app.push_screen(Connect(app.session, owner.tokens_now[0], KEY))
        await press(app, pilot, *keys)
        yield app, pilot, owner


async def test_one_of_many_models_is_searched_for() -> None:
    owner = Owner()
    many = [f"vendor/model-{number}" for number in range(20)]
    owner.tokens_now[0] = msgspec.structs.replace(owner.tokens_now[0], sees=many)
    async with shown("tokens", owner) as (app, pilot, _):
        await press(app, pilot, "c", "m", "1", "7", "enter", "enter")
        assert "vendor/model-17" in text_of(app, ".chosen")
        assert "18 of 20, m searches" in text_of(app, ".chosen")
        await press(app, pilot, "m", "escape")
        assert "vendor/model-17" in text_of(app, ".chosen")


async def test_texts_and_the_key_are_copied() -> None:
    async with card("k") as (app, pilot, _):
        assert app.clipboard == KEY
        await press(app, pilot, "y")
        assert app.clipboard.startswith("export OPENAI_BASE_URL")
        assert words(app) == ["Key copied.", "Copied: Shell"]


async def test_a_test_call_that_fails_says_why_and_where_to_go_on() -> None:
    async with public(owner := Owner(), 503), shown("tokens", owner) as (app, pilot, _):
        await see(app, pilot, "the test call failed: no channel takes calls", "c", "t")
        assert "page 8, Doctor" in screen(app)


async def test_the_kinds_can_be_clicked() -> None:
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "c")
        await pilot.click(".chosen", offset=(12, 2))
        assert text_of(app, ".text").startswith("set -gx")


async def test_one_call_at_a_time() -> None:
    async with public(owner := Owner()) as asked, shown("tokens", owner) as (app, pilot, _):
        await app.push_screen(Connect(app.session, owner.tokens_now[0]))
        for _ in range(3):
            app.screen.query_one(TokenTest).call("gpt-5-mini")
        await until(app, pilot, owner.records[0].id)
        assert len(asked) == 1


async def test_the_card_can_be_closed_during_a_test_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, never = list[str](), asyncio.Event()

    async def unanswered(_: object, token: TokenView, *__: str) -> None:
        asked.append(token.name)
        await never.wait()

    monkeypatch.setattr(connect, "make_test_call", unanswered)
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "c", "t", "escape")
        assert asked == [owner.tokens_now[0].name]
        assert (app.is_running, isinstance(app.screen, Connect)) == (True, False)


async def test_without_a_server_nothing_is_tried_and_the_card_says_how_to_start_it() -> None:
    async with shown("tokens") as (app, pilot, _):
        app.session.mark_server_gone("it stopped")
        await press(app, pilot, "c", "t")
        assert text_of(app, ".result") == "the server is not running: close this, then r starts it"


@pytest.mark.parametrize(("known", "used"), [("sk-tk-known", "sk-tk-known"), ("", "sk-tk-pass")])
async def test_a_key_that_is_known_is_used_and_else_a_pass(known: str, used: str) -> None:
    async with public(owner := Owner()) as asked, shown("tokens", owner) as (app, _, _):
        call = await make_test_call(app.session, owner.tokens_now[0], "gpt-5-mini", known)
        assert call == owner.records[0]
        assert asked == [f"/v1/chat/completions Bearer {used}"]


async def test_each_app_has_its_parts_which_say_where_they_go() -> None:
    async with card("a") as (app, pilot, _):
        assert "Claude Code   part 1 of 2, n for the next: in the shell that starts it" in text_of(app, ".chosen")
        await press(app, pilot, "n")
        assert "~/.claude/settings.json" in text_of(app, ".chosen")
        await press(app, pilot, "a")
        assert text_of(app, ".text").startswith('model = "')
        assert "~/.codex/config.toml" in text_of(app, ".chosen")
        assert all(name in text_of(app, ".chosen") for name in APP_NAMES)
        await press(app, pilot, "A", "A")
        assert text_of(app, ".chosen").splitlines()[-1].startswith("curl")


async def test_each_app_begins_with_its_own_model_until_one_is_chosen() -> None:
    """That of ``env --for``: a vendor's own program with a model of that vendor."""
    owner = Owner(records=[])
    async with card("a", client=owner) as (app, pilot, _):
        await settle(app, pilot)
        assert "claude-sonnet-4-5" in text_of(app, ".chosen")
        await press(app, pilot, "a")
        assert 'model = "gpt-5-mini"' in text_of(app, ".text")
        assert "gpt-5-mini" in text_of(app, ".chosen")
        await press(app, pilot, "m")
        model_line = text_of(app, ".chosen").splitlines()[0]
        await press(app, pilot, "a")
        assert text_of(app, ".chosen").splitlines()[0] == model_line


async def test_an_app_begins_with_the_model_that_its_token_called_last() -> None:
    owner = Owner(records=[call(1, model="gpt-5-mini", outcome="done")])
    async with card("a", client=owner) as (app, pilot, _):
        await until(app, pilot, "model  gpt-5-mini")


async def test_each_part_is_copied_by_itself() -> None:
    async with card("a", "a", "y") as (app, pilot, _):
        assert app.clipboard.startswith('model = "')
        assert KEY not in app.clipboard
        await press(app, pilot, "n", "y")
        assert app.clipboard == f"export TOLLKEEPER_TOKEN='{KEY}'"
        assert words(app) == ["Copied: Codex"]


async def test_in_the_texts_the_key_is_masked_until_it_is_revealed() -> None:
    async with card("a") as (app, pilot, _):
        assert KEY not in text_of(app, ".text")
        await press(app, pilot, "v")
        assert f"ANTHROPIC_AUTH_TOKEN='{KEY}'" in text_of(app, ".text")
        await press(app, pilot, "v")
        assert KEY not in text_of(app, ".text")


async def test_an_app_gets_the_models_that_the_token_sees() -> None:
    async with card("a", "a", "a", "y") as (app, _, owner):
        models = msgspec.json.decode(app.clipboard)["provider"]["tollkeeper"]["models"]
        assert {name: model.get("limit", {}).get("context") for name, model in models.items()} == {
            view.name: view.context for view in owner.models_now
        }


async def test_all_keys_are_shown_on_a_narrow_screen() -> None:
    async with card(size=(80, 24)) as (app, _, _):
        assert "esc close" in " ".join(screen(app).replace("│", " ").split())


async def test_a_new_key_stays_on_the_screen_when_the_receipt_of_a_test_call_is_long() -> None:
    async with card(size=(80, 24)) as (app, pilot, _):
        app.screen.query_one(TokenTest).update("a line of the receipt\n" * 30)
        await pilot.pause()
        app.screen.query_one(".inside").scroll_end(animate=False)
        await pilot.pause()
        assert KEY in screen(app)
        assert "The key is shown only this once" in screen(app)


async def test_a_copied_text_has_the_model_as_clients_must_write_it() -> None:
    owner = Owner()
    owner.tokens_now[0] = msgspec.structs.replace(owner.tokens_now[0], sees=["m\u2764\ufe0f"])
    async with card("tab", "tab", "tab", "y", client=owner) as (app, _, _):
        assert 'model="m\u2764\ufe0f"' in app.clipboard
