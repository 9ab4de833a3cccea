"""Tokens that stay in an upstream's cache for an hour or more have a price of their own, from report to ledger."""

import json
from typing import Any

import msgspec
import pytest

from gateway.client.receipt import TIMES, cost_formula
from gateway.commands.output import json_line
from gateway.commands.usage_reports import FIELDS
from gateway.domain.channel import Dialect
from gateway.domain.cost import cost, highest_cost
from gateway.domain.price import Price, Rates, rates
from gateway.domain.units import MILLION, Nanos
from gateway.domain.usage import Usage, UsageSource, canonical
from gateway.domain.views import call_view
from gateway.upstream import usage_report
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, speak_messages, text_block
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, reply, whole

IN, READ, SHORT, LONG = 3_000, 300, 3_750, 6_000
"""Nano-dollars a token."""
REPORT: Doc = {
    "input_tokens": 400,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 500,
    "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 300},
    "output_tokens": 10,
    "server_tool_use": {"web_search_requests": 2},
}
MESSAGE = message(text_block(), spent=REPORT)
OPENAI: Doc = {
    "prompt_tokens": 1_000,
    "completion_tokens": 10,
    "total_tokens": 1_010,
    "prompt_tokens_details": {
        "cached_tokens": 100,
        "cache_write_tokens": 500,
        "cache_write_tokens_details": {"ttl_30m_tokens": 200, "ttl_12h_tokens": 300},
    },
}


def nanos(a_token: int) -> Nanos:
    return Nanos(a_token * MILLION)


def priced(**more: Any) -> Price:
    return Price(
        model="m", input=nanos(IN), output=nanos(0), cached_input=nanos(READ), cache_write=nanos(SHORT), **more
    )


@pytest.fixture
def claude(gateway: Gateway, provider: Provider) -> Gateway:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "m", dialect=Dialect.ANTHROPIC)
    gateway.change("prices", "m", priced(cache_write_long=nanos(LONG)))
    return gateway


async def test_each_kind_of_input_has_its_price(claude: Gateway, provider: Provider, *, stream: bool) -> None:
    provider.other = speak_messages(MESSAGE)
    assert (await claude.client.chat(stream=stream)).status == 200
    record = claude.record
    assert (record.input, record.cached, record.cache_write, record.cache_write_long) == (1_000, 100, 500, 300)
    assert record.cost == 400 * IN + 200 * SHORT + 300 * LONG + 100 * READ
    assert record.marks == ("upstream_extra=web_search_requests:2",)
    assert record.source is UsageSource.REPORTED


async def test_the_same_at_openai(gateway: Gateway, provider: Provider) -> None:
    gateway.change("prices", "m", priced(cache_write_long=nanos(LONG)))
    provider.on("m", reply(whole("m", spent=OPENAI, service_tier="priority")))
    await gateway.client.chat()
    assert gateway.record.cost == 400 * IN + 200 * SHORT + 300 * LONG + 100 * READ
    assert gateway.record.marks == ("upstream_extra=service_tier:priority",)


async def test_the_hold_is_for_the_most_expensive_kind(claude: Gateway) -> None:
    price = priced(cache_write_long=nanos(LONG))
    assert highest_cost(price, 1_000, 0, MILLION) == 1_000 * LONG
    assert (
        cost(Usage(input=1_000, cache_write=1_000, cache_write_long=1_000), rates(price, 1_000, MILLION))
        == 1_000 * LONG
    )


def test_long_tokens_are_part_of_those_written() -> None:
    assert canonical(Usage(input=10, cache_write=4, cache_write_long=9)).cache_write_long == 4
    reading = usage_report.read_report({**OPENAI, "prompt_tokens_details": {"cache_write_long_tokens": 7}})
    assert reading is not None
    assert reading.usage.cache_write_long == 0


async def test_the_ledger_shows_them_and_verifies(claude: Gateway, provider: Provider) -> None:
    provider.other = speak_messages(MESSAGE)
    await claude.client.chat()
    exported = json.loads(json_line(call_view(claude.record)))
    assert (exported["cache_write_tokens"], exported["cache_write_long_tokens"]) == (500, 300)
    assert "cache_write_long_tokens" in FIELDS
    view = call_view(claude.record)
    assert view.rates is not None
    written = "200 written to cache * $3.75/M + 300 written to the long cache * $6/M".replace("*", TIMES)
    assert written in cost_formula(view, view.rates)
    assert verify(claude.engine.store).equal


def test_a_rate_from_before_there_was_one_for_long_writes() -> None:
    line = b"[1,2,3,4,5,6]"
    assert msgspec.json.decode(line, type=Rates) == Rates(1, 2, 3, 4, 5, 6)
    assert Rates(1, 2, 3, 4, 5, 6).long_write == 3
