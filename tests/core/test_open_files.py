"""Connections share what the system allows of open files, and never take all of it."""

import subprocess
import sys

import pytest

from gateway.core.open_files import MIN_RESERVE, OpenFiles, needed_files
from gateway.domain.settings import Settings
from tests.house import ROOT


def _files(limit: int, connections: int) -> OpenFiles:
    return OpenFiles(lambda: Settings(connections=connections), limit)


@pytest.mark.parametrize(
    ("limit", "connections", "found"),
    [
        (0, 2048, (2048, 0)),
        (0, 0, (0, 0)),
        (256, 2048, (96, 96)),
        (1024, 2048, (448, 448)),
        (1024, 100, (100, 796)),
        (1024, 0, (448, 448)),
        (8320, 2048, (2048, 6144)),
        (20, 2048, (1, 1)),
    ],
)
def test_what_clients_and_upstreams_may_take(limit: int, connections: int, found: tuple[int, int]) -> None:
    files = _files(limit, connections)
    assert (files.clients(), files.upstreams()) == found


@pytest.mark.parametrize("limit", [64, 100, 256, 1024, 4096, 65_536])
@pytest.mark.parametrize("connections", [0, 1, 50, 2048])
def test_something_is_left_for_the_store_and_every_client_has_an_upstream(limit: int, connections: int) -> None:
    files = _files(limit, connections)
    assert files.clients() + files.upstreams() <= limit - MIN_RESERVE
    assert 0 < files.clients() <= files.upstreams()


def test_as_many_as_are_wanted_are_enough() -> None:
    assert _files(needed_files(2048), 2048).clients() == 2048


def test_a_setting_that_changes_counts_at_once() -> None:
    settings = [Settings(connections=10)]
    files = OpenFiles(lambda: settings[0], 1024)
    assert (files.clients(), files.upstreams(), files.limited_by_system) == (10, 886, False)
    settings[0] = Settings(connections=2048)
    assert (files.clients(), files.upstreams(), files.limited_by_system) == (448, 448, True)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(("soft", "hard"), [(128, 512), (512, 512)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int) -> None:
    """In a process of its own: a hard limit cannot be raised again."""
    code = (
        "import resource; from gateway.core.open_files import raise_file_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        f"print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(hard)] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_a_goal_that_the_system_does_not_take_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS says that any number is possible, and refuses all above 10,240."""
    import resource  # noqa: PLC0415 - there is none on Windows

    from gateway.core.open_files import raise_file_limit  # noqa: PLC0415

    now = [256]

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 10_240:
            raise ValueError("not allowed to raise maximum limit")
        now[0] = limits[0]

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (now[0], resource.RLIM_INFINITY))
    assert raise_file_limit() == 10_240
