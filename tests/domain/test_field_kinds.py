"""Kinds of fields: what is typed, and what it means."""

from typing import Any

import msgspec
import pytest

from gateway.domain.budget import Budget, Window
from gateway.domain.channel import Overrides, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import Field
from gateway.domain.fields import CHANNEL, GROUP, SETTINGS, TOKEN
from gateway.domain.group import Fallback
from gateway.domain.limits import Limits
from gateway.domain.units import Millis, Nanos
from tests.refusals import refusal_of

FIELDS: dict[str, Field] = {field.id: field for table in (GROUP, CHANNEL, TOKEN) for field in table}
SETTING_FIELDS: dict[str, Field] = {field.name: field for field in SETTINGS}
CHANNEL_FIELDS: dict[str, Field] = {field.id: field for field in CHANNEL}


def read(name: str, *texts: str) -> Any:
    value: Any = () if name == "budgets" else None
    fields = [field for field in FIELDS.values() if field.name == name]
    for field, text in zip(fields, texts, strict=True):
        value = field.kind.with_content(value, field.kind.read(text, Millis(0)))
    return value


def typed(name: str, value: object) -> list[str]:
    return [field.kind.text(value) for field in FIELDS.values() if field.name == name]


def test_patterns_are_separated_by_commas_or_spaces() -> None:
    assert read("models", " a, b* c,,a ") == ("a", "b*", "c")
    assert read("models", '"m *", b') == ("m *", "b")
    assert read("models", "*") == read("models", "") == ()


@pytest.mark.parametrize(
    ("text", "patterns"),
    [("*", ()), ("gpt-*,*", ()), ("*,!gpt-4*", ("!gpt-4*",)), ("gpt-*,!*-mini", ("gpt-*", "!*-mini"))],
)
def test_a_star_among_patterns_means_all_models_in_an_option_as_in_a_form(text: str, patterns: tuple[str, ...]) -> None:
    """An option took ``gpt-*,*`` for ``gpt-*`` alone, so that the token lost all other models."""
    field = next(field for field in TOKEN if field.name == "models")
    assert field.kind.change(field, {"models": (text,)}, ("o1",)) == patterns
    assert read("models", text) == patterns


def test_budgets_have_windows_and_are_in_dollars_and_tokens() -> None:
    assert read("budgets", "day=5 month=50.5 ever=10", "week=1M day=7") == (
        Budget(window=Window.DAY, nanos=Nanos(5_000_000_000), tokens=7),
        Budget(window=Window.WEEK, tokens=1_000_000),
        Budget(window=Window.MONTH, nanos=Nanos(50_500_000_000)),
        Budget(nanos=Nanos(10_000_000_000)),
    )
    assert read("budgets", "day=none", "") == ()


def test_limits_that_are_not_named_are_none() -> None:
    assert read("limits", "rpm=60, tpm=200k tpd=none") == Limits(rpm=60, tpm=200_000)
    assert typed("limits", Limits(rpm=60, tpm=200_000, concurrent=8)) == ["rpm=60 tpm=200k concurrent=8"]
    assert read("limits", "queue=0 queue_s=0") == Limits(queue=0, queue_s=0)


@pytest.mark.parametrize("text", ["none", " None "])
def test_none_is_no_pattern_in_a_form_or_an_option(text: str) -> None:
    """A form saved it as the name of a model, so that the token saw no model at all."""
    field = next(field for field in TOKEN if field.name == "models")
    message = "'none' is ambiguous: use '*' for all models, or '!*' for no model"
    assert refusal_of(read, "models", text).message == message
    assert refusal_of(field.kind.change, field, {"models": (text,)}, ()).message == message


def test_a_name_with_an_equals_sign_cannot_be_in_an_option() -> None:
    with pytest.raises(BadRequest, match="'a=b' contains '='"):
        CHANNEL_FIELDS["headers"].arguments({}, {"a=b": "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("priority", "-x"),
        ("timeouts", "head"),
        ("timeouts", "hat=3"),
        ("timeouts", "head=x"),
        ("proxy", "http://proxy"),
        *(("limits", text) for text in ("rps=3", "60", "rpm", "rpm=0", "rpm=many", "streams=3")),
        *(("headers", text) for text in ("x", "sk-secret", "=x", "x=", "a=b c", "a='b", 'a="', "X-A=1 X-A=2")),
        *(("options", text) for text in ("latency", "=2", "latency=", 'latency="2')),
        *(("fallbacks", text) for text in ("gpt", "=a", "gpt=", "gpt=,", "gpt=gpt")),
        *(("parameters", text) for text in ("temperature", "=1", "?x", "'a=1")),
    ],
)
def test_wrong_texts_are_refused(name: str, text: str) -> None:
    assert "secret" not in refusal_of((FIELDS | CHANNEL_FIELDS)[name].kind.read, text, Millis(0)).message


