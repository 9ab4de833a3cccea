"""The same as ``test_cuts`` for the Responses API, at channels that speak it and at all others."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.units import ChannelId
from tests.cases.same import PLAIN, STREAMED
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import dumps
from tests.fakes.responses import events_of, function_call, message, parsed, response
from tests.fakes.wire import Gone
from tests.faults.test_cuts import AT_ONCE, CALLS, CUTS, MODELS, Cut, cuts

NATIVE = response(
    message("I look."),
    function_call(*CALLS[0], call="c1", id="fc_1"),
    function_call(*CALLS[1], call="c2", id="fc_2"),
    model="native",
)
BODIES: dict[tuple[str, bool], bytes] = {
    **{(dialect.value, True): body for dialect, body in STREAMED.items()},
    **{(dialect.value, False): body for dialect, body in PLAIN.items()},
    ("native", True): b"".join(events_of(NATIVE)),
    ("native", False): dumps(NATIVE),
}


def whole(answer: Answer, *, stream: bool) -> bool:
    """Whether nothing is missing of an answer that ends as a success."""
    made: dict[str, Any] = parsed(answer.body)[-1]["response"] if stream else answer.json
    items = made["output"]
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    return (text, calls, made["status"]) == ("I look.", CALLS, "completed")


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_no_truncated_response_is_shown_as_a_success(gateway: Gateway, provider: Provider) -> None:
    wanted: asyncio.Queue[tuple[str, Cut]] = asyncio.Queue()
    for number, cut in enumerate(cuts(CUTS)):
        wanted.put_nowait(("native" if number % 2 else cut.dialect.value, cut))
    gateway.grant(10**13)
    provider.other = _cut_off
    for dialect, upstream in MODELS.items():
        _channel(gateway, provider, dialect, dialect.value, upstream)
    _channel(gateway, provider, Dialect.OPENAI, "native", "native", preset="vllm")
    counts: Counter[str] = Counter()

    async def play() -> None:
        while not wanted.empty():
            counts[await _outcome(gateway, *wanted.get_nowait())] += 1

    await asyncio.gather(*(play() for _ in range(AT_ONCE)))
    assert counts["truncated"] == 0
    assert counts["whole"] + counts["refused"] + counts["broken off"] == CUTS
    assert min(counts["refused"], counts["broken off"]) > 0


async def _cut_off(exchange: Exchange) -> None:
    said = exchange.body.decode()
    model, stream, framing, share, reset = said[said.index("cut ") + 4 :].split("!")[0].split()
    cut = Cut(Dialect.OPENAI, stream == "1", framing, float(share), reset == "1")
    data = cut.wire_of(BODIES[model, cut.stream])
    await exchange.write(data[: int(cut.share * len(data))])
    if cut.reset:
        await asyncio.sleep(0.005)  # a reset discards what the peer has not read yet
        exchange.socket.reset()
    else:
        exchange.socket.close()


def _channel(
    gateway: Gateway, provider: Provider, dialect: Dialect, model: str, upstream: str, *, preset: str = ""
) -> None:
    root = provider.base_url if dialect is Dialect.OPENAI else provider.base_url.removesuffix("/v1")
    made = Channel(
        id=ChannelId(f"up-{model}"),
        name=f"up-{model}",
        dialect=dialect,
        base_url=root,
        models=(ServedModel(name=model, upstream=upstream),),
        key="sk-x",
        preset=preset or ("cerebras" if dialect is Dialect.OPENAI else ""),
    )
    gateway.change("channels", made.id, made)
    gateway.price(model)


async def _outcome(gateway: Gateway, model: str, cut: Cut) -> str:
    """The cut is in the request, so that a second attempt is cut at the same place."""
    mark = f"cut {model} {int(cut.stream)} {cut.framing} {cut.share:.9f} {int(cut.reset)}!"
    body = msgspec.json.encode({"model": model, "input": mark, "stream": cut.stream})
    try:
        answer = await gateway.client.ask("POST", "/v1/responses", body)
    except Gone:
        return "broken off"
    if answer.status != 200:
        return "refused"
    if not cut.stream or b"event: response.completed" in answer.body:
        return "whole" if whole(answer, stream=cut.stream) else "truncated"
    assert b"event: response.failed" in answer.body
    return "broken off"
