"""How far a host can be reached, each stage with its own failure."""

import datetime as dt
import ssl

import pytest
import trustme

from gateway.upstream.http import dial
from gateway.upstream.http.reachability import Stage, check_reachability
from tests.upstream.http.makers import certified, hang, listening


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def trusting(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """The channels' connections trust the tests' authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    dial.target_of.cache_clear()
    monkeypatch.setattr(dial, "tls_context", lambda: context)


async def test_a_plain_address_is_connected_to() -> None:
    async with listening(hang) as port:
        found = await check_reachability(f"http://127.0.0.1:{port}/v1", 5)
    assert (found.failed, found.host, found.port, found.addresses, found.tls) == (None, "127.0.0.1", port, (), "")


async def test_a_name_has_its_addresses() -> None:
    async with listening(hang) as port:
        found = await check_reachability(f"http://localhost:{port}", 5)
    assert (found.failed, "127.0.0.1" in found.addresses) == (None, True)


async def test_tls_reports_its_version_and_when_the_certificate_ends(authority: trustme.CA) -> None:
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
    async with listening(hang, certified(authority, "127.0.0.1", ends)) as port:
        found = await check_reachability(f"https://127.0.0.1:{port}/v1", 5)
    assert (found.failed, found.tls) == (None, "TLSv1.3")
    assert found.expires_s == pytest.approx(ends.timestamp(), abs=1)


async def test_nobody_listens() -> None:
    found = await check_reachability("http://127.0.0.1:1/v1", 5)
    assert (found.failed, found.text) == (Stage.CONNECTION, "Connection refused")


async def test_a_stranger_s_certificate() -> None:
    async with listening(hang, certified(trustme.CA(), "127.0.0.1")) as port:
        found = await check_reachability(f"https://127.0.0.1:{port}/v1", 5)
    assert found.failed is Stage.CERTIFICATE
    assert "certificate is not accepted" in found.text


async def test_a_host_that_says_nothing_does_not_hold_us_up() -> None:
    async with listening(hang) as port:
        found = await check_reachability(f"https://127.0.0.1:{port}/v1", 0.1)
    assert (found.failed, found.text) == (Stage.CONNECTION, "no answer within 0.1 s")
