"""Probabilities of tokens keep their numbers under other names."""

from typing import Any

from gateway.upstream.gemini.response import logprobs_of

CHOSEN = {"token": "é", "tokenId": 3, "logProbability": -0.5}
OTHER = {"token": "x", "logProbability": -2}


def test_tokens_and_what_else_they_could_have_been() -> None:
    found = logprobs_of({"chosenCandidates": [CHOSEN, OTHER], "topCandidates": [{"candidates": [CHOSEN, OTHER]}]})
    first = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    second = {"token": "x", "logprob": -2, "bytes": [120]}
    content = [{**first, "top_logprobs": [first, second]}, {**second, "top_logprobs": []}]
    assert found == {"content": content, "refusal": None}


def test_none_are_none() -> None:
    results: list[Any] = [None, {}, [], {"chosenCandidates": "odd"}]
    assert [logprobs_of(result) for result in results] == [None] * 4


def test_odd_ones_are_passed_over() -> None:
    assert logprobs_of({"chosenCandidates": ["odd", {}], "topCandidates": ["odd"]}) == {
        "content": [{"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}],
        "refusal": None,
    }
