"""What an owner may change in every request."""

import msgspec
import pytest

from gateway.domain.channel import Channel, Dialect, Overrides, ServedModel, Timeouts, UpstreamModels, check_overrides
from gateway.domain.errors import BadRequest
from gateway.domain.units import ChannelId, Millis
from tests.refusals import refusal_of


def nested(levels: int) -> object:
    return msgspec.json.decode("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    "bad",
    [
        Overrides(set={"model": "x"}),
        Overrides(default={"stream": True}),
        Overrides(remove=("messages",)),
        Overrides(remove=("stream_options.include_usage",)),
        Overrides(set={"": 1}),
        Overrides(set={" a": 1}),
        Overrides(set={"a\x1b": 1}),
        Overrides(default={"a": nested(52)}),
        Overrides(set={"seed": 1}, default={"seed": 2}),
        Overrides(set={"seed": 1}, remove=("seed",)),
        Overrides(system="x" * 100_001),
        Overrides(replace_system=True),
    ],
)
def test_senseless_overrides_are_refused(bad: Overrides) -> None:
    assert refusal_of(check_overrides, bad).param == "overrides"


def test_good_ones_are_not() -> None:
    check_overrides(
        Overrides(
            set={"a": None}, default={"b": nested(50)}, remove=("b", "c"), system="Be brief.", replace_system=True
        )
    )
    check_overrides(
        Overrides(set={"temperature": 1, "top_p": None, "stop": ["a"], "max_tokens": 5, "of_a_vendor": "x"})
    )
    assert not Overrides()
    assert Overrides(system="x")


@pytest.mark.parametrize(("upstream", "asked"), [("", "fast"), ("gpt-4o-mini", "gpt-4o-mini")])
def test_a_model_is_requested_by_the_upstreams_name(upstream: str, asked: str) -> None:
    assert ServedModel(name="fast", upstream=upstream).upstream_name == asked


def test_a_new_channel_finishes_what_was_abandoned_and_serves_the_default_group() -> None:
    channel = Channel(id=ChannelId("ch_1"), name="up", dialect=Dialect.OPENAI)
    assert (channel.finish_abandoned, channel.groups, channel.enabled, channel.strict) == (
        True,
        ("default",),
        True,
        False,
    )


def test_a_list_that_is_fresh_says_nothing_of_failures() -> None:
    listed = UpstreamModels(channel=ChannelId("ch_1"), time=Millis(5), models=(ServedModel(name="m"),))
    data = msgspec.json.encode(listed)
    assert data == b'{"channel":"ch_1","time":5,"models":[{"name":"m"}]}'
    assert msgspec.json.decode(data, type=UpstreamModels) == listed


def test_every_dialect_says_what_is_special_about_it() -> None:
    assert [dialect for dialect in Dialect if not dialect.info.needs_url] == [Dialect.MOCK]
    assert {dialect.info.key_header for dialect in Dialect} == {"", "x-api-key", "x-goog-api-key"}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("temperature", "hot", 'temperature must be a number, not "hot"'),
        ("temperature", True, "temperature must be a number, not true"),
        ("max_tokens", 1.5, "max_tokens must be a whole number, not 1.5"),
        ("stop", 3, "stop must be a text or a list, not 3"),
        ("reasoning_effort", 3, "reasoning_effort must be a text, not 3"),
        ("response_format", "json", 'response_format must be an object, not "json"'),
    ],
)
def test_a_known_parameter_has_its_type(name: str, value: object, expected: str) -> None:
    for overrides in (Overrides(set={name: value}), Overrides(default={name: value})):
        with pytest.raises(BadRequest, match=expected):
            check_overrides(overrides)


@pytest.mark.parametrize(
    ("timeouts", "streamed", "plain"),
    [
        (Timeouts(), 120, 600),
        (Timeouts(total=1800), 120, 1800),
        (Timeouts(head=20), 20, 20),
        (Timeouts(head=300), 300, 600),
        (Timeouts(head=900), 900, 900),
    ],
)
def test_a_plain_answers_head_may_take_as_long_as_all_of_it(timeouts: Timeouts, streamed: float, plain: float) -> None:
    assert (timeouts.head_s(stream=True), timeouts.head_s(stream=False)) == (streamed, plain)
