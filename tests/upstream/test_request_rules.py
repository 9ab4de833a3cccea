"""Whatever API a request is of, the same rules change it."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.request_rules import fit_request, has_effect
from tests.upstream.makers import order


@pytest.mark.parametrize(
    ("rule", "sent", "changed"),
    [
        ("reasoning_effort in low,high", {"reasoning_effort": "max"}, ["reasoning_effort"]),
        ("reasoning_effort in low,high", {"reasoning": {"effort": "max"}}, ["reasoning.effort"]),
        ("reasoning_effort in low,high", {"output_config": {"effort": "max"}}, ["output_config.effort"]),
        ("range of temperature 0.01 1", {"temperature": 2}, ["temperature"]),
        ("messages[].image", {"messages": [{"content": [{"type": "image"}]}]}, ["messages[].image"]),
        ("null", {"tools": []}, []),
        ("messages[].role", {"messages": [{"role": "developer"}]}, []),
        ("tools[].input_schema=2020-12", {"tools": [{"input_schema": {"type": "any"}}]}, []),
    ],
)
def test_a_rule_changes_what_it_is_about(rule: str, sent: dict[str, Any], changed: list[str]) -> None:
    fields, names = fit_request(order(sent).fields, [rule])
    assert names == changed
    assert fields != order(sent).fields
    assert has_effect(rule, order(sent), ())
    others = {"model": rawjson.raw("m"), "tools": rawjson.raw([{"type": "function"}])}
    assert fit_request(others, [rule]) == (others, [])
