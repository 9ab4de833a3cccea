"""A channel's key and headers, with references resolved and nothing sent that must not be."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.urls import Proxy
from gateway.upstream.credentials import headers_of, proxy_of
from tests.upstream.makers import attempt_fails, channel


def _headers(environ: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
    headers = headers_of(channel(**more), environ or {})
    assert headers.pop("User-Agent").startswith("tollkeeper/")
    return headers


def test_without_a_key_there_is_no_authorization() -> None:
    assert _headers() == {}


@pytest.mark.parametrize("key", [" sk-1\n", '"sk-1"', "'sk-1'", "Bearer sk-1", '"bearer sk-1"', "env:UP_KEY"])
def test_a_key_goes_as_a_bearer(key: str) -> None:
    assert _headers({"UP_KEY": "'sk-1'\r\n"}, key=key) == {"Authorization": "Bearer sk-1"}


def test_or_where_the_upstream_wants_it() -> None:
    assert _headers(key="k", preset="azure") == {"api-key": "k"}
    assert _headers(key="k", base_url="https://me.openai.azure.com/openai/v1") == {"api-key": "k"}


@pytest.mark.parametrize(("dialect", "name"), [("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")])
def test_or_where_the_dialect_has_its_place(dialect: str, name: str) -> None:
    assert _headers(key="k", dialect=dialect, base_url="https://me.openai.azure.com") == {name: "k"}


def test_a_proxy_is_read_and_its_reference_resolved() -> None:
    assert proxy_of(channel(), {}) is None
    assert proxy_of(channel(proxy="http://h:1"), {}) == Proxy("h", 1)
    assert proxy_of(channel(proxy="env:P"), {"P": "http://h:1"}) == Proxy("h", 1)
    for environ, kind in (({}, FailureKind.UNSET), ({"P": "h:1"}, FailureKind.AUTH)):
        with attempt_fails() as caught:
            proxy_of(channel(proxy="env:P"), environ)
        assert (caught.value.kind, caught.value.sent) == (kind, False)


def test_a_reference_in_a_header_is_resolved() -> None:
    assert _headers({"T": "me"}, headers={"X-Title": "env:T"}) == {"X-Title": "me"}


def test_the_key_wins_over_a_header_of_the_channel() -> None:
    assert _headers(key="k", headers={"Authorization": "mine"})["Authorization"] == "Bearer k"


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Cookie"])
def test_headers_that_would_break_the_connection_are_left_out(name: str) -> None:
    assert _headers(headers={name: "x"}) == {}


@pytest.mark.parametrize("environ", [{}, {"K": ""}])
def test_a_missing_variable_is_named_and_nothing_was_sent(environ: dict[str, str]) -> None:
    with attempt_fails("variable K is not set") as caught:
        _headers(environ, key="env:K")
    assert (caught.value.kind, caught.value.sent) == (FailureKind.UNSET, False)


@pytest.mark.parametrize("key", ["sk-\u00e9", "sk-1\r\nHost: evil", "sk-\x001"])
def test_a_key_that_cannot_be_sent_is_not_shown(key: str) -> None:
    with attempt_fails("cannot be sent") as caught:
        _headers(key=key)
    assert key not in caught.value.message
