"""Large work is done in a thread of its own, one after another."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.preparation import Worker, prepare_large
from gateway.core.quota import effects_of, need_of
from gateway.domain.channel import Channel, Dialect, Overrides
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.long_strings import HEAD, TAIL
from gateway.domain.prompt_size import prompt_tokens
from gateway.domain.units import MILLION
from gateway.inbound.api import InboundRequest
from gateway.inbound.chat.api import parse_chat_request, parse_large_chat_request
from gateway.inbound.chat.conversation import fit_dialect
from gateway.inbound.json_body import unmask
from gateway.inbound.large_body import read_large
from gateway.upstream import dialects
from gateway.upstream.adapter import AttemptFailed, LearnedRefusals, Order
from gateway.upstream.overrides import apply_overrides
from tests.core import kit
from tests.house import amount
from tests.web.door import until


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


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


async def test_one_thing_after_another(worker: Worker) -> None:
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


async def test_what_nobody_waits_for_is_not_begun(worker: Worker) -> None:
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


LONG = HEAD + TAIL
DATA = "QUJD" * 400
PIECES = st.sampled_from(["\\", '"', "\n", " ", "é", "你", "😀", "\x7f", "word ", "/", "0"])
TEXT = st.tuples(PIECES, PIECES, st.integers(0, 700)).map(lambda t: t[0] * t[2] + t[1] + t[0] * (t[2] // 3))
ID = st.sampled_from(["call_1", "call_2", "call_" + "x" * 400])
OBJECT = st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(TEXT, st.integers(), st.none()), max_size=2)
MEDIA = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/" + "x" * 900}},
        {"type": "input_audio", "input_audio": {"format": "wav", "data": DATA}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": f"data:text/plain;base64,{DATA}"}},
    ]
)
PART = st.one_of(TEXT.map(lambda text: {"type": "text", "text": text}), MEDIA)
CONTENT = st.one_of(TEXT, st.lists(PART, min_size=1, max_size=3))
CALL = st.tuples(ID, st.one_of(OBJECT.map(json.dumps), TEXT)).map(
    lambda t: {"id": t[0], "type": "function", "function": {"name": "add", "arguments": t[1]}}
)
RESULT = st.one_of(TEXT, OBJECT.map(json.dumps), st.lists(OBJECT.map(json.dumps), min_size=1, max_size=2).map(str))
MESSAGE = st.one_of(
    CONTENT.map(lambda content: {"role": "user", "content": content}),
    CONTENT.map(lambda content: {"role": "system", "content": content}),
    st.tuples(TEXT, st.lists(CALL, max_size=2)).map(
        lambda t: {"role": "assistant", "content": t[0], **({"tool_calls": t[1]} if t[1] else {})}
    ),
    st.tuples(ID, RESULT).map(lambda t: {"role": "tool", "tool_call_id": t[0], "content": t[1]}),
)
REQUEST = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(MESSAGE, min_size=1, max_size=5)},
    optional={
        "tools": TEXT.map(lambda text: [{"type": "function", "function": {"name": "add", "description": text}}]),
        "unknown": TEXT,
        "stream": st.booleans(),
        "user": TEXT,
        "metadata": st.dictionaries(st.just("user_id"), TEXT),
    },
)
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


def order_of(request: InboundRequest) -> Order:
    return Order(
        fields=request.fields, body=request.body, model="m", stream=request.stream, long=request.long, created=1
    )


def large(body: bytes) -> InboundRequest:
    """What ``asked_large`` makes of it, with long strings that are not so long."""
    read = read_large(body, long=LONG, step=100)
    small = parse_chat_request(body)
    fields = {"fields": read.fields, "mask": read.mask, "long": read.long}
    return msgspec.structs.replace(small, prompt=prompt_tokens(read.fields, read.long), **fields)


def sent(request: InboundRequest, channel: Channel) -> object:
    """What goes out, or the error."""
    order, route = order_of(request), kit.route(channel.name)
    route = msgspec.structs.replace(route, channel=channel, served=channel.models[0])
    try:
        if channel.overrides is not None:
            order = apply_overrides(order, channel.overrides)
        order = fit_dialect(order, channel)
        adapter = dialects.adapters()(channel.dialect)
        if request.prompt is not None:
            prepared = prepare_large(adapter, order, route, LearnedRefusals(), request.mask)
            body = b"".join(prepared.parts)
        else:
            prepared = adapter.prepare(order, channel, route.served, LearnedRefusals())
            body = unmask(prepared.body, request.mask) if request.mask else prepared.body
    except GatewayError as error:
        return error.code, error.param
    except AttemptFailed as failed:
        return failed.failure.code, failed.failure.param
    return json.loads(body), prepared.dropped


@settings(max_examples=amount(40, 300), deadline=None)
@given(REQUEST, st.booleans())
def test_it_goes_out_as_a_small_one_does(doc: dict[str, Any], escaped: bool) -> None:
    body = json.dumps(doc, ensure_ascii=escaped).encode("utf-8", "replace")
    for channel in CHANNELS:
        assert sent(large(body), channel) == sent(parse_chat_request(body), channel), channel.name


@settings(max_examples=amount(40, 300), deadline=None)
@given(REQUEST)
def test_as_much_is_held_for_it(doc: dict[str, Any]) -> None:
    """At least: of escapes in requests with media it counts the bytes as they came."""
    body = json.dumps(doc, ensure_ascii=False).encode("utf-8", "replace")
    found = large(body)
    bound, wanted = found.input_bound, parse_chat_request(body).input_bound
    assert wanted <= bound <= wanted + len(found.long.spans) * 16 + body.count(b"\\")


LIMITS: list[dict[str, Any]] = [
    {},
    {"max_completion_tokens": 1, "max_tokens": 50_000},
    {"options": {"num_predict": 50_000, "note": "x" * 90_000}},
    {"extra": ["x" * 90_000, {"thinking": {"budget_tokens": 50_000}}], "n": 3},
    {"prediction": {"type": "content", "content": "x" * 300_000}, "max_tokens": 10},
    {"documents": [{"text": "x" * 300_000, "max_new_tokens": "50000"}]},
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
@pytest.mark.parametrize("more", LIMITS, ids=["none", "two", "nested", "thinking", "prediction", "documents"])
def test_what_it_may_use_at_most_is_read_as_of_a_small_one(more: dict[str, Any], channel: Channel) -> None:
    """With all its caps, and whatever the channel makes of them."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi" * 200_000}], **more}).encode()
    effects = effects_of([(channel, channel.models[0])])
    small, found = (
        need_of(request, effects, kit.PRICE, MILLION)
        for request in (parse_chat_request(body), parse_large_chat_request(body))
    )
    assert (found.capped, found.output) == (small.capped, small.output)
    assert small.input <= found.input <= small.input + 100


