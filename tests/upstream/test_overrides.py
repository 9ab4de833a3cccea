"""A client's order as the channel's owner wants it."""

from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.channel import Overrides
from gateway.upstream.overrides import apply_overrides, with_parameters
from tests.upstream.makers import order

USER = {"role": "user", "content": "Hi"}


def _fields(body: dict[str, Any], **edits: Any) -> dict[str, Any]:
    found = apply_overrides(order({"model": "m", "messages": [USER], **body}), Overrides(**edits))
    return {name: rawjson.value(value) for name, value in found.fields.items() if name != "model"}


def test_parameters_are_set_defaulted_and_removed() -> None:
    body = {"temperature": 1, "seed": 5, "top_p": None, "user": "u", "n": 2}
    always = {"temperature": 0.2, "metadata": {"a": 1}}
    found = _fields(body, set=always, default={"top_p": 0.9, "n": 1}, remove=("user", "x"))
    del found["messages"]
    assert found == {"temperature": 0.2, "seed": 5, "top_p": 0.9, "n": 2, "metadata": {"a": 1}}


def test_a_name_with_a_dot_is_that_of_a_field_in_an_object() -> None:
    found = _fields({"a": {"b": 1, "c": 2}}, set={"a.b": 3}, default={"a.c": 4, "d.e": 5}, remove=("a.f",))
    del found["messages"]
    assert found == {"a": {"b": 3, "c": 2}, "d": {"e": 5}}


OLD, NEW = {"max_tokens": 5}, {"max_completion_tokens": 9}


@pytest.mark.parametrize(
    ("given", "edits", "sent"),
    [
        (NEW, {"set": OLD}, OLD),
        ({**OLD, **NEW}, {"set": {"max_completion_tokens": 7}}, {"max_completion_tokens": 7}),
        ({}, {"set": {**OLD, **NEW}}, {**OLD, **NEW}),
        (NEW, {"default": OLD}, NEW),
        ({"max_completion_tokens": None}, {"default": OLD}, {"max_completion_tokens": None, **OLD}),
        (NEW, {"default": OLD, "remove": ("max_completion_tokens",)}, OLD),
        ({**OLD, **NEW}, {"remove": ("max_tokens",)}, NEW),
    ],
)
def test_the_two_names_of_the_output_limit_are_one_parameter(
    given: dict[str, Any], edits: dict[str, Any], sent: dict[str, Any]
) -> None:
    found = _fields(given, **edits)
    del found["messages"]
    assert found == sent


def test_the_newer_of_two_limits_with_one_name_counts() -> None:
    names = dict.fromkeys((*OLD, *NEW), "limit")
    for limits in ({**NEW, **OLD}, {**OLD, **NEW}):
        found = with_parameters(order(), Overrides(set=limits), names)
        assert rawjson.value(found.fields["limit"]) == 9


def test_removed_fields_are_reported() -> None:
    asked = order({"model": "m", "messages": [USER], "user": "u"})
    assert apply_overrides(asked, Overrides(remove=("user", "seed"))).removed == ("user",)
    assert apply_overrides(asked, Overrides(remove=("user",), default={"user": "all"})).removed == ("user",)


def test_other_fields_stay_as_they_came() -> None:
    asked = order('{"model":"m","messages":[{"role":"user","content":"\\u0041"}],"x":1.00}')
    found = apply_overrides(asked, Overrides(set={"seed": 1}))
    assert bytes(found.fields["x"]) == b"1.00"
    assert found.fields["messages"] is asked.fields["messages"]
    assert "seed" not in asked.fields


def test_the_body_as_it_came_is_not_sent() -> None:
    asked = msgspec.structs.replace(order(), body=b"{}")
    assert apply_overrides(asked, Overrides(system="x")).body == b""


SYSTEM = {"role": "system", "content": "Old."}
DEVELOPER = {"role": "developer", "content": [{"type": "text", "text": "Old."}]}
OWN = {"role": "system", "content": "New."}


@pytest.mark.parametrize(
    ("messages", "replace", "expected"),
    [
        ([USER], False, [OWN, USER]),
        ([SYSTEM, USER], False, [{"role": "system", "content": "New.\n\nOld."}, USER]),
        (
            [DEVELOPER, USER],
            False,
            [{**DEVELOPER, "content": [{"type": "text", "text": "New.\n\n"}, {"type": "text", "text": "Old."}]}, USER],
        ),
        ([{"role": "system", "content": None}, USER], False, [OWN, {"role": "system", "content": None}, USER]),
        ([USER, SYSTEM], False, [OWN, USER, SYSTEM]),
        ([SYSTEM, USER, DEVELOPER], True, [OWN, USER]),
        ([USER], True, [OWN, USER]),
    ],
)
def test_a_system_prompt_precedes_or_replaces(messages: list[object], replace: bool, expected: list[object]) -> None:
    assert _fields({"messages": messages}, system="New.", replace_system=replace)["messages"] == expected


def test_messages_that_are_none_are_the_upstreams_business() -> None:
    assert _fields({"messages": [1, 2]}, system="New.")["messages"] == [1, 2]


NAMES = {
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "output_config.effort",
    "stop": "stops",
    "seed": None,
}


def edited(body: dict[str, Any], **overrides: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The request as it goes out, and what is named as removed."""
    found = with_parameters(order(body), Overrides(**overrides), NAMES, frozenset({"max_tokens"}))
    return {name: rawjson.value(value) for name, value in found.fields.items()}, found.removed


def test_parameters_are_set_under_their_native_names() -> None:
    found, removed = edited({"max_tokens": 9, "output_config": {"x": 1}}, set={"reasoning_effort": "low", "seed": 1})
    assert found == {"max_tokens": 9, "output_config": {"x": 1, "effort": "low"}}
    assert removed == ("seed",)


def test_a_default_holds_where_there_is_none() -> None:
    found, _ = edited({"max_tokens": 9}, default={"max_completion_tokens": 5, "stop": ["x"], "top_k": 3})
    assert found == {"max_tokens": 9, "stops": ["x"], "top_k": 3}


def test_parameters_are_removed_except_for_those_that_must_be_there() -> None:
    asked = {"max_tokens": 9, "output_config": {"effort": "low"}, "user": "u"}
    found, removed = edited(asked, remove=("max_completion_tokens", "reasoning_effort", "user", "none"))
    assert (found, removed) == ({"max_tokens": 9}, ("reasoning_effort", "user"))
