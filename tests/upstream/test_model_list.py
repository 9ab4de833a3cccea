"""Lists of models in every shape that upstreams send."""

import json
import time
from typing import Any

import pytest

from gateway.domain.channel import ServedModel
from gateway.domain.price import Tier, UpstreamPrices
from gateway.domain.units import Millis, Nanos
from gateway.upstream.model_list import ModelPage, read_models
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.upstream.makers import channel


def _read(doc: object) -> list[ServedModel] | None:
    page = read_models(json.dumps(doc).encode())
    return None if page is None else page.models


def test_reads_names_times_and_contexts_in_order() -> None:
    data = [{"id": "b", "created": 1_700_000_000}, {"id": "a", "context_length": 8192, "owned_by": "x"}]
    assert _read({"object": "list", "data": data}) == [
        ServedModel(name="b", created=Millis(1_700_000_000_000)),
        ServedModel(name="a", context=8192),
    ]


def test_a_time_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        times = ["2023-11-14T22:13:20", "2023-11-14T22:13:20Z", "2023-11-15T00:13:20+02:00", 1_700_000_000]
        found = _read({"data": [{"id": f"m{n}", "created_at": made} for n, made in enumerate(times)]})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found is not None
    assert [model.created for model in found] == [1_700_000_000_000] * 4


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"object": "list", "data": None}, []),
        ({"models": [{"name": "x"}], "data": [{"id": "m"}]}, [ServedModel(name="m")]),
        ([{"id": "m"}], [ServedModel(name="m")]),
        ({"data": [{"id": "models/gemini"}]}, [ServedModel(name="gemini")]),
        ({"data": [{"id": "m"}, {"id": "m"}]}, [ServedModel(name="m")]),
    ],
    ids=["null is empty", "a list beside it", "a bare list", "Gemini's prefix", "a name said twice"],
)
def test_forms_of_lists(body: object, found: list[ServedModel]) -> None:
    assert _read(body) == found


CONTEXTS = ("max_model_len", "context_window", "max_context_length", "context_size")


@pytest.mark.parametrize(
    ("entry", "context", "limit"),
    [
        *(({name: 5}, 5, None) for name in CONTEXTS),
        *(({"context_length": value}, None, None) for value in (-5, 0, "5", 1.5, True, 10**12, None)),
        pytest.param({"meta": {"n_ctx_train": 5}}, 5, None, id="llama.cpp"),
        pytest.param({"meta": {"n_ctx": 4, "n_ctx_train": 5}}, 4, None, id="llama.cpp with a smaller context"),
        pytest.param({"context_window": {"context_length": 5, "max_output_tokens": 3}}, 5, 3, id="Poe"),
        pytest.param({"type": "language", "context_window": 5, "max_tokens": 3}, 5, 3, id="Vercel"),
        pytest.param({"max_context": 5}, 5, None, id="ArliAI"),
        pytest.param(
            {
                "providers": [
                    {"status": "live", "context_length": 7},
                    {"status": "live", "context_length": 5},
                    {"status": "live"},
                    {"status": "error", "context_length": 3},
                ]
            },
            *(5, None),
            id="Hugging Face's router",
        ),
        pytest.param({"metadata": {"context_length": 5, "max_tokens": 5}}, 5, None, id="DeepInfra"),
        pytest.param({"model_spec": {"availableContextTokens": 5, "maxCompletionTokens": 3}}, 5, 3, id="Venice"),
        pytest.param(
            {"capabilities": {"limits": {"max_context_window_tokens": 5, "max_output_tokens": 3}}},
            *(5, 3),
            id="GitHub Copilot",
        ),
        pytest.param(
            {"context_length": 5, "metadata": {"context_length": 7}, "model_spec": "x", "capabilities": ["chat"]},
            *(5, None),
            id="the entry itself",
        ),
        # The output limit is the model's own, and never its context.
        ({"max_completion_tokens": 3, "context_window": 9}, 9, 3),
        ({"max_output_tokens": 3}, None, 3),
        ({"context_length": 9, "top_provider": {"context_length": 9, "max_completion_tokens": 4}}, 9, 4),
        ({"context_length": 9, "top_provider": {"max_completion_tokens": None}}, 9, None),
        ({"n_ctx": 9}, 9, None),
    ],
)
def test_context_and_output_limit_have_many_names_and_places(
    entry: dict[str, object], context: int | None, limit: int | None
) -> None:
    assert _read({"data": [{"id": "m", **entry}]}) == [ServedModel(name="m", context=context, max_output=limit)]


