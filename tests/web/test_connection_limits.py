"""So many connections, and so many of one address; this machine's own are not counted by address."""

import pytest

from gateway.domain.settings import Settings
from gateway.web.connection_limits import ConnectionLimits, is_this_machine

FAR = "192.168.1.7"


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("", True),
        (FAR, False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2001:db8::1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_whose_address_it_is(address: str, own: bool) -> None:
    assert is_this_machine(address) == own


@pytest.mark.parametrize("limit", [1, 2, 2048])
def test_the_limit_itself_is_let_in_and_one_more_is_not(limit: int) -> None:
    limits = ConnectionLimits(lambda: Settings(connections=limit))
    assert [limits.enter("127.0.0.1") for _ in range(limit)] == [""] * limit
    for _ in range(3):
        assert limits.enter("127.0.0.1") == f"more than {limit} connections are open"
    limits.leave("127.0.0.1")
    assert limits.enter("127.0.0.1") == ""
    assert limits.enter("127.0.0.1") != ""


def test_what_the_system_has_open_files_for_is_a_limit_as_well() -> None:
    limits = ConnectionLimits(Settings, lambda: 2)
    assert [limits.enter("127.0.0.1") for _ in range(2)] == ["", ""]
    assert limits.enter("127.0.0.1") == (
        "more than 2 connections are open, and the system's limit of open files allows no more"
    )
    assert limits.open == 2


@pytest.mark.parametrize("limit", [1, 256])
def test_one_address_of_another_machine_has_its_own_limit(limit: int) -> None:
    limits = ConnectionLimits(lambda: Settings(address_connections=limit))
    assert [limits.enter(FAR) for _ in range(limit)] == [""] * limit
    assert limits.enter(FAR) == f"more than {limit} connections of this address are open"
    assert limits.enter("192.168.1.8") == ""
    limits.leave(FAR)
    assert limits.enter(FAR) == ""


def test_this_machine_may_have_any_number() -> None:
    limits = ConnectionLimits(lambda: Settings(address_connections=1))
    assert [limits.enter("127.0.0.1") for _ in range(3)] == [""] * 3


def test_without_limits_all_may_come() -> None:
    limits = ConnectionLimits(lambda: Settings(connections=0, address_connections=0))
    assert {limits.enter(FAR) for _ in range(5000)} == {""}


def test_addresses_that_left_are_forgotten() -> None:
    limits = ConnectionLimits(Settings)
    for number in range(1000):
        limits.enter(f"10.0.{number // 256}.{number % 256}")
        limits.leave(f"10.0.{number // 256}.{number % 256}")
    assert limits._by_address == {}  # noqa: SLF001 - its bound is what this is about
