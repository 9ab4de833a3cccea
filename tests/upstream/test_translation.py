"""Parameters are taken with their types; what nobody takes is named."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.conversation import Conversation
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.failure import NO_TEXT, Failure
from gateway.domain.order import LearnedRefusals, Order
from gateway.domain.units import Millis
from gateway.upstream.learned_params import NOTHING, LearnedParams
from gateway.upstream.translation import Parameters, read_caps, refusal_of
from tests.cases.conversations import function
from tests.upstream.makers import channel, error_of, learn, order, translated


def _parameters(learned: LearnedRefusals = NOTHING, **fields: Any) -> Parameters:
    return Parameters(translated({"messages": [], **fields}), learned)


def test_a_parameter_has_its_type() -> None:
    parameters = _parameters(seed=3, temperature=1, stop="a", modalities=["text"])
    assert (parameters.take("seed", int), parameters.take("temperature", float)) == (3, 1.0)
    assert (parameters.take_stops(bool), parameters.take("modalities", list[str])) == (["a"], ["text"])
    assert parameters.take("seed", int) is None
    assert parameters.dropped_names == ()


def test_errors_and_what_is_left_out_are_in_the_clients_words() -> None:
    words = Conversation(
        turns=(), param_names={"stop": "stop_sequences", "seed": "options.seed"}, extras=("keep_alive",)
    )
    given = order({"stop": [1], "seed": 2})
    parameters = Parameters(Order(fields=given.fields, model="m", conversation=words), NOTHING)
    with pytest.raises(BadRequest) as caught:
        parameters.take_stops(bool)
    assert caught.value.param == "stop_sequences[0]"
    assert parameters.dropped_names == ("options.seed", "keep_alive")


SCHEMA = {"type": "object", "title": "T"}


@pytest.mark.parametrize(
    ("form", "schema", "named"),
    [
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, SCHEMA, ()),
        ({"type": "json_schema", "name": "n", "schema": SCHEMA}, SCHEMA, ()),
        ({"type": "json_object", "schema": SCHEMA}, SCHEMA, ()),
        ({"type": "json_object", "value": SCHEMA}, SCHEMA, ()),
        ({"type": "json_object"}, None, ()),
        ({"type": "json_schema", "json_schema": SCHEMA}, None, ("response_format",)),
        ({"type": "grammar", "grammar": "root ::= x"}, None, ("response_format",)),
        ({"type": "text"}, None, ()),
    ],
)
def test_the_schema_of_the_answer_is_found_or_named(form: Any, schema: Any, named: tuple[str, ...]) -> None:
    parameters = _parameters(response_format=form)
    assert rawjson.value(parameters.take_format().schema) == schema
    assert parameters.dropped_names == named


@pytest.mark.parametrize(
    ("given", "most", "sent", "named"),
    [
        ("a", 2, ["a"], ()),
        (["a", "b", "c"], 2, ["a", "b"], ("stop",)),
        (["", "a"], None, ["a"], ("stop",)),
        ([], None, [], ()),
    ],
)
def test_refused_stop_texts_are_named(given: Any, most: int | None, sent: list[str], named: tuple[str, ...]) -> None:
    parameters = _parameters(stop=given)
    assert (parameters.take_stops(bool, most), parameters.dropped_names) == (sent, named)


@pytest.mark.parametrize(
    ("fields", "cap"), [({"max_tokens": 5}, 5), ({"max_tokens": 5, "max_completion_tokens": 7}, 7), ({"x": 1}, None)]
)
def test_the_output_limit(fields: dict[str, Any], cap: int | None) -> None:
    assert _parameters(**fields).take_output_cap() == cap
    assert read_caps(order(fields).fields) == (cap, 1)


def test_what_asks_for_nothing_loses_nothing() -> None:
    parameters = _parameters(model="m", stream=True, a=None, b=False, c=0, d={}, e=1, f=[], g="")
    assert parameters.take("e", int) == 1
    assert parameters.dropped_names == ("c", "d")


def test_what_was_learned_is_left_out_and_named() -> None:
    parameters = _parameters(LearnedRefusals(dropped=("top_k", "seed")), top_k=3)
    assert (parameters.take("top_k", int), parameters.dropped_names) == (None, ("top_k",))


def test_a_refused_choice_of_tools_is_learned_and_left_out() -> None:
    asked = translated({"messages": [], "tools": [function("f")], "tool_choice": "required"})
    up, served, lessons = channel(dialect=Dialect.ANTHROPIC), ServedModel(name="m"), LearnedParams()
    refused = Failure(kind=FailureKind.CLIENT, code="x", text=NO_TEXT, parameters=("tool_choice",))
    assert learn(lessons, up, asked, refused, used=NOTHING)
    parameters = Parameters(asked, lessons.of(up.id, served, Millis(0)))
    assert (parameters.conversation.choice.mode, parameters.dropped_names) == ("", ("tool_choice",))
    assert not learn(LearnedParams(), up, translated({"messages": []}), refused, used=NOTHING)


def test_a_fault_becomes_a_failure() -> None:
    failed = error_of(refusal_of(channel(), unsupported_param("n", "only one\x1b[31m")).failure)
    assert (failed.kind, failed.sent, failed.code, failed.param) == (
        FailureKind.CLIENT,
        False,
        "unsupported_parameter",
        "n",
    )
    assert failed.message.startswith("channel 'up' cannot take this request: n: only one")
    assert "\x1b" not in failed.message
