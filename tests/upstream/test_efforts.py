"""An effort that a server does not take becomes the nearest one that its refusal lists."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.efforts import effort_rule, fit_effort


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (
            "'reasoning_effort' does not support 'none' here. Supported values are: 'low', 'high', and 'xhigh'.",
            "low,high,xhigh",
        ),
        ("Invalid value: 'max'. Supported values are: 'low', 'high', and 'xhigh'. reasoning.effort", "low,high,xhigh"),
        ("Unexpected reasoning effort high. Supported types are xhigh, medium, low", "xhigh,medium,low"),
        ("This model does not support effort level 'xhigh'. Supported levels: high, low, max.", "high,low,max"),
        ("body.reasoning_effort: Input should be 'low', 'medium' or 'high'", "low,medium,high"),
        ("reasoning_effort: unknown variant `ultra`, expected one of `low`, `high`, `max`", "low,high,max"),
        ("reasoning_effort: Invalid enum value. Expected 'low' | 'high', received 'max'", "low,high"),
        ('invalid think value: "xhigh" (must be "high", "medium", "low", true, or false)', "high,medium,low"),
        ("Invalid value: 'max'. Supported values are: 'low', 'medium', and 'high'. verbosity", ""),
        ("reasoning_effort is not supported with this model", ""),
        ("Set reasoning_effort to 'none'.", ""),
    ],
)
def test_a_refusal_lists_levels(text: str, levels: str) -> None:
    assert effort_rule(text) == (f"reasoning_effort in {levels}" if levels else "")


@pytest.mark.parametrize(
    ("sent", "levels", "fitting"),
    [
        ("max", "low,medium,high", "high"),
        ("high", "xhigh,medium,low", "medium"),
        ("minimal", "low,high", "low"),
        ("none", "low,high", "low"),
        ("high", "none,default", "default"),
        ("low", "none,default", "default"),
        ("high", "none", None),
        ("extreme", "low,high", None),
        ("high", "low,high", "high"),
        (5, "low,high", 5),
        (None, "low,high", None),
    ],
)
@pytest.mark.parametrize("name", ["reasoning_effort", "reasoning.effort", "output_config.effort"])
def test_the_nearest_level_is_sent(sent: Any, levels: str, fitting: Any, name: str) -> None:
    holder, _, member = name.rpartition(".")
    given = {} if sent is None else {member: rawjson.raw(sent)}
    fields = {holder: rawjson.raw(given)} if holder else given
    dropped = fit_effort(fields, ("user", f"reasoning_effort in {levels}"))
    assert rawjson.maybe((rawjson.fields(fields[holder]) if holder else fields).get(member)) == fitting
    assert dropped == ([] if sent == fitting else [name])
