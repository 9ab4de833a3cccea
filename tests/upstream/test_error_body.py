"""Whatever shape an error has, its message arrives, as one harmless line."""

import json
import time

import pytest

from gateway.upstream.error_body import ErrorBody, read_error


def _read(doc: object) -> ErrorBody:
    return read_error(json.dumps(doc).encode())


SHAPES = [
    {"error": {"message": "too bad", "type": "t", "param": None, "code": "c"}},
    {"error": "too bad"},
    [{"error": {"code": 400, "message": "too bad", "status": "INVALID_ARGUMENT"}}],
    {"object": "error", "message": "too bad", "type": "t", "code": "3280"},
    {"object": "error", "message": {"detail": [{"loc": ["body", "x"], "msg": "too bad"}]}},
    {"detail": "too bad"},
    {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "too bad"}]},
    {"type": "error", "error": {"type": "overloaded_error", "message": "too bad"}, "request_id": "r"},
    {"message": "too bad"},
    {"msg": "too bad"},
    {"error": {"message": "Provider returned error", "metadata": {"raw": "too bad"}}},
    {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"too bad"}}'}}},
    {"error": {"message": '{"error": {"message": "too bad"}}'}},
    {"error": '{"error": {"message": "too bad"}}'},
    {"error": ["too bad"]},
    {"error": True, "message": "too bad"},
    {"error": "Bad Request", "message": "too bad"},
    {"error": "too bad", "code": 3, "message": "too bad", "details": []},
    {"errors": [{"code": 7, "message": "too bad"}], "success": False},
    {"errors": ["too bad"]},
    {"base_resp": {"status_code": 1008, "status_msg": "too bad"}, "choices": None},
    {"error_code": 17, "error_msg": "too bad"},
    {"code": 30001, "message": "too bad", "data": None},
    {"Message": "too bad"},
    {"title": "too bad", "status": 402},
    {"title": "No", "detail": "too bad"},
    {"choices": [{"finish_reason": "error", "error": {"message": "too bad"}}]},
    {"choices": [{"finish_reason": "content_filter", "content_filter_results": {"error": {"message": "too bad"}}}]},
    {"choices": [{"message": {"role": "assistant"}, "content_filter_results": {"error": {"message": "too bad"}}}]},
    {"type": "response.failed", "response": {"error": {"message": "too bad"}}},
    "too bad",
]


@pytest.mark.parametrize("doc", SHAPES)
def test_finds_the_message(doc: object) -> None:
    said = _read(doc)
    assert said.message.count("too bad") == 1
    assert said.is_json


def test_keeps_type_code_param_and_id() -> None:
    said = _read({"error": {"message": "m", "type": "t", "param": "p", "code": "c"}, "request_id": "r"})
    assert (said.type, said.code, said.param, said.request_id, said.status) == ("t", "c", "p", "r", 0)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        ({"code": 30001}, "30001", 0),
        ({"code": "1113"}, "1113", 0),
        ({"http_code": "429", "type": "t"}, "", 429),
        ({"http_status": 404, "availability": {"code": "no_endpoints"}}, "no_endpoints", 404),
        ({"statusCode": 401}, "", 401),
        ({"status": 402}, "", 402),
        ({"status": "INVALID_ARGUMENT", "code": 400}, "", 400),
        ({"code": 429}, "", 429),
        ({"code": "429"}, "", 429),
        ({"code": 200}, "", 0),
    ],
)
def test_a_vendors_number_is_a_code_and_statuses_have_names(error: dict[str, object], code: str, status: int) -> None:
    said = _read({"error": {"message": "m", **error}})
    assert (said.code, said.status) == (code, status)


def test_googles_delay_is_found() -> None:
    details = [{"@type": "x"}, {"retryDelay": "34s"}]
    assert _read({"error": {"message": "m", "details": details}}).headers == {"retry-after": "34s"}
    assert _read({"error": {"message": "m", "details": [{"retryDelay": "soon"}]}}).headers == {}


