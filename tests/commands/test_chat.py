"""One prompt through /v1, streamed to the terminal."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.client.test_call import PublicApi
from gateway.commands import formatting
from gateway.commands.chat import default_model, fetch_answer, print_receipt, print_stream
from gateway.commands.exit_codes import Exit, Quit
from gateway.config import load
from gateway.domain.errors import RateLimited, Unavailable, UpstreamError
from gateway.domain.units import Millis
from tests import fork_server
from tests.commands.program import PROGRAM, Served, environment, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import CALL, STATUS, TOKEN
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import reply, stream_bytes

KEY = "sk-tk-" + "a" * 43
NOBODY = {"GET /status": replace(STATUS, address="http://127.0.0.1:1/v1")}
PASS = {"POST /tokens/laptop/pass": {"key": KEY}}


def way(provider: Provider) -> PublicApi:
    return PublicApi(provider.base_url, KEY)


def stream_of(*texts: str, end: bytes = b"data: [DONE]\n\n") -> bytes:
    chunks = [json.dumps({"choices": [{"delta": {"content": text}}]}) for text in texts]
    return b"".join(f"data: {chunk}\n\n".encode() for chunk in chunks) + end


async def test_a_streamed_answer_is_printed_as_it_is(provider: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    provider.on("m", stream_bytes(stream_of("one\n", "", "two"), size=1, headers={"x-request-id": "req_1"}))
    assert await print_stream(way(provider), {"model": "m"}) == "req_1"
    assert capsys.readouterr().out == "one\ntwo\n"
    assert provider.last.head.get("authorization") == f"Bearer {KEY}"
    assert provider.last.json == {"model": "m", "stream": True}


@pytest.mark.parametrize("end", [b"", b'data: {"error":{"message":"cut","code":"upstream_cut"}}\n\ndata: [DONE]\n\n'])
async def test_a_broken_stream_is_a_failure(provider: Provider, end: bytes) -> None:
    provider.on("m", stream_bytes(stream_of("one", end=end)))
    with pytest.raises(UpstreamError, match="cut"):
        await print_stream(way(provider), {"model": "m"})


async def test_a_token_that_sees_only_models_for_embeddings_learns_that_it_cannot_chat(provider: Provider) -> None:
    names = [{"id": name, "object": "model"} for name in ("nomic-embed-text", "text-embedding-3-small")]
    provider.on("/v1/models", reply({"object": "list", "data": names}))
    async with Control({}).reach(load()) as client:
        with pytest.raises(Quit, match=r"only models for embeddings \(nomic-embed-text, text-embedding-3-small\)"):
            await default_model(client, way(provider))


async def test_an_answer_is_a_success_though_the_server_stops_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    async with Control({"GET /calls/req_1": Unavailable("gone")}).reach(load()) as client:
        await print_receipt(client, "req_1")
    assert capsys.readouterr().err == ""


OF_OTHERS = "the model, or what is left of a budget or of the balance,"


@pytest.mark.parametrize(
    ("marks", "finish", "most", "why"),
    [
        (["output_limit=2"], "length", None, OF_OTHERS),
        ([], "length", None, "it reached the model's output limit"),
        (["output_limit=150"], "length", 150, "--max-tokens 150"),
        (["output_limit=150"], "length", 1_000, OF_OTHERS),
        (["output_limit=2"], "stop", None, ""),
    ],
)
async def test_an_answer_that_was_cut_off_is_called_so(
    capsys: pytest.CaptureFixture[str], marks: list[str], finish: str, most: int | None, why: str
) -> None:
    call = replace(CALL, marks=marks, finish_reason=finish)
    async with Control({f"GET /calls/{CALL.id}": call}).reach(load()) as client:
        await print_receipt(client, CALL.id, most)
    _, *notes = capsys.readouterr().err.splitlines()
    note = f"note: the answer was cut off after 150 tokens: {why}"
    assert [text.startswith(note) for text in notes] == ([True] if why else [])


async def test_the_model_that_answered_instead_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    call = replace(CALL, attempts=[replace(CALL.attempts[-1], model="spare")])
    async with Control({f"GET /calls/{CALL.id}": call}).reach(load()) as client:
        await print_receipt(client, CALL.id)
    assert f", spare for {CALL.model} from {CALL.channel} as {CALL.token}, " in capsys.readouterr().err
    assert formatting.subject(call) == f"{CALL.model} as spare"


async def test_a_whole_answer_has_a_message_and_an_id(provider: Provider) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer(b'{"choices":[{"message":{"content":"hi"}}]}', headers={"x-request-id": "req_1"})

    provider.on("m", answer)
    assert await fetch_answer(way(provider), {"model": "m"}) == ({"content": "hi"}, "req_1")


@pytest.mark.parametrize(
    ("message", "said"), [("busy", "busy; try again in 12 s"), ("busy; try again in 9 s", "busy; try again in 9 s")]
)
async def test_a_refusal_says_when_to_try_again(provider: Provider, message: str, said: str) -> None:
    refusal = reply(
        {"error": {"message": message, "code": "rate_limit_exceeded"}}, status=429, headers={"retry-after": "12"}
    )
    provider.on("m", refusal)
    for ask in (print_stream, fetch_answer):
        with pytest.raises(RateLimited) as caught:
            await ask(way(provider), {"model": "m", "messages": []})
        assert caught.value.message == said


LATER = replace(TOKEN, name="later", created_ms=Millis(TOKEN.created_ms + 1), last_used_ms=Millis(TOKEN.created_ms + 9))
OFF = replace(TOKEN, name="off", state="disabled", created_ms=Millis(1))


@pytest.mark.parametrize(
    ("args", "env", "asked"),
    [
        (("--token", "laptop"), {}, ["POST /tokens/laptop/pass"]),
        ((), {"OPENAI_API_KEY": KEY}, []),
        ((), {"OPENAI_API_KEY": "sk-proj-vendor"}, ["GET /tokens", "POST /tokens/laptop/pass"]),
        ((), {}, ["GET /tokens", "POST /tokens/laptop/pass"]),
    ],
    ids=["the named token", "a key of ours", "never a vendor's key", "the oldest active token"],
)
def test_whose_key_is_sent(args: tuple[str, ...], env: dict[str, str], asked: list[str]) -> None:
    control = Control({**NOBODY, **PASS, "GET /tokens": [LATER, TOKEN, OFF]})
    assert run("chat", "--model", "m", *args, "hi", control=control, env=env).code == Exit.UNREACHABLE
    assert [line for line, _ in control.asked if "/tokens" in line] == asked


def test_without_an_active_token_the_command_that_creates_one_is_named() -> None:
    ran = run("chat", "--model", "m", "hi", answers={**NOBODY, "GET /tokens": []})
    assert (ran.code, "tollkeeper token add NAME" in ran.err) == (Exit.NOT_FOUND, True)


def test_while_the_gateway_stops_no_prompt_is_sent() -> None:
    control = Control({"GET /status": replace(STATUS, state="draining", in_flight=2), **PASS})
    ran = run("chat", "--model", "m", "hi", control=control)
    text = "tollkeeper: the gateway is stopping; 2 calls are finishing; wait until it has stopped, then start it"
    assert (ran.code, ran.err) == (Exit.UNREACHABLE, f"{text} with 'tollkeeper serve'\n")


def test_without_a_model_the_one_called_last_answers_else_the_first(served: Served) -> None:
    first = tollkeeper(served.home, "chat", "hello")
    assert (first.code, ", demo-echo from demo as " in first.err) == (0, True)
    assert tollkeeper(served.home, "chat", "--model", "demo-flaky", "hello").code == 0
    assert ", demo-flaky from demo as " in tollkeeper(served.home, "chat", "hello").err


@pytest.mark.parametrize("stdin", ["", " \n"])
def test_an_empty_prompt_is_a_usage_error(stdin: str) -> None:
    control = Control({})
    assert (run("chat", "-", control=control, stdin=stdin).code, control.asked) == (Exit.USAGE, [])


def test_a_prompt_that_is_not_utf8_goes_out_with_that_replaced_and_said(served: Served) -> None:
    ran = subprocess.run(
        [*PROGRAM, "chat", "--model", "demo-echo"],
        env=environment(served.home), input=b"- Stra\xdfe\n+ Stra\xc3\x9fe\n", capture_output=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.decode()) == (0, "- Stra\ufffde\n+ Straße\n")
    assert ran.stderr.decode().startswith("note: stdin is not UTF-8 (byte 7)")


def test_a_real_call_is_streamed_and_its_cost_told(served: Served) -> None:
    ran = tollkeeper(served.home, "chat", "--model", "demo-echo", "hello", "there")
    assert (ran.code, "hello there" in ran.out) == (0, True)
    assert re.search(r"\d+ input \+ \d+ output tokens .*, \$0\.0\d+, .*, demo-echo from demo as \S+, req_", ran.err)


def test_a_pipe_beside_a_prompt_is_not_ignored_without_a_word(served: Served) -> None:
    note = "note: stdin was not read, because PROMPT is given; to send both, give one of them as --system\n"
    for line, told in ((("hi",), True), (("--system", "hi"), False)):
        ran = tollkeeper(served.home, "chat", "--model", "demo-echo", *line, stdin="a diff")
        assert (ran.code, ran.err.endswith(note)) == (0, told), ran.err
    assert not tollkeeper(served.home, "chat", "--model", "demo-echo", "hi").err.endswith(note)


def test_a_real_call_without_a_server(home: Path) -> None:
    assert tollkeeper(home, "token", "add", "only").code == 0
    ran = tollkeeper(home, "chat", "--model", "demo-echo", "--no-stream", stdin="hello there")
    assert (ran.code, "hello there" in ran.out) == (0, True)
    assert tollkeeper(home, "usage", "list", "--json").json[0]["outcome"] == "done"


def test_the_length_of_an_answer_can_be_limited(served: Served) -> None:
    ran = tollkeeper(served.home, "chat", "--model", "demo-story", "--max-tokens", "3", "tell me")
    assert (ran.code, "cut off after 3 tokens: --max-tokens 3" in ran.err) == (0, True), ran.err


def test_a_failure_of_the_upstream_says_what_to_do(served: Served) -> None:
    failed = tollkeeper(served.home, "chat", "--model", "demo-flaky", "!status=402 hi")
    assert failed.err.rstrip().endswith("has no credit: top up there"), failed.err
    missing = tollkeeper(served.home, "chat", "--model", "demo-flaky", "!status=401 hi")
    assert "model list" not in missing.err
    unknown = tollkeeper(served.home, "chat", "--model", "nope", "hi")
    assert (unknown.code, unknown.out, unknown.err.count("\n")) == (Exit.NOT_FOUND, "", 1)
    assert unknown.err.count("'tollkeeper ") == 1, unknown.err


def test_interrupting_cancels_the_call(served: Served) -> None:
    with fork_server.start(
        [*PROGRAM, "chat", "--model", "demo-story", "tell me"],
        env=environment(served.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err.strip()) == (Exit.INTERRUPTED, "tollkeeper: interrupted")


def test_the_answer_and_its_call_as_json(served: Served) -> None:
    ran = tollkeeper(served.home, "chat", "hello", "--model", "demo-echo", "--json")
    assert (ran.code, ran.err) == (0, "")
    message, call = ran.json["message"], ran.json["call"]
    assert (message["role"], message["content"]) == ("assistant", "hello")
    assert (call["model"], call["status"], call["stream"]) == ("demo-echo", 200, False)


def test_a_tool_call_of_the_demo_needs_tools(served: Served) -> None:
    ran = tollkeeper(served.home, "chat", "!tool look", "--model", "demo-echo")
    assert ran.out == "(!tool calls a tool of the request, and this request has none: send it with tools)\n"
