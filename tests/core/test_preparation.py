"""Large work is done in a thread of its own, one after another."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.core.preparation import Preparer, Worker
from gateway.domain.channel import Channel, Dialect, Overrides
from gateway.domain.errors import BadRequest
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.units import Millis
from gateway.inbound.api import HttpRequest, InboundRequest, parse_large
from gateway.inbound.chat.api import CHAT
from gateway.upstream.dialects import new_adapter
from gateway.upstream.learned_params import LearnedParams
from tests.core import kit
from tests.web.door import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def test_it_is_done_in_another_thread_while_the_loop_goes_on(worker: Worker) -> None:
    begun, done = threading.Event(), threading.Event()

    def wait() -> threading.Thread:
        begun.set()
        done.wait(30)
        return threading.current_thread()

    work = asyncio.ensure_future(worker.run(wait))
    await until(begun.is_set)
    assert not work.done()
    done.set()
    assert await work is not threading.current_thread()


async def test_the_worker_does_one_thing_at_a_time(worker: Worker) -> None:
    now, most = [0], [0]

    def work() -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        time.sleep(0.002)
        now[0] -= 1

    await asyncio.gather(*(worker.run(work) for _ in range(10)))
    assert most == [1]


async def test_an_error_reaches_the_waiting_call(worker: Worker) -> None:
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await worker.run(work)


async def test_abandoned_work_is_not_begun(worker: Worker) -> None:
    go_on, busy, begun = threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        busy.set()
        go_on.wait(30)

    first = asyncio.ensure_future(worker.run(wait))
    second = asyncio.ensure_future(worker.run(lambda: begun.append(2)))
    await until(busy.is_set)
    second.cancel()
    await asyncio.wait([second])
    go_on.set()
    await first
    await worker.run(lambda: begun.append(3))
    assert begun == [3]


STOPPED = """
import asyncio, time
from gateway.core.preparation import Preparer, Worker

async def main():
    call = asyncio.ensure_future(Worker().run(lambda: time.sleep(50)))
    for _ in range(2):
        await asyncio.sleep(0.05)
        call.cancel()
    await asyncio.wait([call])

asyncio.run(main())
"""


def test_a_process_that_is_stopped_does_not_wait_for_what_the_thread_reads() -> None:
    assert subprocess.run([sys.executable, "-c", STOPPED], cwd=ROOT, timeout=30, check=False).returncode == 0


SYSTEM = Overrides(system="Be brief.", set={"temperature": 1})
CHANNELS = [
    kit.channel("openai"),
    kit.channel("renamed", "m=other"),
    kit.channel("edited", overrides=SYSTEM),
    kit.channel("mistral", preset="mistral"),
    kit.channel("deepseek", preset="deepseek"),
    kit.channel("anthropic", dialect=Dialect.ANTHROPIC, cache_marks=False),
    kit.channel("claude", "m=claude-opus-4-8", dialect=Dialect.ANTHROPIC, cache_marks=False, overrides=SYSTEM),
    kit.channel("gemini", dialect=Dialect.GEMINI),
    kit.channel("newer", "m=gemini-3-pro", dialect=Dialect.GEMINI, overrides=SYSTEM),
]


def parsed(body: bytes) -> InboundRequest:
    return parse_large(CHAT, HttpRequest(body=body, target="", headers={}))


def test_calls_of_one_server_share_an_adapter_by_dialect() -> None:
    one, other = (Preparer(LearnedParams(), Worker(), lambda: Millis(0)) for _ in range(2))
    assert one.adapters.keys() == {*Dialect}
    assert one.adapters[Dialect.GEMINI] is not other.adapters[Dialect.GEMINI]


def sent(body: bytes, channel: Channel) -> Any:
    """What goes out."""
    request = parsed(body)
    order = Order(fields=request.fields, body=request.body, model="m", stream=request.stream, created=1)
    plan = CHAT.plan(order, channel, new_adapter(channel.dialect), lacks_api=False)
    return json.loads(plan.adapter.prepare(plan.order, channel, channel.models[0], LearnedRefusals()).body)


@pytest.mark.parametrize("middle", ["a b", "é", "\\u0020", "\\u00e9"])
def test_a_text_instead_of_media_is_held_for_as_a_text(middle: str) -> None:
    audio = {"format": "wav", "data": "A" * 200_000 + "MIDDLE" + "A" * 200_000}
    messages = [{"role": "user", "content": [{"type": "input_audio", "input_audio": audio}]}]
    written = json.dumps({"model": "m", "messages": messages})
    body = written.replace("MIDDLE", middle)
    assert parsed(body.encode()).bound.tokens > 400_000 // 3
    assert parsed(written.replace("MIDDLE", "\\/").encode()).bound.tokens < 10_000


def test_a_name_that_comes_twice_beside_media_is_refused() -> None:
    part = b'{"type":"text","text":"' + b'say \\"hi\\" {\\\\' * 200_000 + b'"}'
    image = b'{"type":"image_url","image_url":{"url":"https://example.com"}}'
    body = b'{"model":"m","messages":[{"role":"user","content":[%b,%b]}]}' % (part, image)
    assert parsed(body).bound.tokens > len(part) // 3
    with pytest.raises(BadRequest, match="twice"):
        parsed(body.replace(b'"url":', b'"url":"x","url":'))


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_long_ids_of_calls_and_results_still_agree(channel: Channel) -> None:
    """However a vendor wants them to be spelled."""
    call = {"id": "c" * 9000, "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c" * 9000, "content": "1"},
    ]
    ids = ids_in(sent(json.dumps({"model": "m", "messages": messages}).encode(), channel))
    assert len(ids) == 2
    assert ids[0] == ids[1]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_lone_surrogates_are_replaced_in_requests_that_change(channel: Channel) -> None:
    text = "x" * 700 + "😀\udc00" * 500
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    found = sent(json.dumps({"model": "m", "messages": messages}).encode(), channel)
    is_unchanged = channel.name in ("openai", "deepseek", "mistral")
    assert (text if is_unchanged else text.replace("\udc00", "\ufffd")) in texts_in(found)


def ids_in(doc: object) -> list[object]:
    """All values that name a call, in order."""
    if isinstance(doc, list):
        return [id for item in doc for id in ids_in(item)]
    if not isinstance(doc, dict):
        return []
    own = [value for key, value in doc.items() if key in ("id", "tool_call_id", "tool_use_id")]
    return own + [id for value in doc.values() for id in ids_in(value)]


def texts_in(doc: object) -> list[object]:
    """All values that are texts of messages."""
    if isinstance(doc, list):
        return [text for item in doc for text in texts_in(item)]
    if not isinstance(doc, dict):
        return [doc]
    return [text for value in doc.values() for text in texts_in(value)]
