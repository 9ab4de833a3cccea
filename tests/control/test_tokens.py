import asyncio

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.control.tokens import KEEP_ENDED_MS, delete_ended
from gateway.domain.errors import BadRequest, Conflict, NotFound
from gateway.domain.history import ChangeSource
from gateway.domain.limits import Limits
from gateway.domain.token import PREFIX
from tests.control.confirming import confirming
from tests.control.conftest import Surface
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway


@pytest.fixture
def program(surface: Surface) -> ControlClient:
    """The client of ``tollkeeper run``, whose tokens are those of programs."""
    return ControlClient(surface.unix, source=ChangeSource(via="command", command="run"))


async def status_with(gateway: Gateway, key: str) -> int:
    return (await Client(gateway.port, key).get("/v1/models")).status


async def test_a_new_token_s_key_is_reported_once_and_works(owner: ControlClient, gateway: Gateway) -> None:
    made = await owner.add_token({"name": "phone"})
    assert made.key.startswith(PREFIX)
    assert await status_with(gateway, made.key) == 200
    shown = await owner.token("phone")
    assert shown == made.token
    assert made.key not in msgspec.json.encode(await owner.tokens()).decode()
    assert shown.hint == f"{made.key[:10]}…{made.key[-4:]}"


async def test_the_id_of_another_token_is_no_name(owner: ControlClient) -> None:
    phone = (await owner.add_token({"name": "phone"})).token
    with pytest.raises(Conflict, match=f"already a token '{phone.id}'"):
        await owner.add_token({"name": phone.id})
    with pytest.raises(Conflict, match="already a token 'phone'"):
        await owner.edit_token("laptop", {"name": "phone"})
    assert (await owner.edit_token("phone", {"name": phone.id})).id == phone.id


async def test_a_new_token_belongs_to_the_default_group_and_sees_its_models(owner: ControlClient) -> None:
    made = await owner.add_token({"name": "phone", "limits": {"rpm": 3}, "models": ["m*"], "note": "old one"})
    assert (made.token.group, made.token.sees, made.token.limits) == ("default", ["m"], Limits(rpm=3))
    assert (made.token.state, made.token.calls, made.token.last_used_ms) == ("active", 0, None)


@pytest.mark.parametrize("name", ["my phone", "a/b", "50%", "Büro", "?x=1", "a#b", "a+b", "日本", "a{b}"])
async def test_names_of_any_kind_reach_their_token(owner: ControlClient, name: str) -> None:
    await owner.add_token({"name": name})
    assert (await owner.edit_token(name, {"note": "found"})).note == "found"
    await owner.remove_token(name)


