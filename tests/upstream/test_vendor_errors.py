"""Errors of real vendors have the right kind, code and pause, whatever their status and form."""

import gzip
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect
from gateway.domain.failure import Failure
from gateway.upstream.answer_errors import failure_in, reported_failure
from gateway.upstream.dialects import new_adapter
from tests.cases import vendor_errors as said, vendor_refusals as refused
from tests.upstream.makers import channel, error_of

K = FailureKind
UP = channel(key="sk-secret-of-ours")
DATE = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}


def _bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


def _failure(status: int, body: Any, dialect: Dialect = Dialect.OPENAI) -> Failure:
    if status == 200:
        found = failure_in(UP, rawjson.fields(_bytes(body)))
        assert found is not None
        return found
    return new_adapter(dialect).failure(UP, status, DATE, _bytes(body))


def _told(failure: Failure) -> tuple[FailureKind, str, int]:
    error = error_of(failure)
    return failure.kind, error.code, error.http_status


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])
@pytest.mark.parametrize(("status", "body"), said.OUT_OF_CREDIT)
def test_an_empty_account_is_a_matter_of_quota(status: int, body: Any, dialect: Dialect) -> None:
    assert _told(_failure(status, body, dialect)) == (K.QUOTA, "upstream_out_of_credit", 502)


REPORTED: list[tuple[str, Sequence[tuple[int, Any]], tuple[K, str, int]]] = [
    ("a rejected key", said.KEY_REFUSED, (K.AUTH, "upstream_auth_failed", 502)),
    ("overloaded", said.OVERLOADED, (K.SERVER, "upstream_overloaded", 503)),
    ("no such model", refused.NO_SUCH_MODEL, (K.MISSING, "model_not_found", 404)),
    ("too long", refused.TOO_LONG, (K.CLIENT, "context_length_exceeded", 400)),
    ("its own failure", refused.OWN_FAILURE, (K.SERVER, "upstream_error", 502)),
]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        pytest.param(status, body, told, id=f"{name} {number}")
        for name, bodies, told in REPORTED
        for number, (status, body) in enumerate(bodies)
    ],
)
def test_each_kind_is_reported_as_itself(status: int, body: Any, told: tuple[K, str, int]) -> None:
    assert _told(_failure(status, body)) == told


@pytest.mark.parametrize(("status", "body"), refused.OTHER_API)
def test_a_model_of_another_api_is_a_request_that_no_model_has_seen(status: int, body: Any) -> None:
    failure = _failure(status, body)
    assert (failure.kind, failure.sent, failure.parameters) == (K.CLIENT, False, ())


@pytest.mark.parametrize(("status", "body", "pause"), said.PACED)
def test_a_rate_limit_has_the_pause_that_it_names(status: int, body: Any, pause: float | None) -> None:
    failure = _failure(status, body)
    assert _told(failure) == (K.RATE, "upstream_rate_limited", 429)
    assert failure.retry_after_s == pause


@pytest.mark.parametrize(("status", "body", "code"), refused.FILTERED)
def test_filtered_content_is_the_clients_matter(status: int, body: Any, code: str) -> None:
    kind, told, client_status = _told(_failure(status, body))
    assert (kind, told, client_status) == (K.CLIENT, code, status if status in (400, 403, 422) else 400)
    assert "empty body" not in error_of(_failure(status, body)).message


@pytest.mark.parametrize(("status", "body"), refused.BAD_REQUEST)
def test_a_mistake_in_the_request_has_a_status_of_its_kind(status: int, body: Any) -> None:
    kind, _, client_status = _told(_failure(status, body))
    assert (kind, client_status) == (K.CLIENT, 400 if status == 500 else status)


