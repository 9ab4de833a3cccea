"""A proxy is a URL whose password is never shown."""

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.urls import Proxy, proxy_of, shown


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy.lan:3128", Proxy("proxy.lan", 3128)),
        ("http://[::1]:8080/", Proxy("::1", 8080)),
        ("http://me:p%40ss@10.0.0.1:1", Proxy("10.0.0.1", 1, "Basic bWU6cEBzcw==")),
        ("http://me@h:1", Proxy("h", 1, "Basic bWU6")),
    ],
)
def test_proxies(text: str, proxy: Proxy) -> None:
    assert proxy_of(text) == proxy


@pytest.mark.parametrize(
    "text",
    [
        *("", "proxy:3128", "https://h:1", "socks5://h:1", "http://h", "http://:1", "http://h:x", "http://h:99999"),
        *("http://h:1/path", "http://h:1?q", "http://h:1#f", "http://h\r\n:1", "http://me:canary @h:1", "http://h:0"),
    ],
)
def test_what_is_no_proxy_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        proxy_of(text)
    assert caught.value.param == "proxy"
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        ("env:PROXY", "env:PROXY"),
        ("http://h:1", "http://h:1"),
        ("http://me:a-long-secret-canary@h:1", "http://…@h:1"),
        ("http://a@b:canary@h:1", "http://…@h:1"),
    ],
)
def test_passwords_are_not_shown(text: str, seen: str) -> None:
    assert shown(text) == seen