@pytest.mark.parametrize("name", ["retry_after", "retryAfter", "retry_after_seconds", "estimated_time"])
def test_a_delay_has_many_names(name: str) -> None:
    assert _read({"error": {"message": "m", name: 7}}).headers == {"retry-after": "7"}
    assert _read({"error": "m", name: "7.5"}).headers == {"retry-after": "7.5"}
    for holder in ("metadata", "availability"):
        assert _read({"error": {"message": "m", holder: {name: 7}}}).headers == {"retry-after": "7"}
    assert _read({"error": {"message": json.dumps({"error": {name: 7}})}}).headers == {"retry-after": "7"}


def test_the_body_may_be_an_event_or_the_first_of_some_lines() -> None:
    assert read_error(b'id:1\nevent:error\n:HTTP_STATUS/400\ndata:{"message":"bad"}\n\n').message == "bad"
    assert read_error(b'{"error":"bad"}\n{"done":true}\n').message == "bad"


@pytest.mark.parametrize(
    "body",
    [
        {"fault": {"faultstring": "Rate limit quota violation", "detail": {"errorcode": "policies.ratelimit"}}},
        {"detail": {"error": {"message": "bad", "code": "context_length_exceeded"}}},
        {"error": {"type": "x", "errors": [{"message": "bad"}]}},
    ],
)
def test_an_error_of_an_unknown_form_is_shown_as_it_came(body: object) -> None:
    assert _read(body).message == json.dumps(body, separators=(",", ":"))


def test_forbidden_fields_are_named() -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]
    assert _read({"detail": detail}).refused == ("body.seed",)
    assert _read({"object": "error", "message": {"detail": detail}}).refused == ("body.seed",)
    assert _read({"detail": [{"type": "extra_forbidden", "loc": 5}, {"type": ["x"]}]}).refused == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><head><title>502 Bad\n Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (b"<p>down &amp; out</p><script>evil()</script>", "down & out"),
        (b"upstream connect error", "upstream connect error"),
        (b"", ""),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
    ],
)
def test_a_body_that_is_not_json_gives_an_excerpt(body: bytes, message: str) -> None:
    said = read_error(body)
    assert (said.message, said.is_json) == (message, False)


def test_long_texts_are_cut() -> None:
    assert len(_read({"error": {"message": "x" * 1_000_000}}).message) == 2000
    assert len(read_error(b"word " * 1_000_000).message) == 200


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abcdef123456",
        "key gsk_abcdef123456",
        "use AIzaSyA1234567890",
        "Bearer abcdef123",
    ],
)
def test_keys_are_masked(text: str) -> None:
    message = _read({"error": {"message": text}}).message
    assert "123" not in message
    assert "…" in message


def test_queries_of_urls_are_cut() -> None:
    message = _read({"error": "see https://api.example.test/v1?key=topsecret now"}).message
    assert message == "see https://api.example.test/v1 now"


def test_control_characters_cannot_pass() -> None:
    assert "\x1b" not in _read({"error": "\x1b[31mred\x07\u202e"}).message


@pytest.mark.parametrize(
    "doc", [None, 5, [], [1], {}, {"error": {}}, {"error": {"message": 5}}, {"error": [1]}, {"detail": [1, None]}]
)
def test_odd_bodies_do_no_harm(doc: object) -> None:
    assert _read(doc).status == 0


def test_hostile_pages_take_no_time() -> None:
    assert read_error(b"<title" * 200_000).is_json is False
    assert read_error(b"<script>" * 100_000 + b"<" * 100_000).is_json is False


@pytest.mark.parametrize(
    ("lists", "message"), [(300_000, "too bad"), (350_000, '{"error":{"message":"too bad","x":[[],')]
)
def test_an_error_in_a_text_is_read_up_to_a_mebibyte(lists: int, message: str) -> None:
    """Of an event with 8 MB it took 0.7 s of the event loop and 230 MB of memory."""
    inner = '{"error":{"message":"too bad","x":[%s1]}}' % ("[]," * lists)
    assert _read({"error": {"message": inner}}).message.startswith(message)


def test_an_error_with_very_many_details_is_not_examined_to_its_end() -> None:
    """It took 0.4 s of the event loop; three of these take a second and more."""
    doc = {"error": {"message": "too bad", "details": [{"a": "b"}] * 70_000}}
    body = json.dumps(doc, separators=(",", ":")).encode()
    began = time.process_time()
    assert [read_error(body).message for _ in range(3)] == ["too bad"] * 3
    assert time.process_time() - began < 0.5
