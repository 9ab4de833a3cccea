"""Where a gateway lives and listens: flags before environment before defaults."""

import os
import stat
from pathlib import Path

import platformdirs
import pytest

from gateway.config import DEFAULT_PORT, SOCKET_PATH_LIMIT, Config, is_home, load, make_home
from gateway.domain.errors import BadRequest


def test_without_options_the_address_and_folder_are_the_usual_ones() -> None:
    found = load(environ={})
    assert (found.host, found.port, found.drain_s) == ("127.0.0.1", DEFAULT_PORT, 30.0)
    assert found.home == Path(platformdirs.user_data_dir("tollkeeper", appauthor=False))


def test_the_environment_wins_over_the_defaults(tmp_path: Path) -> None:
    environ = {
        "TOLLKEEPER_HOME": str(tmp_path),
        "TOLLKEEPER_HOST": "0.0.0.0",
        "TOLLKEEPER_PORT": "9000",
        "TOLLKEEPER_DRAIN_S": "2.5",
    }
    assert load(environ=environ) == Config(home=tmp_path, host="0.0.0.0", port=9000, drain_s=2.5, address_given=True)


def test_flags_win_over_the_environment(tmp_path: Path) -> None:
    environ = {"TOLLKEEPER_HOME": "/elsewhere", "TOLLKEEPER_HOST": "0.0.0.0", "TOLLKEEPER_PORT": "9000"}
    found = load(home=str(tmp_path), host="::1", port=0, environ=environ)
    assert (found.home, found.host, found.port) == (tmp_path, "::1", 0)


def test_it_is_known_whether_an_address_was_named() -> None:
    assert [load(environ=environ).address_given for environ in ({}, {"TOLLKEEPER_PORT": "8655"})] == [False, True]
    assert load(port=0, environ={}).address_given


def test_the_option_for_another_home_can_be_copied(tmp_path: Path) -> None:
    assert load(environ={}).home_option == ""
    assert load(home=str(tmp_path / "a b"), environ={}).home_option == f" --home '{tmp_path}/a b'"


@pytest.mark.parametrize("name", ["HOME", "HOST"])
def test_an_empty_variable_is_none(name: str) -> None:
    assert load(environ={f"TOLLKEEPER_{name}": ""}) == load(environ={})


def test_a_home_is_absolute_and_may_begin_with_a_tilde() -> None:
    assert load(home="~/gw", environ={}).home == Path.home() / "gw"
    assert load(home="gw", environ={}).home == Path.cwd() / "gw"


@pytest.mark.parametrize("port", ["-1", "65536", "http", "80.5", "", " "])
def test_a_port_must_be_one(port: str) -> None:
    with pytest.raises(BadRequest, match="not a number from 0 to 65535") as caught:
        load(environ={"TOLLKEEPER_PORT": port})
    assert caught.value.param == "port"


@pytest.mark.parametrize("port", [0, 65535])
def test_the_ends_of_the_range_are_ports(port: int) -> None:
    assert load(port=port, environ={}).port == port


@pytest.mark.parametrize("seconds", ["-1", "soon", "nan", "inf", "86401", ""])
def test_a_drain_must_be_seconds(seconds: str) -> None:
    with pytest.raises(BadRequest, match="not a number of seconds"):
        load(environ={"TOLLKEEPER_DRAIN_S": seconds})


def test_the_files_lie_in_the_home(tmp_path: Path) -> None:
    found = Config(home=tmp_path)
    assert (found.runfile, found.log) == (tmp_path / "run.json", tmp_path / "server.log")


@pytest.mark.skipif(os.name == "nt", reason="there are no Unix sockets")
@pytest.mark.parametrize(("length", "fits"), [(SOCKET_PATH_LIMIT, True), (SOCKET_PATH_LIMIT + 1, False)])
def test_a_socket_needs_a_short_path(length: int, fits: bool) -> None:
    home = Path("/" + "h" * (length - len("//control.sock")))
    assert (Config(home=home).socket == home / "control.sock") is fits
    assert (Config(home=home).socket is None) is not fits


def test_a_home_whose_path_is_not_text_is_refused() -> None:
    with pytest.raises(BadRequest, match="not UTF-8 text; choose another with --home"):
        load(home="/tmp/\udcff", environ={})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_new_home_and_one_of_ours_are_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    make_home(home)
    assert mode(home) == 0o700
    for name in ("config.json", "usage"):
        (home / name).touch()
    home.chmod(0o755)
    assert is_home(home)
    make_home(home)
    assert mode(home) == 0o700


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_an_empty_folder_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    tmp_path.chmod(0o755)
    make_home(tmp_path)
    assert (mode(tmp_path), is_home(tmp_path)) == (0o755, False)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
@pytest.mark.parametrize("ours", [[], ["config.json"]])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, ours: list[str]) -> None:
    for name in ("holiday.jpg", *ours):
        (tmp_path / name).touch()
    tmp_path.chmod(0o755)
    with pytest.raises(BadRequest, match=r"holds files of another program .*--home"):
        make_home(tmp_path)
    assert (mode(tmp_path), is_home(tmp_path)) == (0o755, False)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["lock", "config.json.tmp"], id="the first start was killed"),
        pytest.param([".console.json.ab_cd12e"], id="the console writes its state before the server starts"),
        pytest.param(["console.damaged"], id="the console renamed its state, which could not be read"),
    ],
)
def test_a_home_with_unfinished_files_is_a_home(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert is_home(tmp_path)
    make_home(tmp_path)


def test_a_folder_with_one_restored_file_is_a_home(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    assert is_home(tmp_path)
    assert not is_home(tmp_path / "missing")
    assert not is_home(tmp_path / "config.json")
