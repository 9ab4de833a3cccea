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


BEARERS = (" sk-1\n", '"sk-1"', "'sk-1'", "Bearer sk-1", '"bearer sk-1"', "env:UP_KEY")
AZURE = "https://me.openai.azure.com"


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {}),
        *(({"key": key}, {"Authorization": "Bearer sk-1"}) for key in BEARERS),
        ({"key": "k", "preset": "azure"}, {"api-key": "k"}),
        ({"key": "k", "base_url": f"{AZURE}/openai/v1"}, {"api-key": "k"}),
        # The dialect has a place of its own.
        ({"key": "k", "dialect": "anthropic", "base_url": AZURE}, {"x-api-key": "k"}),
        ({"key": "k", "dialect": "gemini", "base_url": AZURE}, {"x-goog-api-key": "k"}),
        ({"headers": {"X-Title": "env:T"}}, {"X-Title": "me"}),
        ({"key": "k", "headers": {"Authorization": "mine"}}, {"Authorization": "Bearer k"}),
        # What would break the connection.
        *(({"headers": {name: "x"}}, {}) for name in ("Host", "content-length", "Transfer-Encoding", "Connection")),
        ({"headers": {"Cookie": "x"}}, {}),
    ],
)
def test_key_and_headers_go_where_the_upstream_wants_them(fields: dict[str, Any], sent: dict[str, str]) -> None:
    assert _headers({"UP_KEY": "'sk-1'\r\n", "T": "me"}, **fields) == sent


def test_a_proxy_is_read_and_its_reference_resolved() -> None:
    assert proxy_of(channel(), {}) is None
    assert proxy_of(channel(proxy="http://h:1"), {}) == Proxy("h", 1)
    assert proxy_of(channel(proxy="env:P"), {"P": "http://h:1"}) == Proxy("h", 1)
    for environ, kind in (({}, FailureKind.UNSET), ({"P": "h:1"}, FailureKind.AUTH)):
        with attempt_fails() as caught:
            proxy_of(channel(proxy="env:P"), environ)
        assert (caught.value.kind, caught.value.sent) == (kind, False)


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
