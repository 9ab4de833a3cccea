"""Around the content of good answers no secret shows, and the content stays as it came."""

import json

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.order import Order
from gateway.domain.screen import Screen
from gateway.domain.secret_search import needles
from tests.domain.test_secret_search import WRITTEN
from tests.fakes.replies import choice, chunk, delta, dumps, event, usage, whole
from tests.upstream.makers import channel, native_stream, native_whole, order

KEY = "sk-proj-Ab3/dE+fG=hIjKlMnOpQrStUvWxYz0123456789"
SCREEN = Screen(needles([KEY, "hunter2!x"]))


def ask() -> Order:
    return msgspec.structs.replace(order(include_usage=True), screen=SCREEN)


@pytest.mark.parametrize("name", WRITTEN)
def test_an_id_that_shows_a_secret_is_seen(name: str) -> None:
    assert SCREEN.has_secret(f"chatcmpl-{WRITTEN[name](KEY)}")


@pytest.mark.parametrize("id", ["chatcmpl-BqR7x8yZabcDefGhIjKl", "msg_01XFDUDYJgAACzvnptvVoYEL", "", "gen-100%"])
def test_other_ids_are_passed_on(id: str) -> None:
    assert not SCREEN.has_secret(id)


@pytest.mark.parametrize("text", ["r-ysfbq finyx cqpag", "r-ysfbq  finyx\t\tcqpag", '{"a": "ysfbq  finyx   cqpag"}'])
def test_blanks_of_any_number_are_one(text: str) -> None:
    assert Screen(needles(["ysfbq finyx cqpag"])).has_secret(text)


def test_headers_of_good_form_are_passed_on() -> None:
    good = {
        "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT",
        "openai-processing-ms": "1234",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-reset-tokens": "6m0.5s",
        "x-ratelimit-remaining-req-minute": "59",
        "x-ratelimit-reset": "2026-11-22T06:36:12Z",
    }
    assert SCREEN.headers({**good, "x-request-id": "req_1", "set-cookie": "a", "x-ratelimit-limit-QqQ": "1"}) == {
        **good,
        "x-upstream-request-id": "req_1",
    }


@pytest.mark.parametrize("value", [KEY, KEY[3:20], "hunter2!x", "text in\x1b color", "x" * 200])
def test_other_headers_are_not(value: str) -> None:
    names = ("retry-after", "x-ratelimit-limit-requests", "openai-processing-ms", "x-request-id")
    assert SCREEN.headers(dict.fromkeys(names, value)) == {}


def test_a_plain_answer_shows_no_secret_beside_its_content() -> None:
    said = choice(f"the key is {KEY}", finish="stop")
    doc = whole("m", {**said, "note": KEY}, id=f"x-{KEY}", spent=usage(), system_fingerprint=KEY, provider={"a": [KEY]})
    found = native_whole(dumps(doc), ask(), channel())
    answer = json.loads(found.body)
    assert (found.state.upstream_id, answer["id"]) == ("", "chatcmpl-ours")
    assert (answer["system_fingerprint"], answer["provider"]) == ("…", {"a": ["…"]})
    assert (answer["choices"][0]["note"], answer["choices"][0]["message"]) == ("…", said["message"])


@pytest.mark.parametrize("name", [KEY, KEY[4:30], f"x-{KEY}", "hunter2!x"])
def test_a_field_whose_name_shows_a_secret_is_left_out(name: str) -> None:
    said = {**choice("Hi", finish="stop"), name: 1}
    doc = {**whole("m", said, spent=usage()), name: [1], "note": 2}
    answer = native_whole(dumps(doc), ask(), channel())
    assert b"hunter2!x" not in answer.body
    assert KEY[4:30].encode() not in answer.body
    assert json.loads(answer.body)["note"] == 2
    stream = native_stream(ask(), channel())
    out = stream.feed(event({**chunk({**delta("Hi"), name: 1}), name: 1, "note": 2}))
    assert json.loads(out.partition(b": ")[2])["note"] == 2
    assert name.encode() not in out


@pytest.mark.parametrize("name", ["invisible", "hyphens", "controls"])
def test_usage_shows_no_secret(name: str) -> None:
    report = {**usage(), "note": WRITTEN[name](KEY)}
    for body in (dumps(whole("m", spent=report)), json.dumps(whole("m", spent=report), ensure_ascii=False).encode()):
        answer = json.loads(native_whole(body, ask(), channel()).body)
        assert "note" not in answer["usage"]


@pytest.mark.parametrize("field", ["system_fingerprint", "provider", "service_tier"])
def test_a_field_of_an_otherwise_regular_answer(field: str) -> None:
    doc = whole("m", spent=usage(), **{field: KEY[4:30]})
    assert json.loads(native_whole(dumps(doc), ask(), channel()).body)[field] == "…"


def test_an_answer_without_any_secret_is_passed_on_as_it_came() -> None:
    body = dumps(whole("m", choice(KEY), spent=usage(), system_fingerprint="fp_1234567890", service_tier="default"))
    assert native_whole(body, ask(), channel()).body == body


def test_a_stream_shows_no_secret_beside_its_content() -> None:
    stream = native_stream(ask(), channel())
    docs = [
        chunk(delta("Hi", role="assistant"), id=KEY, system_fingerprint=KEY),
        *(chunk(delta(KEY), id=KEY, system_fingerprint=KEY) for _ in range(5)),
        chunk({**delta(finish="stop"), "note": KEY}, id=KEY),
        chunk(usage={**usage(), "note": KEY}, id=KEY),
    ]
    out = b"".join(stream.feed(event(doc)) for doc in docs) + stream.end()
    tail = stream.tail(stream.state.reported) if stream.state.reported else b""
    chunks = [json.loads(line[6:]) for line in (out + tail).split(b"\n\n")[:-2]]
    texts = [piece["delta"].pop("content", None) for one in chunks for piece in one["choices"]]
    assert texts == ["Hi", *[KEY] * 5, None]
    assert KEY not in json.dumps(chunks)
    assert stream.state.upstream_id == ""


def test_long_fields_are_searched_for_the_value_as_it_stands() -> None:
    long = ["x" * 4096, KEY]
    fields = rawjson.fields(dumps({"sources": long, "notes": ["x" * 4096, KEY[:20]]}))
    assert SCREEN.clean(fields)
    assert (rawjson.value(fields["sources"])[1], rawjson.value(fields["notes"])[1]) == ("…", KEY[:20])


@pytest.mark.parametrize("size", [14, 239, 240, 241, 252, 480, 1000])
def test_a_piece_is_seen_wherever_it_stands(size: int) -> None:
    piece = KEY[9:21]
    for start in range(size - len(piece) + 1):
        text = "." * start + piece + "." * (size - len(piece) - start)
        assert SCREEN.has_secret(text), start
        assert SCREEN.has_secret("ü" + text), start
    assert not SCREEN.has_secret("." * size)
