"""Whether the gateway can be reached, told without a token and without a name."""

from pathlib import Path

from gateway import __version__
from gateway.domain.units import Millis
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Provider
from tests.house import ROOT


async def test_health_is_well(gateway: Gateway) -> None:
    for path in ("/health", "/v1/health"):
        answer = await gateway.client.get(path, {"authorization": None})
        assert (answer.status, answer.json["status"], answer.json["version"]) == (200, "ok", __version__)
        assert answer.json["channels"] == {"ok": 1, "cooling": 0, "half_open": 0, "attention": 0, "off": 0}
        assert answer.json["store"] == "ok"


async def test_health_names_nobody(gateway: Gateway) -> None:
    body = (await gateway.client.get("/health")).body
    for secret in (b"up", b"laptop", b"default", gateway.client.key.encode()):
        assert secret not in body.replace(b"uptime_s", b"")


async def test_the_uptime_does_not_depend_on_the_wall_clock(home: Path) -> None:
    wall = [Millis(1_763_640_000_000)]
    async with running(home, wall=lambda: wall[0]) as gateway:
        wall[0] = Millis(wall[0] - 3_600_000)
        assert gateway.engine.status().uptime_s >= 0
        assert (await gateway.client.get("/health")).json["uptime_s"] >= 0


async def test_a_stopping_gateway_says_so(gateway: Gateway) -> None:
    gateway.engine.refuse_calls()
    answer = await gateway.client.get("/health")
    assert (answer.status, answer.json["status"]) == (503, "stopping")


async def test_every_field_of_health_is_documented(gateway: Gateway) -> None:
    text = (ROOT / "docs/http.md").read_text()
    assert [name for name in (await gateway.client.get("/health")).json if f"| `{name}` |" not in text] == []


async def test_health_asks_no_upstream(gateway: Gateway, provider: Provider) -> None:
    assert (await gateway.client.get("/health")).status == 200
    assert (provider.exchanges, gateway.records) == ([], [])


async def test_the_front_page_has_the_base_url_and_what_it_does_not_prove(gateway: Gateway) -> None:
    page = (await gateway.client.get("/")).body.decode()
    assert gateway.engine.address in page
    assert "proves only" in page
    assert page.isascii()
