"""Plain answers pass as they are, are repaired where clients would stumble, and refused where they are none."""

import json
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamError
from gateway.domain.usage import Usage, UsageSource, as_object
from gateway.upstream.adapter import WholeAnswer
from tests.fakes.replies import choice, dumps, usage, whole
from tests.upstream.makers import attempt_fails, native_whole

Doc = dict[str, Any]


def _read(doc: object) -> WholeAnswer:
    return native_whole(doc if isinstance(doc, bytes) else dumps(doc))


def _body(doc: object) -> Doc:
    body = json.loads(_read(doc).body)
    assert isinstance(body, dict)
    return body


def _failure(doc: object) -> UpstreamError:
    with attempt_fails() as caught:
        _read(doc)
    return caught.value


def test_a_stop_of_a_provider_that_failed_is_a_failure() -> None:
    assert _failure(whole("m", {**choice(""), "native_finish_reason": "network_error"})).code == "upstream_error"
    answer = whole("m", {**choice("Hi"), "native_finish_reason": "STOP"}, spent=usage())
    assert _body(answer) == answer


REGULAR = [
    whole("m", choice("Hi"), spent=usage()),
    whole("m", choice("Gr\u00fc\u00df dich", finish="length"), choice("x", index=1), spent=usage(), odd=[1, 2.50]),
    whole("m", choice(None, refusal="no"), spent=usage(prompt_tokens_details={"cached_tokens": 3})),
    whole("m", choice("x", executed_tools=[{"n": 1.0}]), spent=usage()),
]


@pytest.mark.parametrize("answer", REGULAR)
def test_a_regular_answer_is_the_same_bytes_and_reads_as_opened(answer: Doc, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(answer, ensure_ascii=False, indent=1).encode()
    found = _read(data)
    assert found.body == data
    monkeypatch.setattr("gateway.inbound.chat.native._read_choices", lambda *_: "")
    opened = _read(data)
    assert json.loads(opened.body) == answer
    assert (found.state.reported, found.state.finish, found.state.upstream_id, found.state.marks) == (
        opened.state.reported,
        opened.state.finish,
        opened.state.upstream_id,
        opened.state.marks,
    )
    assert found.state.tally.tokens() == opened.state.tally.tokens()


def test_the_model_is_the_one_asked_for() -> None:
    assert _body(whole("m-2024-07-18", choice()))["model"] == "m"


@pytest.mark.parametrize("lead", [b"\n\n\n", b"\xef\xbb\xbf", b" \r\n"])
def test_text_before_the_json_does_no_harm(lead: bytes) -> None:
    assert _read(lead + dumps(whole("m", choice("Hi")))).state.finish == "stop"


def test_missing_parts_are_filled_in() -> None:
    body = _body({"choices": [{"message": {"content": "Hi"}}]})
    assert body == {
        "id": "chatcmpl-ours", "object": "chat.completion", "created": 77, "model": "m",
        "choices": [{"index": 0, "message": {"content": "Hi", "role": "assistant"}, "finish_reason": "stop"}],
    }  # fmt: skip


def test_a_lone_surrogate_passes() -> None:
    assert b'"\\ud83d"' in _read(b'{"choices":[{"message":{"role":"assistant","content":"\\ud83d"}}]}').body


@pytest.mark.parametrize("spent", [None, usage(0, 0), "none", {"prompt_tokens": "?"}])
def test_without_usage_there_is_an_estimate(spent: Any) -> None:
    answer = _read({**whole("m", choice("Hello there")), "usage": spent})
    assert answer.state.reported is None
    filled = json.loads(b"".join(answer.parts(Usage(input=5, output=answer.state.tally.tokens()))))
    assert (set(filled["usage"]) == set(as_object(Usage())), filled["usage"]["completion_tokens"]) == (True, 2)


def test_llama_cpps_timings_are_usage() -> None:
    answer = _read(whole("m", choice("Hi"), timings={"cache_n": 4, "prompt_n": 5, "predicted_n": 2}))
    assert answer.state.reported == Usage(input=9, cached=4, output=2, source=UsageSource.REPORTED)
    assert json.loads(answer.body)["usage"]["total_tokens"] == 11


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html><title>x</title></html>", b'{"foo":1}', b"[]", b"null", b'{"choices":[]}', b'{"choices":null}',
        b'{"choices":[1]}', b'{"choices":[{}]}', b'{"choices":[{"message":null}]}', b'{"choices":{}}',
        b'{"choices":[{"m',
        b"[" * 100_000,
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_not_a_completion_is_a_bad_response(body: bytes) -> None:
    failed = _failure(body)
    assert (failed.kind, failed.code) == (FailureKind.SERVER, "upstream_bad_response")


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"", "an empty body"), (b'{"foo":1}', '{"foo":1}'), (b'{"choices":[]}', '{"choices":[]}'), (b"[1]", "[1]")],
)
def test_a_bad_response_shows_its_beginning(body: bytes, shown: str) -> None:
    assert _failure(body).message.endswith(f": {shown}")
