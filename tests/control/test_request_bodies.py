from typing import Any

import msgspec
import pytest
from multidict import MultiDict

from gateway.control.request_bodies import fields, members, patch, query
from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from gateway.domain.token import Token
from gateway.domain.units import Nanos, TokenId
from tests.refusals import refusal_of

EDITABLE: dict[str, Any] = {
    "name": str,
    "enabled": bool,
    "budgets": tuple[Budget, ...],
    "limits": Limits,
    "models": tuple[str, ...],
}


def refusal(data: bytes) -> BadRequest:
    return refusal_of(fields, data, EDITABLE)


def test_a_body_gives_the_values_of_its_fields() -> None:
    data = b'{"name":"x","limits":{"rpm":5},"budgets":[{"window":"day","nanos":7}],"models":["a","b"]}'
    assert fields(data, EDITABLE) == {
        "name": "x",
        "limits": Limits(rpm=5),
        "budgets": (Budget(window=Window.DAY, nanos=Nanos(7)),),
        "models": ("a", "b"),
    }


def test_an_empty_body_changes_nothing() -> None:
    assert fields(b" \n", EDITABLE) == {}


def test_a_patch_leaves_the_other_fields_alone() -> None:
    token = Token(id=TokenId("t"), name="old", group="g", digest="d", hint="h", note="kept")
    assert patch(token, b'{"name":"new"}', EDITABLE) == msgspec.structs.replace(token, name="new")


@pytest.mark.parametrize(
    "data", [b"[]", b'"x"', b"1", b"{", b'{"a":}', b"\xff", b'{"a":1}x', b"null", b"NaN", b'{"a":' * 100_000]
)
def test_what_is_not_a_json_object_is_refused(data: bytes) -> None:
    assert refusal_of(members, data).code == "invalid_json"


def test_an_unknown_field_is_named_with_the_known_ones() -> None:
    error = refusal(b'{"nmae":"x"}')
    assert (error.code, error.param) == ("unknown_field", "nmae")
    assert "budgets, enabled, limits, models, name" in error.message


@pytest.mark.parametrize("name", ["id", "digest", "hint", "created"])
def test_fields_that_are_not_editable_are_unknown(name: str) -> None:
    assert refusal(b'{"%s":"x"}' % name.encode()).code == "unknown_field"


@pytest.mark.parametrize(
    ("data", "place"),
    [(b'{"limits":{"rps":5}}', "limits.rps"), (b'{"budgets":[{"nanos":1},{"nano":1}]}', "budgets[1].nano")],
)
def test_an_unknown_field_inside_a_field_is_named_with_its_place(data: bytes, place: str) -> None:
    assert refusal(data).param == place


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"name":5}', "name: Expected `str`, got `int`"),
        (b'{"enabled":1}', "enabled: Expected `bool`, got `int`"),
        (b'{"name":null}', "name: Expected `str`, got `null`"),
        (b'{"limits":{"rpm":"5"}}', "limits.rpm: Expected `int | null`, got `str`"),
        (b'{"limits":{"rpm":1.5}}', "limits.rpm: Expected `int | null`, got `float`"),
        (b'{"budgets":[{"nanos":true}]}', "budgets[0].nanos: Expected `int | null`, got `bool`"),
        (b'{"models":"x"}', "models: Expected `array`, got `str`"),
    ],
)
def test_a_wrong_type_is_reported_with_its_place(data: bytes, text: str) -> None:
    error = refusal(data)
    assert error.message == text
    assert error.param == text.partition(":")[0].partition(".")[0].partition("[")[0]


def test_a_wrong_choice_deep_inside_is_reported_with_the_choices() -> None:
    assert "day, week, month, ever" in refusal(b'{"budgets":[{"window":"year"}]}').message


@pytest.mark.parametrize("number", ["1000000000000000001", "-1000000000000000001", "1e40", "9" * 400])
def test_numbers_out_of_reason_are_refused(number: str) -> None:
    assert refusal(b'{"budgets":[{"nanos":%s}]}' % number.encode()).param == "budgets"


def test_seconds_may_have_fractions() -> None:
    assert fields(b'{"timeouts":{"connect":2.5}}', {"timeouts": Timeouts}) == {"timeouts": Timeouts(connect=2.5)}


def test_what_strangers_wrote_is_repeated_harmlessly() -> None:
    assert "\x1b" not in refusal(b'{"\\u001b[2J":1}').message


def test_missing_fields_are_named() -> None:
    error = refusal_of(fields, b'{"name":"x"}', {"name": str, "group": str}, "name", "group")
    assert (error.code, error.param) == ("missing_required_parameter", "group")


def test_parameters_of_a_url_get_their_types() -> None:
    given = {"since": "-5", "token": "x", "failed": "true", "app": ""}
    types: dict[str, type] = {"since": int, "token": str, "failed": bool, "app": str}
    assert query(given, types) == {"since": -5, "token": "x", "failed": True}


def test_another_parameter_that_is_repeated_is_refused() -> None:
    with pytest.raises(BadRequest, match="'limit' is given 2 times"):
        query(MultiDict([("limit", "5"), ("limit", "6")]), {"limit": int})


@pytest.mark.parametrize("given", [{"since": "now"}, {"since": "1.5"}, {"failed": "maybe"}, {"other": "x"}])
def test_wrong_parameters_are_refused(given: dict[str, str]) -> None:
    types: dict[str, Any] = {"since": int, "failed": bool}
    assert refusal_of(query, given, types).param == next(iter(given))
