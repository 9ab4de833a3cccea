"""Which error a client gets, what its SDK makes of it, and how often it tries again."""

from dataclasses import dataclass

import openai as sdk
import pytest

from tests.conformance.sdk import openai, raised
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail


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
    Fate(422, 422, "weird", sdk.UnprocessableEntityError),
    # What concerns the channel's account has codes of its own (docs/reference/errors.md), all 502 and never retried.
    Fate(401, 502, "upstream_auth_failed", sdk.InternalServerError),
    Fate(402, 502, "upstream_out_of_credit", sdk.InternalServerError),
    # After the gateway's own attempts x-should-retry is false.
    Fate(500, 502, "upstream_error", sdk.InternalServerError),
    Fate(409, 502, "upstream_error", sdk.InternalServerError),
    Fate(408, 504, "upstream_timeout", sdk.InternalServerError),
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
