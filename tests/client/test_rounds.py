from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.client.doctor_checks import check_clock, check_everything, check_proxies
from gateway.domain.errors import Unavailable
from gateway.domain.views import Step, Verdict
from tests.control.conftest import Surface
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply

LIST = reply({"object": "list", "data": [{"id": "m"}]})
HERE = "http://127.0.0.1:8655/v1"


async def made(owner: ControlClient, environ: Mapping[str, str] | None = None) -> dict[str, Step]:
    """By name."""
    return {step.name: step async for step in check_everything(owner, environ or {})}


async def test_every_channel_is_looked_at_whatever_becomes_of_the_others(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("/v1/models", fail(401), LIST)
    gateway.channel("http://127.0.0.1:1/v1", name="dead")
    gateway.channel(provider.base_url, name="well", enabled=False)
    found = await made(owner)
    results = {name: step.result for name, step in found.items()}
    assert results == {
        "channel dead": "fail",
        "channel up": "fail",
        "channel well": "skipped",
        "the port": "ok",
        "the home": "ok",
        "the disk": "ok",
        "open files": "ok",
        "the clock": "skipped",
        "the store": "ok",
        "the proxy variables": "ok",
    }
    assert all(bool(step.fix) == (step.result == "fail") for step in found.values())


async def test_books_that_differ(owner: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = await owner.verify()

    async def bad() -> Verdict:
        return replace(verdict, equal=False, difference="balance: 1 != 2")

    monkeypatch.setattr(owner, "verify", bad)
    step = (await made(owner))["the store"]
    assert (step.text, step.code) == ("balance: 1 != 2", "store_differs")


async def test_a_store_that_has_failed(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.store.books.trouble.say(write="the disk is full")
    step = (await made(owner))["the store"]
    gateway.engine.store.books.trouble.say(write="")
    assert (step.result, step.code, step.status) == ("fail", "store_unavailable", 503)
    assert (step.text, bool(step.fix)) == ("it has failed, and no calls are taken: the disk is full", True)


async def test_a_damaged_log(owner: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = await owner.verify()

    async def bad() -> Verdict:
        return replace(verdict, damage=["one", "another"])

    monkeypatch.setattr(owner, "verify", bad)
    step = (await made(owner))["the store"]
    assert (step.result, step.text) == ("fail", "one; another")


async def test_what_is_not_answered_is_a_failure_of_its_own(
    owner: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise Unavailable("the server hangs")

    for name in ("checkup", "machine", "verify"):
        monkeypatch.setattr(owner, name, broken)
    found = await made(owner)
    failed = [name for name, step in found.items() if step.result == "fail"]
    assert failed == ["channel up", "the machine", "the store"]


async def test_without_a_server_there_is_nothing_to_look_at(owner: ControlClient, surface: Surface) -> None:
    await surface.runner.cleanup()
    assert [step.result for step in (await made(owner)).values()] == ["skipped"]


@pytest.mark.parametrize(
    ("ahead", "result", "text"),
    [
        ({}, "skipped", "no upstream told its time"),
        ({"a": 900}, "ok", "within 1 s of that of channel a"),
        ({"a": 7_200_000, "b": -3_000}, "ok", "within 3 s of that of channel b"),
        ({"a": 7_200_000}, "fail", "7,200 s ahead of that of channel a"),
        ({"a": -61_000}, "fail", "61 s behind that of channel a"),
    ],
)
def test_the_clock_is_judged_by_the_nearest_upstream(ahead: dict[str, int], result: str, text: str) -> None:
    step = check_clock(ahead)
    assert (step.result, step.text) == (result, text)


@pytest.mark.parametrize(
    ("environ", "result"),
    [
        ({}, "ok"),
        ({"HTTP_PROXY": ""}, "ok"),
        ({"https_proxy": "http://p:1"}, "ok"),
        ({"HTTP_PROXY": "http://p:1"}, "fail"),
        ({"http_proxy": "http://p:1"}, "fail"),
        ({"ALL_PROXY": "socks5://p:1"}, "fail"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "example.com, 10.0.0.0/8"}, "fail"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "127.0.0.1,localhost"}, "ok"),
        ({"HTTP_PROXY": "http://p:1", "no_proxy": "a, 127.0.0.0/8"}, "ok"),
        ({"HTTP_PROXY": "http://p:1", "no_proxy": "*"}, "ok"),
    ],
)
def test_variables_that_lead_calls_to_a_proxy(environ: dict[str, str], result: str) -> None:
    step = check_proxies(HERE, environ)
    assert step.result == result
    assert bool(step.fix) == (result == "fail")


def test_a_name_is_spared_by_the_domain_it_ends_in() -> None:
    environ = {"HTTP_PROXY": "http://p:1", "NO_PROXY": ".home.arpa"}
    assert check_proxies("http://box.home.arpa:8655/v1", environ).result == "ok"
    assert "http://p:1" not in check_proxies("http://box:8655/v1", environ).text
