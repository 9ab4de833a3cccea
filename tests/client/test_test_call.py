import pytest
from msgspec.structs import replace

from gateway import __version__
from gateway.client.test_call import PublicApi, call_facts, require_serving, version_text
from gateway.domain.errors import GatewayError, InvalidToken, Unavailable, UpstreamError
from gateway.runfile import Address
from tests.client.scripted import saying
from tests.commands.samples import STATUS
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import chunk, cut, delta
from tests.v1.test_every_api import upstream

STREAMED = ["chat", "messages", "responses"]


@pytest.fixture
def front(gateway: Gateway, provider: Provider) -> PublicApi:
    provider.on("m", upstream())
    return PublicApi(gateway.base_url, gateway.client.key)


@pytest.mark.parametrize(
    ("base_url", "host", "port"),
    [
        ("http://127.0.0.1:8655/v1", "127.0.0.1", 8655),
        ("http://[::1]:80/v1", "::1", 80),
        ("http://gateway.lan/v1", "gateway.lan", 80),
    ],
)
def test_a_base_url_has_an_address(base_url: str, host: str, port: int) -> None:
    assert PublicApi(base_url).address == Address(host=host, port=port)


def test_a_dry_run_knows_what_the_test_call_will_need() -> None:
    size = {"prompt_tokens": 16, "max_tokens": 64}
    assert call_facts("chat") == {"api": None, "stream": True, **size}
    assert call_facts("messages") == {"api": "messages", "stream": True, **size}
    assert call_facts("embeddings") == {"api": "embeddings", "stream": False, "prompt_tokens": 16}


async def test_a_key_sees_its_models(front: PublicApi) -> None:
    assert await front.models() == ["m"]


async def test_a_wrong_key_is_reported(gateway: Gateway) -> None:
    with pytest.raises(InvalidToken):
        await PublicApi(gateway.base_url, "sk-tk-wrong").models()


@pytest.mark.parametrize("api", STREAMED)
async def test_both_kinds_of_calls_give_their_id(front: PublicApi, gateway: Gateway, api: str) -> None:
    ids = [await front.plain_call("m", api), await front.streamed_call("m", api)]
    records = await gateway.settled(2)
    assert ids == [record.id for record in records]
    assert [(record.stream, record.api) for record in records] == [(False, api), (True, api)]


@pytest.mark.parametrize("api", STREAMED)
async def test_a_refused_call_raises(front: PublicApi, api: str) -> None:
    for ask in (front.plain_call, front.streamed_call):
        with pytest.raises(GatewayError, match="no-such-model"):
            await ask("no-such-model", api)


@pytest.mark.parametrize("api", STREAMED)
async def test_a_stream_that_breaks_raises_the_error_it_had(front: PublicApi, provider: Provider, api: str) -> None:
    provider.on("m", cut(chunk(delta("Hel"))))
    with pytest.raises(GatewayError, match="channel 'up'"):
        await front.streamed_call("m", api)


@pytest.mark.parametrize(("model", "api", "stream"), [("text-embedding-m", "embeddings", False), ("m", "chat", True)])
async def test_a_model_is_called_by_the_api_that_it_is_for(
    gateway: Gateway, provider: Provider, model: str, api: str, *, stream: bool
) -> None:
    gateway.channel(provider.base_url, model)
    provider.on(model, upstream())
    call_id = await PublicApi(gateway.base_url, gateway.client.key).test_call(model)
    (record,) = await gateway.settled(1)
    assert (record.id, record.api, record.stream) == (call_id, api, stream)
    assert ("stream" in provider.last.json) == stream


@pytest.mark.parametrize(
    ("body", "streamed", "code"),
    [
        (b'data: {"choices":[]}\n\n', True, "upstream_cut"),
        (b'data: {"error":{"message":"a\\ud83d"}}\n\n', True, "upstream_error"),
        (b'{"choices":[]}', False, "upstream_bad_response"),
    ],
    ids=["a stream without its end", "half a character in an error", "no choices"],
)
async def test_an_invalid_answer_is_an_error(body: bytes, streamed: bool, code: str) -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n" + body) as place:
        api = PublicApi(f"http://{place}/v1")
        with pytest.raises(UpstreamError) as caught:
            await (api.streamed_call("m") if streamed else api.plain_call("m"))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("running", "text"),
    [
        (0, "the gateway is stopping; wait"),
        (1, "the gateway is stopping; 1 call is finishing; wait"),
        (2, "the gateway is stopping; 2 calls are finishing; wait"),
    ],
)
def test_a_server_that_is_stopping_accepts_no_calls(running: int, text: str) -> None:
    require_serving(replace(STATUS, in_flight=running))
    with pytest.raises(Unavailable, match=text):
        require_serving(replace(STATUS, state="draining", in_flight=running))


def test_after_an_upgrade_both_versions_are_reported() -> None:
    assert version_text(replace(STATUS, version=__version__)) == __version__
    assert version_text(replace(STATUS, version="0.0.9")) == (
        f"0.0.9; this program is {__version__}: stop and start the server to use it"
    )
