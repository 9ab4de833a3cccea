"""Embeddings through every kind of channel, read by the official SDK as applications do.

Long: the cases of one contract in order, over every dialect.
"""

import asyncio
import base64
import json
import math
import struct
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect, Overrides
from gateway.domain.group import Fallback
from gateway.domain.usage import UsageSource
from gateway.upstream.openai.embeddings import pack_vector
from tests.conformance import nodejs
from tests.conformance.sdk import openai
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import INPUT, Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import Doc, dumps, fail, reply, silence, speak_after

MODEL = "text-embedding-3-small"
VECTOR = [0.25, -0.5, 0.125]


def vectors(*vector: float, used: int | None = 7, shuffled: bool = False, always: str = "") -> Script:
    """The good upstream: a vector for each input, the first number telling which; in the form that is requested.

    ``always``: the form that it answers in whatever is requested.
    """

    async def script(exchange: Exchange) -> None:
        asked = exchange.json
        given = asked["input"]
        count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
        form = always or asked.get("encoding_format") or "float"
        found = [[float(i), *(vector or VECTOR)] for i in range(count)]
        data = [
            {"object": "embedding", "index": i, "embedding": pack_vector(one) if form == "base64" else one}
            for i, one in enumerate(found)
        ]
        answer: Doc = {"object": "list", "data": data[::-1] if shuffled else data, "model": asked["model"]}
        if used is not None:
            answer["usage"] = {"prompt_tokens": used, "total_tokens": used}
        await exchange.answer(dumps(answer))

    return script


async def embed(client: Client, body: Doc | bytes) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.ask("POST", "/v1/embeddings", data)


@pytest.fixture
def served(gateway: Gateway, provider: Provider) -> Gateway:
    """A gateway with an embedding model."""
    gateway.channel(provider.base_url, MODEL)
    gateway.price(MODEL, output=type(INPUT)(0))
    provider.on(MODEL, vectors())
    return gateway


async def test_a_body_that_needs_no_change_goes_out_as_it_came(served: Gateway, provider: Provider) -> None:
    body = b'{ "input" : ["\\u00e9", "\\ud83d"],\n"odd":1.50, "model":"text-embedding-3-small"}'
    assert (await embed(served.client, body)).status == 200
    assert json.loads(provider.last.body) == json.loads(body)
    plain_body = b'{ "input" : ["\\u00e9"],\n"odd":1.50, "model":"text-embedding-3-small"}'
    await embed(served.client, plain_body)
    assert (provider.last.body, provider.last.path) == (plain_body, "/v1/embeddings")


async def test_tokens_go_to_openai_channels_as_they_are(served: Gateway, provider: Provider) -> None:
    answer = await embed(served.client, {"model": MODEL, "input": [[1, 2, 3], [40_000, 5]]})
    assert len(answer.json["data"]) == 2
    assert provider.last.json["input"] == [[1, 2, 3], [40_000, 5]]
    assert len((await embed(served.client, {"model": MODEL, "input": [1, 2, 3]})).json["data"]) == 1


@pytest.mark.parametrize("tokens", [[[1, 2]], [1, 2], [-1]])
async def test_gemini_cannot_be_sent_token_numbers(gateway: Gateway, provider: Provider, tokens: list[Any]) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "e", dialect=Dialect.GEMINI, name="google")
    answer = await embed(gateway.client, {"model": "e", "input": tokens})
    assert answer.refusal == (400, "unsupported_parameter", "model")
    assert "'google' speaks gemini, which takes texts" in answer.error["message"]
    assert provider.exchanges == []


