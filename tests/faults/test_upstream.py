"""Upstreams that lie, cut, bomb and redirect.

Long: the rows of one table of faults, side by side.
"""

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import completion_faults, error_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    choice,
    chunk,
    dumps,
    event,
    fail,
    reply,
    slam,
    speak,
    story,
    stream,
    stream_bytes,
    usage,
    whole,
)

GOOD = dumps(whole("m", spent=usage()))
SPOKEN = b"".join(map(event, [*story("Hel", "lo"), chunk(usage=usage())])) + DONE


def raw(data: bytes, *, close: bool = True) -> Script:
    """These very bytes as the answer, head and all; then the connection is closed, or kept open in silence."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(data)
        if close:
            exchange.socket.close()
        await exchange.left()

    return script


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("2", 2),
        ("59", 59),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_believed_within_reason(
    gateway: Gateway, provider: Provider, told: str, wait: int | None
) -> None:
    provider.on("m", fail(429, "slow down", headers={"retry-after": told} if told else {}))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")
    if wait is not None:
        assert answer.head.get("retry-after") == str(wait)
    assert not answer.head.get("retry-after") or 1 <= int(answer.head.get("retry-after")) <= 60
    assert gateway.record.attempts[-1].kind is FailureKind.RATE


async def test_a_failure_that_passes_is_not_seen(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=second", name="other", priority=-1)
    provider.on("m", fail(500), speak())
    provider.on("second", speak(prompt=9, completion=12))
    answer = await gateway.client.chat()
    assert answer.text == "Hello"
    assert len(gateway.record.attempts) == 2
    assert gateway.record.cost == 9 * 2_500 + 12 * 10_000


async def test_when_all_fail_there_is_an_end(gateway: Gateway, provider: Provider) -> None:
    for n in range(6):
        gateway.channel(provider.base_url, name=f"c{n}")
    provider.on("m", fail(503))
    answer = await gateway.client.chat()
    assert answer.status in {502, 503}
    assert error_faults(answer.json) == []
    assert len(provider.exchanges) == 3
    assert [a["status"] for a in answer.error["gateway"]["attempts"]] == [503] * 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_before_any_byte_is_tried_once_more_elsewhere(
    gateway: Gateway, provider: Provider, stream: bool
) -> None:
    for n in range(3):
        gateway.channel(provider.base_url, name=f"c{n}")
    provider.on("m", slam)
    answer = await gateway.client.chat(stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert len(provider.exchanges) == 2
    record = gateway.record
    assert (record.cost, [a.billed for a in record.attempts]) == (0, [True, True])
    assert record.possible == record.held > 0


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (401, "canary", "upstream_auth_failed"),
        (403, "canary", "upstream_auth_failed"),
        (402, "canary", "upstream_out_of_credit"),
        (400, "You have reached your specified API usage limits. usage limit canary", "upstream_out_of_credit"),
        (429, "insufficient_quota canary", "upstream_out_of_credit"),
    ],
)
async def test_the_owners_troubles_go_to_the_next_channel_and_stay_private(
    gateway: Gateway, provider: Provider, status: int, text: str, code: str
) -> None:
    provider.on("m", fail(status, text, code=text.split(maxsplit=1)[0]))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (502, code)
    assert answer.head.get("x-should-retry") == "false"
    assert "canary" not in answer.error["message"]
    assert "up" in answer.error["message"]
    gateway.channel(provider.base_url, "m=fine", name="other", priority=-1)
    provider.on("fine", speak())
    assert (await gateway.client.chat()).text == "Hello"


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (400, "This model's maximum context length is 8 tokens", "context_length_exceeded"),
        (400, "flagged by content management", "content_filter"),
        (422, "field required", "weird"),
    ],
)
async def test_the_clients_own_troubles_are_reported_at_once(
    gateway: Gateway, provider: Provider, status: int, text: str, code: str
) -> None:
    gateway.channel(provider.base_url, name="other")
    provider.on("m", fail(status, text, code=code))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (status, code)
    assert text in answer.error["message"]
    assert len(provider.exchanges) == 1


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)

BROKEN: dict[str, bytes] = {
    "length too long": HEAD + b"Content-Length: 100000\r\n\r\n" + GOOD,
    "bad chunk": HEAD + CHUNKED + b"\r\nzz\r\n" + GOOD,
    "no last chunk": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-5],
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "nothing": b"",
    "endless 103": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000,
    "long header": HEAD + b"X: " + b"y" * (1 << 20) + b"\r\n" + LENGTH + b"\r\n" + GOOD,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BROKEN)
async def test_broken_http_is_a_failed_attempt(gateway: Gateway, provider: Provider, name: str, stream: bool) -> None:
    provider.on("m", raw(BROKEN[name]))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 502, answer.body
    assert error_faults(answer.json) == []
    assert answer.error["code"].startswith("upstream_")
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)
    provider.on("m", speak())
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    assert (await gateway.client.chat(stream=stream)).text == "Hello"


@pytest.mark.parametrize("status", [302, 308])
@pytest.mark.parametrize("where", ["other", "same", "file:///etc/passwd", "http://u:p@127.0.0.1:9/"])
async def test_redirects_are_not_followed(gateway: Gateway, provider: Provider, status: int, where: str) -> None:
    async with Provider().running() as other:
        other.other = speak()
        target = {"other": other.base_url, "same": provider.base_url}.get(where, where)
        provider.on("m", reply(b"", status=status, headers={"location": target + "/chat/completions"}))
        answer = await gateway.client.chat()
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
        assert "redirect" in answer.error["message"]
        assert (other.exchanges, len(provider.exchanges)) == ([], 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_only_known_headers_arrive(gateway: Gateway, provider: Provider, stream: bool) -> None:
    strange = {
        "set-cookie": "a=b",
        "location": "http://evil.example",
        "access-control-allow-origin": "*",
        "x-should-retry": "true",
        "server": "evil",
        "www-authenticate": "Basic",
        "content-security-policy": "x",
        "x-request-id": "theirs-1",
        "x-ratelimit-remaining-requests": "7",
        "openai-processing-ms": "12",
    }
    provider.on("m", stream_bytes(SPOKEN, headers=strange) if stream else reply(GOOD, headers=strange))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 200
    names = {name for name, _ in answer.head.headers}
    assert not names & {"set-cookie", "location", "access-control-allow-origin", "x-should-retry", "www-authenticate"}
    assert "evil" not in str(answer.head)
    assert answer.head.get("x-request-id") == gateway.record.id
    assert answer.head.get("x-upstream-request-id") == "theirs-1"
    assert answer.head.get("x-ratelimit-remaining-requests") == "7"


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({"prompt_tokens": 10**18, "completion_tokens": 5, "total_tokens": 10**18 + 5}, False),
        ({"prompt_tokens": 9, "completion_tokens": 1e300, "total_tokens": 1e300}, False),
        ({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 5}, True),
        ({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": None}, True),
        ({"total_tokens": 21}, False),
        ({"prompt_tokens": 9, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 10**15}}, True),
    ],
)
async def test_absurd_usage_never_becomes_an_absurd_bill(
    gateway: Gateway, provider: Provider, told: dict[str, object], known: bool
) -> None:
    provider.on("m", reply({**whole("m"), "usage": told}))
    assert (await gateway.client.chat()).status == 200
    record = gateway.record
    assert 0 <= record.cost < 10**9
    assert (record.source is UsageSource.REPORTED) >= known
    if known:
        assert record.output == 12


@pytest.mark.parametrize("id", ["", "same", "x" * 1_000_000, "\x1b[31m", None, 7])
async def test_the_upstreams_ids_do_not_matter(gateway: Gateway, provider: Provider, id: object) -> None:
    provider.on("m", reply({**whole("m", spent=usage()), "id": id}))
    answers = [await gateway.client.chat() for _ in range(2)]
    assert [completion_faults(answer.json) for answer in answers] == [[], []]
    assert len({record.id for record in gateway.records}) == 2
    assert all(len(record.upstream_id) <= 80 and record.upstream_id.isprintable() for record in gateway.records)


async def test_plain_and_streamed_cost_the_same(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("one", "two", prompt=123, completion=45))
    for wanted in (False, True):
        await gateway.client.chat(stream=wanted)
    plain, streamed = (record.cost for record in gateway.records)
    assert plain == streamed > 0


async def test_an_answer_before_the_request_was_read_is_an_answer(gateway: Gateway, provider: Provider) -> None:
    provider.hasty = reply(dumps({"error": {"message": "too big", "type": "x"}}), status=413)
    answer = await gateway.client.chat(padding="x" * (8 << 20))
    assert answer.status == 413
    assert "too big" in answer.error["message"]
    provider.hasty = None
    provider.on("m", speak())
    assert (await gateway.client.chat()).text == "Hello"


async def test_choices_in_a_refused_form_are_a_bad_response(gateway: Gateway, provider: Provider) -> None:
    for odd in ([], [1], {"0": choice()}, None, "x"):
        provider.on("m", reply({**whole("m"), "choices": odd}))
        gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
        assert (await gateway.client.chat()).error["code"] == "upstream_bad_response"
        provider.on("m", stream({**chunk(), "choices": odd}))
        gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
        assert (await gateway.client.chat(stream=True)).status == 502