@pytest.mark.parametrize("name", [None, 5, "", "a\x1b[31m", "x" * 300, "a\nb"])
def test_a_name_that_is_none_is_left_out(name: object) -> None:
    assert _read({"data": [{"id": name}, {"id": "m"}, 5]}) == [ServedModel(name="m")]


def test_an_endless_list_is_cut() -> None:
    found = _read({"data": [{"id": f"m{i}"} for i in range(5005)]})
    assert found is not None
    assert len(found) == 5000


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"null", b"5", b'{"data":{}}', b'{"error":"x"}'])
def test_other_bodies_have_no_list(body: bytes) -> None:
    assert read_models(body) is None


def test_a_list_of_too_many_elements_is_not_decoded() -> None:
    assert read_models(b'{"data":[' + b'{"id":"m"},' * 250_000 + b"{}]}") is not None
    assert read_models(b'{"data":[' + b'{"id":"m"},' * 255_000 + b"{}]}") is None


CHEAP = UpstreamPrices(input=Nanos(150_000_000), output=Nanos(600_000_000))


def _nanos(dollars: float) -> Nanos:
    return Nanos(round(dollars * 10**9))


def _offer(first: float, second: float, status: str = "live") -> dict[str, object]:
    """A vendor in an entry of Hugging Face's router."""
    return {"status": status, "pricing": {"input": first, "output": second}}


def _told(first: float, second: float, extras: dict[str, float] | None = None, **more: Any) -> UpstreamPrices:
    """Amounts in dollars."""
    rates: dict[str, Any] = {key: _nanos(n) if isinstance(n, float | int) else n for key, n in more.items()}
    fees = {name: _nanos(value) for name, value in (extras or {}).items()}
    return UpstreamPrices(input=_nanos(first), output=_nanos(second), extras=fees, **rates)


def _tier(above: int, first: float, second: float, cached: float) -> Tier:
    return Tier(above=above, input=_nanos(first), output=_nanos(second), cached_input=_nanos(cached))


