"""What an upstream refuses is left out next time, for an hour, unless the channel is strict."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.channel import ServedModel
from gateway.domain.failure import NO_TEXT, Failure, ResponsesNeed
from gateway.domain.units import ChannelId, Millis
from gateway.upstream.answer_formats import NO_JSON, NO_SCHEMAS
from gateway.upstream.learned_params import NOTHING, LearnedParams
from tests.upstream.makers import SERVED, channel, learn, order

NOW = Millis(1_000)
UP = ChannelId("ch_up")


def _refusal(*names: str) -> Failure:
    return Failure(kind=FailureKind.CLIENT, code="x", text=NO_TEXT, parameters=names)


def _learn(lessons: LearnedParams, name: str, now: Millis = NOW, body: object = None, **more: Any) -> bool:
    asked = order({"model": "m", "temperature": 1, "seed": 2} if body is None else body)
    return learn(lessons, channel(**more), asked, _refusal(name), now, used=lessons.of(UP, SERVED, now))


def test_nothing_is_known_at_first() -> None:
    assert LearnedParams().of(UP, SERVED, NOW) is NOTHING


@pytest.fixture
def lessons() -> LearnedParams:
    return LearnedParams()


def test_a_refused_parameter_is_dropped_for_an_hour(lessons: LearnedParams) -> None:
    assert _learn(lessons, "seed")
    assert lessons.of(UP, SERVED, NOW).dropped == ("seed",)
    assert lessons.of(UP, SERVED, Millis(NOW + 3_600_000 - 1)).dropped == ("seed",)
    assert lessons.of(UP, SERVED, Millis(NOW + 3_600_000)) is NOTHING


def test_what_is_refused_although_it_was_left_out_is_not_learned_twice_but_forgotten(lessons: LearnedParams) -> None:
    """The upstream minds something else, and repeats words of the client's."""
    assert [_learn(lessons, name) for name in ("seed", "temperature", "seed")] == [True, True, False]
    assert lessons.of(UP, SERVED, NOW).dropped == ("temperature",)


def test_a_call_that_failed_before_another_one_learned_is_repeated() -> None:
    lessons, asked = LearnedParams(), order({"model": "m", "seed": 2})
    for _ in range(2):
        assert learn(lessons, channel(), asked, _refusal("seed"), used=NOTHING)
    assert lessons.of(UP, SERVED, NOW).dropped == ("seed",)


@pytest.mark.parametrize("name", ["top_p", "model", "messages", "tools", "response_format", "stream"])
def test_what_was_not_sent_or_is_needed_teaches_nothing(name: str) -> None:
    body = {"model": "m", "messages": [], "tools": [], "response_format": {}, "stream": True}
    assert not _learn(LearnedParams(), name, body=body)


def test_the_first_name_that_was_sent_counts(lessons: LearnedParams) -> None:
    assert learn(lessons, channel(), order({"model": "m", "seed": 1}), _refusal("nonsense", "seed"), used=NOTHING)


def test_all_that_is_named_is_learned_at_once(lessons: LearnedParams) -> None:
    asked = order({"model": "m", "seed": 1, "user": "u"})
    assert learn(lessons, channel(), asked, _refusal("user", "seed", "model", "n"), used=NOTHING)
    assert lessons.of(UP, SERVED, NOW).dropped == ("user", "seed")


def test_a_strict_channel_loses_nothing() -> None:
    assert not _learn(LearnedParams(), "seed", strict=True)


def test_our_own_stream_options_are_always_left_out() -> None:
    assert _learn(LearnedParams(), "stream_options", body={"model": "m", "stream": True}, strict=True)
    assert not _learn(LearnedParams(), "stream_options", body={"model": "m"})


def test_a_refused_limit_gets_its_other_name_once(lessons: LearnedParams) -> None:
    body = {"model": "m", "max_tokens": 5}
    assert _learn(lessons, "max_tokens", body=body)
    assert not _learn(lessons, "max_completion_tokens", body=body)
    assert lessons.of(UP, SERVED, NOW).dropped == ("max_tokens",)


def test_names_of_the_upstream_are_translated_back(lessons: LearnedParams) -> None:
    assert _learn(lessons, "random_seed", preset="mistral")
    assert lessons.of(UP, SERVED, NOW).dropped == ("seed",)


def test_models_and_channels_are_kept_apart(lessons: LearnedParams) -> None:
    _learn(lessons, "seed")
    assert lessons.of(UP, ServedModel(name="other"), NOW) is NOTHING
    lessons.forget(ChannelId("elsewhere"))
    assert lessons.of(UP, SERVED, NOW) is not NOTHING
    lessons.forget(UP)
    assert lessons.of(UP, SERVED, NOW) is NOTHING


