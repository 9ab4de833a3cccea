"""Undo says what it undoes and asks where that may surprise; every change is in the history, and redoable.

Long: every kind of change goes the same way, there and back.
"""

import asyncio
from collections.abc import Awaitable
from copy import copy
from pathlib import Path

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.client.http import ClientRequest
from gateway.config import Config
from gateway.core.change_history import differences_of
from gateway.domain.config_views import Difference
from gateway.domain.errors import BadRequest, Conflict, NotFound
from gateway.domain.history import NOTHING_CHANGED, ChangeSource, EntityChange, Question
from gateway.domain.money import dollars
from gateway.domain.units import DOLLAR
from gateway.server import embedded_server
from tests.control.confirming import confirming
from tests.control.conftest import Surface
from tests.fakes.client import Client
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import reply, silence

UPSTREAM_KEY = "sk-upstream-key-of-the-owner"


def client(surface: Surface, **source: str) -> ControlClient:
    return ControlClient(surface.unix, timeout_s=10, source=ChangeSource(**source))  # type: ignore[arg-type]


@pytest.fixture
def console(surface: Surface) -> ControlClient:
    return client(surface, via="console", session="one", place="pts/1")


@pytest.fixture
def command(surface: Surface) -> ControlClient:
    return client(surface, via="command", command="token add", place="pts/2")


def listed(*names: str) -> Script:
    return reply({"object": "list", "data": [{"id": name} for name in names]})


async def refused(work: Awaitable[object]) -> Conflict:
    with pytest.raises(Conflict) as caught:
        await work
    return caught.value


async def test_the_history_has_who_from_where_what_and_when(console: ControlClient, command: ControlClient) -> None:
    await command.add_token({"name": "ci", "limits": {"rpm": 5}})
    await console.edit_token("ci", {"limits": {"rpm": 60}})
    edited, added = await console.history()
    assert (added.source, added.text) == (
        ChangeSource(via="command", command="token add", place="pts/2"),
        "added token 'ci'",
    )
    assert edited.source == console.source
    (difference,) = edited.differences
    assert (difference.action, difference.noun, difference.name) == ("changed", "token", "ci")
    assert [(f.field, f.before, f.after) for f in difference.fields] == [
        ("limits", "5 requests a minute", "60 requests a minute")
    ]
    assert await console.history_entry(added.id) == added


async def test_values_that_read_the_same_are_shown_exactly(console: ControlClient) -> None:
    await console.add_token({"name": "ci", "budgets": [{"window": "day", "tokens": 1_000_000}]})
    await console.edit_token("ci", {"budgets": [{"window": "day", "tokens": 1_004_000}]})
    ((difference,),) = [entry.differences for entry in await console.history(limit=1)]
    assert [(f.field, f.before, f.after) for f in difference.fields] == [
        ("budgets", '[{"window":"day","tokens":1000000}]', '[{"window":"day","tokens":1004000}]')
    ]


async def test_in_a_line_a_long_value_shows_where_it_differs(console: ControlClient) -> None:
    await console.edit_channel("up", {"timeouts": {"idle": 400}})
    (entry,) = await console.history(limit=1)
    assert entry.edit_text == "timeouts: \u2026idle 300s, comments 90\u2026 -> \u2026idle 400s, comments 90\u2026"


async def test_a_renamed_entity_is_shown_and_found_by_both_names(console: ControlClient) -> None:
    await console.add_token({"name": "ci"})
    await console.edit_token("ci", {"name": "build"})
    await console.edit_token("build", {"name": "bot", "note": "x"})
    await console.add_group({"name": "friends"})
    await console.edit_group("friends", {"name": "family"})
    await console.add_channel({"name": "up2", "dialect": "mock", "known_prices": False})
    await console.edit_channel("up2", {"name": "work"})
    assert [entry.text for entry in await console.history(limit=6)] == [
        "renamed channel 'up2' to 'work'",
        "added channel 'up2'",
        "renamed group 'friends' to 'family'",
        "added group 'friends'",
        "changed name, note of token 'build'",
        "renamed token 'ci' to 'build'",
    ]
    for name, count in (("ci", 2), ("build", 2), ("bot", 1), ("family", 1), ("None", 0)):
        assert len(await console.history(name=name)) == count
    assert (await console.undo(0)).text == "channel 'up2' is as before"


