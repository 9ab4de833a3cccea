"""What a streamed call of each API costs the server, as a multiple of one of chat completions, in one run.

    python -m tests.bench.bench_apis [--rounds 9] [--calls 100] [--against FOLDER]

The figure is CPU seconds of the serving process. Short trials of all take turns, and each ratio is the median of the
rounds' own ratios, so that a busy neighbour disturbs both sides alike. Goals: 1.2 where the channel speaks the API, 2
where the call is translated. Then what one event of a response costs over HTTP, and over a WebSocket as a frame: the
difference between a long and a short stream, and the whole calls beside it. ``--against`` measures chat completions,
plain and streamed, of another checkout in the same way: below 1.02 is as fast as before.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

from tests.bench.bench_relay import EVENTS, KEY
from tests.bench.load import Job
from tests.bench.processes import (
    LOAD_CORE,
    SERVER_CORE,
    Child,
    Load,
    free_port,
    machine,
    module,
    serving,
    tollkeeper,
    until_answered,
)

MESSAGES = [{"role": "user", "content": "word " * 180}]
MODEL = f"m-{EVENTS}"
FEW = 2
"""Events of a short stream."""


class ApiCall(msgspec.Struct, frozen=True):
    name: str
    path: str
    body: dict[str, object]
    stream: bool = True
    socket: bool = False
    """It is made over a WebSocket."""


CALLS = (
    ApiCall("chat", "/v1/chat/completions", {"model": MODEL, "messages": MESSAGES}),
    ApiCall("responses, native", "/v1/responses", {"model": MODEL, "input": MESSAGES}),
    ApiCall("messages, native", "/v1/messages", {"model": f"claude-{MODEL}", "messages": MESSAGES, "max_tokens": 500}),
    ApiCall("responses, translated", "/v1/responses", {"model": f"old-{MODEL}", "input": MESSAGES}),
    ApiCall("messages, translated", "/v1/messages", {"model": MODEL, "messages": MESSAGES, "max_tokens": 500}),
)
EVENT_CALLS = tuple(
    ApiCall(f"{name}, {events}", "/v1/responses", {"model": f"m-{events}", "input": MESSAGES}, socket=name == "frame")
    for name in ("event", "frame")
    for events in (EVENTS, FEW)
)
PLAIN = ApiCall("chat, plain", "/v1/chat/completions", {"model": MODEL, "messages": MESSAGES}, stream=False)


class Server(msgspec.Struct, frozen=True):
    port: int
    key: str
    child: Child

    def cost(self, load: Load, call: ApiCall, calls: int) -> float:
        """CPU seconds of one call."""
        body = json.dumps({**call.body, **({"stream": True} if call.stream else {})})
        frame, head = "", f"host: 127.0.0.1:{self.port}\r\nauthorization: Bearer {self.key}\r\n"
        if call.socket:
            frame = json.dumps({"type": "response.create", **call.body})
            head += "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            request = f"GET {call.path} HTTP/1.1\r\n{head}sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        else:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            request = f"POST {call.path} HTTP/1.1\r\n{head}\r\n{body}"
        before = self.child.cpu_s()
        result = load.run(Job(port=self.port, request=request, frame=frame, calls=calls, connections=4))
        if result.errors:
            raise SystemExit(f"{result.errors} of {result.calls} calls failed in '{call.name}'")
        return (self.child.cpu_s() - before) / calls


def furnish(home: Path, upstream: int) -> str:
    """A home with a channel for each kind of call; the token's key."""
    url = f"http://127.0.0.1:{upstream}"
    common = ("--key", KEY, "--group", "default")
    tollkeeper(home, "account", "grant", "100000")
    tollkeeper(home, "channel", "add", "new", "--base-url", f"{url}/v1", "--models", f"{MODEL},m-{FEW}", *common)
    tollkeeper(home, "channel", "add", "old", "--base-url", f"{url}/lacking/v1", "--models", f"old-{MODEL}", *common)
    claude = ("--dialect", "anthropic", "--models", f"claude-{MODEL}")
    tollkeeper(home, "channel", "add", "claude", "--base-url", url, *claude, *common)
    for model in (MODEL, f"m-{FEW}", f"old-{MODEL}", f"claude-{MODEL}"):
        tollkeeper(home, "price", "set", model, "--input", "2.50", "--output", "10")
    return str(json.loads(tollkeeper(home, "token", "add", "bench", "--json"))["key"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=100, help="in each trial")
    parser.add_argument("--against", type=Path, help="another checkout, with an environment of its own")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        _, upstream = stack.enter_context(module("tests.bench.fast_upstream", core=LOAD_CORE))
        home, port = Path(name) / "home", free_port()
        key = furnish(home, upstream)
        server = Server(port, key, stack.enter_context(serving(home, port)))
        until_answered(port, key)
        load = Load()
        stack.callback(load.end)
        report("chat", rounds(load, [(call.name, server, call) for call in CALLS], options.rounds, options.calls))
        found = rounds(load, [(call.name, server, call) for call in EVENT_CALLS], options.rounds, options.calls)
        report(EVENT_CALLS[0].name, found, "responses")
        report_events(found)
        if options.against:
            other = _other(stack, options.against, Path(name) / "other", upstream)
            for call in (CALLS[0], PLAIN):
                both = [("before", other, call), ("now", server, call)]
                report("before", rounds(load, both, options.rounds, options.calls), call.name)


def _other(stack: ExitStack, folder: Path, home: Path, upstream: int) -> Server:
    port, key = free_port(), furnish(home, upstream)
    python = str(folder / ".venv/bin/python")
    command = [python, str(folder / "cli.py"), "serve", "--home", str(home), "--port", str(port)]
    child = Child(command, SERVER_CORE)
    stack.callback(child.end)
    until_answered(port, key)
    return Server(port, key, child)


def rounds(load: Load, kinds: list[tuple[str, Server, ApiCall]], count: int, calls: int) -> dict[str, list[float]]:
    """The cost of each kind in each round, after a first one that does not count."""
    found: dict[str, list[float]] = {name: [] for name, _, _ in kinds}
    for number in range(count + 1):
        for name, server, call in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
            cost = server.cost(load, call, calls)
            if number:
                found[name].append(cost)
        print(f"round {number} of {count}", file=sys.stderr)
    return found


def report(base: str, found: dict[str, list[float]], title: str = "") -> None:
    """A line for each kind: its cost and its ratio to the base."""
    print(f"{title or 'streams':24}{'CPU ms a call':>16}{'ratio':>8}")
    for name, costs in found.items():
        ratio = median(cost / other for cost, other in zip(costs, found[base], strict=True))
        print(f"{name:24}{median(costs) * 1000:>16.3f}{ratio:>8.2f}")


def report_events(found: dict[str, list[float]]) -> None:
    """A line for an event over HTTP, and one for a frame."""
    print(f"{'in the middle of a response':32}{'CPU us':>8}{'ratio':>8}")
    costs = {
        name: [many - few for many, few in zip(found[f"{name}, {EVENTS}"], found[f"{name}, {FEW}"], strict=True)]
        for name in ("event", "frame")
    }
    for name, each in costs.items():
        ratio = median(cost / other for cost, other in zip(each, costs["event"], strict=True))
        print(f"{name:32}{median(each) / (EVENTS - FEW) * 1e6:>8.2f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
