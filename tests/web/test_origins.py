"""Only who means this gateway is heard, and no stranger's web page."""

import re

import pytest
from hypothesis import given, strategies as st

from gateway.domain.errors import RequestRefused
from gateway.domain.settings import Settings
from gateway.web.origins import check_host, check_origin, cors_headers, preflight_headers, split_host

PORT = 8655
OWNERS = ("gateway.lan", "tunnel.example:443", "10.0.0.7")


def accepted(header: str, bound: str = "127.0.0.1", allowed: tuple[str, ...] = OWNERS) -> bool:
    try:
        check_host(header, bound, allowed, PORT)
    except RequestRefused as refused:
        return refused.code != "wrong_host"
    return True


@pytest.mark.parametrize(
    "header",
    [
        *("127.0.0.1", "127.0.0.1:8655", "localhost", "localhost:8655", "LOCALHOST", "LocalHost:8655", "[::1]"),
        *("[::1]:8655", " localhost ", "gateway.lan", "gateway.lan:8655", "Gateway.LAN", "tunnel.example:443"),
        *("10.0.0.7:8655", "localhost:80", "127.0.0.1:11434", "[::1]:65535", "localhost.:8655", "gateway.lan."),
    ],
)
def test_loopback_and_the_owners_names_are_heard(header: str) -> None:
    assert accepted(header)