@pytest.mark.parametrize(
    ("pricing", "published"),
    [
        ({"prompt": "0.00000015", "completion": "0.0000006", "image": "0", "request": "0"}, CHEAP),
        ({"hourly": 0, "input": 0.15, "output": 0.6, "base": 0}, CHEAP),
        ({"input": "0.15", "output": "0.60"}, CHEAP),
        ({"input": "0.00000015", "output": "0.0000006"}, CHEAP),
        ({"prompt": "0", "completion": "0"}, UpstreamPrices(input=Nanos(0), output=Nanos(0))),
        (
            {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
            UpstreamPrices(input=Nanos(3 * 10**9), output=Nanos(15 * 10**9), cached_input=Nanos(3 * 10**8)),
        ),
        ({"prompt": "-1", "completion": "-1"}, None),
        ({"prompt": "0.15"}, None),
        ({"prompt": "1e99", "completion": "NaN"}, None),
        ({"prompt": "1e999999999", "completion": "1"}, None),
        ({"input": "sNaN", "output": "1"}, None),
        ({"prompt": "x", "completion": None}, None),
        ({"input": True, "output": []}, None),
        ("free", None),
        (None, None),
        ({"prompt": 0.0005, "completion": 0.0008, "unit": "per_1k_tokens"}, _told(0.5, 0.8)),
        ({"prompt": 0.5, "completion": 0.8, "unit": "USD per million tokens"}, _told(0.5, 0.8)),
        ({"input": 0.5, "output": 0.8, "currency": "USD", "unit": "1M tokens"}, _told(0.5, 0.8)),
        ({"input": "0.0000005", "output": "0.0000008", "price_unit": "$/token"}, _told(0.5, 0.8)),
        ({"input": 0.0005, "output": 0.0008, "units": "1K"}, _told(0.5, 0.8)),
        ({"input": 0.0015, "output": 0.002, "unit": "per_1000_tokens"}, _told(1.5, 2)),
        ({"prompt": 0.5, "completion": 0.8, "unit": "per_image"}, None),
        ({"prompt": 0.5, "completion": 0.8, "unit": "credits"}, None),
        ({"input": 0.5, "output": 0.8, "unit": 7}, None),
        ({"input": 0.5, "output": 0.8, "currency": "EUR"}, None),
        ({"input": "0.00015", "output": "0.0006"}, _told(150, 600)),
        ({"input": {"usd": 0.5, "diem": 0.5}, "output": {"usd": 2, "diem": 2}}, _told(0.5, 2)),
        ({"hourly": 0, "input": 0.6, "output": 2, "cached_input": 0.3}, _told(0.6, 2, cached_input=0.3)),
        (
            {
                "prompt": "0.000002",
                "completion": "0.000012",
                "input_cache_read": "0.0000002",
                "overrides": [{"min_prompt_tokens": 272000, "prompt": "0.000004", "completion": "0.000018"}],
            },
            _told(2, 12, cached_input=0.2, tiers=(_tier(271_999, 4, 18, 0.2),)),
        ),
        (
            {
                "prompt": "0.000003",
                "completion": "0.000015",
                "input_cache_write_1h": "0.000006",
                "overrides": [
                    {"min_prompt_tokens": 200_001, "prompt": "0.000006", "input_cache_write_1h": "0.000012"},
                    {"min_prompt_tokens": 500_001, "prompt": "0.000009"},
                ],
            },
            _told(
                *(3, 15),
                cache_write_long=6,
                tiers=(
                    Tier(above=200_000, input=_nanos(6), output=_nanos(15), cache_write_long=_nanos(12)),
                    Tier(above=500_000, input=_nanos(9), output=_nanos(15), cache_write_long=_nanos(12)),
                ),
            ),
        ),
        (  # reasoning costs what other output does, also after a longer input; audio has its own rate there
            {
                "prompt": "0.00000125",
                "completion": "0.00001",
                "internal_reasoning": "0.00001",
                "audio": "0.000002",
                "overrides": [
                    {
                        "min_prompt_tokens": 200_001,
                        "prompt": "0.0000025",
                        "completion": "0.000015",
                        "audio": "0.000004",
                    },
                    {"min_prompt_tokens": 500_001, "prompt": "0.000003", "internal_reasoning": "0"},
                ],
            },
            _told(
                *(1.25, 10),
                extras={"input_audio": 2},
                tiers=(
                    Tier(above=200_000, input=_nanos(2.5), output=_nanos(15), extras={"input_audio": _nanos(4)}),
                    Tier(above=500_000, input=_nanos(3), output=_nanos(15), extras={"input_audio": _nanos(4)}),
                ),
            ),
        ),
        ({"prompt": "0.000002", "completion": "0.000012", "overrides": [{"min_images": 5, "prompt": 1}]}, _told(2, 12)),
        (
            {
                "input": "0.000001",
                "output": "0.000005",
                "input_cache_read": "0.0000002",
                "input_tiers": [
                    {"cost": "0.000001", "min": 0, "max": 32001},
                    {"cost": "0.0000018", "min": 32001, "max": 128001},
                    {"cost": "0.000003", "min": 128001},
                ],
                "output_tiers": [
                    {"cost": "0.000005", "min": 0, "max": 128001},
                    {"cost": "0.000015", "min": 128001},
                ],
            },
            _told(1, 5, cached_input=0.2, tiers=(_tier(32_000, 1.8, 5, 0.2), _tier(128_000, 3, 15, 0.2))),
        ),
        (
            {
                "prompt": "0.00000125",
                "completion": "0.00001",
                "request": "0.005",
                "image": "0.00516",
                "audio": "0.000003",
                "internal_reasoning": "0.000012",
                "web_search": "0.01",
                "input_cache_write": "0.0000015",
            },
            _told(
                *(1.25, 10),
                cache_write=1.5,
                per_call=0.005,
                extras={"input_audio": 3, "reasoning": 12, "searches": 0.01},
            ),
        ),
    ],
)
def test_prices_tiers_and_fees_are_read_in_every_unit(pricing: object, published: UpstreamPrices | None) -> None:
    assert _read({"data": [{"id": "m", "pricing": pricing}]}) == [ServedModel(name="m", published=published)]


@pytest.mark.parametrize(
    ("entry", "published"),
    [
        (
            {"metadata": {"pricing": {"input_tokens": 0.09, "output_tokens": 0.45, "cache_read_tokens": 0.02}}},
            _told(0.09, 0.45, cached_input=0.02),
        ),
        (
            {"model_spec": {"pricing": {"input": {"usd": 0.7}, "output": {"usd": 2.8}, "cache_input": {"usd": 0.1}}}},
            _told(0.7, 2.8, cached_input=0.1),
        ),
        (
            {"input_price": 0.000003, "output_price": 0.000015, "cached_price": 3e-7, "caching_price": 0.00000375},
            _told(3, 15, cached_input=0.3, cache_write=3.75),
        ),
        ({"model_info": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05}}, _told(3, 15)),
        ({"providers": [_offer(0.3, 1.2), _offer(0.3, 1.2), _offer(9, 9, status="error")]}, _told(0.3, 1.2)),
        ({"providers": [_offer(0.3, 1.2), _offer(0.4, 1.2)]}, None),
        ({"providers": [_offer(0.3, 1.2), {"status": "live"}]}, None),
    ],
)
def test_prices_are_read_in_every_place(entry: dict[str, object], published: UpstreamPrices | None) -> None:
    assert _read({"data": [{"id": "m", **entry}]}) == [ServedModel(name="m", published=published)]


