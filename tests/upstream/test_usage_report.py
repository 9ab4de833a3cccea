"""The last report of an answer counts, wherever it is."""

import time
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.estimate import OutputCounter
from gateway.domain.screen import Screen
from gateway.domain.secret_search import needles
from gateway.domain.usage import Usage, UsageSource, as_object
from gateway.upstream.usage_report import UsageReports
from tests.fakes.replies import dumps, usage
from tests.upstream.makers import order


def _seen(*chunks: object, **asked: object) -> UsageReports:
    reports = UsageReports(order({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **asked}).fields)
    for chunk in chunks:
        reports.add(rawjson.fields(dumps(chunk)))
    return reports


def _tally(text: str = "") -> OutputCounter:
    tally = OutputCounter()
    tally.add(text)
    return tally


def _for_client(reports: UsageReports) -> msgspec.Raw:
    found = reports.usage(_tally("x"))
    assert found is not None
    return reports.for_client(found, Screen(needles(["sk-0123456789abcdef"])))


def _reported(inputs: int, output: int) -> Usage:
    return Usage(input=inputs, output=output, source=UsageSource.REPORTED)


def test_nothing_is_reported_at_first() -> None:
    assert (_seen().usage(_tally()), _seen().marks) == (None, ())


def test_the_last_report_counts() -> None:
    reports = _seen({"usage": usage(9, 1)}, {"usage": None}, {"usage": usage(9, 2)}, {"usage": None})
    assert reports.usage(_tally("x")) == _reported(9, 2)


@pytest.mark.parametrize("last", [usage(9, 2), usage(0, 0), usage(3, 5)])
def test_a_smaller_count_later_lowers_nothing_and_is_marked(last: dict[str, Any]) -> None:
    reports = _seen({"usage": usage(9, 5)}, {"usage": last})
    assert reports.usage(_tally("x")) == _reported(9, 5)
    assert reports.marks == ("suspect_usage",)


def test_a_smaller_count_next_to_the_counts_of_each_step_is_not_suspect() -> None:
    """After a compaction, Anthropic's own count of the input covers the last step."""
    step = {"input_tokens": 100, "cache_read_input_tokens": 5000, "output_tokens": 7}
    last = {"input_tokens": 181, "cache_read_input_tokens": 0, "output_tokens": 8}
    reports = _seen({"usage": step}, {"usage": {**last, "iterations": [{**step, "output_tokens": 83}, last]}})
    assert reports.usage(_tally("x")) == Usage(input=5281, cached=5000, output=91, source=UsageSource.REPORTED)
    assert reports.marks == ()


def test_reports_beside_the_usual_place() -> None:
    for chunk in ({"x_groq": {"usage": usage(9, 2)}}, {"choices": [{"usage": usage(9, 2)}]}):
        assert _seen(chunk).usage(_tally("x")) == _reported(9, 2)


def test_timings_that_cannot_be_true_are_marked() -> None:
    for timings in ({"prompt_n": -5, "predicted_n": 2}, {"prompt_n": 5, "predicted_n": "x"}):
        assert _seen({"timings": timings}).marks == ("suspect_usage",)
    assert _seen({"timings": {"predicted_n": 2}}).marks == ()


def test_llama_cpp_reports_each_choice_for_itself() -> None:
    chunks = [{"usage": usage(9, n), "timings": {}} for n in (2, 3)]
    assert _seen(*chunks, n=2).usage(_tally("x")) == _reported(9, 5)


def test_zeros_beside_text_are_not_a_report() -> None:
    reports = _seen({"usage": usage(0, 0)})
    assert (reports.usage(_tally("x")), reports.usage(_tally())) == (None, _reported(0, 0))


def test_an_answer_without_output_uses_its_tally() -> None:
    usage_ = _seen({"usage": {"prompt_tokens": 9}}).usage(_tally("Hello there"))
    assert usage_ == Usage(input=9, output=2, source=UsageSource.PARTIAL)


def test_an_object_with_a_secret_is_not_passed_on() -> None:
    sent = _for_client(_seen({"usage": {**usage(9, 2), "by": "sk-0123456789abcdef"}}))
    assert rawjson.value(sent) == as_object(_reported(9, 2))


def test_wrong_counts_are_corrected_in_it() -> None:
    reports = _seen({"usage": {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553, "odd": 1}})
    assert rawjson.value(_for_client(reports)) == {
        **usage(20, 533), "odd": 1, "completion_tokens_details": {"reasoning_tokens": 382}
    }  # fmt: skip


def test_cache_writes_of_which_only_the_parts_are_reported_count() -> None:
    parts = {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 100}
    reports = _seen({"usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation": parts}})
    counted = Usage(input=410, cache_write=400, cache_write_long=100, output=5, source=UsageSource.REPORTED)
    assert reports.usage(_tally("x")) == counted


def test_doubt_and_cost_are_marked() -> None:
    assert _seen({"usage": usage(-1, 2)}).marks == ("suspect_usage",)
    assert _seen({"usage": "none"}).marks == ("suspect_usage",)
    assert _seen({"usage": {**usage(9, 2), "cost": 0.25}}).marks == ("upstream_cost=0.25",)
    assert _seen({"usage": {**usage(9, 2), "cost": "much"}}).marks == ()


