"""The model list shows what a token sees, and nothing else."""

import json
from typing import Any

import msgspec
import pytest

from gateway.core.catalog import Catalog
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import NotFound
from gateway.domain.group import Group
from gateway.domain.price import Price, PriceHours, PriceRule
from gateway.domain.units import DOLLAR, Millis, Nanos
from gateway.v1.models import list_json, model_json
from tests.core import kit
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway

TOKEN = kit.token()
NOW = Millis(1_795_773_540_000)
"""Friday 2026-11-27, 09:59 UTC."""


def offered(*channels: Channel, **fields: Any) -> Catalog:
    return kit.catalog(*channels, **fields)


def listed(catalog: Catalog) -> list[dict[str, Any]]:
    doc = json.loads(list_json(TOKEN, catalog, NOW))
    assert doc["object"] == "list"
    return list(doc["data"])


def up(*models: str, **fields: Any) -> Channel:
    return kit.channel("up", *models, **{"groups": ("home",), "created": Millis(1_763_500_000_999), **fields})


def test_nothing_to_see_is_an_empty_list() -> None:
    assert (
        list_json(TOKEN, offered(), NOW)
        == b'{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}'
    )


def test_models_are_sorted_and_unique() -> None:
    catalog = offered(up("b", "a"), kit.channel("other", "a", groups=("home",)))
    assert [model["id"] for model in listed(catalog)] == ["a", "b"]


def test_an_entry_has_all_that_clients_require() -> None:
    (model,) = listed(offered(up("x"), prices=()))
    ours = {"id": "x", "object": "model", "created": 1_763_500_000, "owned_by": "up"}
    theirs = {"type": "model", "display_name": "x", "created_at": "2025-11-18T21:06:40Z", "lifecycle": "active"}
    assert model == {**ours, **theirs, "max_input_tokens": None, "max_tokens": None}


def test_the_context_in_the_price_list_is_not_given_as_the_longest_answer() -> None:
    """A client that sent it as max_tokens would be refused; the gateway's hold may still count with it."""
    price = Price(model="x", input=Nanos(DOLLAR), output=Nanos(DOLLAR), context=128_000)
    (model,) = listed(offered(up("x"), prices=(price,)))
    assert (model["max_tokens"], model["id"]) == (None, "x")
    known = msgspec.structs.replace(up("x"), models=(ServedModel(name="x", max_output=16_384),))
    (model,) = listed(offered(known, prices=(price,)))
    assert model["max_tokens"] == 16_384


@pytest.mark.parametrize(
    ("minutes", "paid"), [(0, {"input": "4.00", "output": "20.00"}), (1, {"input": "2.00", "output": "10.00"})]
)
def test_the_price_of_the_hour_is_shown(minutes: int, paid: dict[str, str]) -> None:
    peak = PriceRule(
        during=(PriceHours(start=6 * 60, end=10 * 60),), input=Nanos(4 * DOLLAR), output=Nanos(20 * DOLLAR)
    )
    price = Price(model="x", input=Nanos(2 * DOLLAR), output=Nanos(10 * DOLLAR), rules=(peak,))
    (model,) = json.loads(list_json(TOKEN, offered(up("x"), prices=(price,)), Millis(NOW + minutes * 60_000)))["data"]
    assert model["pricing"] == paid


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        (ServedModel(name="x"), (None, None)),
        (ServedModel(name="x", context=32_768), (32_768, None)),
        (ServedModel(name="x", context=32_768, max_output=8_192), (32_768, 8_192)),
        (ServedModel(name="x", context=32_768, max_output=32_768), (32_768, 32_768)),
    ],
)
def test_limits_are_those_that_the_upstream_lists(served: ServedModel, expected: tuple[int | None, int | None]) -> None:
    (model,) = listed(offered(msgspec.structs.replace(up("x"), models=(served,)), prices=()))
    assert (model["max_input_tokens"], model["max_tokens"]) == expected


@pytest.mark.parametrize(
    ("query", "names", "more"),
    [
        ({"limit": "2"}, ["a", "b"], True),
        ({"limit": "2", "after_id": "b"}, ["c", "d"], False),
        ({"after_id": "d"}, [], False),
        ({"limit": "1", "before_id": "c"}, ["b"], True),
        ({"limit": "9", "before_id": "c"}, ["a", "b"], False),
    ],
)
def test_a_page_of_the_list(query: dict[str, str], names: list[str], more: bool) -> None:
    doc = json.loads(list_json(TOKEN, offered(up("a", "b", "c", "d")), NOW, query))
    assert ([model["id"] for model in doc["data"]], doc["has_more"]) == (names, more)
    assert (doc["first_id"], doc["last_id"]) == ((names[0], names[-1]) if names else (None, None))


def test_context_and_price_are_shown_beside_it() -> None:
    served = ServedModel(name="x", context=8192, created=Millis(5_000))
    channel = Channel(id=kit.channel().id, name="up", dialect=kit.channel().dialect, models=(served,), groups=("home",))
    price = Price(model="x", input=Nanos(2_500_000_000), output=Nanos(1_200 * DOLLAR))
    (model,) = listed(offered(channel, prices=(price,)))
    assert (model["created"], model["context_length"]) == (5, 8192)
    assert model["pricing"] == {"input": "2.50", "output": "1200.00"}


@pytest.mark.parametrize("name", ["a/b:free", "org/team/model", "m@v1", "ключ", "with space"])
def test_one_model_is_its_entry(name: str) -> None:
    catalog = offered(up(name))
    assert [json.loads(model_json(name, TOKEN, catalog, NOW))] == listed(catalog)


def test_claude_code_finds_every_model_by_a_name_that_it_offers() -> None:
    catalog = offered(up("claude-x", "anthropic/y", "gpt", "qwen", "claude/qwen"))
    ids = [model["id"] for model in json.loads(list_json(TOKEN, catalog, NOW, aliases=True))["data"]]
    assert ids == ["anthropic/y", "claude-x", "claude/gpt", "claude/qwen", "gpt", "qwen"]
    page = json.loads(list_json(TOKEN, catalog, NOW, {"limit": "2", "after_id": "claude-x"}, aliases=True))
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (["claude/gpt", "claude/qwen"], True)
    entry, alias = (json.loads(model_json(name, TOKEN, catalog, NOW, aliases=True)) for name in ("gpt", "claude/gpt"))
    assert alias == {**entry, "id": "claude/gpt"}
    with pytest.raises(NotFound):
        model_json("claude/gpt", TOKEN, catalog, NOW)


def test_a_model_that_is_not_seen_does_not_exist() -> None:
    catalog = offered(up("secret", groups=("work",)), groups=(Group(name="home"), Group(name="work")))
    with pytest.raises(NotFound) as caught:
        model_json("secret", TOKEN, catalog, NOW)
    assert caught.value.code == "model_not_found"


async def test_a_list_that_is_refused_is_recorded_by_its_address(gateway: Gateway) -> None:
    """No model was called by any API."""
    for path in ("/v1/models", "/v1/models/m"):
        assert (await Client(gateway.port, "sk-tk-wrong").ask("GET", path)).status == 401
    gateway.engine.pipeline.refusals.close()
    record = gateway.records[0]
    assert (record.request, record.api, record.model) == ("GET /v1/models", "", "")
