"""Programs that are started with a token of their own.

Long: everything `run` does with a program, its token and its terminal, at one server.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from msgspec.structs import replace

from gateway.commands import run as run_command
from gateway.commands.exit_codes import Exit
from gateway.commands.signal_relay import SignalRelay
from gateway.domain.errors import Unavailable
from gateway.domain.views import CallPage, NewToken
from tests import fork_server
from tests.commands.program import PATIENCE_S, PROGRAM, Served, environment, tollkeeper
from tests.commands.runner import Control, Ran, run
from tests.commands.samples import MODEL, STATUS, TOKEN

CALL = """
import os, urllib.request
body = b'{"model":"demo-echo","messages":[{"role":"user","content":"hi"}]}'
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers))
"""


def tokens(served: Served) -> list[dict[str, Any]]:
    """Those that were made by ``run``."""
    ran = run("token", "list", "--all", "--json", env=environment(served.home))
    found: list[dict[str, Any]] = ran.json
    return [token for token in found if token["note"].startswith("run of ")]


@pytest.fixture(autouse=True)
def no_tokens(served: Served) -> None:
    """Tokens that an earlier test has left are removed."""
    for token in tokens(served):
        run("token", "remove", "--yes", token["name"], env=environment(served.home))


def script(folder: Path, name: str, body: str) -> Path:
    """A program of this name that runs a body of Python."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o700)
    return path


