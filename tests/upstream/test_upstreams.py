"""Calls reach the right place in the right form; lists of models are read; pools follow the configuration."""

from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import AnswerMemoryFull, UpstreamError
from gateway.domain.order import PreparedRequest
from gateway.upstream.adapter import Reply
from gateway.upstream.http.pool import Pool
from gateway.upstream.http.reply import HttpReply
from gateway.upstream.upstreams import Upstreams
from tests.fakes.provider import Provider
from tests.fakes.replies import in_steps, reply, silence
from tests.upstream.makers import UnlimitedMemory, attempt_fails, channel

ASKED = b'{"model":"m"}'


@pytest.fixture
async def upstreams() -> AsyncIterator[Upstreams]:
    clients = Upstreams({"UP_KEY": "sk-from-environment"})
    clients.share = lambda: nullcontext(UnlimitedMemory())
    yield clients
    await clients.close()


def _prepared(up: Channel) -> PreparedRequest:
    return PreparedRequest(url=f"{up.base_url}/chat/completions", headers={"Accept": "application/json"}, body=ASKED)


async def _send(upstreams: Upstreams, up: Channel) -> Reply:
    return await upstreams.send(up, _prepared(up), stream=False)


async def test_the_request_arrives_as_prepared(upstreams: Upstreams, provider: Provider) -> None:
    answer = await _send(upstreams, channel(provider.base_url, key="sk-1", headers={"X-Title": "me", "Cookie": "no"}))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert b"Hello" in await answer.read(10_000, UnlimitedMemory())
    head = provider.last.head
    assert (head.line, provider.last.body) == ("POST /v1/chat/completions HTTP/1.1", ASKED)
    assert (head.get("authorization"), head.get("x-title"), head.get("cookie")) == ("Bearer sk-1", "me", "")
    assert head.get("user-agent").startswith("tollkeeper/")


