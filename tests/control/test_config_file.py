import asyncio
import json

import pytest

from gateway.client.control import ControlClient
from gateway.domain.channel import UpstreamModels
from gateway.domain.config_views import ConfigOrigin
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.group import Fallback
from gateway.domain.registry import Change
from gateway.domain.units import Millis
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway
from tests.house import amount


async def test_an_export_onto_itself_changes_nothing(owner: ControlClient, gateway: Gateway) -> None:
    found = await owner.export_config()
    assert 'key = "env:TOLLKEEPER_KEY_UP"' in found.text
    assert found.notes[0].startswith("channel 'up': set TOLLKEEPER_KEY_UP")
    before = gateway.engine.catalog.registry
    done = await owner.import_config(found.text, apply=True, prune=True)
    assert (done.differences, done.keys, gateway.engine.catalog.registry == before) == ([], {}, True)


async def test_it_is_shown_first_done_at_once_and_undone(owner: ControlClient, gateway: Gateway) -> None:
    text = 'format = 1\n[groups.work]\nmultiplier = "2"\n[tokens.phone]\ngroup = "work"\n'
    shown = await owner.import_config(text)
    assert (shown.applied, shown.keys) == (False, {})
    assert [d.name for d in shown.differences if d.action == "added"] == ["work", "phone"]
    assert [token.name for token in await owner.tokens()] == ["laptop"]
    done = await owner.import_config(text, apply=True)
    assert done.applied
    assert (await owner.token("phone")).group == "work"
    assert (await Client(gateway.port, done.keys["phone"]).get("/v1/models")).status == 200
    assert (await owner.undo()).text == "what was imported is as before"
    assert [token.name for token in await owner.tokens()] == ["laptop"]


async def test_thousands_of_channels_are_imported_and_undone(owner: ControlClient, gateway: Gateway) -> None:
    many = amount(1_000, 8_000)
    text = "format = 1\n" + "".join(
        f'[channels.c{i}]\ndialect = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nkey = "key-{i}"\nmodels = ["m{i}"]\n'
        for i in range(many)
    )
    done = await owner.import_config(text, apply=True)
    assert sum(one.action == "added" for one in done.differences) == many
    assert gateway.engine.catalog.channel(f"c{many - 1}").key == f"key-{many - 1}"
    assert all(one.action == "kept" for one in (await owner.import_config(text, apply=True)).differences)
    await owner.undo()
    assert [channel.name for channel in gateway.engine.catalog.registry.channels.values()] == ["up"]


async def test_a_byte_order_mark_is_left_out(owner: ControlClient) -> None:
    done = await owner.import_config("\ufeffformat = 1\n[groups.work]\n", apply=True)
    assert [one.name for one in done.differences if one.action == "added"] == ["work"]
    await owner.import_config("\ufeff[]", origin=ConfigOrigin.ONE_API)


async def test_the_history_counts_what_the_import_listed(owner: ControlClient, gateway: Gateway) -> None:
    up = gateway.engine.catalog.channel("up").id
    gateway.engine.change([Change("lists", up, UpstreamModels(channel=up, time=Millis(5)))])
    text = 'format = 1\n[channels.up]\ndialect = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
    done = await owner.import_config(text, apply=True)
    assert [(d.action, d.name) for d in done.differences if d.action != "kept"] == [("changed", "up")]
    (newest, *_) = await owner.history()
    assert newest.text == "imported a configuration (1 change)"


async def test_a_bad_text_changes_nothing_of_it(owner: ControlClient, gateway: Gateway) -> None:
    before = gateway.engine.catalog.registry
    for text in (
        "format = 1\n[groups.work]\n[tokens.t]\ngroup = 'none'",
        "format = [",
        "[" * 100_000,
        "format = " + "9" * 5000,
    ):
        with pytest.raises(BadRequest) as caught:
            await owner.import_config(text, apply=True)
        assert caught.value.code == "bad_configuration"
    assert gateway.engine.catalog.registry is before