@pytest.mark.parametrize(
    "header",
    [
        *("", " ", ":", ":8655", "localhost:", "localhost:0", "localhost:123456", "localhost:08655"),
        *("localhost:8655:8655", "localhost:\uff18\uff16\uff15\uff15", "localhost:-1", "localhost:x", "localhost.."),
        *("localhost.localdomain", "localhost.evil.example", "evil.example", "evil.example:8655"),
        *("127.0.0.1.evil.example", "127.1", "127.0.0.2", "0x7f.0.0.1", "2130706433", "0.0.0.0", "0.0.0.0:8655"),
        *("[::]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "::1", "[::1", "[::1]8655", "gateway.lan:80"),
        *("10.0.0.7:80", "[localhost]:8655x", "user@localhost", "localhost@evil.example", "localhost/", "localhost#"),
        *("http://localhost:8655", "tunnel.example", "tunnel.example:8655", "gateway.lan:443"),
        *("gateway.lan.evil.example", "192.168.1.5", "10.0.0.8", "localhost\x00", "local\u200bhost"),
        *("\u24dbocalhost", "*"),
    ],
)
def test_every_other_name_is_not(header: str) -> None:
    assert not accepted(header)


@pytest.mark.parametrize(
    ("listed", "header", "heard"),
    [
        ("gw.lan.", "gw.lan.", True),
        ("gw.lan.", "gw.lan", True),
        ("gw.lan.:80", "gw.lan.:80", True),
        ("gw.lan.:80", "gw.lan:8655", False),
        ("GW.lan", "gw.lan:8655", True),
        ("[fd00::5]", "[fd00::5]:8655", True),
        ("[fd00::5]:80", "[fd00::5]:80", True),
        ("[fd00::5]", "[fd00::6]", False),
    ],
)
def test_a_listed_host_is_compared_as_a_header_is_read(listed: str, header: str, heard: bool) -> None:
    assert accepted(header, allowed=(listed,)) is heard


def test_the_bound_address_is_an_allowed_host() -> None:
    assert accepted("192.168.1.5:8655", bound="192.168.1.5")
    assert accepted("[fd00::5]:8655", bound="fd00::5")
    assert not accepted("192.168.1.6:8655", bound="192.168.1.5")


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", ""])
@pytest.mark.parametrize(
    ("header", "heard"),
    [("192.168.1.5:8655", True), ("[fe80::1]:8655", True), ("rebound.example:8655", False), ("127.1", False)],
)
def test_bound_to_all_every_address_is_allowed_but_no_name(bound: str, header: str, heard: bool) -> None:
    assert accepted(header, bound=bound) is heard


@given(st.text(max_size=40))
def test_no_header_breaks_the_check(header: str) -> None:
    accepted(header)


@pytest.mark.parametrize(
    ("bound", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8655/v1"),
        ("0.0.0.0", "http://127.0.0.1:8655/v1"),
        ("", "http://127.0.0.1:8655/v1"),
        ("::", "http://[::1]:8655/v1"),
        ("::1", "http://[::1]:8655/v1"),
        ("192.168.1.5", "http://192.168.1.5:8655/v1"),
        ("fd00::5", "http://[fd00::5]:8655/v1"),
        ("gateway.lan", "http://gateway.lan:8655/v1"),
    ],
)
def test_a_refusal_shows_the_header_harmlessly_and_the_right_address(bound: str, address: str) -> None:
    with pytest.raises(RequestRefused, match=re.escape(f"; use {address}, or accept")) as caught:
        check_host("\x1b[2J\u202e" * 99, bound, (), PORT)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("header", "name", "port"),
    [
        ("a", "a", ""),
        ("A:1", "a", "1"),
        ("[::1]:1", "::1", "1"),
        ("[::1]", "::1", ""),
        ("a:", "", ""),
        ("a:b", "", ""),
        ("[a", "", ""),
        ("[a]b", "", ""),
    ],
)
def test_a_header_is_split(header: str, name: str, port: str) -> None:
    assert split_host(header) == (name, port)


LISTED = Settings(origins=("https://other.example", "https://app.example"))


def test_a_listed_origin_passes_until_it_is_taken_off_the_list() -> None:
    check_origin("https://app.example", LISTED)
    with pytest.raises(RequestRefused):
        check_origin("https://app.example", Settings(origins=("https://other.example",)))


@pytest.mark.parametrize(
    "origin",
    ["", "null", "https://app.example.evil", "http://app.example", "https://app.example:8443", "http://127.0.0.1:8655"],
)
def test_every_other_origin_is_refused(origin: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_origin(origin, LISTED)
    assert caught.value.code == "origin_not_allowed"


APPS = [
    *("null", "app://obsidian.md", "app://.", "capacitor://localhost"),
    *("chrome-extension://abcdefghijklmnopabcdefghijklmnop", "file://"),
    *("moz-extension://0f6c1b1e-8a5e-4b53-9b0e-1f6f4c1b1e8a", "safari-web-extension://1f6f4c1b", "tauri://localhost"),
    *("http://tauri.localhost", "https://tauri.localhost", "vscode-file://vscode-app", "vscode-webview://0k1d2m3n4"),
]
PAGES = ["http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:5173"]
STRANGERS = [
    *("https://evil.example", "http://localhost.evil.example", "http://localhost:3000.evil.example"),
    *("http://evil.example/localhost", "http://evil@localhost:3000", "http://127.0.0.1.evil.example:80"),
    *("http://tauri.localhost.evil.example", "http://tauri.localhost@evil.example", "https://app.tauri.localhost"),
    *("apps://obsidian.md", "xapp://obsidian.md", "app:obsidian", "app://a b", "app://\u202e", "nullx", "NULL", ""),
    "*",
]


def permitted(origin: str, settings: Settings) -> bool:
    try:
        check_origin(origin, settings)
    except RequestRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("origins", "apps", "pages"), [(APPS, True, False), (PAGES, False, True), (STRANGERS, False, False)]
)
def test_each_switch_permits_its_kind(origins: list[str], apps: bool, pages: bool) -> None:
    """Switched on one at a time, then both, then none."""
    for origin in origins:
        assert permitted(origin, Settings(app_origins=True)) is apps
        assert permitted(origin, Settings(loopback_origins=True)) is pages
        assert permitted(origin, Settings(app_origins=True, loopback_origins=True)) is (apps or pages)
        assert not permitted(origin, Settings())


@pytest.mark.parametrize(
    ("origin", "commands"),
    [
        ("https://a.example", ["'tollkeeper settings set --add-origin https://a.example'"]),
        ("app://obsidian.md", ["--add-origin app://obsidian.md'", "'tollkeeper settings set --app-origins'"]),
        ("null", ["--add-origin null'", "'tollkeeper settings set --app-origins'"]),
        ("http://localhost:3000", ["--add-origin http://localhost:3000'", "--loopback-origins'"]),
    ],
)
def test_a_refusal_names_the_command_that_permits_it(origin: str, commands: list[str]) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_origin(origin, Settings())
    assert all(command in caught.value.message for command in commands)


def test_what_a_stranger_sends_is_harmless_in_a_command() -> None:
    with pytest.raises(RequestRefused) as caught:
        check_origin("https://a;rm -rf ~ \x1b[2J$(id)", Settings())
    command = caught.value.message.partition("--add-origin ")[2]
    assert command.isprintable()
    assert command.startswith("'https://a;rm")
    with pytest.raises(RequestRefused, match=r"--add-host gateway\.lan:8655'"):
        check_host("Gateway.LAN:8655", "127.0.0.1", (), PORT)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("authorization", "authorization"),
        ("authorization,content-type, X-Stainless-Lang", "authorization,content-type, X-Stainless-Lang"),
        ("", "authorization, content-type, api-key, x-api-key"),
        ("*", "authorization, content-type, api-key, x-api-key"),
        ("a\r\nset-cookie: x", "authorization, content-type, api-key, x-api-key"),
        ("\udcff", "authorization, content-type, api-key, x-api-key"),
        (",".join(["a"] * 65), "authorization, content-type, api-key, x-api-key"),
    ],
)
def test_a_listed_page_may_send_the_headers_it_wants(wanted: str, told: str) -> None:
    assert preflight_headers(wanted)["Access-Control-Allow-Headers"] == told


def test_a_page_of_a_public_network_may_call_a_private_one() -> None:
    assert "Access-Control-Allow-Private-Network" not in preflight_headers("")
    assert preflight_headers("", private=True)["Access-Control-Allow-Private-Network"] == "true"
    assert preflight_headers("")["Vary"].startswith("Origin, ")


def test_a_listed_page_may_read_every_header() -> None:
    assert cors_headers("https://app.example") == {
        "Access-Control-Allow-Origin": "https://app.example",
        "Access-Control-Expose-Headers": "*",
        "Vary": "Origin",
    }