def test_parameters_are_json_where_they_are_valid_json() -> None:
    found = Overrides(
        set={"temperature": 0.2, "user": "a b", "flag": True, "text": "3"},
        default={"max_tokens": 4096, "stop": ["x y"]},
        remove=("logprobs", "a b"),
        system="one\ntwo",
    )
    texts = typed("overrides", found)
    assert texts[0] == (
        "temperature=0.2 'user=a b' flag=true 'text=\"3\"' ?max_tokens=4096 ?'stop=[\"x y\"]' -logprobs -'a b'"
    )
    assert texts[1] == "one\\ntwo"
    assert read("overrides", *texts) == found
    assert read("overrides", "  ", "", "instead of the client's") is None


def test_a_timeout_loses_no_digit_and_defaults_are_not_typed() -> None:
    assert typed("timeouts", Timeouts(head=12345.678)) == ["head=12345.678"]
    assert typed("timeouts", Timeouts()) == [""]
    assert read("timeouts", "idle=30") == Timeouts(idle=30)


def test_one_timeout_is_set_back_to_its_default() -> None:
    kind = FIELDS["timeouts"].kind
    given = {"timeouts": (("head", "default"),)}
    assert kind.change(FIELDS["timeouts"], given, Timeouts(head=300, idle=5)) == Timeouts(idle=5)
    with pytest.raises(BadRequest, match=r"^head: 'none' is not a number of seconds from 0 to 86400"):
        read("timeouts", "head=none")
    for name in ("hat", "head_s", "__class__"):
        with pytest.raises(BadRequest, match=f"unknown deadline '{name}'; use connect, .* head=60$"):
            read("timeouts", f"{name}=default")


def test_fallbacks_are_typed_as_the_option_takes_them() -> None:
    found = (Fallback(model="m bad", to=("it's", "x=y")), Fallback(model="'a' \"b\"", to=('say "hi" now',)))
    assert read("fallbacks", *typed("fallbacks", found)) == found
    assert read("fallbacks", "'a b=c d,e'  gpt-*=o3") == (
        Fallback(model="a b", to=("c d", "e")),
        Fallback(model="gpt-*", to=("o3",)),
    )


@pytest.mark.parametrize("wait", ["Wed, 21 Oct 2026", "5", 'a "while"', "x=y", "soon", "true"])
def test_mock_options_are_read_as_they_are_written(wait: str) -> None:
    found = {"latency": 200, "bad_json": True, "retry_after": wait}
    assert read("options", *typed("options", found)) == found


def test_secret_headers_are_not_typed_and_an_empty_text_removes_all() -> None:
    assert typed("headers", {"X-Team": "secret"}) == [""]
    assert typed("headers", {"X'A": "env:A"}) == ["'X'\"'\"'A=env:A'"]
    assert read("headers", "") == {}


def test_a_proxy_may_be_a_reference_or_none() -> None:
    assert (read("proxy", " none "), read("proxy", "env:P"), read("proxy", "http://h:1")) == ("", "env:P", "http://h:1")


def test_counts_are_exact_however_they_are_typed() -> None:
    assert (read("priority", "-100"), read("weight", "2k")) == (-100, 2_000)


@pytest.mark.parametrize(("name", "before"), [("hosts", ("gateway.lan",)), ("origins", ("app://x",))])
def test_a_setting_of_names_may_be_none(name: str, before: tuple[str, ...]) -> None:
    field = SETTING_FIELDS[name]
    assert field.kind.change(field, {name: ("none",)}, before) == ()
    assert field.kind.change(field, {name: ("none,one",)}, before) == ("none", "one")
    assert field.kind.change(field, {}, before) is msgspec.UNSET
    assert field.kind.read("none", Millis(0)) == ()


def test_ollamas_token_may_be_none_but_a_model_may_be_called_so() -> None:
    token, models = SETTING_FIELDS["ollama_token"], FIELDS["models"]
    (option,) = token.kind.options(token)
    assert option.read is not None
    assert (option.read("none", Millis(0)), option.read("ci", Millis(0))) == ("", "ci")
    assert models.kind.change(models, {"models": ("none,gpt-4o",)}, ()) == ("none", "gpt-4o")
