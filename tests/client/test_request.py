import asyncio
import inspect
from collections.abc import Awaitable, Callable
from unittest.mock import AsyncMock

import msgspec
import pytest

from gateway.client.http import error_of
from gateway.client.request import Caller, ask, encode_body, segment
from gateway.domain import errors
from gateway.domain.errors import Conflict, GatewayError, InternalError, error_class
from gateway.domain.history import Question
from gateway.domain.price_view import PriceView
from gateway.runfile import Endpoint
from gateway.web.error_responses import error_answer
from tests.client.scripted import saying

FAMILY = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, GatewayError) and kind is not GatewayError
]


@pytest.mark.parametrize("kind", FAMILY)
def test_every_error_arrives_as_what_it_was(kind: type[GatewayError]) -> None:
    status, _, body = error_answer(kind("what happened", param="name", details={"call_id": "x"}))
    error = error_of(status, body)
    assert type(error) is kind
    assert (error.message, error.param, error.details) == ("what happened", "name", {"call_id": "x"})


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"error":"x"}', b'{"error":{"message":5}}', b"\xff"])
def test_a_refusal_that_makes_no_sense_is_still_an_error(body: bytes) -> None:
    assert type(error_of(404, body)) is errors.NotFound
    assert "404" in error_of(404, body).message


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "token_quota_exceeded", errors.QuotaExceeded),
        (429, "account_suspended", errors.QuotaExceeded),
        (429, "too_many_streams", errors.RateLimited),
        (502, "upstream_auth_failed", errors.UpstreamError),
        (504, "upstream_timeout", errors.UpstreamTimeout),
        (503, "no_channel_available", errors.NoChannel),
        (503, "gateway_stopping", errors.Unavailable),
    ],
)
def test_codes_and_statuses_give_the_class_and_its_status(status: int, code: str, kind: type[GatewayError]) -> None:
    assert error_class(status, code) is kind
    assert kind("m").http_status == status


def test_a_code_of_its_own_keeps_its_class_by_status() -> None:
    error = error_of(409, b'{"error":{"message":"m","code":"group_in_use"}}')
    assert (type(error), error.code) == (errors.Conflict, "group_in_use")


@pytest.mark.parametrize(("name", "text"), [("a", "a"), ("a/b", "a%2Fb"), ("a b?", "a%20b%3F"), ("ü", "%C3%BC")])
def test_names_become_one_segment_of_a_path(name: str, text: str) -> None:
    assert segment(name) == text


def test_an_empty_name_is_not_a_segment() -> None:
    with pytest.raises(errors.BadRequest, match="empty"):
        segment("")


@pytest.mark.parametrize("write", [lambda text: encode_body({"a": [text]}), segment])
def test_what_is_not_text_is_refused_before_it_is_sent(write: Callable[[str], object]) -> None:
    with pytest.raises(errors.BadRequest, match="'x\ufffd' is not UTF-8 text"):
        write("x\udcff")


async def test_the_secret_is_presented_and_parameters_are_written() -> None:
    seen: list[bytes] = []
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n[]", seen=seen) as place:
        caller = Caller(Endpoint(instance="i", secret="s3cret", port=place.port))
        list_calls = ask("GET", "/{}/calls", list[str], "token", "group")
        assert await list_calls(caller, "x/y", "a b", failed=True, since=0, until=None, app="") == []
    head = seen[0].decode()
    assert head.startswith("GET /control/x%2Fy/calls?token=a+b&failed=true&since=0 HTTP/1.1")
    assert "Authorization: Bearer s3cret\r\n" in head


async def test_an_answer_of_another_version_is_reported_as_such() -> None:
    async with saying(b'HTTP/1.1 200 OK\r\n\r\n{"other":1}') as place:
        with pytest.raises(InternalError) as caught:
            await Caller(Endpoint(instance="i", secret="s", port=place.port)).request("GET", "/prices", PriceView)
    assert caught.value.code == "version_mismatch"


async def test_a_question_of_another_version_is_not_asked() -> None:
    old = Conflict("it was made elsewhere", code="needs_confirmation", details={"entry": {}, "reasons": ["why"]})
    _, _, body = error_answer(old)
    async with saying(b"HTTP/1.1 409 Conflict\r\n\r\n" + body) as place:
        caller = Caller(Endpoint(instance="i", secret="s", port=place.port))
        caller.confirm = AsyncMock()
        with pytest.raises(InternalError) as caught:
            await caller.request("POST", "/undo", PriceView)
    assert (caught.value.code, caller.confirm.called) == ("version_mismatch", False)


async def test_a_confirmed_request_that_is_refused_again_fails() -> None:
    question = Question(text="Delete?", reasons=["it is old"], verb="Delete", answer="yes")
    _, _, body = error_answer(Conflict("Delete?", code="needs_confirmation", details=msgspec.to_builtins(question)))
    seen: list[bytes] = []
    async with saying(b"HTTP/1.1 409 Conflict\r\n\r\n" + body, seen=seen) as place:
        caller = Caller(Endpoint(instance="i", secret="s", port=place.port))
        caller.confirm = AsyncMock(return_value=True)
        with pytest.raises(Conflict) as caught:
            await asyncio.wait_for(caller.request("POST", "/undo", PriceView), 5)
    assert (caught.value.code, caller.confirm.call_count) == ("needs_confirmation", 1)
    assert [b"X-Tollkeeper-Accept: yes\r\n" in head for head in seen] == [False, True]


@pytest.mark.parametrize(
    ("send", "sent"),
    [
        (ask("POST", "/undo", list[str], "id"), ("/undo", None)),
        (lambda caller: ask("POST", "/undo", list[str], "id")(caller, 3, ok=True), ("/undo", {"ok": True, "id": 3})),
        (lambda caller: ask("PATCH", "/tokens/{}", list[str])(caller, "ci", {"a": 1}), ("/tokens/ci", {"a": 1})),
        (lambda caller: ask("POST", "/keys/{}/{}", list[str], "key")(caller, "a", 2, "k"), ("/keys/a/2", {"key": "k"})),
        (lambda caller: ask("DELETE", "/groups/{}", list[str], "move")(caller, "a", "b"), ("/groups/a?move=b", None)),
    ],
    ids=["nothing", "values", "a whole body", "a path and a value", "a method without a body"],
)
async def test_values_are_the_body_of_requests_that_have_one(
    send: Callable[[Caller], Awaitable[list[str]]], sent: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[str, object]] = []

    async def request(_self: Caller, _method: str, path: str, _kind: object, body: object = None, **_: object) -> None:
        requests.append((path, body))

    monkeypatch.setattr(Caller, "request", request)
    await send(Caller(Endpoint(instance="i", secret="s")))
    assert requests == [sent]


async def test_more_arguments_than_names_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        await ask("GET", "/why", list[str], "token")(Caller(Endpoint(instance="i", secret="s")), "a", "b")


async def test_structs_can_be_sent() -> None:
    seen: list[bytes] = []

    class Body(msgspec.Struct):
        a: int

    async with saying(b"HTTP/1.1 200 OK\r\n\r\n{}", seen=seen) as place:
        await Caller(Endpoint(instance="i", secret="s", port=place.port)).request(
            "POST", "/x", dict[str, int], Body(a=1)
        )
    assert b"Content-Length: 7\r\n" in seen[0]
