"""Connections share what the system allows of open files, and never take all of it."""

import subprocess
import sys

import pytest

from gateway.core.open_files import MIN_RESERVE, OpenFiles, needed_files
from gateway.domain.settings import Settings
from tests.house import ROOT


def _files(limit: int, connections: int) -> OpenFiles:
    return OpenFiles(lambda: Settings(connections=connections), lambda _: limit)


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


def test_a_setting_that_changes_raises_the_limit_again() -> None:
    settings, goals = [Settings(connections=10)], []

    def raised(goal: int) -> int:
        goals.append(goal)
        return min(goal, 1024)

    files = OpenFiles(lambda: settings[0], raised)
    assert [(files.clients(), files.limited_by_system) for _ in range(2)] == [(10, False)] * 2
    settings[0] = Settings(connections=2048)
    assert (files.clients(), files.upstreams(), files.limited_by_system, files.limit) == (448, 448, True, 1024)
    assert goals == [needed_files(10), needed_files(2048)]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(
    ("soft", "hard", "goal", "limit"), [(128, 512, 8320, 512), (128, 512, 300, 300), (256, 512, 200, 256)]
)
def test_the_soft_limit_is_raised_towards_the_hard_one(soft: int, hard: int, goal: int, limit: int) -> None:
    """In a process of its own: a hard limit cannot be raised again."""
    code = (
        "import resource; from gateway.core.open_files import raise_file_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        f"print(raise_file_limit({goal}), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(limit), str(limit), str(hard)]


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
    assert raise_file_limit(20_000) == 10_240