@pytest.mark.parametrize(
    ("need", "minutes"),
    [(ResponsesNeed.MODEL, 1440), (ResponsesNeed.TOOLS, 1440), (ResponsesNeed.NOTHING, 1), (ResponsesNeed.CALL, 0)],
)
def test_what_chats_must_be_is_known_for_a_while(lessons: LearnedParams, need: ResponsesNeed, minutes: int) -> None:
    lessons.learn_responses(UP, SERVED, need, NOW)
    ends = NOW + minutes * 60_000
    assert lessons.needs_responses(UP, SERVED, need, Millis(ends - 1)) is bool(minutes)
    assert not lessons.needs_responses(UP, SERVED, need, Millis(ends))
    assert not lessons.needs_responses(UP, ServedModel(name="other"), need, NOW)
    lessons.forget(UP)
    assert not lessons.needs_responses(UP, SERVED, need, NOW)


def test_a_limit_above_the_models_own_is_lowered_for_an_hour() -> None:
    lessons, refused = LearnedParams(), _refusal_of(8192)
    assert learn(lessons, channel(), order({"model": "m", "max_tokens": 9}), refused, used=NOTHING)
    assert lessons.of(UP, SERVED, NOW).max_output == 8192
    used = lessons.of(UP, SERVED, NOW)
    assert not learn(lessons, channel(), order({"model": "m", "max_tokens": 9}), refused, used=used)
    assert lessons.of(UP, SERVED, NOW) == NOTHING  # it did not help


def test_a_strict_channel_keeps_the_limit_of_a_client_but_not_that_of_the_gateway() -> None:
    lessons, refused = LearnedParams(), _refusal_of(8192)
    for name in ("max_tokens", "max_output_tokens"):
        assert not learn(lessons, channel(strict=True), order({"model": "m", name: 9}), refused, used=NOTHING)
    assert learn(lessons, channel(strict=True), order({"model": "m"}), refused, used=NOTHING)


def _refusal_of(max_output: int) -> Failure:
    return Failure(kind=FailureKind.CLIENT, code="x", text=NO_TEXT, max_output=max_output)


@pytest.mark.parametrize("preset", ["", "cerebras", "together"])
def test_what_only_openai_knows_goes_with_the_first_of_it(lessons: LearnedParams, preset: str) -> None:
    asked = order({"model": "m", "store": False, "metadata": {}, "seed": 1})
    assert learn(lessons, channel(preset=preset), asked, _refusal("store"), used=NOTHING)
    assert {"store", "metadata", "prompt_cache_key", "verbosity"} <= set(lessons.of(UP, SERVED, NOW).dropped)
    used = lessons.of(UP, SERVED, NOW)
    assert "seed" not in used.dropped
    assert not learn(lessons, channel(preset=preset), asked, _refusal("store"), used=used)
    assert lessons.of(UP, SERVED, NOW) == NOTHING


@pytest.mark.parametrize(("preset", "others"), [("openai", True), ("moonshot", True), ("", False)])
def test_what_a_model_that_thinks_refuses_goes_together(lessons: LearnedParams, preset: str, others: bool) -> None:
    asked = order({"model": "m", "temperature": 0, "top_p": 1})
    assert learn(lessons, channel(preset=preset), asked, _refusal("temperature"), used=NOTHING)
    assert ("top_p" in lessons.of(UP, SERVED, NOW).dropped, "store" in lessons.of(UP, SERVED, NOW).dropped) == (
        others,
        False,
    )


@pytest.mark.parametrize("strict", [False, True])
def test_a_role_gets_its_older_name_if_the_newer_was_sent(strict: bool) -> None:
    asked = order({"model": "m", "messages": [{"role": "developer", "content": "x"}]})
    lessons = LearnedParams()
    assert learn(lessons, channel(strict=strict), asked, _refusal("messages[].role"), used=NOTHING)
    assert lessons.of(UP, SERVED, NOW).dropped == ("messages[].role",)
    used = lessons.of(UP, SERVED, NOW)
    assert not learn(lessons, channel(strict=strict), asked, _refusal("messages[].role"), used=used)
    assert not learn(LearnedParams(), channel(), order(), _refusal("messages[].role"), used=NOTHING)


@pytest.mark.parametrize(("name", "learned"), [("reasoning_content", True), ("name", False), ("content", False)])
def test_a_field_of_a_message_is_left_out_if_it_was_sent_and_is_not_its_content(name: str, learned: bool) -> None:
    asked = order({"model": "m", "messages": [{"role": "assistant", "content": "a", "reasoning_content": "b"}]})
    assert learn(LearnedParams(), channel(), asked, _refusal(f"messages[].{name}"), used=NOTHING) is learned


@pytest.mark.parametrize(("kind", "rules"), [("json_schema", [NO_SCHEMAS, NO_JSON]), ("json_object", [NO_JSON])])
def test_json_without_a_schema_is_tried_before_no_json(kind: str, rules: list[str]) -> None:
    lessons, asked = LearnedParams(), order({"model": "m", "messages": [], "response_format": {"type": kind}})
    for count in range(1, len(rules) + 1):
        used = lessons.of(UP, SERVED, NOW)
        assert learn(lessons, channel(), asked, _refusal(NO_SCHEMAS, NO_JSON), used=used)
        assert [*lessons.of(UP, SERVED, NOW).dropped] == rules[:count]