def test_reports_of_a_step_that_leave_counts_out_are_not_suspect() -> None:
    """Gemini 3 reports again after each execution of code, at first without what it wrote."""
    steps = [(46, 51, 101, 198, 0), (46, None, None, 46, 0), (46, 57, 67, 170, 0), (147, 108, 168, 783, 360)]
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
    reports = [{**dict(zip(names, step[:4], strict=True)), "toolUsePromptTokenCount": step[4]} for step in steps]
    found = _seen(*({"usage": report} for report in reports))
    usage = found.usage(_tally("x"))
    assert usage is not None
    assert (usage.input, usage.output, found.marks) == (507, 276, ())


def test_odd_chunks_do_no_harm() -> None:
    chunks = [{"x_groq": 1}, {"choices": ["usage"]}, {"choices": "usage"}, {"usage": []}, {"timings": 3}]
    assert _seen(*chunks).usage(_tally("x")) is None


def _with(inputs: int, output: int, total: int, **details: int) -> dict[str, object]:
    known = {name: details.pop(name) for name in ("cached_tokens",) if name in details}
    return {
        **usage(inputs, output),
        "total_tokens": total,
        "prompt_tokens_details": known,
        "completion_tokens_details": details,
    }


@pytest.mark.parametrize(
    ("report", "inputs", "output", "cached"),
    [
        (_with(9, 12, 19_000_000), 9, 12, 0),
        (_with(9, 12, 5), 9, 12, 0),
        (_with(9, 12, 40, reasoning_tokens=5), 9, 12, 0),
        (_with(9, 12, 21, reasoning_tokens=500), 9, 12, 0),
        (_with(9, 12, 21, cached_tokens=19_000_000), 9, 12, 9),
        (_with(9, 12, 19_000_021, cached_tokens=19_000_000), 19_000_009, 12, 19_000_000),
        (_with(9, 12, 21, cached_tokens=900), 9, 12, 9),
    ],
    ids=["total above", "total below", "two gaps", "reasoning", "cached above", "cached in the total", "cached beside"],
)
def test_a_report_that_contradicts_itself_is_settled_by_the_plausible_reading_and_marked(
    report: dict[str, object], inputs: int, output: int, cached: int
) -> None:
    """The upstream's own object is not passed on: clients read the same numbers as the record has."""
    reports = _seen({"usage": report})
    found = reports.usage(_tally("x"))
    assert found is not None
    assert (found.input, found.output, found.cached, reports.marks) == (inputs, output, cached, ("suspect_usage",))
    assert rawjson.value(_for_client(reports)) == as_object(found)


def test_the_cost_in_a_report_that_contradicts_itself_is_passed_on() -> None:
    """Vercel's gateway leaves the thoughts of Gemini out of the output."""
    others = {"cost": 0.000_070_2, "is_byok": False, "cost_details": {"upstream_inference_cost": None}}
    counts = {"cache_creation": {"ephemeral_1h_input_tokens": 7}, "citation_tokens": 3}
    reports = _seen({"usage": {**_with(9, 2, 11, reasoning_tokens=25), **others, **counts}})
    found = reports.usage(_tally("x"))
    assert found is not None
    assert rawjson.value(_for_client(reports)) == {**others, **as_object(found)}


@pytest.mark.parametrize(
    ("asked", "output", "marks"),
    [
        ({}, 150_000, ()),
        ({"max_tokens": 150_000}, 150_000, ()),
        ({"max_tokens": 149_999}, 12, ("suspect_usage",)),
        ({"max_tokens": 12, "n": 2}, 12, ("suspect_usage",)),
        ({"max_tokens": 75_000, "n": 2}, 150_000, ()),
        ({"max_tokens": 12, "thinking": {"budget_tokens": 149_988}}, 150_000, ()),
        ({"max_output_tokens": 12}, 150_000, ()),  # a chat's upstream may not know the name
        ({"max_output_tokens": 12, "input": "Hi"}, 12, ("suspect_usage",)),
    ],
)
def test_thoughts_that_nobody_names_are_believed_as_far_as_the_request_allows(
    asked: dict[str, object], output: int, marks: tuple[str, ...]
) -> None:
    reports = _seen({"usage": _with(9, 12, 150_009)}, **asked)
    found = reports.usage(_tally("x"))
    assert found is not None
    assert (found.output, found.reasoning, reports.marks) == (output, output - 12, marks)


@pytest.mark.parametrize("missing", ["prompt_tokens", "completion_tokens"])
def test_a_missing_part_is_not_worked_out_of_a_total_that_cannot_be_true(missing: str) -> None:
    report = {name: count for name, count in _with(9, 12, 19_000_000).items() if name != missing}
    reports = _seen({"usage": report})
    found = reports.usage(_tally("Hello there"))
    assert (
        found is None if missing == "prompt_tokens" else found == Usage(input=9, output=2, source=UsageSource.PARTIAL)
    )
    assert reports.marks == ("suspect_usage",)


def test_a_new_name_in_the_report_of_every_chunk_takes_time_that_is_linear_in_the_chunks() -> None:
    def seconds(chunks: int) -> float:
        reports, began = UsageReports({}), time.process_time()
        for number in range(chunks):
            reports.add(
                {"usage": msgspec.Raw(b'{"prompt_tokens":5,"completion_tokens":%d,"n%d":1}' % (number, number))}
            )
        usage = reports.usage(OutputCounter())
        assert (usage and usage.input, usage and usage.output) == (5, chunks - 1)
        return time.process_time() - began

    assert seconds(8_000) < 8 * seconds(2_000), "it is linear, not quadratic"