CONTENTS: list[Any] = [
    {"content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]},
    "b",
]


@pytest.mark.parametrize("given", [CONTENTS, CONTENTS[::-1]])
async def test_images_go_to_openai_channels_as_they_are(served: Gateway, provider: Provider, given: list[Any]) -> None:
    answer = await embed(served.client, {"model": MODEL, "input": given})
    assert (answer.status, len(answer.json["data"])) == (200, 2)
    assert provider.last.json["input"] == given


@pytest.mark.parametrize(("count", "status"), [(1, 200), (0, 502)])
async def test_several_contents_may_be_one_vector(served: Gateway, provider: Provider, count: int, status: int) -> None:
    data = [{"index": 0, "embedding": [1.0]}] * count
    provider.on(MODEL, reply({"object": "list", "data": data, "model": MODEL}))
    answer = await embed(served.client, {"model": MODEL, "input": CONTENTS})
    assert (answer.status, len(answer.json.get("data", ()))) == (status, count)


async def test_gemini_cannot_be_sent_images(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "e", dialect=Dialect.GEMINI, name="google")
    answer = await embed(gateway.client, {"model": "e", "input": CONTENTS[::-1]})
    assert answer.refusal == (400, "unsupported_parameter", "model")
    assert "'google' speaks gemini: only texts are translated" in answer.error["message"]


async def test_a_channel_that_takes_tokens_is_chosen(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "e", dialect=Dialect.GEMINI, name="google", priority=9)
    gateway.channel(provider.base_url, "e", name="other")
    provider.on("e", vectors())
    assert (await embed(gateway.client, {"model": "e", "input": [1, 2]})).status == 200
    assert gateway.record.channel_name == "other"


@pytest.mark.parametrize("always", ["float", "base64"])
@pytest.mark.parametrize("wanted", ["float", "base64", None])
async def test_vectors_come_in_the_form_that_was_requested(
    served: Gateway, provider: Provider, always: str, wanted: str | None
) -> None:
    provider.on(MODEL, vectors(always=always))
    answer = await embed(
        served.client, {"model": MODEL, "input": "a", **({"encoding_format": wanted} if wanted else {})}
    )
    (found,) = answer.json["data"]
    if wanted == "base64":
        assert list(struct.unpack("<4f", base64.b64decode(found["embedding"]))) == [0.0, *VECTOR]
    else:
        assert found["embedding"] == [0.0, *VECTOR]
    assert ("encoding_format" in provider.last.json) is (wanted is not None)


@pytest.mark.parametrize("words", ["'encoding_format': Input should be 'float'", "invalid encoding format: base64"])
async def test_a_server_that_refuses_the_form_gets_the_request_without_it(
    served: Gateway, provider: Provider, words: str
) -> None:
    provider.on(MODEL, fail(400, words), vectors())
    async with openai(served) as client:
        answer = await client.embeddings.create(model=MODEL, input="a")
        again = await client.embeddings.create(model=MODEL, input="b")
    assert answer.data[0].embedding == again.data[0].embedding == [0.0, *VECTOR]
    assert ["encoding_format" in exchange.json for exchange in provider.exchanges] == [True, False, False]


def gemini(values: list[float], *, used: int | None = None) -> Script:
    """Google's side: a vector for each text."""

    async def script(exchange: Exchange) -> None:
        asked = exchange.json
        usage = {} if used is None else {"usageMetadata": {"promptTokenCount": used}}
        if exchange.path.endswith(":embedContent"):
            await exchange.answer(dumps({"embedding": {"values": values}, **usage}))
            return
        found = [{"values": [float(one["content"]["parts"][0]["text"]), *values]} for one in asked["requests"]]
        await exchange.answer(dumps({"embeddings": found, **usage}))

    return script


@pytest.fixture
def google(gateway: Gateway, provider: Provider) -> Gateway:
    """A gateway with an embedding model at Google."""
    gateway.channel(
        f"http://127.0.0.1:{provider.port}", "e=gemini-embedding-001", dialect=Dialect.GEMINI, name="google"
    )
    gateway.price("e", output=type(INPUT)(0))
    return gateway


async def test_shortened_vectors_of_gemini_have_length_one(google: Gateway, provider: Provider) -> None:
    provider.other = gemini([3.0] * 256)
    async with openai(google) as client:
        answer = await client.embeddings.create(model="e", input="text", dimensions=256)
    values = answer.data[0].embedding
    assert len(values) == 256
    assert math.isclose(math.hypot(*values), 1.0, abs_tol=1e-6)
    assert provider.last.path == "/v1beta/models/gemini-embedding-001:embedContent"
    assert provider.last.json == {"content": {"parts": [{"text": "text"}]}, "outputDimensionality": 256}


@pytest.mark.parametrize(("user", "named"), [(None, ""), ("ann", "user")])
async def test_what_gemini_has_no_place_for_is_named(
    google: Gateway, provider: Provider, user: str | None, named: str
) -> None:
    provider.other = gemini([3.0])
    answer = await embed(google.client, {"model": "e", "input": "text", "user": user})
    assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, named)


async def test_many_texts_are_three_requests_and_one_record(google: Gateway, provider: Provider) -> None:
    provider.other = gemini([0.5], used=11)
    async with openai(google) as client:
        answer = await client.embeddings.create(model="e", input=[str(number) for number in range(250)])
    assert [len(exchange.json["requests"]) for exchange in provider.exchanges] == [100, 100, 50]
    assert [one.index for one in answer.data] == list(range(250))
    assert [one.embedding for one in answer.data] == [[float(number), 0.5] for number in range(250)]
    assert (google.record.input, google.record.source, answer.usage.prompt_tokens) == (33, UsageSource.REPORTED, 33)
    assert google.record.cost == 33 * 2_500