async def test_a_renamed_group_is_changed_not_removed_and_added(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    await console.add_token({"name": "ci", "group": "friends"})
    await console.edit_group("friends", {"name": "family", "note": "x"})
    (entry,) = await console.history(limit=1)
    found = [(row.action, row.noun, row.name, [field.field for field in row.fields]) for row in entry.differences]
    assert found == [("changed", "group", "family", ["note"]), ("changed", "token", "ci", ["group"])]
    await console.remove_group("family", move="default")
    (entry,) = await console.history(limit=1)
    assert [row.action for row in entry.differences if row.noun == "group"] == ["removed"]


async def test_an_edit_that_changes_nothing_is_not_in_the_history(console: ControlClient) -> None:
    await console.add_token({"name": "ci", "note": "x"})
    await console.edit_token("ci", {"note": "y"})
    await console.edit_token("ci", {"note": "y"})
    await console.edit_token("ci", {})
    await console.set_account({})
    done = await console.batch("tokens", {"ci": {"note": "y"}})
    assert done == NOTHING_CHANGED
    assert [entry.text for entry in await console.history(limit=2)] == [
        "changed note of token 'ci'",
        "added token 'ci'",
    ]
    assert (await console.undo()).text == "token 'ci' is as before"
    assert (await console.token("ci")).note == "x"


async def test_the_history_is_filtered_and_paged(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    await console.add_token({"name": "ci"})
    await console.edit_token("ci", {"note": "x"})
    of_token = ["changed note of token 'ci'", "added token 'ci'"]
    assert [entry.text for entry in await console.history(kind="token")] == of_token
    assert [entry.text for entry in await console.history(name="friends")] == ["added group 'friends'"]
    every = ["added group 'friends'", *of_token]
    assert {entry.text for entry in await console.history(name=("friends", "ci"))} == set(every)
    assert {entry.text for entry in await console.history(kind=("group", "token"))} == set(every)
    assert await console.history(kind=("group", "channel"), name=("ci", "nobody")) == []
    (newest,) = await console.history(limit=1)
    assert await console.history(since=newest.time_ms + 60_000) == []
    with pytest.raises(BadRequest):
        await console.history(kind="nonsense")
    with pytest.raises(BadRequest):
        await console.history(limit=0)


async def test_undo_of_an_unused_change_of_ones_own_asks_nothing(console: ControlClient) -> None:
    await console.add_token({"name": "ci"})
    done = await console.undo()
    assert (done.kind, done.text, done.target.text) == ("undo", "token 'ci' is removed", "added token 'ci'")
    assert done.target.source == console.source
    assert [token.name for token in await console.tokens()] == ["laptop"]


async def test_undo_asks_before_it_removes_a_token_that_was_used(
    console: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    user = Client(gateway.port, (await console.add_token({"name": "ci"})).key)
    await user.chat()
    await user.chat()
    await gateway.settled(2)
    provider.on("m", silence)
    calling = asyncio.create_task(user.chat())
    await provider.asked(3)
    error = await refused(console.undo())
    (running,) = (await console.calls(words="st:running")).calls
    await console.cancel(running.id)
    await calling
    assert error.code == "needs_confirmation"
    assert error.details["reasons"] == ["3 calls used token 'ci' since then; it will be removed."]
    assert "ci" in [token.name for token in await console.tokens()]
    assert (await confirming(console).undo()).text == "token 'ci' is removed"


async def test_undo_asks_before_a_rotated_key_in_use_stops_working(console: ControlClient, gateway: Gateway) -> None:
    key = (await console.rotate_token("laptop")).key
    await Client(gateway.port, key).chat()
    await gateway.settled()
    error = await refused(console.undo())
    _, stops = msgspec.convert(error.details["reasons"], list[str])
    assert stops == "1 call used token 'laptop' since then; its current key will stop working."


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ({"via": "command", "command": "token add", "place": "pts/2"}, "the command line ('token add' on pts/2)"),
        ({"via": "console", "session": "two", "place": "pts/7"}, "another console on pts/7"),
        ({"via": "api"}, "a program that uses the control API"),
    ],
)
async def test_undo_asks_about_a_change_that_was_made_elsewhere(
    console: ControlClient, surface: Surface, source: dict[str, str], asks: str
) -> None:
    await client(surface, **source).add_token({"name": "ci"})
    error = await refused(console.undo())
    assert error.code == "needs_confirmation"
    assert str(error.details["text"]).endswith(" (added token 'ci')?")
    assert error.details["reasons"] == [f"It was made by {asks}, just now."]


async def test_an_undo_that_was_confirmed_undoes_no_other(console: ControlClient, command: ControlClient) -> None:
    await command.add_token({"name": "ci"})

    async def confirm(_: Question) -> bool:
        await console.edit_token("laptop", {"note": "made while the owner read the question"})
        return True

    owner = copy(console)
    owner.confirm = confirm
    assert (await owner.undo()).text == "token 'ci' is removed"
    (token,) = await console.tokens()
    assert (token.name, token.note) == ("laptop", "made while the owner read the question")


def _undo_accepting(client: ControlClient, number: int, answer: str) -> ClientRequest:
    request = client.build_request("POST", "/undo", {"id": number})
    return msgspec.structs.replace(request, headers={**request.headers, "X-Tollkeeper-Accept": answer})


async def test_the_answer_to_one_question_confirms_no_other(console: ControlClient, command: ControlClient) -> None:
    await command.add_token({"name": "ci"})
    entry, *_ = await console.history()
    for answer in (f"redo {entry.id}", f"undo {entry.id + 1}", "revives_key"):
        error = await refused(console.send(_undo_accepting(console, entry.id, answer)))
        assert error.details["answer"] == f"undo {entry.id}"
    await console.send(_undo_accepting(console, entry.id, f"undo {entry.id}"))
    assert [token.name for token in await console.tokens()] == ["laptop"]


async def test_two_commands_are_one_place(command: ControlClient, surface: Surface) -> None:
    await command.add_token({"name": "ci"})
    other = client(surface, via="command", command="undo", place="pts/9")
    assert (await other.undo()).text == "token 'ci' is removed"


async def test_redo_brings_back_the_same_token(console: ControlClient) -> None:
    made = (await console.add_token({"name": "ci"})).token
    await console.undo()
    done = await confirming(console).redo()
    assert (done.kind, done.text) == ("redo", "added token 'ci'")
    assert await console.token("ci") == made
    assert (await refused(console.redo())).code == "nothing_to_redo"
    assert (await console.undo()).text == "token 'ci' is removed"


async def test_undo_undoes_the_change_that_was_redone_last_however_old_it_is(console: ControlClient) -> None:
    await console.add_token({"name": "old"})
    await console.add_token({"name": "new"})
    old = next(entry for entry in await console.history() if "'old'" in entry.text)
    undone = await console.undo(old.id)
    assert (await confirming(console).undo(undone.id)).kind == "redo"
    assert (await console.undo()).text == "token 'old' is removed"
    assert (await console.undo()).text == "token 'new' is removed"
    assert [(await confirming(console).redo()).text for _ in range(2)] == ["added token 'new'", "added token 'old'"]


@pytest.mark.parametrize("patch", [{"limits": {"rpm": 5}}, {"models": ["a", "b"]}])
async def test_any_change_can_be_undone_and_later_ones_stay(console: ControlClient, patch: dict[str, object]) -> None:
    before = await console.token("laptop")
    await console.edit_token("laptop", patch)
    await console.edit_token("laptop", {"note": "mine"})
    assert (await console.undo((await console.history())[1].id)).text == "token 'laptop' is as before"
    assert await console.token("laptop") == msgspec.structs.replace(before, note="mine")


async def test_undo_asks_before_it_overwrites_what_was_changed_since(console: ControlClient) -> None:
    for note in ("one", "two"):
        await console.edit_token("laptop", {"note": note})
    newest, first = await console.history()
    error = await refused(console.undo(first.id))
    assert error.code == "needs_confirmation"
    newer = f"change {newest.id} (changed note of token 'laptop')"
    assert error.details["reasons"] == [f"Token 'laptop' was changed since, by {newer}; that is overwritten."]
    assert (await console.token("laptop")).note == "two"
    assert (await confirming(console).undo(first.id)).text == "token 'laptop' is as before"
    assert (await console.token("laptop")).note == ""
    await confirming(console).redo()
    assert (await console.token("laptop")).note == "two"


async def test_the_change_that_is_named_is_one_of_the_same_field(console: ControlClient) -> None:
    for change in ({"note": "one"}, {"note": "two"}, {"enabled": False}):
        await console.edit_token("laptop", change)
    _, second, first = await console.history()
    (reason,) = msgspec.convert((await refused(console.undo(first.id))).details["reasons"], list[str])
    assert f"by change {second.id} " in reason
    await console.undo(second.id)
    assert (await console.undo(first.id)).text == "token 'laptop' is as before"
    assert not (await console.token("laptop")).enabled


async def test_undoing_a_removal_asks_before_it_overwrites_what_has_its_name_now(console: ControlClient) -> None:
    await console.set_price("m", {"input": 1, "output": 2})
    await console.remove_price("m")
    await console.set_price("m", {"input": 3, "output": 4})
    newest, removed, _ = await console.history()
    assert (await refused(console.undo(removed.id))).details["reasons"] == [
        f"Price 'm' exists again, by change {newest.id} (set the price of 'm'); that is overwritten."
    ]
    await confirming(console).undo(removed.id)
    assert [price.input for price in await console.prices() if price.model == "m"] == [1]


async def test_what_was_removed_since_is_not_edited_back(console: ControlClient) -> None:
    await console.add_token({"name": "ci"})
    await console.edit_token("ci", {"note": "x"})
    await console.remove_token("ci")
    removed, edited, _ = await console.history()
    error = await refused(confirming(console).undo(edited.id))
    assert error.message == (
        f"token 'ci' does not exist any more, since change {removed.id} (removed token 'ci'); undo that one first"
    )


async def test_what_was_added_and_removed_is_not_removed_again(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    await console.remove_group("friends")
    removed, added = await console.history()
    assert (await refused(console.undo(added.id))).details == {"newer": removed.id}


async def test_a_group_that_a_newer_token_uses_stays(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    await console.add_token({"name": "guest", "group": "friends"})
    token, group = await console.history()
    error = await refused(console.undo(group.id))
    assert error.message == (
        f"token 'guest' is in group 'friends', since change {token.id} (added token 'guest'); undo that one first"
    )


async def test_a_name_that_is_in_use_again_is_not_given_twice(console: ControlClient) -> None:
    await console.add_token({"name": "ci"})
    await console.remove_token("ci")
    removal = (await console.history())[0]
    await console.add_token({"name": "ci"})
    newest = (await console.history())[0]
    assert (await refused(console.undo(removal.id))).details == {"newer": newest.id}


async def test_a_change_is_undone_once(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    done = await console.undo()
    assert (await refused(console.undo(done.target.id))).code == "already_undone"
    assert (await console.history())[1].undone_by == done.id
    with pytest.raises(NotFound):
        await console.undo(99)


async def test_money_that_is_undone_leaves_the_books_equal(console: ControlClient, gateway: Gateway) -> None:
    await console.grant(5 * DOLLAR)
    record = await gateway.call()
    error = await refused(console.undo())
    left = GRANTED - record.cost
    assert error.details["reasons"] == [
        f"Calls were made since then. Without these $5.00 the balance is {dollars(left)}."
    ]
    await confirming(console).undo()
    verdict = await console.verify()
    assert (verdict.equal, verdict.balance_nanos) == (True, left)
    await console.redo()
    assert ((await console.verify()).equal, (await console.account()).balance_nanos) == (True, left + 5 * DOLLAR)


async def test_a_refresh_of_the_upstreams_models_contradicts_nothing(
    console: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("/v1/models", listed("a-1", "a-2"))
    await console.add_channel({"name": "live", "dialect": "openai", "base_url": provider.base_url, "patterns": ["a-*"]})
    provider.on("/v1/models", listed("a-1", "a-2", "a-3"))
    await console.refresh_channel("live")
    await console.test_channel("live")
    assert (await console.undo()).text == "channel 'live' is removed"
    assert gateway.engine.catalog.registry.lists == {}
    await console.redo()
    assert len((await console.channel("live")).models) == 3


async def test_after_a_restart_a_removed_channel_comes_back_with_its_key(tmp_path: Path) -> None:
    """What is shown of the history does not contain the key, and its file is the owner's alone."""
    config = Config(home=tmp_path / "home")
    async with embedded_server(config) as endpoint:
        owner = ControlClient(endpoint)
        body = {"name": "up", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "models": [{"name": "m"}]}
        headers = {"X-Title": "home", "X-Extra": "sk-header-of-the-owner"}
        await owner.add_channel({**body, "key": UPSTREAM_KEY, "keys": ["sk-other-1234567890"], "headers": headers})
        await owner.remove_channel("up")
    files = {path.name: path.read_text() for path in config.home.glob("*.json")}
    assert {name for name, text in files.items() if UPSTREAM_KEY in text} == {"config.old.json", "history.json"}
    assert (config.home / "history.json").stat().st_mode & 0o777 == 0o600
    async with embedded_server(config) as endpoint:
        owner = ControlClient(endpoint)
        assert b"sk-" not in await owner.send(owner.build_request("GET", "/history"))
        assert (await owner.undo()).notes == []
    stored = (config.home / "config.json").read_text()
    assert all(text in stored for text in (UPSTREAM_KEY, "sk-other-1234567890", "sk-header-of-the-owner"))


async def test_the_history_says_which_keys_were_added_and_removed(tmp_path: Path) -> None:
    async with embedded_server(Config(home=tmp_path / "home")) as endpoint:
        owner = ControlClient(endpoint)
        body = {"name": "up", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "models": [{"name": "m"}]}
        await owner.add_channel({**body, "key": "sk-first-1234567890"})
        await owner.add_key("up", "env:SECOND")
        await owner.remove_key("up", 1)
        await owner.replace_key("up", 1, "sk-third-0987654321")
        await owner.remove_key("up", 1)
        (added, *_), *rest = [entry.differences for entry in reversed((await owner.history())[:5])]
    assert [(field.field, field.after) for field in added.fields if field.field.startswith("key")] == [
        ("keys", "…7890")
    ]
    assert [[(one.field, one.before, one.after) for one in found.fields] for (found,) in rest] == [
        [("keys", "…7890", "1 …7890, 2 env:SECOND")],
        [("keys", "1 …7890, 2 env:SECOND", "env:SECOND")],
        [("keys", "env:SECOND", "…4321")],
        [("keys", "…4321", "none")],
    ]


async def test_every_kind_of_change_is_undone_after_a_restart(tmp_path: Path) -> None:
    config = Config(home=tmp_path / "home")
    async with embedded_server(config) as endpoint:
        owner = ControlClient(endpoint)
        before = (await owner.export_config()).text
        await owner.set_account({"status": "suspended"})
        await owner.set_settings({"keep_days": 9, "strict_streams": True})
        await owner.add_group({"name": "friends", "budgets": [{"window": "day", "nanos": DOLLAR}]})
        await owner.edit_channel("demo", {"groups": ["friends"], "key": UPSTREAM_KEY})
        await owner.edit_group("friends", {"name": "mates"})
        await owner.set_price("m", {"input": 1, "output": 2, "tiers": [{"above": 5, "input": 3, "output": 4}]})
        await owner.remove_price("m")
        await owner.add_token({"name": "ci", "group": "mates"})
        await owner.rotate_token("ci")
        changed = (await owner.export_config()).text
        count = len(await owner.history())
    async with embedded_server(config) as endpoint:
        owner = ControlClient(endpoint)
        for _ in range(count):
            await confirming(owner).undo()
        assert (await owner.export_config()).text == before
        for _ in range(count):
            await confirming(owner).redo()
        assert (await owner.export_config()).text == changed


async def test_the_token_of_a_program_is_not_in_the_history(surface: Surface, console: ControlClient) -> None:
    """``tollkeeper run`` adds, extends and ends a token of its own: bookkeeping, of which nothing is undone."""
    await console.add_token({"name": "mine"})
    run = client(surface, via="command", command="run", place="pts/3")
    created = await run.add_token({"name": "claude-src-1a2b3c"})
    assert created.token.temporary
    await run.edit_token(created.token.id, {"expires": 4_000_000_000_000})
    await run.remove_token(created.token.id)
    assert [entry.text for entry in await console.history()] == ["added token 'mine'"]
    assert (await console.undo()).text == "token 'mine' is removed"
    await run.add_token({"name": "codex-src-4d5e6f"})
    assert (await confirming(console).redo()).text == "added token 'mine'"


async def test_clearing_leaves_nothing_to_undo(console: ControlClient) -> None:
    await console.add_group({"name": "friends"})
    await console.clear_history()
    assert await console.history() == []
    assert (await refused(console.undo())).code == "nothing_to_undo"


async def test_watchers_notice_that_the_history_was_cleared(console: ControlClient, gateway: Gateway) -> None:
    with gateway.engine.bus.watch() as watcher:
        await console.clear_history()
        assert (await watcher.next_batch(5)).changed


@pytest.mark.parametrize("header", ["", "via=martian&session=%00%1b[31m", "x" * 500, "via=console&via=command"])
async def test_a_strange_source_is_harmless(surface: Surface, header: str) -> None:
    class Strange(ChangeSource, frozen=True):
        def header(self) -> str:
            return header

    owner = ControlClient(surface.unix, timeout_s=10, source=Strange())
    await owner.add_group({"name": "friends"})
    (entry,) = await owner.history()
    assert entry.source.session.isprintable()


async def test_a_changed_secret_header_is_named_without_its_value(console: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", key="")
    for priority, value in ((0, "hunter-canary-1"), (0, "hunter-canary-2"), (5, "hunter-canary-3")):
        await console.edit_channel("up", {"headers": {"X-Sec": value}, "priority": priority})
    (newest,), (before,) = (entry.differences for entry in (await console.history())[:2])
    assert [(field.field, field.before, field.after) for field in before.fields] == [("headers", "…", "…")]
    assert {field.field for field in newest.fields} == {"headers", "priority"}


async def test_a_key_that_looks_alike_is_named_beside_other_changes(console: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", key="sk-aaaacccc6789")
    await console.edit_channel("up", {"key": "sk-aaaadddd6789", "priority": 8})
    (difference,) = (await console.history())[0].differences
    assert {field.field for field in difference.fields} == {"keys", "priority"}


def test_a_change_whose_fields_another_version_wrote_is_shown_without_them() -> None:
    change = EntityChange(table="tokens", key="tok_1", name="ci", before={"limits": 5}, after={"limits": 6})
    assert differences_of([change]) == [Difference(action="changed", noun="token", name="ci", fields=[])]
