"""The last report of an answer counts, wherever it is."""

import msgspec

from gateway.domain.usage import Source, Usage
from gateway.upstream import rawjson
from gateway.upstream.reports import Reports
from gateway.upstream.tally import Tally
from tests.fakes.replies import dumps, usage


def _seen(*chunks: object, choices: int = 1) -> Reports:
    reports = Reports(choices)
    for chunk in chunks:
        reports.see(rawjson.fields(dumps(chunk)))
    return reports


def _tally(text: str = "") -> Tally:
    tally = Tally()
    tally.add(text)
    return tally


def _reported(inputs: int, output: int) -> Usage:
    return Usage(input=inputs, output=output, source=Source.REPORTED)


def test_nothing_is_reported_at_first() -> None:
    assert (_seen().usage(_tally()), _seen().as_sent(), _seen().marks) == (None, None, ())


def test_the_last_report_counts() -> None:
    reports = _seen({"usage": usage(9, 1)}, {"usage": None}, {"usage": usage(9, 2)}, {"usage": None})
    assert reports.usage(_tally("x")) == _reported(9, 2)


def test_a_smaller_report_later_counts_too() -> None:
    assert _seen({"usage": usage(9, 5)}, {"usage": usage(9, 2)}).usage(_tally("x")) == _reported(9, 2)


def test_reports_beside_the_usual_place() -> None:
    for chunk in ({"x_groq": {"usage": usage(9, 2)}}, {"choices": [{"usage": usage(9, 2)}]}):
        assert _seen(chunk).usage(_tally("x")) == _reported(9, 2)


def test_timings_count_only_without_a_report() -> None:
    timings = {"prompt_n": 5, "predicted_n": 2}
    assert _seen({"timings": timings}).usage(_tally("x")) == _reported(5, 2)
    assert _seen({"usage": usage(9, 3)}, {"timings": timings}).usage(_tally("x")) == _reported(9, 3)


def test_llama_cpp_reports_each_choice_for_itself() -> None:
    chunks = [{"usage": usage(9, n), "timings": {}} for n in (2, 3)]
    assert _seen(*chunks, choices=2).usage(_tally("x")) == _reported(9, 5)


def test_zeros_beside_text_are_no_report() -> None:
    reports = _seen({"usage": usage(0, 0)})
    assert (reports.usage(_tally("x")), reports.usage(_tally())) == (None, _reported(0, 0))


def test_an_answer_without_output_stands_in_with_its_tally() -> None:
    usage_ = _seen({"usage": {"prompt_tokens": 9}}).usage(_tally("Hello there"))
    assert usage_ == Usage(input=9, output=2, source=Source.PARTIAL)


def test_the_upstreams_object_is_passed_on() -> None:
    sent = _seen({"usage": {**usage(9, 2), "odd": 1.50}}).as_sent()
    assert sent == msgspec.Raw(dumps({**usage(9, 2), "odd": 1.50}))


def test_wrong_counts_are_corrected_in_it() -> None:
    reports = _seen({"usage": {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553, "odd": 1}})
    assert reports.corrected
    assert rawjson.value(reports.as_sent()) == {
        **usage(20, 533), "odd": 1, "completion_tokens_details": {"reasoning_tokens": 382}
    }  # fmt: skip


def test_doubt_and_cost_are_marked() -> None:
    assert _seen({"usage": usage(-1, 2)}).marks == ("suspect_usage",)
    assert _seen({"usage": "none"}).marks == ("suspect_usage",)
    assert _seen({"usage": {**usage(9, 2), "cost": 0.25}}).marks == ("upstream_cost=0.25",)
    assert _seen({"usage": {**usage(9, 2), "cost": "much"}}).marks == ()


def test_odd_chunks_are_no_harm() -> None:
    chunks = [{"x_groq": 1}, {"choices": ["usage"]}, {"choices": "usage"}, {"usage": []}, {"timings": 3}]
    assert _seen(*chunks).usage(_tally("x")) is None
