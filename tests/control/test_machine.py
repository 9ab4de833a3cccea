import os
import re
import socket
from pathlib import Path

import pytest

from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.control import machine
from gateway.core.open_files import OpenFiles
from gateway.domain.settings import Settings
from tests.fakes.gateway import Gateway

UNIX = pytest.mark.skipif(os.name == "nt", reason="rights are Unix's")


async def test_a_healthy_machine(owner: ControlClient, gateway: Gateway) -> None:
    found = {step.name: step for step in await owner.machine()}
    assert list(found) == ["the port", "the home", "the disk", "open files"]
    assert {step.result for step in found.values()} == {"ok"}
    assert gateway.engine.address in found["the port"].text


def test_a_port_that_another_program_has_is_a_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        step = machine.check_port(Config(home=tmp_path, port=port), "")
    owner = rf".* \(pid {os.getpid()}\)" if Path("/proc/net/tcp").exists() else ".*"
    assert step.result == "fail"
    assert re.fullmatch(rf"cannot listen on 127\.0\.0\.1:{port}: {owner} already listens there", step.text)
    assert re.fullmatch(rf"use another port: tollkeeper serve --home {tmp_path} --port \d+", step.fix)
    assert machine.check_port(Config(home=tmp_path, port=0), "").result == "ok"


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_needs_another_host_and_not_another_port(tmp_path: Path, host: str) -> None:
    step = machine.check_port(Config(home=tmp_path, host=host, port=0), "")
    assert (step.result, step.text) == ("fail", f"'{host}' is not an address of this machine")
    assert step.fix == "choose another with --host"


@UNIX
def test_files_that_others_may_read_are_named_and_not_those_that_links_lead_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "link").symlink_to("/etc/hosts")
    inner = tmp_path / "usage" / "calls.json"
    inner.parent.mkdir(mode=0o700)
    inner.touch(0o600)
    assert machine.check_home(tmp_path).result == "ok"
    inner.chmod(0o644)
    step = machine.check_home(tmp_path)
    assert (step.result, step.text) == ("fail", "other users can read usage/calls.json")
    assert step.fix == f"chmod -R go-rwx {tmp_path}"


@UNIX
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    step = machine.check_home(tmp_path)
    assert (step.result, step.text) == (
        "fail",
        f"{tmp_path} cannot be written to: it belongs to another user, or its file system is read-only",
    )


@UNIX
def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    step = machine.check_home(tmp_path)
    assert (step.result, "another user owns" in step.text) == ("fail", True)


@pytest.mark.parametrize(("free", "result"), [(256 << 20, "ok"), ((256 << 20) - 1, "fail")])
def test_room_on_the_disk(tmp_path: Path, free: int, result: str) -> None:
    assert machine.check_disk(tmp_path, lambda _: (10**12, 0, free)).result == result


@pytest.mark.parametrize(
    ("limit", "result", "text"),
    [
        (256, "warning", "the system allows 256, enough for 96 connections of clients instead of 2048"),
        (8320, "ok", "enough for 2048 connections"),
        (0, "ok", "enough for 2048 connections"),
    ],
)
def test_too_few_open_files_are_a_warning_with_two_remedies(limit: int, result: str, text: str) -> None:
    step = machine.check_open_files(OpenFiles(Settings, limit), 2048)
    assert (step.result, step.text) == (result, text)
    assert ("LimitNOFILE=8320" in step.fix, "--connections 96" in step.fix) == (limit == 256, limit == 256)