async def test_what_changes_meanwhile_is_not_overrun(owner: ControlClient, gateway: Gateway) -> None:
    names = "".join(f"[groups.g{number}]\n" for number in range(300))
    importing = asyncio.create_task(owner.import_config(f"format = 1\n{names}", apply=True))
    while not importing.done():
        gateway.group("other", note=str(gateway.engine.now()))
        await asyncio.sleep(0)
    with pytest.raises(Conflict, match="changed in the meantime"):
        await importing
    assert "g0" not in gateway.engine.catalog.registry.groups


async def test_a_file_of_another_gateway_is_answered_with_its_option_and_never_removes(owner: ControlClient) -> None:
    with pytest.raises(BadRequest, match=r"not valid TOML: .*; a file of another gateway needs --from, as in"):
        await owner.import_config("model_list:\n  - model_name: gpt-4o\n")
    with pytest.raises(BadRequest, match="import this one without prune"):
        await owner.import_config(json.dumps(LITELLM), prune=True, origin=ConfigOrigin.LITELLM)


@pytest.mark.parametrize("part", ["a.", '"\\"".', "'a' . "])
async def test_a_key_of_many_parts_is_refused_before_it_takes_gigabytes(owner: ControlClient, part: str) -> None:
    with pytest.raises(BadRequest, match="a key with more than 20 parts"):
        await owner.import_config(f"format = 1\n[{part * 200_000}a]\n")
    with pytest.raises(BadRequest, match="not a section"):
        await owner.import_config(f"format = 1\n[{part * 19}a]\n")
    with pytest.raises(BadRequest, match="keys"):
        await owner.import_config(f'format = 1\nkeys = "{"a. " * 30}"\n')
    with pytest.raises(BadRequest, match="a key with more than 20 parts"):
        await owner.import_config(f"format = 1\na = {{b = 1, {part * 200_000}a = 1}}\n")


async def test_notes_name_what_an_import_leaves_to_do(owner: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """References that lead nowhere and patterns without a list; that new tokens get keys is said once."""
    made = 'format = 1\n[channels.new]\ndialect = "openai"\nbase_url = "http://127.0.0.1:9"\n'
    unset = (await owner.import_config(f'{made}key = "env:TK_TEST_KEY"\n')).notes
    assert "channel 'new': the environment variable TK_TEST_KEY is not set where the server runs" in unset
    monkeypatch.setenv("TK_TEST_KEY", "sk-x")
    assert (await owner.import_config(f'{made}key = "env:TK_TEST_KEY"\n')).notes == []
    (note,) = (await owner.import_config(f'{made}patterns = ["*"]\n')).notes
    assert note.endswith("'tollkeeper channel models new --refresh'")
    tokens = "format = 1\n" + "".join(f'[tokens.t{number}]\ngroup = "default"\n' for number in range(7))
    notes = (await owner.import_config(tokens)).notes
    assert notes == ["new tokens get keys of their own: 't0', 't1', 't2', 't3', 't4' and 2 more"]


async def test_one_variable_of_several_channels_is_one_note(owner: ControlClient) -> None:
    channel = 'dialect = "openai"\nbase_url = "http://127.0.0.1:9"\nkey = "env:TK_UNSET"\n'
    (note,) = (await owner.import_config(f"format = 1\n[channels.a]\n{channel}[channels.b]\n{channel}")).notes
    assert note == "channels 'a', 'b': the environment variable TK_UNSET is not set where the server runs"


async def test_money_is_not_configuration(owner: ControlClient) -> None:
    text = (await owner.export_config()).text
    await owner.grant(5)
    before = (await owner.account()).granted_nanos
    await owner.import_config(text, apply=True, prune=True)
    assert (await owner.account()).granted_nanos == before


LITELLM = {
    "model_list": [
        {
            "model_name": "m2",
            "litellm_params": {"model": "openai/x", "api_base": "http://127.0.0.1:9", "api_key": "sk-x"},
        }
    ],
    "litellm_settings": {"fallbacks": [{"m2": ["m"]}], "num_retries": 3},
}


async def test_litellm_s_models_and_fallbacks_are_added(owner: ControlClient, gateway: Gateway) -> None:
    mine = (Fallback(model="m", to=("m3",)), Fallback(model="m2", to=("m3",)))
    gateway.group("default", note="mine", fallbacks=mine)
    text = json.dumps(LITELLM)
    done = await owner.import_config(text, apply=True, origin=ConfigOrigin.LITELLM)
    assert "not imported: litellm_settings.num_retries" in done.notes
    group = gateway.engine.catalog.group("default")
    assert (group.note, {rule.model: rule.to for rule in group.fallbacks}) == ("mine", {"m": ("m3",), "m2": ("m",)})
    assert gateway.engine.catalog.channel("litellm-127.0.0.1-9").key == "sk-x"
    again = await owner.import_config(text, apply=True, origin=ConfigOrigin.LITELLM)
    assert {difference.action for difference in again.differences} == {"kept"}


async def test_models_of_another_gateway_get_known_prices_or_are_named(owner: ControlClient) -> None:
    models = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_key": "sk-x"}}
        for name in ("gpt-4.1", "unheard-of")
    ]
    text = json.dumps({"model_list": models})
    plan = await owner.import_config(text, origin=ConfigOrigin.LITELLM)
    assert "channel 'litellm-openai': 1 price known to the program" in plan.notes
    assert any(
        "no price is known for unheard-of: their calls are counted but not charged" in note for note in plan.notes
    )
    await owner.import_config(text, apply=True, origin=ConfigOrigin.LITELLM)
    assert "gpt-4.1" in [price.model for price in await owner.prices()]
    again = await owner.import_config(text, origin=ConfigOrigin.LITELLM)
    assert {one.action for one in again.differences} == {"kept"}
    await owner.remove_price("gpt-4.1")
    again = await owner.import_config(text, origin=ConfigOrigin.LITELLM)
    assert {one.action for one in again.differences} == {"kept"}


