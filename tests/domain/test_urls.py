import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.urls import Proxy, base_url_warning, checked_base_url, is_private, parse_proxy, shown_proxy
from tests.refusals import refusal_of


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        *((f"{url}/", url) for url in ("https://api.example.com/v1", "http://127.0.0.1:11434/v1", "http://10.0.0.7")),
        *(
            (f"{url}/", url)
            for url in ("http://[::1]:8080/v1", "https://münchen.example/v1", "http://localhost:1234/v1")
        ),
        ("https://api.example.com/v1/chat/completions", "https://api.example.com/v1"),
        ("https://api.example.com/v1/responses/", "https://api.example.com/v1"),
        ("https://api.example.com/v1/messages", "https://api.example.com/v1"),
        ("https://api.example.com/v1/models", "https://api.example.com/v1/models"),  # Azure has calls below it
        ("https://completions", "https://completions"),
    ],
)
def test_a_url_is_kept_without_the_path_of_a_call(url: str, kept: str) -> None:
    assert checked_base_url(url) == kept


@pytest.mark.parametrize(
    "url",
    [
        *("", "api.example.com/v1", "ftp://example.com", "file:///etc/passwd", "https://", "https:///v1"),
        *("https://user:secret@example.com/v1", "https://user@example.com/v1", "https://example.com/v1?key=1"),
        *("https://example.com/v1?", "https://example.com/v1#x", "https://example.com:99999/v1"),
        *("https://example.com:port/v1", "https://exa mple.com/v1", "https://example.com\\@evil.example/v1"),
        *("https://example.com/\x1b[2J", "https://example.com/\n", "https://[::1/v1", "http://169.254.169.254/v1"),
        *("http://[fe80::1]/v1", "http://[fd00:ec2::254]/v1", "http://[::ffff:169.254.169.254]/v1"),
        *("http://2852039166/v1", "http://0xa9fea9fe/v1", "http://127.1/v1", "http://0.0.0.0/v1"),
        *("http://metadata.google.internal/v1", "http://METADATA.google.internal./v1"),
    ],
)
def test_dangerous_and_broken_urls_are_refused(url: str) -> None:
    error = refusal_of(checked_base_url, url)
    assert error.param == "base_url"
    assert "\x1b" not in error.message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:pass@word@h/v1", "'http://...@h/v1' must not hold a user or a password"),
        ("https://h/v1?key=secret", "'https://h/v1?...' must not have a query"),
        ("ftp://me:secret@h/v1", "'ftp://...@h/v1' must begin with http"),
        ("me:secret@h/v1", "'...@h/v1' "),
        ("https://h/v1?user=a@b&key=secret", "'https://...' "),
        ("https://me:sec\nret@h/v1?key=secret", "'https://...@h/v1?...' "),
    ],
)
def test_what_may_be_a_key_in_a_refused_url_is_not_repeated(url: str, shown: str) -> None:
    with pytest.raises(BadRequest) as refused:
        checked_base_url(url)
    assert f"base URL {shown}" in refused.value.message


@pytest.mark.parametrize("url", ["http://api.example.com/v1", "http://8.8.8.8/v1"])
def test_plain_http_to_far_hosts_is_warned_of(url: str) -> None:
    assert "not encrypted" in base_url_warning(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "http://localhost/v1",
        "http://192.168.1.5/v1",
        "http://nas/v1",
        "http://gpu.local/v1",
    ],
)
def test_encrypted_and_near_hosts_are_not(url: str) -> None:
    assert base_url_warning(url) == ""


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.0.9/v1", True),
        ("http://box.lan/v1", True),
        ("https://api.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_near_is_this_machine_and_this_network(url: str, near: bool) -> None:
    assert is_private(url) == near


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy.lan:3128", Proxy("proxy.lan", 3128)),
        ("http://[::1]:8080/", Proxy("::1", 8080)),
        ("http://me:p%40ss@10.0.0.1:1", Proxy("10.0.0.1", 1, "Basic bWU6cEBzcw==")),
        ("http://me@h:1", Proxy("h", 1, "Basic bWU6")),
    ],
)
def test_a_proxy_has_a_host_a_port_and_maybe_a_password(text: str, proxy: Proxy) -> None:
    assert parse_proxy(text) == proxy


@pytest.mark.parametrize(
    "text",
    [
        *("", "proxy:3128", "https://h:1", "socks5://h:1", "http://h", "http://:1", "http://h:x", "http://h:99999"),
        *("http://h:1/path", "http://h:1?q", "http://h:1#f", "http://h\r\n:1", "http://me:canary @h:1", "http://h:0"),
    ],
)
def test_what_is_not_a_proxy_is_refused_without_repeating_it(text: str) -> None:
    error = refusal_of(parse_proxy, text)
    assert error.param == "proxy"
    assert "canary" not in error.message


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
    assert shown_proxy(text) == seen
