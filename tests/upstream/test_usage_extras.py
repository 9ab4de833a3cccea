"""What a usage report shows beyond tokens is marked in the record."""

from typing import Any

import pytest

from gateway.domain.price import Price, PriceRule, rates
from gateway.domain.units import Nanos
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.usage_extras import marks_of, without_charged


@pytest.mark.parametrize(
    ("report", "marks"),
    [
        ({"prompt_tokens": 3}, ()),
        ({"server_tool_use": {"web_search_requests": 0}, "service_tier": "standard", "inference_geo": "global"}, ()),
        (
            {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}},
            ("upstream_extra=web_search_requests:2,web_fetch_requests:1",),
        ),
        ({"tool_usage": {"web_search": {"num_requests": 3}}}, ("upstream_extra=web_search:3",)),
        ({"tool_usage": {"num_search_queries": 2}}, ("upstream_extra=num_search_queries:2",)),
        ({"speed": "fast", "service_tier": "priority"}, ("upstream_extra=speed:fast,service_tier:priority",)),
        ({"inference_geo": "us"}, ("upstream_extra=inference_geo:us",)),
        ({"fallback_credit": {"status": {"type": "redeemed"}}}, ("upstream_extra=fallback_credit:redeemed",)),
        ({"fallback_credit": {"status": {"type": "not_applied"}}}, ()),
        ({"service_tier": "flex"}, ("upstream_extra=service_tier:flex",)),
        ({"service_tier": "batch"}, ("upstream_extra=service_tier:batch",)),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, ("upstream_extra=service_tier:priority",)),
        ({"trafficType": "ON_DEMAND_OFFPEAK"}, ("upstream_extra=service_tier:offpeak",)),
        ({"trafficType": "ON_DEMAND"}, ()),
        ({"prompt_audio_seconds": 60}, ("upstream_extra=prompt_audio_seconds:60",)),
        (
            {"iterations": [{"type": "message"}, {"type": "advisor_message"}]},
            ("upstream_extra=iteration:advisor_message",),
        ),
        ({"server_tool_use": "x", "iterations": [3], "speed": 4}, ()),
    ],
)
def test_extras_are_named(report: dict[str, Any], marks: tuple[str, ...]) -> None:
    assert marks_of(report, suspect=False) == marks
    assert marks_of(report, suspect=True) == ("suspect_usage", *marks)


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        (("suspect_usage", "upstream_cost=0.5"), ("suspect_usage", "upstream_cost=0.5")),
        (("upstream_extra=web_search:2,maps:1", "upstream_cost=0.5"), ("upstream_extra=maps:1", "upstream_cost=0.5")),
        (("upstream_extra=service_tier:flex", "upstream_extra=web_search:2"), ()),
        (("upstream_extra=speed:fast", "upstream_extra=web_search:2"), ("upstream_extra=speed:fast",)),
    ],
)
def test_extras_that_the_cost_includes_are_not_marked(marks: tuple[str, ...], kept: tuple[str, ...]) -> None:
    flex = PriceRule(variant="flex", input=Nanos(1), output=Nanos(1))
    price = Price(model="m", input=Nanos(2), output=Nanos(2), extras={"searches": Nanos(5)}, rules=(flex,))
    usage = Usage(input=1, output=1, source=UsageSource.REPORTED, parts={"searches": 2}, variant="flex")
    assert without_charged(marks, usage, price, rates(price, 1, 1_000_000, "flex")) == kept