async def test_a_part_that_fails_fails_the_call_and_shows_its_cost(google: Gateway, provider: Provider) -> None:
    good, bad = gemini([0.5]), fail(400, "no")

    async def second_fails(exchange: Exchange) -> None:
        await (bad if exchange.number == 2 else good)(exchange)

    provider.other = second_fails
    assert (await embed(google.client, {"model": "e", "input": ["1"] * 150})).status == 400
    record = google.record
    assert (record.cost, record.possible, record.attempts[0].billed) == (0, record.held, True)
    assert record.held > 0


@pytest.mark.parametrize("large", [False, True])
async def test_long_texts_reach_gemini_whole(google: Gateway, provider: Provider, *, large: bool) -> None:
    texts = [f'7 "é\\" {"x" * (9_000 if large else 90)}'] * 150

    async def script(exchange: Exchange) -> None:
        assert [one["content"]["parts"][0]["text"] for one in exchange.json["requests"]] == texts[
            : len(exchange.json["requests"])
        ]
        await exchange.answer(dumps({"embeddings": [{"values": [1.0]}] * len(exchange.json["requests"])}))

    provider.other = script
    assert (await embed(google.client, {"model": "e", "input": texts})).status == 200
    assert [len(exchange.json["requests"]) for exchange in provider.exchanges] == [100, 50]


async def test_shuffled_vectors_are_sorted(served: Gateway, provider: Provider) -> None:
    provider.on(MODEL, vectors(shuffled=True))
    answer = await embed(served.client, {"model": MODEL, "input": ["a", "b", "c"]})
    assert [(one["index"], one["embedding"][0]) for one in answer.json["data"]] == [(0, 0.0), (1, 1.0), (2, 2.0)]


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": [None, 1.0]}, {"index": 1, "embedding": [1.0, 1.0]}],
        [{"index": 0, "embedding": [1.0, 1.0]}, {"index": 1, "embedding": [1.0, float("nan")]}],
    ],
    ids=["none", "too few", "empty vector", "null", "NaN"],
)
async def test_missing_vectors_are_a_bad_answer(served: Gateway, provider: Provider, data: list[Doc]) -> None:
    provider.on(MODEL, reply({"object": "list", "data": data, "model": MODEL}))
    answer = await embed(served.client, {"model": MODEL, "input": ["a", "b"]})
    assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")
    assert served.record.cost == 0


@pytest.mark.parametrize("used", [None, 0])
async def test_missing_usage_is_estimated(served: Gateway, provider: Provider, used: int | None) -> None:
    provider.on(MODEL, vectors(used=used))
    answer = await embed(served.client, {"model": MODEL, "input": ["one text", "and another one"]})
    record = served.record
    assert (record.source, record.output) == (UsageSource.ESTIMATED, 0)
    assert record.cost == record.input * 2_500 > 0
    assert answer.json["usage"] == {"prompt_tokens": record.input, "total_tokens": record.input}
    assert answer.head.get("x-gateway-usage") == "estimated"
    assert record.cost <= record.held


async def test_another_model_never_answers(served: Gateway, provider: Provider) -> None:
    served.group("default", fallbacks=(Fallback(model=MODEL, to=("m",)),))
    served.channel(provider.base_url, "m", name="other")
    provider.on(MODEL, fail(500))
    assert (await embed(served.client, {"model": MODEL, "input": "a"})).status >= 500
    assert {exchange.json["model"] for exchange in provider.exchanges} == {MODEL}


async def test_a_name_that_only_fallbacks_have_is_the_clients_mistake(served: Gateway) -> None:
    served.group("default", fallbacks=(Fallback(model="other", to=(MODEL,)),))
    answer = await embed(served.client, {"model": "other", "input": "a"})
    assert answer.status == 400
    assert "model 'other' cannot answer embeddings: it is a name for fallbacks" in answer.json["error"]["message"]


