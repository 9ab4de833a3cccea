"""The words that pick calls."""

import pytest
from msgspec.structs import replace

from gateway.domain.call import Outcome, Record
from gateway.domain.errors import BadRequest
from gateway.domain.query import TextCondition, parse, shell_word
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.views import CallView, call_view

NOW = Millis(1_763_500_000_000)

CALL = call_view(
    Record(
        id=CallId("req_0123"),
        ts=Millis(NOW - 600_000),
        token_name="Laptop",
        group="home",
        model="qwen3-coder:30b",
        upstream_model="qwen/qwen3",
        channel_name="openai-main",
        app="my editor",
        status=429,
        outcome=Outcome.ERROR,
        error="too many requests",
        ms=Millis(5_100),
        input=12_000,
        cost=Nanos(20_000_000),
    )
)


def fits(words: str, call: CallView = CALL) -> bool:
    return parse(words, NOW).matches(call)


@pytest.mark.parametrize(
    "words",
    [
        *("", "qwen", "LAPTOP", "qwen3-coder:30b", "429", '"many requests"', 'app:"my editor"', "tok:laptop"),
        *("tok:lap*", "ch:openai*", "model:*:30b", "as:qwen/*", "id:req_0123", "id:012", "!as:qwen3-coder:30b"),
        *("api:chat", "api:c*", "!api:messages", "st:err", "st:error", "st:settled", "st:>=400", "st:4xx", "st:429"),
        *("dur:>5s", "dur:<=5100ms", "in:>10k", "in:12000", "out:0", "cost:>0.01", "since:10m", "until:1m", "!st:ok"),
        *("!claude st:err grp:home", "tok:phone,laptop", "model:gpt-*,*:30b", "model=other,*:30b", "tok:laptop,"),
        *("st:ok,429", "st:ok,err", "id:999,012", 'app:curl,"my editor"', "!tok:phone,tablet", "!!qwen"),
        *("token:phone,laptop grp:home,work", "token:lap*", "group:home", "channel:openai*", "status:429"),
        *("duration:>5s", "input:>10k"),
    ],
)
def test_words_that_fit(words: str) -> None:
    assert fits(words)


@pytest.mark.parametrize(
    "words",
    [
        *("claude", "tok:lap", "st:ok", "st:done", "st:<400", "dur:>6s", "ttft:<1s", "cost:0", "since:9m"),
        *("until:10m", "!qwen", "qwen st:ok", "model:[q]*", "tok:phone,tablet", "!tok:phone,laptop", "st:ok,5xx"),
        *('tok:"phone,laptop"', "tok:phone,laptop grp:work"),
    ],
)
def test_words_that_do_not_fit(words: str) -> None:
    assert not fits(words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *(("st:>=x", "x"), ("st:zzz", "zzz"), ("st:9999", "9999"), ("dur:fast", "fast"), ("in:>-1", "-1")),
        *(("cost:cheap", "cheap"), ("since:soon", "soon"), ("in:>1,000", "1,000")),
        ("since:1h since:2h", "is given twice"),
        ("until:1h qwen until:2h", "is given twice"),
        ("model>gpt", "write model:gpt"),
        ("since!=1h", "write since:1h"),
        ("latency>5s", r"unknown filter 'latency:'\. Filters are"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_right_form(words: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        parse(words, NOW)


@pytest.mark.parametrize("words", ['"', 'tok:"lap', "!", ":", "!!x", 'a"b c'])
def test_half_typed_words_are_not_an_error(words: str) -> None:
    assert parse(words, NOW).conditions


@pytest.mark.parametrize(
    ("word", "near"), [("stat:err", "st:"), ("tokn:laptop", "tok:"), ("provider:x", ""), ("!foo:x", "")]
)
def test_an_unknown_filter_names_the_right_ones(word: str, near: str) -> None:
    with pytest.raises(BadRequest, match="Filters are tok:, grp:, ch:, model:, ") as caught:
        parse(word, NOW)
    assert (f"Did you mean {near}?" in caught.value.message) == bool(near)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("cost>0.01", "cost:>0.01"),
        ("dur>=5s !st=ok", "dur:>=5s !st:ok"),
        ("status>=400", "st:>=400"),
        ("model==qwen*", "model:qwen*"),
        ("model!=gpt", "!model:gpt"),
        ("since=10m", "since:10m"),
        ('tok="my laptop"', 'tok:"my laptop"'),
    ],
)
def test_a_comparison_needs_no_colon(words: str, meant: str) -> None:
    assert parse(words, NOW) == parse(meant, NOW)


@pytest.mark.parametrize(
    "words", ["a=b", '"cost>0.01"', "->", "x!=y", '"mistral:7b"', "http://x", "qwen3:8b", "12:30", "a:", ":a"]
)
def test_other_words_with_signs_are_texts(words: str) -> None:
    (condition,) = parse(words, NOW).conditions
    assert isinstance(condition, TextCondition)


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ("tok:my laptop", 'tok:"my laptop"'),
        ("!token:my laptop", '!token:"my laptop"'),
        ("rate limit", '"rate limit"'),
        ("tok:ci st:err", "tok:ci st:err"),
        ('tok:"my laptop" st:err', 'tok:"my laptop" st:err'),
        ("gpt", "gpt"),
        ("tok=my laptop", 'tok="my laptop"'),
        ("model!=my model", 'model!="my model"'),
        ("st=err cost>0.1", "st=err cost>0.1"),
        ("rate a=b", '"rate a=b"'),
    ],
)
def test_an_argument_with_spaces_is_one_word_unless_filters_follow(argument: str, word: str) -> None:
    assert shell_word(argument) == word


def test_a_token_and_a_channel_are_also_found_by_their_ids() -> None:
    token, channel = "tok_0123456789abcdef", "ch_fedcba9876543210"
    one = replace(CALL, token="before", token_id=token, channel_id=channel)
    for words in (f"tok:{token}", f"ch:{channel}", f"token:{token}", f"!ch:{token}"):
        assert parse(words, NOW).matches(one), words
    assert not parse(f"tok:{channel}", NOW).matches(one)
    assert not parse(f"!tok:{token}", NOW).matches(one)


def test_an_error_is_any_failure_not_one_outcome() -> None:
    assert parse("st:error", NOW).conditions == parse("st:errors", NOW).conditions == parse("st:err", NOW).conditions


def test_a_call_that_still_runs_is_no_error() -> None:
    assert fits("st:err", replace(CALL, status=0))
    assert not fits("st:err", replace(CALL, status=0, state="running"))
