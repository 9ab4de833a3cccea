"""What a call through the gateway costs, beside a direct call and a bare aiohttp pass-through, in one run.

    python -m tests.bench.bench_relay [--rounds 5] [--quick] [--records 1000000] [--json FILE]

The trials of the three are interleaved and short; figures are medians over the rounds, ratios are medians of the
rounds' own ratios, so that a busy neighbour disturbs both sides of a ratio alike. CPU seconds are the serving process's
own and the steadiest figure of all.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import msgspec

from tests.bench.bench_store import build
from tests.bench.load import Job, Result, chat_request
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

KEY = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vX4zC7" * 5
"""Of the channel: as long as the longest that vendors give, for answers are searched for it."""
EVENTS = 200
"""Of one streamed answer."""


class Target(msgspec.Struct, frozen=True):
    """One of the three ways to the upstream."""

    name: str
    port: int
    key: str
    server: Child


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load and the figure it is about."""

    name: str
    calls: int
    connections: int = 1
    rate: float = 0.0
    prompt: int = 900
    """Bytes of the prompt."""
    text: str = "word "
    """What it repeats."""
    stream: bool = False


TRIALS = (
    Trial(name="one at a time", calls=600),
    Trial(name="64 at a time", calls=6000, connections=64),
    Trial(name="500 a second", calls=1000, connections=64, rate=500),
    Trial(name="200 KB prompts", calls=800, connections=16, prompt=200_000),
    Trial(name="200 KB of code", calls=400, connections=16, prompt=200_000, text=Path(__file__).read_text("utf-8")),
    Trial(name="streams, one at a time", calls=150, stream=True),
    Trial(name="streams, 16 at a time", calls=600, connections=16, stream=True),
)

Figures = dict[str, float]


def figures(trial: Trial, result: Result, cpu_s: float) -> Figures:
    if result.errors:
        raise SystemExit(f"{result.errors} of {result.calls} calls failed in '{trial.name}'")
    out = {
        "p50 µs": result.p50,
        "p99 µs": result.p99,
        "calls/s": result.calls / result.elapsed_s,
        "CPU s / 1,000": cpu_s / result.calls * 1000,
    }
    if trial.stream:
        out |= {"first byte p50 µs": result.first_p50, "events/s": result.calls * EVENTS / result.elapsed_s}
    return out


def measure(load: Load, target: Target, trial: Trial) -> Figures:
    job = Job(
        port=target.port,
        request=request(target, trial),
        calls=trial.calls,
        connections=trial.connections,
        rate=trial.rate,
    )
    before = target.server.cpu_s()
    result = load.run(job)
    return figures(trial, result, target.server.cpu_s() - before)


def request(target: Target, trial: Trial) -> str:
    messages = [{"role": "user", "content": trial.text * (trial.prompt // len(trial.text))}]
    model = f"m-{EVENTS}" if trial.stream else "m"
    body = json.dumps({"model": model, "messages": messages, **({"stream": True} if trial.stream else {})})
    return chat_request(target.port, target.key, body)


@contextmanager
def targets(folder: Path, records: int) -> Iterator[list[Target]]:
    with ExitStack() as stack:
        upstream, port = stack.enter_context(module("tests.bench.fast_upstream", core=LOAD_CORE))
        bare, bare_port = stack.enter_context(module("tests.bench.bare_proxy", str(port), core=SERVER_CORE))
        key, ours_port = furnish(folder / "home", port, records), free_port()
        ours = stack.enter_context(serving(folder / "home", ours_port))
        until_answered(ours_port, key)
        yield [
            Target("direct", port, "", upstream),
            Target("bare", bare_port, "", bare),
            Target("ours", ours_port, key, ours),
        ]


def furnish(home: Path, upstream: int, records: int) -> str:
    """A home with everything on: channel, prices, limits that do not bind, calls of the past; the token's key."""
    url = f"http://127.0.0.1:{upstream}/v1"
    models = f"m,m-{EVENTS}"
    tollkeeper(home, "account", "grant", "100000")
    tollkeeper(
        home, "channel", "add", "bench", "--base-url", url, "--key", KEY, "--models", models, "--group", "default"
    )
    for model in models.split(","):
        tollkeeper(home, "price", "set", model, "--input", "2.50", "--output", "10")
    made = tollkeeper(
        home, "token", "add", "bench", "--rpm", "100000000", "--concurrent", "1000", "--streams", "1000", "--json"
    )
    remember(home, records)
    return str(json.loads(made)["key"])


def remember(home: Path, records: int) -> None:
    if records:
        build(home / "usage", records)


def start_up(rounds: int, folder: Path, records: int) -> Figures:
    """From the command to the first answer, and what the idle server holds."""
    home = folder / "start"
    key = json.loads(tollkeeper(home, "token", "add", "bench", "--json"))["key"]
    remember(home, records)
    seconds, sizes = [], []
    for _ in range(rounds):
        port = free_port()
        with serving(home, port) as child:
            seconds.append(until_answered(port, key))
            sizes.append(child.rss_mib())
    return {"start s": median(seconds), "idle MiB": median(sizes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls: to see that it works")
    parser.add_argument("--records", type=int, default=0, help="calls in the log before it begins")
    parser.add_argument("--json", type=Path, help="write every figure of every round here")
    options = parser.parse_args()
    trials = [msgspec.structs.replace(t, calls=max(64, t.calls // 10)) if options.quick else t for t in TRIALS]
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = start_up(options.rounds, folder, options.records)
        with targets(folder, options.records) as three:
            rows = run(three, trials, options.rounds)
    report(rows, trials)
    print(f"\nstart to first answered /v1/models: {begin['start s']:.3f} s, idle {begin['idle MiB']:.0f} MiB")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "start": begin, "rows": rows}, indent=1))


Rows = dict[str, dict[str, list[Figures]]]
"""By trial and target: the figures of each round."""


def run(three: list[Target], trials: list[Trial], rounds: int) -> Rows:
    """All rounds of all trials, the targets taking turns."""
    load = Load()
    rows: Rows = {trial.name: {target.name: [] for target in three} for trial in trials}
    try:
        for target in three:
            measure(load, target, msgspec.structs.replace(trials[0], calls=200))
            measure(load, target, msgspec.structs.replace(trials[5], calls=64))
        for number in range(rounds):
            order = three[number % 3 :] + three[: number % 3]
            for trial in trials:
                for target in order:
                    rows[trial.name][target.name].append(measure(load, target, trial))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    finally:
        load.end()
    return rows


def report(rows: Rows, trials: list[Trial]) -> None:
    """A table: the three, and ours as a ratio to bare and to direct."""
    print(f"{'':24}{'':20}{'direct':>10}{'bare':>10}{'ours':>10}{'ours/bare':>11}{'ours/direct':>13}")
    for trial in trials:
        by_target = rows[trial.name]
        for figure in by_target["ours"][0]:
            values = {name: [f[figure] for f in rounds] for name, rounds in by_target.items()}
            middle = {name: median(found) for name, found in values.items()}
            ratios = [
                median(ours / other for ours, other in zip(values["ours"], values[name], strict=True))
                for name in ("bare", "direct")
            ]
            cells = "".join(f"{middle[name]:>10.{_digits(middle[name])}f}" for name in ("direct", "bare", "ours"))
            print(f"{trial.name:24}{figure:20}{cells}{ratios[0]:>11.2f}{ratios[1]:>13.2f}")


def _digits(value: float) -> int:
    return 0 if value >= 100 else 3


if __name__ == "__main__":
    main()
