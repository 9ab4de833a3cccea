"""Commands work in the same way with and without a running server."""

import asyncio
import gc
import os
import resource
import sys
from pathlib import Path
from threading import Timer

import pytest

from gateway.client import launch
from gateway.commands import session
from gateway.commands.exit_codes import Exit
from gateway.config import Config
from gateway.domain.units import Millis
from gateway.store.store import Store
from tests.commands.program import Served
from tests.commands.runner import Ran, run

NOWHERE = "TOLLKEEPER_TESTS_SET_NO_SUCH_VARIABLE"
LISTINGS = (
    "account show",
    "account grants",
    "token list",
    "group list",
    "group show default",
    "channel list",
    "channel show demo",
    "price list",
    "model list",
    "settings show",
    "usage list",
    "usage summary",
    "verify",
)

LIFE = (
    "token add laptop --budget day=5 --rpm 60",
    "token edit laptop --rename phone --budget day=none",
    "token rotate phone --yes",
    "token disable phone",
    "token enable phone",
    "group add friends --multiplier 1.5",
    "group edit friends --rename family",
    "channel add mine --dialect mock --models a,b --group default,family",
    "channel edit mine --map fast=a --timeout head=5",
    "channel models mine demo-* --add",
    "why phone fast --max-tokens 50",
    "config export --json",
    "channel test mine",
    "channel disable mine",
    "channel enable mine",
    "price set fast --input 2.50 --output 10",
    "price remove fast --yes",
    "account grant 25",
    "account set --budget month=50",
    "settings set --durability call",
    "channel remove mine --yes",
    "group remove family --yes",
    "token remove phone --yes",
    "doctor --json",
    "verify",
)


def here(home: Path, line: str) -> Ran:
    """A command in this process, on its own way to the gateway."""
    return run(*line.split(), "--home", str(home), control=None)


