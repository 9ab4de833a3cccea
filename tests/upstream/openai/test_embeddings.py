"""Answers with vectors that are not what they seem."""

import json

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import Order
from gateway.upstream.gemini.embeddings import GeminiEmbeddings
from gateway.upstream.openai.embeddings import EmbeddingsAdapter, OpenAIEmbeddings
from tests.core import kit

ADAPTERS = [OpenAIEmbeddings(), GeminiEmbeddings()]
ORDER = Order(fields=rawjson.fields(b'{"model":"m","input":"a"}'), model="m")
NAMES = b",".join(b'"n%d":1' % number for number in range(600_000))


def refusal(adapter: EmbeddingsAdapter, body: bytes) -> str:
    with pytest.raises(AttemptFailed) as caught:
        adapter.whole(body, ORDER, kit.channel("up", "m"))
    return caught.value.failure.text.apply(str)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=["openai", "gemini"])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "it has no embeddings: "),
        (b"nothing", "it has no embeddings: "),
        (b'{"data":[{}],"embeddings":[{}]}', "it has no embeddings: "),
        (b'{"data":[{"embedding":null}],"embedding":{"values":null}}', "it has no embeddings: a vector is null"),
        (b'{"id":"x",' + NAMES + b',"choices":[]}', "it has more than 1,000,000 quotes"),
        (b'{"data":[{' + NAMES + b'}],"embedding":{' + NAMES + b"}}", "it has more than 1,000,000 quotes"),
    ],
    ids=["empty", "text", "no vector", "null", "names", "names of a vector"],
)
def test_a_body_without_vectors_is_a_bad_answer(adapter: EmbeddingsAdapter, body: bytes, text: str) -> None:
    assert text in refusal(adapter, body)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=["openai", "gemini"])
def test_a_mark_of_the_encoding_before_the_answer_is_left_out(adapter: EmbeddingsAdapter) -> None:
    body = b'\xef\xbb\xbf {"data":[{"embedding":[0.5]}],"embedding":{"values":[0.5]}}'
    answer = json.loads(adapter.whole(body, ORDER, kit.channel("up", "m")).body)
    assert [item["embedding"] for item in answer["data"]] == [[0.5]]


def test_as_many_vectors_as_a_large_request_has_are_read() -> None:
    count = 20_000
    vectors = [{"object": "embedding", "index": number, "embedding": [0.5]} for number in range(count)]
    order = msgspec.structs.replace(ORDER, fields={**ORDER.fields, "input": rawjson.raw(["a"] * count)})
    body = json.dumps({"object": "list", "data": vectors}).encode()
    answer = json.loads(OpenAIEmbeddings().whole(body, order, kit.channel("up", "m")).body)
    assert len(answer["data"]) == count
