"""Which error a client gets, what its SDK makes of it, and how often it tries again."""

import logging
import time
from dataclasses import dataclass
from typing import Any

import openai as sdk
import pytest

from gateway.domain.budget import Budget, Window
from gateway.domain.units import Nanos
from tests.conformance.sdk import openai, raised
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, speak


@dataclass(frozen=True, slots=True)
class Fate:
    """What the client gets for an upstream's status."""

    upstream: int
    status: int
    code: str | None
    kind: type[sdk.APIStatusError]
    attempts: int = 1
    """Requests of the SDK at its defaults, as the gateway counts them."""


FATES = [
    # The client's own mistakes pass with their status.
    Fate(400, 400, "weird", sdk.BadRequestError),
    Fate(404, 404, "model_not_found", sdk.NotFoundError),
    Fate(413, 413, "weird", sdk.APIStatusError),
    Fate(415, 415, "weird", sdk.APIStatusError),
    Fate(422, 422, "weird", sdk.UnprocessableEntityError),
    # What concerns the channel's account has codes of its own (docs/reference/errors.md), all 502 and never retried.
    Fate(401, 502, "upstream_auth_failed", sdk.InternalServerError),
    Fate(403, 502, "upstream_auth_failed", sdk.InternalServerError),
    Fate(402, 502, "upstream_out_of_credit", sdk.InternalServerError),
    # After the gateway's own attempts x-should-retry is false.
    Fate(500, 502, "upstream_error", sdk.InternalServerError),
    Fate(502, 502, "upstream_error", sdk.InternalServerError),
    Fate(520, 502, "upstream_error", sdk.InternalServerError),
    Fate(409, 502, "upstream_error", sdk.InternalServerError),
    Fate(301, 502, "upstream_error", sdk.InternalServerError),
    Fate(408, 504, "upstream_timeout", sdk.InternalServerError),
    Fate(504, 504, "upstream_timeout", sdk.InternalServerError),
    Fate(524, 504, "upstream_timeout", sdk.InternalServerError),
]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: str(fate.upstream))
async def test_each_status_has_its_class_and_its_attempts(gateway: Gateway, provider: Provider, fate: Fate) -> None:
    provider.on(
        "m", fail(fate.upstream, "the model does not exist" if fate.upstream == 404 else "it broke", code="weird")
    )
    async with openai(gateway) as client:
        error = await raised(client)
    assert (error.status_code, error.code, type(error)) == (fate.status, fate.code, fate.kind)
    assert len(gateway.records) == fate.attempts
    assert error.request_id == gateway.records[0].id
    assert gateway.records[0].cost == 0


async def test_an_error_has_its_route_as_an_answer_does(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", name="up")
    said = {"retry-after-ms": "5900", "x-ratelimit-limit-requests": "60", "x-request-id": "theirs", "set-cookie": "a=b"}
    provider.on("m", fail(429, "slow down", headers=said))
    head = (await gateway.client.chat()).head
    told = {name: head.get(name) for name in (*said, "retry-after", "x-gateway-channel", "x-gateway-attempts")}
    assert told | {"x-request-id": ""} == {
        "retry-after-ms": "5900",
        "x-ratelimit-limit-requests": "60",
        "x-request-id": "",
        "set-cookie": "",
        "retry-after": "6",
        "x-gateway-channel": "up",
        "x-gateway-attempts": "1",
    }
    assert (head.get("x-upstream-request-id"), head.get("x-request-id")) == ("theirs", gateway.records[0].id)


async def test_a_wait_that_is_too_long_to_be_obeyed_is_not_told(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", name="up")
    provider.on("m", fail(429, "slow down", headers={"retry-after-ms": "300000", "retry-after": "300"}))
    head = (await gateway.client.chat()).head
    assert (head.get("retry-after"), head.get("retry-after-ms"), head.get("x-should-retry")) == ("", "", "false")


async def test_the_sdk_waits_as_told(gateway: Gateway, provider: Provider) -> None:
    limited = fail(429, "slow down", headers={"retry-after": "1"})
    provider.on("m", limited, limited, speak())  # the gateway itself waits for the only channel, once
    began = time.monotonic()
    async with openai(gateway) as client:
        answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert answer.choices[0].message.content == "Hello"
    assert 0.9 <= time.monotonic() - began < 5


EXHAUSTED: dict[str, tuple[dict[str, Any], str]] = {
    "account": ({}, "insufficient_quota"),
    "token's money": ({"budgets": (Budget(window=Window.DAY, nanos=Nanos(1)),)}, "token_quota_exceeded"),
    "token's tokens": ({"budgets": (Budget(window=Window.MONTH, tokens=1),)}, "token_quota_exceeded"),
}


@pytest.mark.parametrize("name", EXHAUSTED)
async def test_an_empty_account_is_reported_once(gateway: Gateway, provider: Provider, name: str) -> None:
    fields, code = EXHAUSTED[name]
    if name == "account":
        gateway.grant(-10_000_000_000)
    client = gateway.token(**fields)
    async with openai(gateway, api_key=client.key) as caller:
        error = await raised(caller)
    assert isinstance(error, sdk.RateLimitError)
    assert error.code == code
    assert error.type == "insufficient_quota"
    assert error.response.headers["x-should-retry"] == "false"
    assert provider.exchanges == []
    assert len(gateway.records) == 1


async def test_a_refused_channel_key_is_our_fault_and_stays_secret(
    gateway: Gateway, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = "Incorrect API key provided: sk-upstream-canary."
    provider.on("m", fail(401, said, code="invalid_api_key"))
    async with openai(gateway) as client:
        error = await raised(client)
    assert (error.status_code, error.code) == (502, "upstream_auth_failed")
    assert len(provider.exchanges) == 1
    for text in (error.response.text, caplog.text, str(gateway.records)):
        assert "canary" not in text
        assert gateway.client.key not in text
