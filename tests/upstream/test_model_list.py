"""Lists of models in every shape that upstreams send."""

import json

import pytest

from gateway.domain.channel import ServedModel, UpstreamPrices
from gateway.domain.units import Millis, Nanos
from gateway.upstream.model_list import MODELS_LIMIT, ModelPage, PlainModelListing, read_models
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


def test_a_list_that_is_null_is_empty() -> None:
    assert _read({"object": "list", "data": None}) == []


def test_a_list_beside_it_is_not_read() -> None:
    assert _read({"models": [{"name": "x"}], "data": [{"id": "m"}]}) == [ServedModel(name="m")]


def test_a_bare_list_is_read() -> None:
    assert _read([{"id": "m"}]) == [ServedModel(name="m")]


def test_geminis_prefix_is_left_out() -> None:
    assert _read({"data": [{"id": "models/gemini"}]}) == [ServedModel(name="gemini")]


@pytest.mark.parametrize("name", ["max_model_len", "context_window", "max_context_length"])
def test_the_context_has_many_names(name: str) -> None:
    assert _read({"data": [{"id": "m", name: 5}]}) == [ServedModel(name="m", context=5)]


@pytest.mark.parametrize(
    ("entry", "limit"),
    [
        ({"max_completion_tokens": 3, "context_window": 9}, 3),
        ({"max_output_tokens": 3}, 3),
        ({"context_length": 9, "top_provider": {"context_length": 9, "max_completion_tokens": 4}}, 4),
        ({"context_length": 9, "top_provider": {"max_completion_tokens": None}}, None),
        ({"context_length": 9}, None),
        ({"context_window": 9}, None),
        ({"meta": {"n_ctx_train": 9}}, None),
        ({"n_ctx": 9}, None),
    ],
)
def test_the_output_limit_is_the_models_own_and_never_its_context(entry: dict[str, object], limit: int | None) -> None:
    found = _read({"data": [{"id": "m", **entry}]})
    assert found is not None
    assert found[0].max_output == limit


@pytest.mark.parametrize("value", [-5, 0, "5", 1.5, True, 10**12, None])
def test_a_context_that_is_none_is_left_out(value: object) -> None:
    assert _read({"data": [{"id": "m", "context_length": value}]}) == [ServedModel(name="m")]


@pytest.mark.parametrize("name", [None, 5, "", "a\x1b[31m", "x" * 300, "a\nb"])
def test_a_name_that_is_none_is_left_out(name: object) -> None:
    assert _read({"data": [{"id": name}, {"id": "m"}, "x"]}) == [ServedModel(name="m")]


def test_a_name_said_twice_is_there_once() -> None:
    assert _read({"data": [{"id": "m"}, {"id": "m"}]}) == [ServedModel(name="m")]


def test_an_endless_list_is_cut() -> None:
    found = _read({"data": [{"id": f"m{i}"} for i in range(MODELS_LIMIT + 5)]})
    assert found is not None
    assert len(found) == MODELS_LIMIT


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"null", b"5", b'{"data":{}}', b'{"error":"x"}'])
def test_what_is_not_a_list_is_none(body: bytes) -> None:
    assert read_models(body) is None


CHEAP = UpstreamPrices(input=Nanos(150_000_000), output=Nanos(600_000_000))


@pytest.mark.parametrize(
    ("pricing", "told"),
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
        ({"prompt": "x", "completion": None}, None),
        ({"input": True, "output": []}, None),
        ("free", None),
        (None, None),
    ],
)
def test_the_price_is_read_where_the_upstream_tells_it(pricing: object, told: UpstreamPrices | None) -> None:
    assert _read({"data": [{"id": "m", "pricing": pricing}]}) == [ServedModel(name="m", told=told)]


def test_questions() -> None:
    assert PlainModelListing().ask(channel("https://h/v1/"), "").url == "https://h/v1/models"


def test_a_page() -> None:
    assert PlainModelListing().read(b'{"data":[{"id":"a"}]}') == ModelPage(models=[ServedModel(name="a")])


def test_what_is_not_a_list() -> None:
    assert PlainModelListing().read(b"<html>") is None


def test_what_has_no_usable_name_is_counted() -> None:
    entries = [{"id": "a"}, {"id": "b\x1b[2J"}, {"id": "x" * 201}, {"name": "no id"}, {"id": "a"}]
    page = read_models(json.dumps({"data": entries}).encode())
    assert page == ModelPage(models=[ServedModel(name="a")], unreadable=3)