@pytest.mark.parametrize(
    "words", ["insufficient quota", "credit_balance", "rate limit", "unauthorized", "model not found"]
)
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid value: '{}'. Supported values are: 'low', 'high'."),
        (400, "messages.0.content.0: Input tag '{}' found using 'type' does not match any of the expected tags"),
        (400, "tool_choice.name: Tool '{}' not found in provided tools"),
        (400, 'Failed to parse grammar: root ::= "{}"'),
        (422, "response_format: unknown variant `{}`, expected one of `text`, `json_object`"),
        (400, "tools[0].parameters.properties.{}.type: only allowed for STRING type"),
        (400, "* GenerateContentRequest.tools[0].parameters.properties[{}].enum: should be non-empty"),
    ],
)
def test_a_quoted_value_of_the_request_does_not_say_what_failed(status: int, message: str, words: str) -> None:
    quoted = message.format(words if "'" in message or "`" in message or '"' in message else words.replace(" ", "_"))
    field = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"description": quoted}]}
    for error in ({"message": quoted}, {"message": quoted, "details": [field]}):
        assert _failure(status, {"error": error}).kind is K.CLIENT
    repeated = "Error code: 429 - {'error': {'message': 'Rate limit reached'}}"
    assert _failure(500, {"error": {"message": repeated}}).kind is K.RATE


@pytest.mark.parametrize("name", ["x' insufficient_quota", "x', your credit balance is too low, '"])
def test_a_name_with_quotes_in_it_does_not_say_what_failed(name: str) -> None:
    """Any token could otherwise pause the channel."""
    for code in ("unknown_parameter", "unsupported_parameter", "unsupported_value", "invalid_value", "invalid_type"):
        error = {"message": f"Invalid: '{name}'.", "type": "invalid_request_error", "param": name, "code": code}
        assert _failure(400, {"error": error}).kind is K.CLIENT
    assert _failure(400, {"error": {"message": "Unknown name 'it's insufficient_quota'."}}).kind is K.CLIENT


@pytest.mark.parametrize(("status", "body"), refused.STATE_GONE)
def test_an_answer_that_is_not_kept_any_more_has_its_code(status: int, body: Any) -> None:
    kind, code, _ = _told(_failure(status, body))
    assert (kind, code) == (K.CLIENT, "previous_response_not_found")


def _names_itself(body: Any) -> bool:
    """Whether it is an error without a status: not if it has nothing but a message."""
    return isinstance(body, dict) and not set(body) <= {"message", "Message"}


@pytest.mark.parametrize("body", [body for _, body in said.OUT_OF_CREDIT if _names_itself(body)])
def test_an_empty_account_is_found_inside_of_an_answer(body: Any) -> None:
    assert _inside(body).kind is K.QUOTA


@pytest.mark.parametrize("body", [body for _, body in refused.TOO_LONG if _names_itself(body)])
def test_a_request_that_is_too_long_is_found_inside_of_an_answer(body: Any) -> None:
    assert _told(_inside(body)) == (K.CLIENT, "context_length_exceeded", 400)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"code": 50505, "message": "Model service overloaded. Please try again later.", "data": None}, K.SERVER),
        ({"code": "InvalidApiKey", "message": "Invalid API-key provided.", "request_id": "r"}, K.AUTH),
        ({"success": False, "errors": [{"code": 3040, "message": "Capacity temporarily exceeded"}]}, K.SERVER),
        ({"success": False, "code": 500, "msg": "404 NOT_FOUND"}, K.SERVER),
        ({"errors": ["Rate limit exceeded"]}, K.RATE),
        ({"detail": "Too many requests"}, K.RATE),
        ({"detail": [{"loc": ["body", "n"], "msg": "invalid params"}]}, K.CLIENT),
        ({"error": True, "message": "Rate limit reached"}, K.RATE),
        ({"error": ["Rate limit reached"]}, K.RATE),
        ({"statusCode": 429, "message": "Slow down."}, K.RATE),
        ({"object": "error", "message": "bad", "type": "invalid_request_error", "code": 400}, K.CLIENT),
        ({"error_code": 336501, "error_msg": "Rate limit reached for RPM"}, K.RATE),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "Upstream error"}}]}, K.SERVER),
        ({"choices": [{"delta": {}, "error": {"code": 429, "message": "busy"}}]}, K.RATE),
        ({"x_groq": {"error": "over capacity"}}, K.SERVER),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, K.RATE),
        ({"type": "error", "code": "insufficient_quota", "message": "x", "param": None}, K.QUOTA),
        (
            {"type": "response.failed", "response": {"status": "failed", "error": {"code": "rate_limit_exceeded"}}},
            K.RATE,
        ),
        *(
            ({"type": "response.failed", "response": {"error": {"code": code, "message": "x"}}}, K.CLIENT)
            for code in (
                *("invalid_prompt", "bio_policy", "misalignment_policy_violation", "image_content_policy_violation"),
                *("invalid_image", "invalid_base64_image", "image_too_large", "image_parse_error", "empty_image_file"),
                *("image_file_not_found", "unsupported_image_media_type", "failed_to_download_image"),
            )
        ),
        ({"type": "error", "error": {"type": "invalid_request", "code": "cyber_policy", "message": "x"}}, K.CLIENT),
        ({"error": {"status": "RESOURCE_EXHAUSTED", "message": "x"}}, K.RATE),
        ({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}, K.SERVER),
        ({"error": "model runner has unexpectedly stopped"}, K.SERVER),
    ],
)
def test_an_error_is_found_in_every_place_where_upstreams_put_it(body: Any, kind: FailureKind) -> None:
    assert _inside(body).kind is kind