@pytest.mark.parametrize(
    ("prompt", "image", "fee"),
    [("0.00000125", "0.00516", None), ("0.00000125", "0.07", 70_000_000), ("0", "0.02", 20_000_000)],
)
def test_a_pictures_fee_is_read_where_it_exceeds_its_tokens(prompt: str, image: str, fee: int | None) -> None:
    pricing = {"prompt": prompt, "completion": "0.00001", "image": image}
    (model,) = _read({"data": [{"id": "m", "pricing": pricing}]}) or []
    assert model.published is not None
    assert model.published.extras.get("images") == fee


@pytest.mark.parametrize(("fee", "nanos"), [("0.01", 10_000_000), ("10", 10_000_000), ("2.5", 2_500_000)])
def test_a_search_fee_of_a_dollar_or_more_is_for_a_thousand(fee: str, nanos: int) -> None:
    pricing = {"input": "0.000005", "output": "0.000025", "web_search": fee}
    (model,) = _read({"data": [{"id": "m", "pricing": pricing}]}) or []
    assert model.published is not None
    assert model.published.extras == {"searches": nanos}


def test_novitas_amounts_are_ten_thousandths_of_a_dollar() -> None:
    entry = {"id": "m", "input_token_price_per_m": 2690, "output_token_price_per_m": 4000}
    (model,) = _read({"data": [entry]}) or []
    assert model.published == _told(0.269, 0.4)


@pytest.mark.parametrize(
    ("doc", "name"),
    [
        ({"data": [{"model": "anthropic/claude-opus-4-6"}]}, "anthropic/claude-opus-4-6"),
        ({"data": [{"name": "llama3.3:70b", "size": 5}]}, "llama3.3:70b"),
        ({"data": [{"id": "a", "model": "b", "name": "c"}]}, "a"),
        ({"models": [{"slug": "gpt-x", "display_name": "GPT X"}]}, "gpt-x"),
        ({"data": [{"id": None, "model": "b"}]}, "b"),
        ({"models": [{"name": "models/gemini-x", "displayName": "Gemini X"}]}, "gemini-x"),
        ({"data": ["gpt-x"]}, "gpt-x"),
        (["gpt-x"], "gpt-x"),
    ],
)
def test_a_model_may_be_named_by_other_fields_than_id(doc: object, name: str) -> None:
    assert _read(doc) == [ServedModel(name=name)]


def test_the_list_of_models_is_requested_at_once() -> None:
    dialect, up = OpenAIDialect(), channel("https://h/v1/")
    assert getattr(dialect.models_request(up, ""), "url", "") == "https://h/v1/models"
    assert dialect.models_request(up, "b") is None


def test_unusable_names_are_counted() -> None:
    entries = [{"id": "a"}, {"id": "b\x1b[2J"}, {"id": "x" * 201}, {"name": "no id"}, {"id": "a"}]
    page = read_models(json.dumps({"data": entries}).encode())
    assert page == ModelPage(models=[ServedModel(name="a")], unreadable=3)
