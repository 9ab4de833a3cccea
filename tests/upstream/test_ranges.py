"""A sampling parameter outside of a server's range is sent with the nearest value in it."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.ranges import fit_ranges, range_rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("invalid params, temperature must be in (0.0, 1.0]", ["range of temperature 0.01 1"]),  # MiniMax
        ("The temperature parameter is illegal. must be in (0,1)", ["range of temperature 0.01 0.99"]),
        ("<400> InvalidParameter: Range of top_p should be (0.0, 1.0]", ["range of top_p 0.01 1"]),  # DashScope
        ("presence_penalty should be in [-2, 2]", ["range of presence_penalty -2 2"]),
        ("temperature: Input should be less than or equal to 1", ["range of temperature -inf 1"]),
        ("Invalid 'temperature': above maximum value. Expected a value <= 1", ["range of temperature -inf 1"]),
        ("max_tokens must be in [1, 8192]", []),
        ("`temperature` is deprecated for this model.", []),
    ],
)
def test_a_refusal_names_ranges(text: str, rules: list[str]) -> None:
    assert range_rules(text) == rules


@pytest.mark.parametrize(
    ("sent", "fitting"),
    [(0, 0.01), (1.7, 1.0), (0.5, 0.5), (1, 1), (None, None), ("hot", "hot")],
)
def test_the_nearest_value_is_sent(sent: Any, fitting: Any) -> None:
    fields = {"temperature": rawjson.raw(sent), "top_p": rawjson.raw(0)}
    assert fit_ranges(fields, ("user", "range of temperature 0.01 1")) == ([] if sent == fitting else ["temperature"])
    assert (rawjson.value(fields["temperature"]), rawjson.value(fields["top_p"])) == (fitting, 0)