@nodejs.may_wait
async def test_the_javascript_sdk_reads_the_same(served: Gateway, provider: Provider) -> None:
    values = [math.sin(number) for number in range(100)]
    provider.on(MODEL, vectors(*values), vectors(*values, always="float"), vectors(*values, always="base64"))
    jobs = [{"do": "embed", "model": MODEL, "input": ["a"], "encoding_format": form} for form in (None, None, "float")]
    found = await nodejs.run(served, *({k: v for k, v in job.items() if v is not None} for job in jobs))
    for result in found:
        (vector,) = result["vectors"]
        assert all(abs(one - other) < 1e-7 for one, other in zip(vector, [0.0, *values], strict=True))
        assert result["usage"]["prompt_tokens"] == 7


async def test_a_client_that_leaves_is_booked_like_one_of_a_plain_call(served: Gateway, provider: Provider) -> None:
    answered = asyncio.Event()
    provider.on(MODEL, speak_after(answered, vectors()))
    peer = await served.client.connect()
    await peer.write(served.client.request("POST", "/v1/embeddings", dumps({"model": MODEL, "input": "a"})))
    await provider.asked()
    peer.reset()
    answered.set()
    (record,) = await served.settled()
    assert (record.outcome, record.input, record.cost) == (Outcome.CLIENT_CLOSED, 7, 7 * 2_500)


async def test_anthropic_channels_refuse_embeddings_in_words(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "claude", dialect=Dialect.ANTHROPIC, name="claude")
    async with openai(gateway) as client:
        with pytest.raises(BadRequestError) as caught:
            await client.embeddings.create(model="claude", input="a")
    assert caught.value.code == "unsupported_parameter"
    assert "speaks anthropic, which has no embeddings" in caught.value.message
    assert (provider.exchanges, gateway.record.code) == ([], "unsupported_parameter")


async def test_a_channel_without_embeddings_keeps_its_chats(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(404, "Not Found"), fail(404, "Not Found"), vectors())
    first = await embed(gateway.client, {"model": "m", "input": "a"})
    assert (first.status, first.error["code"]) == (404, "model_not_found")
    assert "does not offer embeddings" in first.error["message"]
    gateway.channel(provider.base_url, "m=other", name="spare", priority=-1)
    provider.on("other", vectors())
    assert (await embed(gateway.client, {"model": "m", "input": "a"})).status == 200
    assert gateway.records[-1].channel_name == "spare"
    state = gateway.engine.health.state(gateway.engine.catalog.channel("up"))
    assert (state.name, gateway.engine.health.missing(state_channel(gateway)).get("m", 0.0)) == ("ok", 0.0)


def state_channel(gateway: Gateway) -> Any:
    return gateway.engine.catalog.channel("up").id


async def test_parameters_for_chats_are_not_sent(served: Gateway, provider: Provider) -> None:
    edits = Overrides(
        set={"temperature": 0, "dimensions": 64}, default={"user": "u"}, remove=("odd",), system="Be brief"
    )
    served.channel(provider.base_url, MODEL, overrides=edits)
    answer = await embed(served.client, {"model": MODEL, "input": "a", "odd": 1})
    assert answer.status == 200
    assert provider.last.json == {"model": MODEL, "input": "a", "dimensions": 64, "user": "u"}


async def test_the_hold_is_for_the_input_alone(served: Gateway, provider: Provider) -> None:
    provider.on(MODEL, silence)
    served.price(MODEL)  # as if output had a price
    asked = asyncio.create_task(embed(served.client, {"model": MODEL, "input": "word " * 300}))
    await provider.asked()
    (running,) = served.engine.store.books.running.values()
    assert running.held == -(-1502 // 3) * 2_500
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    for call in list(served.engine.live.calls):
        served.engine.cancel(call)
    await served.settled()


async def test_the_demo_channel_makes_vectors_that_tell_texts_apart(gateway: Gateway) -> None:
    gateway.channel("", "demo-echo", dialect=Dialect.MOCK, name="demo")
    async with openai(gateway) as client:
        first = await vectors_of(client, "the cat sat on the mat", "a cat on a mat", "stock markets fell sharply")
        again = await vectors_of(client, "the cat sat on the mat")
        short = await client.embeddings.create(model="demo-echo", input="a", dimensions=8, encoding_format="float")
    assert first[0] == again[0]
    assert all(math.isclose(math.hypot(*one), 1.0, abs_tol=1e-6) for one in first)
    assert _likeness(first[0], first[1]) > _likeness(first[0], first[2]) + 0.2
    assert len(short.data[0].embedding) == 8
    assert gateway.records[0].input > 0


async def vectors_of(client: AsyncOpenAI, *texts: str) -> list[list[float]]:
    answer = await client.embeddings.create(model="demo-echo", input=list(texts))
    return [one.embedding for one in answer.data]


def _likeness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
