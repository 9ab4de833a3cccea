"""A key that leaked is found wherever one searches, also when it was rotated, and so are the calls with it."""

import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import InvalidToken, NotFound
from gateway.domain.key_owners import without_keys
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway


async def test_a_key_finds_its_token_before_and_after_it_is_rotated(owner: ControlClient) -> None:
    key = (await owner.add_token({"name": "ci"})).key
    assert (await owner.token(without_keys(key))).name == "ci"
    assert (await owner.key_owner(without_keys(key))).since is None
    await owner.rotate_token("ci")
    assert (await owner.token(without_keys(key))).name == "ci"
    found = await owner.key_owner(without_keys(key))
    assert (found.name, found.since is not None, found.removed) == ("ci", True, False)
    (view,) = [token for token in await owner.tokens() if token.name == "ci"]
    assert without_keys(key) in [one.handle for one in view.keys]
    await owner.remove_token("ci")
    assert await owner.key_owner(without_keys(key)) == found  # it was replaced, not removed with its token


async def test_a_key_that_is_not_known_is_reported_without_it(owner: ControlClient) -> None:
    key = "sk-tk-" + "x" * 43
    with pytest.raises(NotFound, match=r"sk-tk-xxxx…xxxx is neither a current nor a remembered former key") as caught:
        await owner.key_owner(without_keys(key))
    assert key not in caught.value.message


async def test_a_channel_s_key_finds_the_channel(owner: ControlClient) -> None:
    key = "sk-proj-0123456789abcdefghij"
    models = [{"name": "m"}]
    body = {"name": "main", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "key": key, "models": models}
    await owner.add_channel(body)
    assert (await owner.channel(without_keys(key))).name == "main"
    await owner.replace_key("main", 1, "sk-proj-another-0123456789")
    assert (await owner.channel(without_keys(key))).name == "main"
    assert (await owner.key_owner(without_keys(key))).noun == "channel"


@pytest.mark.parametrize("removed", [False, True])
async def test_a_former_key_s_refused_call_has_its_owner(owner: ControlClient, gateway: Gateway, removed: bool) -> None:
    made = await owner.add_token({"name": "ci"})
    if removed:
        await owner.remove_token("ci")
    else:
        await owner.rotate_token("ci")
    answer = await Client(gateway.port, made.key).chat()
    assert answer.status == 401
    assert b"ci" not in answer.body.replace(b"since", b"")
    (record,) = await gateway.settled()
    assert (record.code, record.token) == ("key_replaced", "")
    assert f"{made.token.hint} was the key of token 'ci' until 20" in record.error
    assert made.key not in record.error


@pytest.mark.parametrize("filters", ["words", "token", "word"])
async def test_calls_are_found_by_a_former_key(owner: ControlClient, gateway: Gateway, filters: str) -> None:
    made = await owner.add_token({"name": "ci"})
    await Client(gateway.port, made.key).chat()
    await owner.rotate_token("ci")
    await Client(gateway.port, made.key).chat()
    await gateway.settled(2)
    handle = without_keys(made.key)
    asked = {"words": {"words": handle}, "token": {"token": handle}, "word": {"words": f"tok:{handle}"}}[filters]
    statuses = [call.status for call in (await owner.calls(**asked)).calls]
    assert statuses == ([401, 200] if filters == "words" else [200])


async def test_why_says_that_a_former_key_is_rejected(owner: ControlClient) -> None:
    key = (await owner.add_token({"name": "ci"})).key
    await owner.rotate_token("ci")
    with pytest.raises(InvalidToken, match=r"was the key of token 'ci' until .*; calls with it are rejected"):
        await owner.why(token=without_keys(key), model="m")
