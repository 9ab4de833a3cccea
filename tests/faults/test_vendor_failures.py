"""What vendors say goes wrong decides what happens next, under whatever status and in whatever place they say it."""

import gzip

import pytest

from gateway.domain.call import FailureKind
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import Doc, dumps, event, fail, reply, speak, stream_bytes
from tests.fakes.responses import either, message, respond
from tests.v1.test_messages import post

HI = [{"role": "user", "content": "Hi"}]
PATHS: dict[str, Doc] = {
    "/v1/chat/completions": {"model": "m", "messages": HI},
    "/v1/messages": {"model": "m", "messages": HI, "max_tokens": 9},
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/api/chat": {"model": "m", "messages": HI, "stream": False},
}
BALANCE = {"id": "x", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
INSIDE: dict[str, tuple[Doc, FailureKind]] = {
    "base_resp": (BALANCE, FailureKind.QUOTA),
    "code": ({"code": 30001, "message": "your account balance is insufficient", "data": None}, FailureKind.QUOTA),
    "chinese": ({"error": {"code": "1302", "message": "您的账户已达到速率限制"}}, FailureKind.RATE),
    "busy": ({"code": 50505, "message": "Model service overloaded."}, FailureKind.SERVER),
    "text": ({"error": "invalid api key"}, FailureKind.AUTH),
}


def _inside(doc: Doc) -> Script:
    """An error in an answer of status 200, or as the first event of a stream."""

    async def script(exchange: Exchange) -> None:
        streamed = exchange.json.get("stream") is True
        await (stream_bytes(event(doc)) if streamed else reply(doc))(exchange)

    return script


@pytest.mark.sampled(12)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("path", PATHS)
async def test_an_error_inside_of_an_answer_is_answered_by_the_next_channel(
    gateway: Gateway, provider: Provider, path: str, name: str, *, stream: bool
) -> None:
    doc, kind = INSIDE[name]
    gateway.channel(provider.base_url, "m=bad", name="first", priority=1)
    gateway.channel(provider.base_url, "m=good")
    provider.on("bad", _inside(doc))
    provider.on("good", either(respond(message("Hello")), speak("Hello")))
    answer = await post(gateway, {**PATHS[path], "stream": stream}, path=path)
    assert (answer.status, b"Hello" in answer.body) == (200, True)
    attempts = [(attempt.channel, attempt.kind) for attempt in gateway.record.attempts]
    assert attempts == [("first", kind), ("up", None)]


@pytest.mark.parametrize("status", [200, 400, 403, 429, 500, 503])
async def test_a_channel_out_of_credit_is_paused_and_only_the_owner_reads_its_words(
    gateway: Gateway, provider: Provider, status: int
) -> None:
    channel = gateway.channel(provider.base_url)
    provider.on("m", reply(BALANCE if status == 200 else {"error": {"message": "insufficient balance"}}, status=status))
    answer = await post(gateway, PATHS["/v1/chat/completions"], path="/v1/chat/completions")
    assert (answer.status, answer.error["code"]) == (502, "upstream_out_of_credit")
    assert "insufficient balance" not in answer.body.decode()
    state = gateway.engine.health.state(channel)
    assert (state.name, state.kind, 3590 < state.left_s <= 3600) == ("cooling", FailureKind.QUOTA, True)
    assert len(provider.exchanges) == 1


async def test_a_compressed_error_is_read(gateway: Gateway, provider: Provider) -> None:
    body = gzip.compress(dumps({"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}))
    provider.on("m", reply(body, status=429, headers={"content-encoding": "gzip"}))
    answer = await post(gateway, PATHS["/v1/chat/completions"], path="/v1/chat/completions")
    assert answer.error["code"] == "upstream_out_of_credit"


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/chat/completions", 404), ("/v1/messages", 404), ("/v1/responses", 400)]
)
@pytest.mark.parametrize("told", [400, 403, 404])
async def test_a_model_that_the_upstream_does_not_have_stays_unknown(
    gateway: Gateway, provider: Provider, path: str, status: int, told: int
) -> None:
    gateway.channel(provider.base_url, preset="deepseek")  # which has no Responses API
    provider.on("m", fail(told, "The model `m` does not exist", code="model_not_found"))
    answers = [await post(gateway, PATHS[path], path=path) for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status]
    assert len(provider.exchanges) == 1
    assert all(answer.head.get("retry-after") == "" for answer in answers)


AMBIGUOUS: dict[str, tuple[int, Doc]] = {
    "no such path": (404, {"error": {"message": "Invalid URL (POST /v1/responses)", "type": "invalid_request_error"}}),
    "nothing said": (404, {"error": {"message": "Not found", "type": "invalid_request_error"}}),
    "not openai": (404, {"detail": "Not Found"}),
    "without a code": (404, {"error": {"message": "Response with id 'resp_1' not found.", "type": "NotFoundError"}}),
    "in words": (
        404,
        {"error": {"message": "Previous response with id 'resp_1' not found.", "type": "invalid_request_error"}},
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_a_previous_response_that_is_gone_has_its_code_whatever_the_upstream_says(
    gateway: Gateway, provider: Provider, name: str
) -> None:
    status, doc = AMBIGUOUS[name]
    provider.on("m", either(reply(doc, status=status), speak("Hello")))
    body = {**PATHS["/v1/responses"], "previous_response_id": "resp_1"}
    answer = await post(gateway, body, path="/v1/responses")
    assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
    assert [exchange.path for exchange in provider.exchanges] == ["/v1/responses"]


async def test_such_a_refusal_does_not_mean_that_the_api_is_lacking(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", either(reply({"detail": "Not Found"}, status=404), speak("Hello")))
    await post(gateway, {**PATHS["/v1/responses"], "previous_response_id": "resp_1"}, path="/v1/responses")
    await post(gateway, PATHS["/v1/responses"], path="/v1/responses")
    paths = [exchange.path for exchange in provider.exchanges]
    assert paths == ["/v1/responses", "/v1/responses", "/v1/chat/completions"]