async def test_a_model_that_leads_elsewhere_gets_the_price_of_its_new_upstream(owner: ControlClient) -> None:
    def text(model: str) -> str:
        return json.dumps({"model_list": [{"model_name": "n", "litellm_params": {"model": model, "api_key": "k"}}]})

    await owner.import_config(text("openai/gpt-4.1"), apply=True, origin=ConfigOrigin.LITELLM)
    await owner.import_config(text("openai/gpt-4.1-nano"), apply=True, origin=ConfigOrigin.LITELLM)
    (price,) = [price for price in await owner.prices() if price.model == "n"]
    assert price.input == 100_000_000


async def test_what_the_owner_added_to_an_imported_channel_stays(owner: ControlClient, gateway: Gateway) -> None:
    text = json.dumps(
        [{"type": 1, "name": "theirs", "models": "a,b", "key": "sk-1\nsk-2", "base_url": "http://127.0.0.1:9"}]
    )
    await owner.import_config(text, apply=True, origin=ConfigOrigin.NEW_API)
    await owner.edit_channel("theirs", {"note": "mine", "limits": {"rpm": 5}})
    changed = text.replace("a,b", "a,c")
    done = await owner.import_config(changed, apply=True, origin=ConfigOrigin.NEW_API)
    assert [field.field for d in done.differences if d.action == "changed" for field in d.fields] == ["models"]
    found = gateway.engine.catalog.channel("theirs")
    assert (found.note, found.limits.rpm, found.all_keys) == ("mine", 5, ("sk-1", "sk-2"))


@pytest.mark.parametrize(
    ("text", "origin", "said"),
    [
        ("{", ConfigOrigin.LITELLM, "not valid JSON"),
        ("[]", ConfigOrigin.LITELLM, "no model_list"),
        ('{"model_list": 5}', ConfigOrigin.LITELLM, "no model_list"),
        ("{}", ConfigOrigin.ONE_API, "no list of channels"),
        ("[" * 100_000, ConfigOrigin.NEW_API, "not valid JSON"),
        ('[{"type": 1, "name": "x", "models": "a", "key": "\\u0007x"}]', ConfigOrigin.ONE_API, "channels.x.key"),
    ],
)
async def test_a_stranger_s_text_that_makes_no_sense(
    owner: ControlClient, gateway: Gateway, text: str, origin: ConfigOrigin, said: str
) -> None:
    before = gateway.engine.catalog.registry
    with pytest.raises(BadRequest, match=said):
        await owner.import_config(text, apply=True, origin=origin)
    assert gateway.engine.catalog.registry is before
