"""What vendors report beside text tokens, in each of their forms."""

from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.estimate import OutputCounter
from gateway.domain.price import Price, PriceRule, rates
from gateway.domain.units import Nanos
from gateway.domain.usage import Usage, UsageSource, as_object
from gateway.upstream.usage_extras import marks_of, without_charged
from gateway.upstream.usage_report import UsageReports, read_report


def _gemini(inputs: int, output: int, **more: Any) -> dict[str, Any]:
    """Other counts, and the counts of modalities, by the first words of their names."""
    report: dict[str, Any] = {"promptTokenCount": inputs, "candidatesTokenCount": output}
    for name, count in more.items():
        if isinstance(count, int):
            report[f"{name}TokenCount"] = count
        else:
            details = [{"modality": modality, "tokenCount": tokens} for modality, tokens in count.items()]
            report[f"{name.removesuffix('Modalities')}TokensDetails"] = details
    return report


def _chat(inputs: int, output: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": inputs, "completion_tokens": output, **more}


def _counts(inputs: int, output: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": inputs, "output_tokens": output, **more}


@pytest.mark.parametrize(
    ("report", "parts"),
    [
        (_gemini(100, 1290, total=1390, prompt={"TEXT": 100}, candidates={"IMAGE": 1290}), {"output_image": 1290}),
        (  # Gemini's sound, partly from the cache
            _gemini(1000, 5, cachedContent=500, prompt={"AUDIO": 400, "VIDEO": 7}, cache={"AUDIO": 100}),
            {"input_audio": 400, "cached_audio": 100, "input_video": 7},
        ),
        # Gemini's tools read pictures, too.
        (
            _gemini(10, 5, toolUsePrompt=30, prompt={"image": 4}, toolUsePromptModalities={"IMAGE": 20}),
            {"input_image": 24},
        ),
        (  # OpenAI's gpt-audio
            _chat(
                10_000,
                500,
                total_tokens=10_500,
                prompt_tokens_details={"cached_tokens": 0, "audio_tokens": 9_000},
                completion_tokens_details={"reasoning_tokens": 0, "audio_tokens": 400},
            ),
            {"input_audio": 9_000, "output_audio": 400},
        ),
        (  # OpenAI's images
            _counts(
                50,
                272,
                total_tokens=322,
                input_tokens_details={
                    "text_tokens": 10,
                    "image_tokens": 40,
                    "cached_tokens_details": {"image_tokens": 8},
                    "cached_tokens": 8,
                },
                output_tokens_details={"image_tokens": 272},
            ),
            {"input_image": 40, "cached_image": 8, "output_image": 272},
        ),
        (  # writes to OpenAI's cache for 12 hours
            _chat(
                90,
                1,
                prompt_tokens_details={"cache_write_tokens": 60, "cache_write_tokens_details": {"ttl_12h_tokens": 20}},
            ),
            {"cache_write_12h": 20},
        ),
        # Anthropic's searches
        (_counts(5, 6, server_tool_use={"web_search_requests": 3, "web_fetch_requests": 9}), {"searches": 3}),
        (  # Perplexity's deep research
            _chat(40, 900, total_tokens=940, reasoning_tokens=500, citation_tokens=300, num_search_queries=7),
            {"citations": 300, "searches": 7},
        ),
        (  # xAI's tools
            _counts(
                1,
                2,
                num_sources_used=4,
                server_side_tool_usage_details={"web_search_calls": 2, "x_search_calls": 1, "file_search_calls": 5},
            ),
            {"searches": 3, "file_searches": 5},
        ),
        # OpenAI's Responses
        (_counts(1, 2, tool_usage={"web_search": {"num_requests": 2}}), {"searches": 2}),
        (  # values that are not counts
            _chat(10, 5, prompt_tokens_details={"audio_tokens": -3, "image_tokens": "many", "video_tokens": 99}),
            {"input_video": 10},
        ),
    ],
)
def test_parts_are_read_in_the_words_of_each_vendor(report: dict[str, Any], parts: dict[str, int]) -> None:
    reading = read_report(report)
    assert reading is not None
    assert reading.usage.parts == parts


STEP = {"type": "message", "input_tokens": 100, "output_tokens": 10}
ADVICE = {
    "type": "advisor_message",
    "model": "claude-opus",
    "input_tokens": 50,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5},
    "output_tokens": 40,
}
COUNTED = {"other_input": 50, "other_cached": 30, "other_write": 15, "other_write_long": 5, "other_output": 40}


@pytest.mark.parametrize(
    ("steps", "model", "parts"),
    [
        ([STEP, ADVICE, STEP], "claude-opus", COUNTED),
        ([STEP, ADVICE, ADVICE], "claude-opus", {name: 2 * count for name, count in COUNTED.items()}),
        (
            [{**STEP, "type": "fallback_message", "model": "claude-y"}],
            "claude-y",
            {"other_input": 100, "other_output": 10},
        ),
        ([STEP, ADVICE, {**ADVICE, "model": "claude-sonnet"}], "", {}),
        ([STEP, {**ADVICE, "model": None}], "", {}),
        ([STEP, {**ADVICE, "output_tokens": "many"}], "", {}),
        ([STEP, 7], "", {}),
    ],
)
def test_what_another_model_used_is_a_part_of_the_usage(steps: list[Any], model: str, parts: dict[str, int]) -> None:
    reading = read_report({"input_tokens": 100, "output_tokens": 10, "iterations": steps})
    assert reading is not None
    assert (reading.usage.other_model, reading.usage.parts) == (model, parts)


@pytest.mark.parametrize(
    ("declined", "usage"),
    [({"input_tokens": 408, "output_tokens": 0}, (412, 264)), ({"input_tokens": 408, "output_tokens": 7}, (820, 271))],
)
def test_a_model_that_declined_costs_only_what_it_wrote(declined: dict[str, int], usage: tuple[int, int]) -> None:
    answered = {"type": "fallback_message", "model": "claude-y", "input_tokens": 412, "output_tokens": 264}
    steps = [{"type": "message", "model": "claude-x", **declined}, answered]
    reading = read_report({"input_tokens": 412, "output_tokens": 264, "iterations": steps})
    assert reading is not None
    assert (reading.usage.input, reading.usage.output) == usage
    assert reading.usage.parts == {"other_input": 412, "other_output": 264}


def test_citations_and_thoughts_of_a_search_are_billed_beside_the_answer() -> None:
    report = {"prompt_tokens": 40, "completion_tokens": 900, "reasoning_tokens": 500, "citation_tokens": 300}
    reading = read_report(report)
    assert reading is not None
    assert (reading.usage.output, reading.usage.reasoning) == (1700, 500)


@pytest.mark.parametrize(
    ("more", "output"),
    [({"market_cost": 0.0002833}, 106), ({}, 10), ({"cost": 0.0000433}, 10)],  # Vercel's gateway, and guesses of others
)
def test_reasoning_above_the_output_is_billed_beside_it_only_at_vercel(more: dict[str, Any], output: int) -> None:
    details = {"reasoning_tokens": 96, "image_tokens": 0}
    reading = read_report(_chat(61, 10, total_tokens=71, completion_tokens_details=details, **more))
    assert reading is not None
    assert (reading.usage.input, reading.usage.output, reading.suspect) == (61, output, True)


COUNTS = _chat(3, 2, total_tokens=5)


@pytest.mark.parametrize(
    ("chunk", "variant"),
    [
        ({"service_tier": "flex", "usage": COUNTS}, "flex"),
        ({"service_tier": "priority", "usage": COUNTS}, "priority"),
        ({"service_tier": "ultrafast", "usage": COUNTS}, "ultrafast"),
        ({"service_tier": "default", "usage": COUNTS}, ""),
        ({"service_tier": None, "usage": COUNTS}, ""),
        ({"usage": _counts(3, 2, speed="fast")}, "fast"),
        ({"usage": _counts(3, 2, service_tier="batch")}, "batch"),
        ({"usage": _counts(3, 2, service_tier="standard")}, ""),
        ({"usage": {**_gemini(3, 2), "trafficType": "ON_DEMAND_FLEX"}}, "flex"),
        ({"usage": {**_gemini(3, 2), "trafficType": "ON_DEMAND"}}, ""),
        ({"usage": {**_gemini(3, 2), "serviceTier": "SERVICE_TIER_PRIORITY"}}, "priority"),
    ],
)
def test_the_answer_says_how_it_was_processed(chunk: dict[str, Any], variant: str) -> None:
    reports = UsageReports({})
    reports.add({name: rawjson.raw(value) for name, value in chunk.items()})
    counter = OutputCounter()
    found = reports.usage(counter)
    assert found is not None
    assert found.variant == variant


def test_clients_see_kinds_of_tokens_and_these_are_read_again() -> None:
    usage = Usage(input=90, output=40, parts={"input_audio": 80, "output_image": 30})
    found = read_report(msgspec.json.decode(msgspec.json.encode(as_object(usage))))
    assert found is not None
    assert found.usage.parts == usage.parts


@pytest.mark.parametrize(
    ("report", "marks"),
    [
        ({"prompt_tokens": 3}, ()),
        ({"server_tool_use": {"web_search_requests": 0}, "service_tier": "standard", "inference_geo": "global"}, ()),
        (
            {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}},
            ("upstream_extra=web_search_requests:2,web_fetch_requests:1",),
        ),
        ({"tool_usage": {"web_search": {"num_requests": 3}}}, ("upstream_extra=web_search:3",)),
        ({"tool_usage": {"num_search_queries": 2}}, ("upstream_extra=num_search_queries:2",)),
        ({"speed": "fast", "service_tier": "priority"}, ("upstream_extra=speed:fast,service_tier:priority",)),
        ({"inference_geo": "us"}, ("upstream_extra=inference_geo:us",)),
        ({"fallback_credit": {"status": {"type": "redeemed"}}}, ("upstream_extra=fallback_credit:redeemed",)),
        ({"fallback_credit": {"status": {"type": "not_applied"}}}, ()),
        ({"service_tier": "flex"}, ("upstream_extra=service_tier:flex",)),
        ({"service_tier": "batch"}, ("upstream_extra=service_tier:batch",)),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, ("upstream_extra=service_tier:priority",)),
        ({"trafficType": "ON_DEMAND_OFFPEAK"}, ("upstream_extra=service_tier:offpeak",)),
        ({"trafficType": "ON_DEMAND"}, ()),
        ({"prompt_audio_seconds": 60}, ("upstream_extra=prompt_audio_seconds:60",)),
        (
            {"iterations": [{"type": "message"}, {"type": "advisor_message"}]},
            ("upstream_extra=iteration:advisor_message",),
        ),
        ({"server_tool_use": "x", "iterations": [3], "speed": 4}, ()),
    ],
)
def test_extras_are_named(report: dict[str, Any], marks: tuple[str, ...]) -> None:
    assert marks_of(report, suspect=False) == marks
    assert marks_of(report, suspect=True) == ("suspect_usage", *marks)


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        (("suspect_usage", "upstream_cost=0.5"), ("suspect_usage", "upstream_cost=0.5")),
        (("upstream_extra=web_search:2,maps:1", "upstream_cost=0.5"), ("upstream_extra=maps:1", "upstream_cost=0.5")),
        (("upstream_extra=service_tier:flex", "upstream_extra=web_search:2"), ()),
        (("upstream_extra=speed:fast", "upstream_extra=web_search:2"), ("upstream_extra=speed:fast",)),
    ],
)
def test_extras_that_the_cost_includes_are_not_marked(marks: tuple[str, ...], kept: tuple[str, ...]) -> None:
    flex = PriceRule(variant="flex", input=Nanos(1), output=Nanos(1))
    price = Price(model="m", input=Nanos(2), output=Nanos(2), extras={"searches": Nanos(5)}, rules=(flex,))
    usage = Usage(input=1, output=1, source=UsageSource.REPORTED, parts={"searches": 2}, variant="flex")
    assert without_charged(marks, usage, price, rates(price, 1, 1_000_000, "flex")) == kept
