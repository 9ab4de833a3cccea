"""Who listens at a port, and which port is free."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.web import port_owner
from gateway.web.port_owner import free_port


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which this process listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="a system without /proc")
def test_the_owner_is_named_with_its_process(port: int) -> None:
    assert port_owner.port_owner(port).endswith(f"(pid {os.getpid()})")


@pytest.mark.skipif(shutil.which("lsof") is None, reason="no lsof")
def test_lsof_names_it_too(port: int) -> None:
    assert port_owner.owner_by_lsof(port).endswith(f"(pid {os.getpid()})")


def test_the_output_of_lsof_is_read() -> None:
    assert port_owner.read_lsof("p812\ncnginx\nf6\np813\ncnginx\nf6\n") == "nginx (pid 812)"
    assert port_owner.read_lsof("p812\ncx\x1b[2J\nf6\n") == "x�[2J (pid 812)"
    assert port_owner.read_lsof("") == ""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="a system without /proc")
def test_only_the_program_of_a_command_line_is_shown() -> None:
    shown = port_owner.program_of(Path("/proc/self"))
    assert not {word for word in sys.orig_argv[3:] if word != "pytest"} & set(shown.split())


def test_a_free_port_has_no_owner(port: int) -> None:
    other = free_port("127.0.0.1", port)
    assert other is not None
    assert other > port
    if Path("/proc/net/tcp").exists():
        assert port_owner.port_owner(other) == ""