@pytest.mark.parametrize("line", LISTINGS)
def test_listings_with_a_server(served: Served, line: str) -> None:
    ran = here(served.home, f"{line} --json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json is not None


def test_listings_without_a_server(home: Path) -> None:
    assert here(home, "group add friends").code == 0
    for line in LISTINGS:
        ran = here(home, f"{line} --json")
        assert (line, ran.code, ran.err) == (line, 0, "")
    assert list(home.glob("*.sock")) == []


def test_a_whole_life_with_a_server(served: Served) -> None:
    for line in LIFE:
        assert (line, here(served.home, line).code) == (line, 0)


@pytest.mark.parametrize(
    ("obstacle", "model", "code"),
    [
        ("token edit poor --note fine", "demo-echo", Exit.OK),
        ("token edit poor --tokens-budget day=0", "demo-echo", Exit.QUOTA),
        ("token edit poor --tpm 1", "demo-echo", Exit.QUOTA),
        ("token edit poor --models x*", "demo-echo", Exit.NOT_FOUND),
        ("token disable poor", "demo-echo", Exit.TOKEN),
        (f"channel add keyless --base-url http://127.0.0.1:9/v1 --key env:{NOWHERE} --models k", "k", Exit.UPSTREAM),
    ],
)
def test_why_and_doctor_have_the_exit_code_of_the_call(served: Served, obstacle: str, model: str, code: Exit) -> None:
    assert here(served.home, "token add poor").code == 0
    try:
        assert here(served.home, obstacle).code == 0
        asked = (f"chat --token poor --model {model} hi", f"why poor {model}", f"doctor --token poor --model {model}")
        assert [here(served.home, line).code for line in asked] == [code] * 3
    finally:
        here(served.home, "token remove poor --yes")
        here(served.home, "channel remove keyless --yes")


def test_a_whole_life_without_a_server(home: Path) -> None:
    for line in LIFE[:-2]:
        ran = here(home, line)
        assert (line, ran.code) == (line, 0), ran.err
    assert here(home, "doctor").code == Exit.UNREACHABLE
    assert here(home, "verify").code == 0


def test_a_configuration_goes_to_another_home_and_back(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for line in ("group add friends", "channel add mine --dialect mock --models a --group friends", "token add phone"):
        assert here(one, line).code == 0
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    for home, line in (
        (one, f"config export {first}"),
        (other, f"config import {first} --prune --yes"),
        (other, f"config export {second}"),
    ):
        assert here(home, line).code == 0
    assert first.read_bytes() == second.read_bytes()
    assert b"[channels.mine]" in first.read_bytes()
    assert here(one, f"config import {second} --prune").err.startswith("0 changes made")


def test_a_home_in_use_by_somebody_who_cannot_be_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session.WAITS_S, "store_busy", 0.2)
    store = Store(Config(home=home), now=lambda: Millis(0))
    ran = here(home, "token list")
    store.close()
    assert (ran.code, ran.err.count("\n")) == (Exit.STORE, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process can be set on Linux only")
@pytest.mark.parametrize("line", ["status", "token list", "stop"])
def test_a_server_with_a_full_table_of_files_is_not_another_process(
    served: Served, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    pid = served.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))  # 0 to 2 are always open: no other number is allowed
    try:
        with monkeypatch.context() as patch:
            patch.setitem(session.WAITS_S, "server_slow", 0.2)
            patch.setattr(launch, "ASK_S", 0.5)
            ran = here(served.home, line)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert (ran.code, "is running but does not answer" in ran.err) == (Exit.UNREACHABLE, True), ran.err
    assert here(served.home, "status").code == 0


def test_a_home_that_is_in_use_for_a_moment_is_waited_for(home: Path) -> None:
    store = Store(Config(home=home), now=lambda: Millis(0))
    Timer(0.3, store.close).start()
    assert here(home, "token list").code == 0


@pytest.mark.hasty(10)
async def test_a_server_that_takes_long_to_start_is_waited_for(home: Path) -> None:
    starting = Store(Config(home=home), now=lambda: Millis(0))
    asyncio.get_running_loop().call_later(9, starting.close)
    async with session.reach(Config(home=home)) as client:
        assert (await client.status()).state == "embedded"


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = here(tmp_path / "file" / "home", "token list")
    assert (ran.code != 0, ran.err.count("\n")) == (True, 1)


@pytest.mark.parametrize(
    "line",
    [
        *("token list", "usage list", "status", "doctor", "config export -", "chat hello", "price import --dry-run"),
        *("account", "history", "incident list", "model list", "why laptop m", "verify", "channel test"),
    ],
)
def test_a_command_that_reads_creates_nothing(tmp_path: Path, line: str) -> None:
    typo = tmp_path / "typo"
    ran = here(typo, line)
    assert (ran.code != 0, typo.exists()) == (True, False), ran.out
    assert "tollkeeper serve" in ran.err


def test_discover_looks_without_a_home_and_creates_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_" + "x" * 40)
    typo = tmp_path / "typo"
    ran = here(typo, "discover --json")
    assert (ran.code, typo.exists()) == (0, False), ran.err
    assert "groq" in [offer["name"] for offer in ran.json["offers"]]


def test_an_import_is_shown_without_a_home_and_creates_none(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "one.toml"
    file.write_text('format = 1\n[groups.friends]\nmultiplier = "1.5"\n')
    shown = here(home, f"config import {file} --dry-run")
    assert (shown.code, home.exists()) == (0, False), shown.err
    made = here(home, f"config import {file}")
    assert (made.code, made.out) == (0, shown.out)
    assert "+ group friends" in made.out


def test_a_folder_of_something_else_is_never_touched(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").write_text("years")
    for line in ("token list", "token add x", "serve", "service install"):
        ran = here(tmp_path, line)
        assert (ran.code != 0, "--home" in ran.err) == (True, True), (line, ran.err)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("given", ["/some/certificates.pem", None])
def test_the_server_is_imported_without_certificates_which_are_found_afterwards(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "gateway.server", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if given is not None:
        monkeypatch.setenv("SSL_CERT_FILE", given)
    with session.server_imports():
        assert (os.environ["SSL_CERT_FILE"], gc.isenabled()) == (os.devnull, False)
    assert (os.environ.get("SSL_CERT_FILE"), gc.isenabled()) == (given, True)