async def test_a_plain_answer_may_take_nine_minutes(
    upstreams: Upstreams, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the limit of the whole call ends it."""
    asked: list[float] = []
    send = Pool.send

    async def noting(pool: Pool, method: str, prepared: PreparedRequest, head_s: float) -> HttpReply:
        asked.append(head_s)
        return await send(pool, method, prepared, head_s)

    monkeypatch.setattr(Pool, "send", noting)
    up = channel(provider.base_url)
    for stream in (False, True):
        await (await upstreams.send(up, _prepared(up), stream=stream)).read(10_000, UnlimitedMemory())
    assert asked == [600, 120]


class FullMemory(UnlimitedMemory):
    def take(self, size: int) -> bool:
        return False

    async def wait(self, size: int) -> None:
        raise AnswerMemoryFull("the memory is used up")


async def test_a_body_without_room_is_the_channels_failure(upstreams: Upstreams, provider: Provider) -> None:
    upstreams.share = lambda: nullcontext(FullMemory())
    up = channel(provider.base_url)
    answer = await _send(upstreams, up)
    with attempt_fails("its count was abandoned: the memory is used up"):
        await upstreams.read_body(up, answer, 10_000, "its count")


async def test_keys_may_be_in_the_environment(upstreams: Upstreams, provider: Provider) -> None:
    await (await _send(upstreams, channel(provider.base_url, key="env:UP_KEY"))).read(10_000, UnlimitedMemory())
    assert provider.last.head.get("authorization") == "Bearer sk-from-environment"


async def test_a_changed_channel_connects_again_beside_running_calls(upstreams: Upstreams, provider: Provider) -> None:
    first = await _send(upstreams, channel(provider.base_url, key="a"))
    second = await _send(upstreams, channel(provider.base_url, key="b"))
    assert b"Hello" in await first.read(10_000, UnlimitedMemory())
    assert b"Hello" in await second.read(10_000, UnlimitedMemory())
    assert [e.head.get("authorization") for e in provider.exchanges] == ["Bearer a", "Bearer b"]


async def test_a_forgotten_channel_gives_its_connections_back(upstreams: Upstreams, provider: Provider) -> None:
    up = channel(provider.base_url)
    await (await _send(upstreams, up)).read(10_000, UnlimitedMemory())
    upstreams.forget(up.id)
    await (await _send(upstreams, up)).read(10_000, UnlimitedMemory())
    await provider.exchanges[0].left()
    assert not provider.exchanges[1].gone.is_set()


async def test_a_forgotten_channel_finishes_its_calls_and_then_closes_their_connections(
    upstreams: Upstreams, provider: Provider
) -> None:
    up = channel(provider.base_url)
    provider.on("m", in_steps(b'{"id":', b'"x"}'))
    answer = await _send(upstreams, up)
    upstreams.forget(up.id)
    assert await answer.read(10_000, UnlimitedMemory()) == b'{"id":"x"}'
    await provider.exchanges[0].left()


async def test_a_change_that_is_none_for_the_connection_keeps_it(upstreams: Upstreams, provider: Provider) -> None:
    for note in ("a", "b"):
        await (await _send(upstreams, channel(provider.base_url, note=note))).read(10_000, UnlimitedMemory())
    assert provider.last.reused


B = ServedModel(name="b", context=5)


async def test_models_are_listed(upstreams: Upstreams, provider: Provider) -> None:
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": "models/a"}, {"id": "b", "context_length": 5}]}))
    assert await upstreams.fetch_models(channel(provider.base_url)) == [ServedModel(name="a"), B]
    assert provider.last.head.line == "GET /v1/models HTTP/1.1"


async def test_odd_names_are_logged(upstreams: Upstreams, provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": "a"}, {"id": "b\x1b[2J"}]}))
    assert await upstreams.fetch_models(channel(provider.base_url)) == [ServedModel(name="a")]
    assert list(upstreams.unnamed.values()) == [1]
    assert "1 model has no name, or one that is too long or has control characters; left out" in caplog.text
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [(401, b"{}", "upstream_auth_failed"), (404, b"", "upstream_error"), (200, b"<html>", "upstream_bad_response")],
)
async def test_a_list_that_fails_says_why(
    upstreams: Upstreams, provider: Provider, status: int, body: bytes, code: str
) -> None:
    provider.on("/v1/models", reply(body, status=status))
    with pytest.raises(UpstreamError) as caught:
        await upstreams.fetch_models(channel(provider.base_url))
    assert caught.value.code == code


@pytest.mark.parametrize("given", ["/v1", "", "/"])
async def test_the_root_is_found_with_or_without_v1(upstreams: Upstreams, provider: Provider, given: str) -> None:
    provider.on("/v1/models", reply({"data": [{"id": "a"}]}))
    root = provider.base_url.removesuffix("/v1")
    assert await upstreams.discover_root(channel(root + given)) == (provider.base_url, [ServedModel(name="a")])


async def test_the_root_is_found_above_v1(upstreams: Upstreams, provider: Provider) -> None:
    provider.on("/models", reply({"data": None}))
    root = provider.base_url.removesuffix("/v1")
    assert await upstreams.discover_root(channel(root + "/v1")) == (root, [])


async def test_no_root_is_an_error(upstreams: Upstreams, provider: Provider) -> None:
    with pytest.raises(UpstreamError):
        await upstreams.discover_root(channel(provider.base_url))
    with pytest.raises(UpstreamError, match="cannot be reached"):
        await upstreams.discover_root(channel("http://127.0.0.1:1"))


async def test_a_refused_key_is_the_error_wherever_it_was_refused(upstreams: Upstreams, provider: Provider) -> None:
    provider.on("/v1/models", reply({"error": {"message": "bad key"}}, status=401))
    with pytest.raises(UpstreamError, match="refused the channel's key"):
        await upstreams.discover_root(channel(provider.base_url.removesuffix("/v1"), key="sk-wrong"))


async def test_a_native_dialect_is_not_looked_for(upstreams: Upstreams, provider: Provider) -> None:
    with pytest.raises(UpstreamError):
        await upstreams.discover_root(channel(provider.base_url, dialect="gemini"))
    assert len(provider.exchanges) == 1


async def test_the_mock_needs_no_connection(upstreams: Upstreams) -> None:
    demo = channel("", dialect="mock")
    body = b'{"model":"demo-echo","messages":[{"role":"user","content":"Hi"}]}'
    answer = await upstreams.send(demo, PreparedRequest(url="", headers={}, body=body), stream=False)
    assert b'"Hi"' in await answer.read(10_000, UnlimitedMemory())
    assert "demo-echo" in [model.name for model in await upstreams.fetch_models(demo)]


async def test_closing_ends_running_calls(provider: Provider) -> None:
    async def begin(exchange: object) -> None:
        await provider.last.begin_stream()
        await silence(provider.last)

    provider.on("m", begin)
    upstreams = Upstreams({})
    answer = await _send(upstreams, channel(provider.base_url))
    await upstreams.close()
    await provider.last.left()
    answer.abort()
