"""Usage in every shape that upstreams report, and what is not believed."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.usage_counts import PLAUSIBLE
from gateway.upstream.usage_report import read_report

Doc = dict[str, Any]


def _openai(prompt: object, completion: object, total: object = None, **more: Any) -> Doc:
    """Its details are ``inputs`` and ``outputs``."""
    names = {"inputs": "prompt_tokens_details", "outputs": "completion_tokens_details"}
    details = {names.get(name, name): value for name, value in more.items()}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **details}


def _gemini(prompt: int, output: int | None = None, **more: int) -> Doc:
    """Its other counts by the first words of their names."""
    counts = {"prompt": prompt, "candidates": output, **more}
    return {f"{name}TokenCount": count for name, count in counts.items() if count is not None}


def _usage(inputs: int, output: int, cached: int = 0, write: int = 0, reasoning: int = 0, **parts: int) -> Usage:
    return Usage(
        input=inputs,
        output=output,
        cached=cached,
        cache_write=write,
        reasoning=reasoning,
        source=UsageSource.REPORTED,
        parts=parts,
    )


SHAPES: list[tuple[str, Doc, Usage]] = [
    ("plain", _openai(9, 12, 21), _usage(9, 12)),
    (
        "OpenAI with details",
        _openai(
            90,
            12,
            102,
            inputs={"cached_tokens": 64, "cache_write_tokens": 8, "audio_tokens": 0},
            outputs={"reasoning_tokens": 5, "accepted_prediction_tokens": 0},
        ),
        _usage(90, 12, 64, 8, 5),
    ),
    ("OpenRouter with its cost", _openai(9, 2, 11, cost=0.01, inputs={"cached_tokens": 3}), _usage(9, 2, 3)),
    ("DeepSeek", _openai(9, 2, 11, prompt_cache_hit_tokens=4, prompt_cache_miss_tokens=5), _usage(9, 2, 4)),
    ("Mistral's number", _openai(9, 2, 11, num_cached_tokens=4), _usage(9, 2, 4)),
    ("Mistral's details", _openai(9, 2, 11, prompt_token_details={"cached_tokens": 4}), _usage(9, 2, 4)),
    ("Together", _openai(9, 2, 11, cached_tokens=4), _usage(9, 2, 4)),
    ("vLLM", _openai(9, 2, 11, inputs={"cached_tokens": 3, "created_cache_tokens": 5}), _usage(9, 2, 3, 5)),
    ("Qwen", _openai(9, 2, 11, inputs={"cached_tokens": 3, "cache_creation_input_tokens": 5}), _usage(9, 2, 3, 5)),
    (
        "new-api",
        _openai(9, 2, 11, input_tokens=0, inputs={"cached_tokens": 3, "cached_creation_tokens": 5}),
        _usage(9, 2, 3, 5),
    ),
    ("zeros under OpenAI's names", {**_openai(0, 0), "input_tokens": 9, "output_tokens": 2}, _usage(9, 2)),
    ("zeros in the details", _openai(9, 2, 11, cached_tokens=4, inputs={"cached_tokens": 0}), _usage(9, 2, 4)),
    ("details null", _openai(9, 2, 11, inputs=None, outputs=None), _usage(9, 2)),
    ("thoughts left out", _openai(20, 151, 553), _usage(20, 533, reasoning=382)),
    (
        "sounds left out",
        _openai(9, 248, 632, inputs={"cached_tokens": 0, "audio_tokens": 375}),
        _usage(384, 248, input_audio=375),
    ),
    (
        "sounds among the input",
        _openai(384, 248, 632, inputs={"cached_tokens": 0, "audio_tokens": 375}),
        _usage(384, 248, input_audio=375),
    ),
    (
        "fewer cached tokens than others left out (Portkey for Bedrock)",
        _openai(12_000, 19, 22_555, cache_read_input_tokens=10_536, cache_creation_input_tokens=0),
        _usage(22_536, 19, 10_536),
    ),
    (
        "read and written tokens left out",
        _openai(12_000, 19, 13_019, inputs={"cached_tokens": 700, "cache_write_tokens": 300}),
        _usage(13_000, 19, 700, 300),
    ),
    (
        "as many thoughts as cached tokens left out",
        _openai(20, 5, 32, inputs={"cached_tokens": 7}, outputs={"reasoning_tokens": 7}),
        _usage(20, 12, 7, reasoning=7),
    ),
    (
        "responses names",
        {
            "input_tokens": 9,
            "output_tokens": 5,
            "total_tokens": 14,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        _usage(9, 5, 4, reasoning=2),
    ),
    (
        "Anthropic",
        {
            "input_tokens": 10,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 20,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
        },
        _usage(33, 7, 20, 3, 2),
    ),
    ("Gemini, thoughts next to them", _gemini(21, thoughts=60, total=81), _usage(21, 60, reasoning=60)),
    ("Gemini, thoughts inside", _gemini(21, 9, thoughts=4, total=30), _usage(21, 9, reasoning=4)),
    ("Gemini, cached, with a tool's prompt", _gemini(21, 9, toolUsePrompt=4, cachedContent=5), _usage(25, 9, 5)),
    ("digits", _openai("9", "12", "21"), _usage(9, 12)),
    ("whole floats", _openai(9.0, 12.0, 21.0), _usage(9, 12)),
    ("no total", {"prompt_tokens": 9, "completion_tokens": 2}, _usage(9, 2)),
    ("only output and total", {"completion_tokens": 2, "total_tokens": 11}, _usage(9, 2)),
    ("only input and total", {"prompt_tokens": 9, "total_tokens": 11}, _usage(9, 2)),
    ("zeros", _openai(0, 0, 0), _usage(0, 0)),
]


CONTRADICTIONS: list[tuple[str, Doc, Usage]] = [
    ("more cached than input, and the total tells", _openai(10, 5, 15, cached_tokens=20), _usage(10, 5, 10)),
    ("cached tokens left out, and the total tells", _openai(10, 5, 35, cached_tokens=20), _usage(30, 5, 20)),
    ("total too small", _openai(9, 2, 5), _usage(9, 2)),
    ("total too large", _openai(9, 2, 300_000), _usage(9, 2)),
    ("more reasoning than output", _openai(9, 2, 11, outputs={"reasoning_tokens": 5}), _usage(9, 2, reasoning=2)),
    ("reasoning without output", _openai(9, 0, 9, outputs={"reasoning_tokens": 5}), _usage(9, 0)),
    ("Gemini, another total", _gemini(21, 9, thoughts=4, total=19_000_000), _usage(21, 13, reasoning=4)),
    ("Gemini, more cached than there is", _gemini(21, 9, cachedContent=500, total=30), _usage(21, 9, 21)),
    (
        "Anthropic, more thinking than output",
        {"input_tokens": 9, "output_tokens": 2, "output_tokens_details": {"thinking_tokens": 5}},
        _usage(9, 2, reasoning=2),
    ),
]


@pytest.mark.parametrize(("report", "usage"), [c[1:] for c in CONTRADICTIONS], ids=[c[0] for c in CONTRADICTIONS])
def test_a_contradiction_is_settled_and_suspect(report: Doc, usage: Usage) -> None:
    reading = read_report(report)
    assert reading is not None
    assert (reading.usage, reading.suspect) == (usage, True)


@pytest.mark.parametrize(("report", "usage"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_reads_every_shape(report: Doc, usage: Usage) -> None:
    reading = read_report(report)
    assert reading is not None
    assert (reading.usage, reading.suspect) == (usage, False)


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 1.5, 10**18, PLAUSIBLE + 1, True, "-3", "1e3", "x", ""),
        *("\N{FULLWIDTH DIGIT NINE}", [], {}, float("inf"), float("nan")),
    ],
)
def test_what_cannot_be_true_is_not_believed(value: object) -> None:
    assert read_report(_openai(value, 2)) is None
    reading = read_report(_openai(9, value))
    assert reading is not None
    assert (reading.usage.input, reading.usage.source, reading.suspect) == (9, UsageSource.PARTIAL, True)


def test_an_output_without_any_word_of_the_input_counts_at_googles() -> None:
    reading = read_report({"candidatesTokenCount": 23, "thoughtsTokenCount": 67})
    assert reading is not None
    assert reading.usage == Usage(output=90, reasoning=67, source=UsageSource.PARTIAL)


@pytest.mark.parametrize("report", [{}, {"total_tokens": 5}, {"completion_tokens": 5}, _openai(None, None)])
def test_without_an_input_there_is_no_reading(report: Doc) -> None:
    assert read_report(report) is None


def test_a_doubtful_detail_is_left_out() -> None:
    reading = read_report(_openai(9, 2, 11, inputs={"cached_tokens": -4}))
    assert reading is not None
    assert (reading.usage, reading.suspect) == (_usage(9, 2), True)


NUMBERS = st.one_of(st.none(), st.integers(-5, 50), st.just(10**18), st.floats(), st.text(max_size=3), st.booleans())
NAMES = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "input_tokens",
    "cache_read_input_tokens",
]
NAMES += ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount"]
DETAILS = st.fixed_dictionaries({}, optional={"cached_tokens": NUMBERS, "reasoning_tokens": NUMBERS})


@given(st.dictionaries(st.sampled_from(NAMES), NUMBERS), DETAILS)
def test_every_reading_is_canonical(report: Doc, details: Doc) -> None:
    reading = read_report({**report, "prompt_tokens_details": details, "completion_tokens_details": details})
    if reading is not None:
        usage = reading.usage
        assert 0 <= usage.cached + usage.cache_write <= usage.input
        assert 0 <= usage.reasoning <= usage.output
        assert all(type(n) is int for n in (usage.input, usage.output, usage.cached, usage.reasoning))