@pytest.mark.parametrize(
    "body",
    [
        {"id": "1", "object": "chat.completion", "choices": [{"message": {"content": "hi"}}], "usage": {}},
        {"choices": [{"delta": {"content": '{"error":{"message":"quoted"}}'}, "index": 0}], "object": "x"},
        {"choices": [], "base_resp": {"status_code": 0, "status_msg": ""}},
        {"choices": [{"message": {"content": "hi"}}], "error": {"message": "", "type": "", "code": None}},
        {"choices": [{"message": {"content": "hi"}}], "code": 200, "message": "success"},
        {"code": 200, "msg": "ok", "data": {"x": 1}},
        {"code": 0, "message": "success"},
        {"choices": [{"delta": {}, "content_filter_results": {"error": {"code": "content_filter_error"}}}]},
        {"error": None, "output": [], "status": "completed", "object": "response"},
        {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": False},
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "ping"},
        {"type": "response.created", "response": {"id": "r", "error": None, "output": []}},
        {"type": "response.output_text.delta", "delta": "error"},
        {"candidates": [{"content": {"parts": [{"text": "hi"}]}}]},
        {"result": "hi", "error_code": 0, "error_msg": ""},
        {"success": True, "result": {"response": "hi"}, "errors": []},
        {"choices": [{"message": {"content": "hi"}}], "errors": {"count": 0, "list": []}},
        {},
    ],
)
def test_a_good_answer_reports_no_error(body: Any) -> None:
    assert failure_in(UP, rawjson.fields(_bytes(body))) is None


def test_everything_in_an_event_of_that_name_is_an_error() -> None:
    failure = failure_in(UP, rawjson.fields(b'{"message": "slow down, too many requests"}'), event=b"error")
    assert failure is not None
    assert failure.kind is K.RATE


def test_nothing_is_repaired_after_a_status_of_success() -> None:
    failure = _inside({"error": {"message": "Unsupported parameter: 'seed'", "type": "invalid_request_error"}})
    assert (failure.kind, failure.parameters) == (K.CLIENT, ())


def _inside(body: Any) -> Failure:
    """As it is found in an answer, and in bytes of which it is known to be an error."""
    found = failure_in(UP, rawjson.fields(_bytes(body)))
    assert found is not None
    reported = reported_failure(UP, _bytes(body))
    assert (_told(found), found.words) == (_told(reported), reported.words)
    return found


def test_a_packed_error_is_read_although_no_header_says_so() -> None:
    failure = _failure_of(gzip.compress(_bytes(said.zhipu("1113", "余额不足"))))
    assert failure.kind is K.QUOTA


def test_a_damaged_packed_error_does_no_harm() -> None:
    assert _failure_of(b"\x1f\x8b\x08garbage").kind is K.RATE


def _failure_of(body: bytes) -> Failure:
    return new_adapter(Dialect.OPENAI).failure(UP, 429, DATE, body)


@pytest.mark.parametrize(
    "piece", ["a.", "0", "1m", "model ", "balance ", "'input': ", "property 'x' ", '{"a":', "quota "]
)
def test_a_hostile_message_takes_no_time(piece: str) -> None:
    """CPU time, of which a pattern that tries all divisions of a text would take ten times as much."""
    body = {"error": {"message": piece * 50_000, "details": [piece * 1_000]}}
    began = time.process_time()
    _failure(400, body)
    assert time.process_time() - began < 0.1
