from pathlib import Path

import msgspec
import pytest

from gateway.client import launch
from gateway.config import Config
from gateway.domain.errors import Unavailable
from gateway.domain.events import Stopping
from gateway.domain.units import Nanos
from gateway.runfile import Endpoint
from tests.tui.stage import ADDRESS, NOW, FakeClient, channel, console, running
from tui.calls import as_view
from tui.session import ServerLauncher


def test_a_server_can_be_asked_once_it_is_attached() -> None:
    made, client = console().session, FakeClient()
    with pytest.raises(Unavailable, match="not running"):
        _ = made.client
    made.attach(client)
    assert made.client is client


@pytest.mark.parametrize(("starter", "is_ours"), [("here", True), ("there", False), ("", False)])
def test_a_console_knows_the_server_that_it_has_started(starter: str, is_ours: bool) -> None:
    made, client = console().session, FakeClient()
    assert not made.started_here
    client.endpoint = Endpoint(instance="two", secret="s", address=ADDRESS, starter=starter)
    made.attach(client)
    assert made.started_here is is_ours


def test_a_lost_server_cannot_be_asked_but_its_board_stays() -> None:
    made = console().session
    made.attach(FakeClient())
    made.board.apply(FakeClient().snapshot())
    made.mark_server_gone("it stopped")
    with pytest.raises(Unavailable):
        _ = made.client
    assert (made.link, made.reason, made.address) == ("gone", "it stopped", ADDRESS)


def test_nothing_runs_at_a_server_that_is_gone() -> None:
    made = console().session
    made.board.apply(msgspec.structs.replace(FakeClient().snapshot(), channels=[channel("up", in_flight=2, waiting=1)]))
    made.board.apply(Stopping(running=[], until_ms=NOW))
    made.mark_server_gone("it stopped")
    assert [(one.in_flight, one.waiting) for one in made.board.channels] == [(0, 0)]
    assert made.board.stopping is None


def test_calls_that_ran_when_the_server_went_are_lost_and_hold_nothing() -> None:
    made = console().session
    account = msgspec.structs.replace(FakeClient().account_now, held_nanos=Nanos(5), balance_nanos=Nanos(20))
    ran, waits = running(1), running(2, waits_for="channel 'a'", attempt=0)
    snapshot = msgspec.structs.replace(FakeClient().snapshot(), account=account, running=[ran], waiting=[waits])
    made.board.apply(snapshot)
    made.mark_server_gone("it stopped")
    calls = made.board.calls
    lost = as_view(calls.by_id[ran.id], NOW)
    assert (lost.outcome, lost.state, lost.cost_nanos, calls.running) == ("lost", "settled", 0, {})
    assert waits.id not in calls.order
    assert made.board.account is not None
    assert (made.board.account.held_nanos, made.board.account.available_nanos) == (0, 20)


async def test_on_an_empty_home_no_server_is_found(tmp_path: Path) -> None:
    assert await ServerLauncher(Config(home=tmp_path)).find() is None


async def test_a_client_that_a_form_holds_asks_the_server_that_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [Endpoint(instance=name, secret=name, address=ADDRESS, socket=f"/{name}") for name in ("one", "two")]

    async def find(_: Config) -> Endpoint | None:
        return servers.pop(0)

    monkeypatch.setattr(launch, "find", find)
    launcher = ServerLauncher(Config(home=tmp_path))
    attached = await launcher.find()
    assert attached is not None
    await launcher.find()
    assert attached.client.build_request("GET", "/tokens").headers["Authorization"] == "Bearer two"
    assert attached.client.endpoint.socket == "/two"


async def test_a_server_is_started_again_where_it_listened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Endpoint(instance="1", secret="s", address="http://127.0.0.1:9001/v1", host_option="0.0.0.0")
    wanted: list[Config] = []

    async def find(_: Config) -> Endpoint | None:
        return first

    async def ensure(config: Config) -> Endpoint:
        wanted.append(config)
        return msgspec.structs.replace(first, instance="2")

    monkeypatch.setattr(launch, "find", find)
    monkeypatch.setattr(launch, "ensure", ensure)
    launcher = ServerLauncher(Config(home=tmp_path, port=8655))
    assert await launcher.find() is not None
    await launcher.ensure()
    assert [(config.host, config.port) for config in wanted] == [("0.0.0.0", 9001)]


@pytest.mark.parametrize(
    ("address", "options"),
    [
        (ADDRESS, ""),
        ("http://127.0.0.1:9655/v1", " --port 9655"),
        ("http://0.0.0.0:80/v1", " --host 0.0.0.0 --port 80"),
        ("", ""),
    ],
)
def test_the_line_that_starts_it_again_starts_it_where_it_was(address: str, options: str) -> None:
    made = console().session
    made.board.apply(FakeClient().snapshot())
    assert made.board.status is not None
    made.board.status = msgspec.structs.replace(made.board.status, address=address)
    assert made.restart_command == f"{made.program}{options}"