@contextmanager
def started(served: Served, *command: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """``run`` in the background, until the block ends."""
    with fork_server.start(
        [*PROGRAM, "run", *command], env=environment(served.home), stdout=subprocess.PIPE, text=True, **options
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_program_gets_variables_stdin_and_arguments_and_its_exit_code_is_ours(served: Served) -> None:
    body = "import os, sys; print(os.environ['OPENAI_BASE_URL'], sys.argv[1:], sys.stdin.read()); sys.exit(7)"
    ran = tollkeeper(served.home, "run", sys.executable, "-c", body, "--model", "x", stdin="typed")
    address = tollkeeper(served.home, "status", "--json").json["address"]
    assert (ran.code, ran.out) == (7, f"{address} ['--model', 'x'] typed\n")


@pytest.mark.parametrize(("own", "found"), [(None, "1"), ("0", "0")])
def test_traces_of_agents_are_off_unless_the_user_says_otherwise(served: Served, own: str | None, found: str) -> None:
    body = "import os; print(os.environ['OPENAI_AGENTS_DISABLE_TRACING'])"
    more = {} if own is None else {"OPENAI_AGENTS_DISABLE_TRACING": own}
    command = [*PROGRAM, "run", sys.executable, "-c", body]
    ran = fork_server.run(command, env={**environment(served.home), **more}, timeout=PATIENCE_S)
    assert (ran.returncode, ran.stdout) == (0, f"{found}\n")


def test_a_program_that_would_pass_by_the_gateway_is_not_started(served: Served, tmp_path: Path) -> None:
    script(tmp_path, "gemini", "print('started')")
    ran = tollkeeper(served.home, "run", str(tmp_path / "gemini"))
    assert ran.code == Exit.NOT_FOUND
    assert "it would call Google" in ran.err
    assert "started" not in ran.out
    assert not tokens(served)


@pytest.mark.parametrize(
    ("program", "said"), [("nope", "program 'nope' in PATH"), ("/etc/passwd", "executable at '/etc/passwd'")]
)
def test_a_program_that_is_not_there_is_named_with_where_it_was_looked_for(program: str, said: str) -> None:
    ran = run("run", "--", program, answers={})
    assert (ran.code, ran.err) == (Exit.NOT_FOUND, f"tollkeeper: no {said}\n")


def test_an_unknown_option_before_the_program_is_not_the_program() -> None:
    ran = run("run", "--budgt", "2", "--", "true", answers={})
    assert ran.code == Exit.USAGE
    assert "No such option '--budgt'" in ran.err
    assert "--budget" in ran.err


def test_its_calls_are_paid_with_a_token_that_then_expires(served: Served) -> None:
    ran = tollkeeper(served.home, "run", "--budget", "2", "--", sys.executable, "-c", CALL)
    (token,) = tokens(served)
    assert (ran.code, token["state"], token["calls"]) == (0, "expired", 1)
    assert (token["budgets"][0]["window"], token["budgets"][0]["limit_nanos"]) == ("ever", 2_000_000_000)
    assert f"usage list --token {token['name']}" in ran.err


def test_a_call_in_the_middle_of_which_the_program_ends_is_not_called_rejected(served: Served) -> None:
    body = CALL.replace('"hi"', '"!latency=4000"').replace("demo-echo", "demo-flaky")
    body = body.replace("body, headers))", "body, headers), timeout=1)")
    ran = tollkeeper(served.home, "run", "--", sys.executable, "-c", body)
    assert ": 0 calls, $0.00; the last call had not ended yet; see tollkeeper usage list" in ran.err


def test_a_token_that_was_removed_meanwhile_is_not_said_to_expire(served: Served) -> None:
    body = "print('ready', flush=True); input()"
    with started(served, sys.executable, "-c", body, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"  # before it, run itself needs the token
        (token,) = tokens(served)
        run("token", "remove", "--yes", token["name"], env=environment(served.home))
        _, err = process.communicate("\n", timeout=PATIENCE_S)
    assert err == f"the token '{token['name']}' was removed before the program ended\n"


def test_the_token_tells_program_folder_repository_and_branch(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "attic"
    folder.mkdir()
    for command in (["init", "-q", "-b", "trunk"], ["-c", "user.name=a", "-c", "user.email=a@b"]):
        more = ["commit", "-q", "--allow-empty", "-m", "x"] if command[0] == "-c" else []
        subprocess.run(["git", *command, *more], cwd=folder, check=True)
    with started(served, sys.executable, "-c", "input()", cwd=folder, stdin=subprocess.PIPE) as process:
        (token,) = _awaited(served)
        assert token["note"].endswith(f" in {folder}, repository attic, branch trunk")
        assert "-attic-" in token["name"]
        process.communicate("\n", timeout=PATIENCE_S)


def test_a_program_whose_budget_is_too_small_learns_how_the_next_one_gets_more(served: Served) -> None:
    body = CALL.replace("urllib.request.urlopen", "import urllib.error\ntry: urllib.request.urlopen")
    body += "\nexcept urllib.error.HTTPError as error: print(error.read().decode())"
    ran = tollkeeper(served.home, "run", "--budget", "0.000000001", "--", sys.executable, "-c", body)
    assert "give the next one more: 'tollkeeper run --budget AMOUNT -- PROGRAM'" in ran.out
    assert ": 0 calls, $0.00; a call was rejected: the budget of token 'python" in ran.err
    assert ". To allow more: tollkeeper run --budget DOLLARS; see tollkeeper usage list --token " in ran.err
    assert [token["calls"] for token in tokens(served)] == [0]


def test_the_reason_why_the_last_call_failed_is_told_for_programs_that_hide_it(served: Served) -> None:
    body = CALL.replace("demo-echo", "demo-flaky").replace('"hi"', '"!400"')
    ran = tollkeeper(served.home, "run", "--", sys.executable, "-c", body)
    reason = "channel 'demo': The demo upstream was asked to answer 400"
    assert f": 1 call, $0.00; the last call failed: {reason}; see tollkeeper usage list" in ran.err


def test_the_key_is_in_no_command_line_and_no_file_stays(served: Served, tmp_path: Path) -> None:
    body = f"""
import json, os, sys
from pathlib import Path
settings = Path(sys.argv[sys.argv.index("--settings") + 1])
env = json.loads(settings.read_text())["env"]
lines = [Path(f"/proc/{{pid}}/cmdline").read_text() for pid in ("self", os.getppid())]
print(env["ANTHROPIC_AUTH_TOKEN"] in "".join(lines), env["ANTHROPIC_AUTH_TOKEN"] == os.environ["ANTHROPIC_AUTH_TOKEN"])
print(oct(settings.stat().st_mode & 0o777), "ANTHROPIC_API_KEY" in os.environ, env["ANTHROPIC_MODEL"], settings)
os.environ["OPENAI_API_KEY"] = os.environ["TOLLKEEPER_TOKEN"]
os.environ["OPENAI_BASE_URL"] = env["ANTHROPIC_BASE_URL"] + "/v1"
{CALL}"""
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("this system does not show command lines in /proc")
    program = script(tmp_path, "claude", body)
    command = [*PROGRAM, "run", "--model", "demo-story", str(program), "-p", "hi"]
    env = environment(served.home)
    # Not a fork, which has the command line of its parent.
    ran = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    first, second = ran.stdout.splitlines()
    mode, has_key, model, settings = second.split()
    assert (first, mode, has_key, model) == ("False True", "0o600", "False", "demo-story")
    assert not Path(settings).exists()
    assert tokens(served)[0]["calls"] == 1


def test_a_settings_folder_shows_what_is_in_the_real_one(served: Served, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "logs.db").write_text("mine")
    (real / "keys.json").write_text("other keys")
    listing = "import os; f = os.environ['LLM_USER_PATH']; print(sorted(os.listdir(f)), open(f + '/logs.db').read())"
    program = script(tmp_path, "llm", listing)
    env = environment(served.home) | {"LLM_USER_PATH": str(real)}
    done = fork_server.run([*PROGRAM, "run", str(program)], env=env, timeout=PATIENCE_S)
    names = ["default_model.txt", "extra-openai-models.yaml", "keys.json", "logs.db"]
    assert done.stdout == f"{names} mine\n"
    assert (real / "keys.json").read_text() == "other keys"


def test_what_a_program_writes_into_its_settings_folder_is_kept(served: Served, tmp_path: Path) -> None:
    real = tmp_path / "config" / "real"
    body = """
import os, sys
from pathlib import Path
folder, what = Path(os.environ["LLM_USER_PATH"]), sys.argv[1]
(folder / "logs.db").write_text(what)
(folder / "templates").mkdir(exist_ok=True)
(folder / "templates" / what).write_text(what)
if what == "late":
    Path(sys.argv[2], "other.db").write_text("theirs")
    (folder / "other.db").write_text("ours")
"""
    program = script(tmp_path, "llm", body)
    env = environment(served.home) | {"LLM_USER_PATH": str(real)}
    said = ""
    for what in ("first", "second", "late"):
        said = fork_server.run([*PROGRAM, "run", str(program), what, str(real)], env=env, timeout=PATIENCE_S).stderr
        assert ((real / "logs.db").read_text(), (real / "templates" / what).read_text()) == (what, what), said
    others = sorted(path.read_text() for path in real.glob("other.db*"))
    assert (others, (real / "other.db").read_text()) == (["ours", "theirs"], "theirs")
    assert "note: another program has also written other.db; the version of this one is " in said
    assert not (real / "keys.json").exists()


WRITES = """
import os
from pathlib import Path
folder = Path(os.environ["LLM_USER_PATH"])
(folder / "logs.db").write_text("mine: \u00e9", "utf-8")
(folder / "logs.db").chmod(0o640)
"""


def token_maker() -> Control:
    """A server that makes, extends and ends the token of a program."""
    created = NewToken(key="sk-tk-" + "k" * 43, token=TOKEN)
    answers = {"POST /tokens": created, "GET /tokens/tok_1": TOKEN, "PATCH /tokens/tok_1": TOKEN}
    return Control({**answers, "GET /models": [MODEL], "GET /status": STATUS, "GET /calls": CallPage(calls=[])})


def writing(tmp_path: Path) -> Ran:
    """A program that writes ``logs.db`` in its settings folder, ``real``."""
    environ = {"LLM_USER_PATH": str(tmp_path / "real"), "TMPDIR": str(tmp_path / "tmp")}
    return run("run", str(script(tmp_path, "llm", WRITES)), control=token_maker(), env=environ)


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings folder of ``writing``; folders of ours are made in ``tmp``."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "real").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "real"


def test_a_settings_file_that_is_a_link_stays_one(real: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.db"
    target.write_text("old")
    (real / "logs.db").symlink_to(target)
    ran = writing(tmp_path)
    assert ran.code == 0, ran.err
    assert (real / "logs.db").readlink() == target
    assert (target.read_text("utf-8"), stat.S_IMODE(target.stat().st_mode)) == ("mine: \u00e9", 0o640)
    assert [*real.iterdir()] == [real / "logs.db"]
    assert [*(tmp_path / "tmp").iterdir()] == []


def test_a_settings_file_that_cannot_be_saved_is_as_it_was_and_the_new_one_is_kept(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (real / "other.db").write_text("old")

    def full(_: Path, copy: Path, **_options: object) -> None:
        copy.write_text("mi")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    ran = writing(tmp_path)
    assert ((real / "other.db").read_text(), [*real.iterdir()]) == ("old", [real / "other.db"])
    (kept,) = (tmp_path / "tmp").iterdir()
    assert f"logs.db could not be saved in {real}: No space left on device\n" in ran.err
    assert f"what the program wrote is {kept / 'logs.db'}; " in ran.err
    assert [path.name for path in kept.iterdir()] == ["logs.db"]
    assert ((kept / "logs.db").read_text("utf-8"), stat.S_IMODE(kept.stat().st_mode)) == ("mine: \u00e9", 0o700)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_reaches_the_program_and_the_token_ends(served: Served, name: signal.Signals) -> None:
    body = (
        "import signal, sys, time\n"
        f"signal.signal({int(name)}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\ntime.sleep(30)"
    )
    with started(served, sys.executable, "-c", body, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(name)
        assert process.wait(PATIENCE_S) == 5
    assert tokens(served) == []


def test_a_program_ended_by_a_signal_is_128_and_its_number_and_without_a_call_no_token_stays(served: Served) -> None:
    body = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert tollkeeper(served.home, "run", sys.executable, "-c", body).code == 137
    assert tokens(served) == []


def test_when_run_is_killed_the_token_expires_by_itself(served: Served) -> None:
    before = time.time() * 1000
    with started(served, sys.executable, "-c", "input()", stdin=subprocess.PIPE) as process:
        _awaited(served)
        process.kill()
        process.wait(PATIENCE_S)
    (token,) = tokens(served)
    assert before - 1 < token["expires_ms"] - 12 * 3_600_000 <= time.time() * 1000


@pytest.mark.parametrize(("options", "extends"), [((), True), (("--expires", "2h"), False)])
def test_while_run_lives_the_token_is_extended_unless_its_end_was_given(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], *, extends: bool
) -> None:
    monkeypatch.setattr("gateway.commands.run.LEASE_MS", 200)
    control = token_maker()
    program = (sys.executable, "-c", "import time; time.sleep(1)")
    assert run("run", *options, *program, control=control).code == 0
    *extended, ended = [body["expires"] for asked, body in control.asked if asked == "PATCH /tokens/tok_1"]
    assert (len(extended) >= 2) == extends
    assert extended == sorted(extended)
    assert not extended or ended < extended[-1]


def test_it_may_end_earlier_and_each_of_its_calls_may_hold_less(served: Served) -> None:
    options = ("--expires", "2h", "--hold-output", "8000")
    with started(served, *options, sys.executable, "-c", "input()", stdin=subprocess.PIPE) as process:
        (token,) = _awaited(served)
        assert token["expires_ms"] <= time.time() * 1000 + 7_200_000
        assert token["hold_output"] == 8000
        process.communicate("\n", timeout=PATIENCE_S)


def in_terminal(served: Served, *command: str) -> Any:
    env, arguments = environment(served.home), [*PROGRAM[1:], "run", *command]
    return pexpect.spawn(PROGRAM[0], arguments, env=env, encoding="utf-8", timeout=PATIENCE_S, use_poll=True)


def test_ctrl_c_reaches_the_program_once_through_its_terminal(served: Served) -> None:
    body = (
        "import signal, sys, time\nseen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "print('ready', sys.stdin.isatty(), sys.stdout.isatty(), flush=True)\n"
        "time.sleep(1.5)\nprint('interrupts:', len(seen), flush=True)\nsys.exit(3)"
    )
    child = in_terminal(served, sys.executable, "-c", body)
    child.expect("ready True True")
    child.sendintr()
    child.expect("interrupts: 1")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3


def test_ctrl_z_stops_both_and_the_shell_goes_on_with_both(served: Served) -> None:
    body = "print('ready', flush=True); print('got', input(), flush=True)"
    env = environment(served.home) | {"PS1": "$ "}
    shell = pexpect.spawn("sh", ["-i"], env=env, encoding="utf-8", timeout=PATIENCE_S, use_poll=True)
    shell.sendline(f'{PROGRAM[0]} {PROGRAM[1]} run {sys.executable} -c "{body}"')
    shell.expect("ready\r\n")
    shell.sendcontrol("z")
    shell.expect("Stopped")
    shell.sendline("fg")
    shell.expect("fg.*run")
    shell.sendline("more")
    shell.expect("got more")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.wait()
    shell.close()


def test_a_budget_is_for_the_whole_run(served: Served) -> None:
    ran = tollkeeper(served.home, "run", "--budget", "day=2", "--", sys.executable)
    assert (ran.code, "the budget is for the whole run; use --budget 2" in ran.err) == (Exit.USAGE, True)
    assert tollkeeper(served.home, "run", "--budget", "ever=2", "--", sys.executable, "-c", CALL).code == 0
    assert [token["budgets"][0]["limit_nanos"] for token in tokens(served)] == [2_000_000_000]


def test_what_cannot_be_started_is_one_line_and_makes_no_token(served: Served, home: Path) -> None:
    assert tollkeeper(served.home, "run", "no-such-program").code == Exit.NOT_FOUND
    model = tollkeeper(served.home, "run", "--model", "gpt-9", sys.executable)
    assert (model.code, "it sees: demo-echo" in model.err) == (Exit.NOT_FOUND, True)
    assert model.err.count("\n") == 1
    assert tollkeeper(served.home, "run", "--for", "emacs", sys.executable).code == Exit.NOT_FOUND
    assert tokens(served) == []
    without = tollkeeper(home, "run", sys.executable)
    assert (without.code, "start one with 'tollkeeper serve'" in without.err) == (Exit.UNREACHABLE, True)


def _awaited(served: Served) -> list[dict[str, Any]]:
    """The tokens made by ``run``, as soon as there are any."""
    for _ in range(100):
        if found := tokens(served):
            return found
        time.sleep(0.05)
    raise AssertionError("no token was made")


def test_a_model_for_a_program_that_is_not_known_is_warned_of(served: Served) -> None:
    note = "note: --model has no effect on an unknown program; --for APP says which app it is\n"
    for more, warned in (((), True), (("--for", "gptme"), False)):
        ran = tollkeeper(served.home, "run", "--model", "demo-echo", *more, "--", sys.executable, "-c", "")
        assert (ran.code, ran.err.startswith(note)) == (0, warned), ran.err


@pytest.mark.parametrize("app", ["pydantic-ai", "langchain", "openai"])
def test_a_library_is_given_no_model_and_run_does_not_say_so(served: Served, app: str) -> None:
    ran = tollkeeper(served.home, "run", "--for", app, "--", sys.executable, "-c", "")
    assert "starts with" not in ran.err
    ran = tollkeeper(served.home, "run", "--for", app, "--model", "demo-echo", "--", sys.executable, "-c", "")
    assert ran.err.startswith("note: --model has no effect on a program like this one (")


def test_a_program_starts_with_the_model_of_its_last_run_and_run_says_so(served: Served, tmp_path: Path) -> None:
    body = (
        "import os\nprint(os.environ['AIDER_MODEL'])\nos.environ['OPENAI_API_KEY'] = os.environ['AIDER_OPENAI_API_KEY']"
    )
    body += "\nos.environ['OPENAI_BASE_URL'] = os.environ['AIDER_OPENAI_API_BASE']\n"
    program = script(tmp_path, "aider", body + CALL.replace("demo-echo", "demo-story"))
    assert tollkeeper(served.home, "run", "--model", "demo-story", str(program)).code == 0
    assert tollkeeper(served.home, "chat", "--model", "demo-echo", "hi").code == 0
    ran = tollkeeper(served.home, "run", str(program))
    assert ran.out == "openai/demo-story\n"
    text = "aider starts with demo-story, which it called last; --model chooses another one\n"
    assert ran.err.startswith(text)
    assert text not in tollkeeper(served.home, "run", "--model", "demo-story", str(program)).err
    named = tollkeeper(served.home, "run", str(program), "-m", "demo-echo")
    assert (named.out, "starts with" in named.err, "--model" in named.err) == ("openai/demo-echo\n", False, False)


@pytest.mark.parametrize("called", [True, False])
def test_a_session_is_resumed_only_if_it_was_begun(served: Served, tmp_path: Path, *, called: bool) -> None:
    body = "import os\nos.environ['OPENAI_API_KEY'] = os.environ['ANTHROPIC_AUTH_TOKEN']"
    body += "\nos.environ['OPENAI_BASE_URL'] = os.environ['ANTHROPIC_BASE_URL'] + '/v1'\n"
    program = script(tmp_path, "claude", body + (CALL if called else ""))
    child = in_terminal(served, str(program))
    child.expect(r"claude-\S+: (no calls|1 call)")
    assert ("tollkeeper run -- claude --resume ID" in child.before) is called
    child.expect(pexpect.EOF)
    child.close()


def test_a_server_that_is_gone_at_the_end_leaves_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = iter([CallPage(calls=[]), CallPage(calls=[]), Unavailable("gone")])
    gone = dict.fromkeys(("GET /tokens/tok_1", "PATCH /tokens/tok_1"), Unavailable("gone"))
    control = Control({**token_maker().answers, **gone, "GET /calls": calls})
    monkeypatch.setattr("gateway.commands.stdin.is_terminal", lambda: True)
    ran = run("run", str(script(tmp_path, "claude", "import sys; sys.exit(7)")), control=control)
    assert (ran.code, "tollkeeper run -- claude --resume ID" in ran.err) == (7, True), ran.err


def test_a_program_that_keeps_settings_of_its_own_is_warned_of(served: Served, tmp_path: Path) -> None:
    ran = tollkeeper(served.home, "run", str(script(tmp_path, "open-webui", "")))
    assert "\nnote: Open WebUI now takes its settings from the environment, " in f"\n{ran.err}"


@pytest.mark.parametrize(("options", "fits"), [((), True), (("--fit-output",), True), (("--no-fit-output",), False)])
def test_output_limits_fit_what_is_left_unless_told(served: Served, options: tuple[str, ...], *, fits: bool) -> None:
    tollkeeper(served.home, "run", *options, "--", sys.executable, "-c", CALL)
    (token,) = tokens(served)
    assert token["fit_output"] is fits


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("/usr/local/bin/aider --message hi", 0),
        ("/usr/bin/python3 -m aider --message hi", 2),
        ("python3 -m nosuch", 0),
        ("python3 -m", 0),
        ("python3 tool.py -m aider", 0),
        ("npx codex exec hi", 1),
        ("npx -y @openai/codex@latest exec hi", 2),
        ("npx @google/gemini-cli", 1),
        ("npx some-package codex", 0),
        ("npx @kilocode/cli@latest run", 1),
        ("pipx run aider-chat", 2),
        ("uvx --from openhands openhands", 3),
        ("vi codex", 0),
    ],
)
def test_the_program_is_found_behind_what_starts_it(command: str, place: int) -> None:
    assert run_command.program_index(tuple(command.split())) == place


def test_a_package_gets_the_settings_of_its_program_behind_its_name(served: Served, tmp_path: Path) -> None:
    npx = script(tmp_path, "npx", "import sys; print(sys.argv[1:4], sys.argv[-2:])")
    ran = tollkeeper(served.home, "run", str(npx), "-y", "@openai/codex@latest", "exec", "hi")
    assert ran.out == "['-y', '@openai/codex@latest', '-c'] ['exec', 'hi']\n"
    ran = tollkeeper(served.home, "run", str(npx), "@google/gemini-cli")
    assert (ran.code, "it would call Google" in ran.err, ran.out) == (Exit.NOT_FOUND, True, "")


def test_a_module_of_python_gives_its_name_to_the_token(served: Served, tmp_path: Path) -> None:
    (tmp_path / "aider.py").write_text("input()")
    command = (sys.executable, "-m", "aider")
    with started(served, *command, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        (token,) = _awaited(served)
        assert token["name"].startswith(f"aider-{tmp_path.name}-")
        process.communicate("\n", timeout=PATIENCE_S)


def test_a_script_whose_interpreter_is_gone_is_named_with_it(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "llm"
    program.write_text("#!/no/such/python3.9 -s\n")
    program.chmod(0o700)
    text = "could not be started: its first line names an interpreter that does not exist: /no/such/python3.9 -s\n"
    assert tollkeeper(served.home, "run", str(program)).err.endswith(text)


def test_nothing_is_started_while_the_gateway_stops(tmp_path: Path) -> None:
    control = Control({"GET /status": replace(STATUS, state="draining", in_flight=1), "POST /tokens": TOKEN})
    ran = run("run", sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')", control=control)
    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
    assert ran.err.startswith("tollkeeper: the gateway is stopping; 1 call is finishing; ")
    assert (list(tmp_path.iterdir()), control.bodies) == ([], [])


def test_a_signal_before_the_program_starts_reaches_it_then() -> None:
    with SignalRelay() as relay:
        os.kill(os.getpid(), signal.SIGTERM)
        assert relay.supervise([sys.executable, "-c", "import time; time.sleep(30)"], os.environ) == 143