@pytest.mark.parametrize("middle", ["a b", "é", "\\u0020", "\\u00e9"])
def test_a_text_instead_of_media_is_held_for_as_a_text(middle: str) -> None:
    """Also if only what was taken out of it tells that it is one."""
    audio = {"format": "wav", "data": "A" * 200_000 + "MIDDLE" + "A" * 200_000}
    messages = [{"role": "user", "content": [{"type": "input_audio", "input_audio": audio}]}]
    written = json.dumps({"model": "m", "messages": messages})
    body = written.replace("MIDDLE", middle)
    found = parse_large_chat_request(body.encode()).input_bound
    assert parse_chat_request(body.encode()).input_bound <= found
    assert found > 400_000 // 3
    assert parse_large_chat_request(written.replace("MIDDLE", "\\/").encode()).input_bound < 10_000


def test_a_name_that_comes_twice_beside_media_is_refused() -> None:
    part = b'{"type":"text","text":"' + b'say \\"hi\\" {\\\\' * 200_000 + b'"}'
    image = b'{"type":"image_url","image_url":{"url":"https://example.com"}}'
    body = b'{"model":"m","messages":[{"role":"user","content":[%b,%b]}]}' % (part, image)
    assert parse_large_chat_request(body).input_bound >= parse_chat_request(body).input_bound
    with pytest.raises(BadRequest, match="twice"):
        parse_large_chat_request(body.replace(b'"url":', b'"url":"x","url":'))


TEXTS = ["word " * 60_000, "你好" * 80_000, 'say "hi"\n' * 30_000, "😀" * 30_000]


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("content", TEXTS, ids=["words", "Chinese", "lines", "emoji"])
def test_its_tokens_are_estimated_alike(content: str, escaped: bool) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}, ensure_ascii=escaped).encode()
    wanted = prompt_tokens(parse_chat_request(body).fields)
    assert large(body).prompt == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_long_ids_of_calls_and_results_still_agree(channel: Channel) -> None:
    """However a vendor wants them to be spelled."""
    call = {"id": "c" * 9000, "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c" * 9000, "content": "1"},
    ]
    found = sent(large(json.dumps({"model": "m", "messages": messages}).encode()), channel)
    assert isinstance(found, tuple)
    ids = ids_in(found[0])
    assert len(ids) == 2
    assert ids[0] == ids[1]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_lone_surrogates_survive(channel: Channel) -> None:
    messages = [
        {"role": "user", "content": "\ud800" * 2000},
        {"role": "user", "content": [{"type": "text", "text": "x" * 700 + "😀\udc00" * 500}]},
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert large(body).mask
    assert sent(large(body), channel) == sent(parse_chat_request(body), channel)


def ids_in(doc: object) -> list[object]:
    """All values that name a call, in order."""
    if isinstance(doc, list):
        return [id for item in doc for id in ids_in(item)]
    if not isinstance(doc, dict):
        return []
    own = [value for key, value in doc.items() if key in ("id", "tool_call_id", "tool_use_id")]
    return own + [id for value in doc.values() for id in ids_in(value)]