async def test_a_renamed_token_keeps_its_key_and_its_past(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.call()
    view = await owner.edit_token("laptop", {"name": "edits"})
    assert (view.name, view.calls) == ("edits", 1)
    assert view.spent_nanos > 0
    assert await status_with(gateway, gateway.client.key) == 200


async def test_an_expired_token_is_shown_as_such(owner: ControlClient) -> None:
    assert (await owner.edit_token("laptop", {"expires": 1})).state == "expired"
    assert (await owner.edit_token("laptop", {"expires": None})).state == "active"


async def test_a_removed_token_is_gone(owner: ControlClient, gateway: Gateway) -> None:
    await owner.remove_token("laptop")
    assert await status_with(gateway, gateway.client.key) == 401
    with pytest.raises(NotFound):
        await owner.token("laptop")


async def test_a_pass_works_as_the_token(owner: ControlClient, gateway: Gateway) -> None:
    key = (await owner.token_pass("laptop"))["key"]
    await Client(gateway.port, key).chat()
    (record,) = await gateway.settled()
    assert record.token_name == "laptop"


async def test_a_group_is_demanded_when_there_is_no_obvious_one(owner: ControlClient) -> None:
    await owner.edit_group("default", {"name": "home"})
    assert (await owner.add_token({"name": "a"})).token.group == "home"
    await owner.add_group({"name": "work"})
    with pytest.raises(BadRequest, match="home, work"):
        await owner.add_token({"name": "b"})


async def test_nothing_but_the_answer_ever_holds_a_key(owner: ControlClient) -> None:
    made = await owner.add_token({"name": "canary"})
    answers = [
        await owner.send(owner.build_request("GET", path))
        for path in ("/tokens", "/tokens/canary", "/status", "/models")
    ]
    assert not any(made.key.encode() in answer for answer in answers)


async def test_the_token_for_programs_without_a_key_is_followed(owner: ControlClient, gateway: Gateway) -> None:
    await owner.add_token({"name": "apps"})
    with pytest.raises(NotFound):
        await owner.set_settings({"ollama_token": "nobody"})
    with pytest.raises(BadRequest):
        await owner.set_settings({"ollama_port": 11434})
    await owner.set_settings({"ollama_token": "apps"})
    assert (await Client(gateway.port).get("/api/tags")).status == 200
    await owner.edit_token("apps", {"name": "programs"})
    assert (await owner.settings()).ollama_token == "programs"
    note = (await owner.remove_token("programs"))["note"]
    assert note == "requests to /api/... without a key, which used it, are rejected"
    assert (await owner.settings()).ollama_token == ""
    assert (await Client(gateway.port).get("/api/tags")).status == 401


async def test_removing_the_token_of_ollama_s_port_says_that_the_port_is_closed(owner: ControlClient) -> None:
    for name in ("apps", "laptop2"):
        await owner.add_token({"name": name})
    await owner.set_settings({"ollama_token": "apps", "ollama_port": 27_998})
    assert (await owner.remove_token("laptop2"))["note"] == ""
    assert (await owner.remove_token("apps"))["note"] == "port 27998 for Ollama, which used it, is closed"
    (newest,) = await owner.history(limit=1)
    assert newest.text == "removed token 'apps'; port 27998 for Ollama, which used it, is closed"
    assert (await owner.settings()).ollama_port == 0
    await confirming(owner).undo()
    assert (await owner.settings()).ollama_port == 27_998


async def test_tokens_of_programs_that_ended_some_days_ago_are_deleted(
    owner: ControlClient, program: ControlClient, gateway: Gateway
) -> None:
    now = gateway.engine.now()
    for name, expires in (("new", now - 1), ("runs", now + 60_000), ("old", now - KEEP_ENDED_MS)):
        await program.add_token({"name": name, "expires": expires})
    await owner.add_token({"name": "mine", "expires": now - 2 * KEEP_ENDED_MS})
    assert [t.name for t in await owner.tokens() if t.program_ended] == ["new", "old"]
    await program.add_token({"name": "next"})
    assert [t.name for t in await owner.tokens()] == ["laptop", "mine", "new", "next", "runs"]


async def test_the_server_deletes_them_too(owner: ControlClient, program: ControlClient, gateway: Gateway) -> None:
    await program.add_token({"name": "old", "expires": gateway.engine.now() - KEEP_ENDED_MS})
    task = asyncio.ensure_future(delete_ended(gateway.engine))
    await asyncio.sleep(0)  # its first look
    task.cancel()
    assert [token.name for token in await owner.tokens()] == ["laptop"]
    assert [entry for entry in await owner.history() if "old" in entry.text] == []


async def test_the_token_of_a_program_that_ended_holds_no_group(owner: ControlClient, program: ControlClient) -> None:
    await owner.add_group({"name": "tools"})
    created = await program.add_token({"name": "p", "group": "tools"})
    with pytest.raises(Conflict, match="token 'p'"):
        await owner.remove_group("tools")
    await program.edit_token(created.token.id, {"expires": 1})
    assert (await owner.group("tools")).tokens == []
    await owner.remove_group("tools")
    assert [token.name for token in await owner.tokens()] == ["laptop"]


async def test_the_token_of_a_program_is_in_no_configuration_file(owner: ControlClient, program: ControlClient) -> None:
    created = await program.add_token({"name": "p"})
    found = await owner.export_config()
    assert "tokens.p" not in found.text
    assert (await owner.import_config(found.text, prune=True)).differences == []
    await owner.import_config(found.text, apply=True, prune=True)
    assert (await owner.token("p")).state == "active"
    await program.edit_token(created.token.id, {"expires": 1})
    assert (await owner.import_config(found.text, prune=True)).differences == []
