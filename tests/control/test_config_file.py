import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest
from tests.fakes.gateway import Gateway


async def test_an_export_onto_itself_changes_nothing(owner: ControlClient, gateway: Gateway) -> None:
    found = await owner.export_config()
    assert 'key = "env:TOLLKEEPER_KEY_UP"' in found.text
    assert found.notes[0].startswith("channel 'up': set TOLLKEEPER_KEY_UP")
    before = gateway.engine.catalog.registry
    done = await owner.import_config(found.text, apply=True, prune=True)
    assert (done.differences, done.keys, gateway.engine.catalog.registry == before) == ([], {}, True)


async def test_it_is_shown_first_done_at_once_and_taken_back(owner: ControlClient, gateway: Gateway) -> None:
    text = 'format = 1\n[groups.work]\nmultiplier = "2"\n[tokens.phone]\ngroup = "work"\n'
    shown = await owner.import_config(text)
    assert (shown.applied, shown.keys) == (False, {})
    assert [d.name for d in shown.differences if d.what == "added"] == ["work", "phone"]
    assert [token.name for token in await owner.tokens()] == ["laptop"]
    done = await owner.import_config(text, apply=True)
    assert done.applied
    assert (await owner.token("phone")).group == "work"
    assert done.keys["phone"].startswith("sk-tk-")
    assert await owner.undo() == "imported a configuration (2 changes)"
    assert [token.name for token in await owner.tokens()] == ["laptop"]


async def test_a_new_token_s_key_works(owner: ControlClient, gateway: Gateway) -> None:
    done = await owner.import_config('format = 1\n[tokens.phone]\ngroup = "default"\n', apply=True)
    client = gateway.token("other")
    client = type(client)(client.port, done.keys["phone"])
    assert (await client.chat("m")).status == 200


async def test_a_bad_text_changes_nothing_of_it(owner: ControlClient, gateway: Gateway) -> None:
    before = gateway.engine.catalog.registry
    for text in ("format = 1\n[groups.work]\n[tokens.t]\ngroup = 'none'", "format = [", "[" * 100_000):
        with pytest.raises(BadRequest) as caught:
            await owner.import_config(text, apply=True)
        assert caught.value.code == "bad_configuration"
    assert gateway.engine.catalog.registry is before


async def test_no_text_at_all(owner: ControlClient) -> None:
    with pytest.raises(BadRequest, match="'text' is missing"):
        await owner.send("POST", "/config", {})


async def test_references_that_lead_nowhere_are_told(owner: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'format = 1\n[channels.new]\ndialect = "openai"\nbase_url = "http://127.0.0.1:9"\nkey = "env:TK_TEST_KEY"\n'
    assert "channel 'new': TK_TEST_KEY is not set where the server runs" in (await owner.import_config(text)).notes
    monkeypatch.setenv("TK_TEST_KEY", "sk-x")
    assert (await owner.import_config(text)).notes == []


async def test_money_is_no_configuration(owner: ControlClient, gateway: Gateway) -> None:
    text = (await owner.export_config()).text
    await owner.grant(5)
    before = (await owner.account()).granted_nanos
    await owner.import_config(text, apply=True, prune=True)
    assert (await owner.account()).granted_nanos == before
