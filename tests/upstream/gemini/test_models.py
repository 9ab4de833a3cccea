"""Models are found by name; requests to unknown ones have nothing special."""

import pytest

from gateway.upstream.gemini.models import LEVELS, UNKNOWN, model_of


@pytest.mark.parametrize(
    ("model", "thinking", "sampling", "signatures", "urls"),
    [
        ("gemini-3.8-flash", "levels", False, True, True),
        ("gemini-3.5-flash-lite", "levels", False, True, True),
        ("gemini-3.5-flash", "levels", True, True, True),
        ("models/gemini-3.1-pro-preview", "levels", True, True, True),
        ("gemini-2.5-pro", "budget", True, False, True),
        ("gemini-2.0-flash", "", True, False, False),
        ("gemini-9-ultra", "levels", False, True, True),
    ],
)
def test_models_differ(model: str, thinking: str, sampling: bool, signatures: bool, urls: bool) -> None:
    row = model_of(model)
    assert thinking == ("levels" if row.levels else "budget" if row.budget_minimal else "")
    assert (row.sampling, row.signatures, row.fetches_urls) == (sampling, signatures, urls)


@pytest.mark.parametrize(
    ("model", "levels"),
    [("gemini-3.8-flash", LEVELS[1:]), ("gemini-3.6-flash", LEVELS), ("gemini-3-flash-preview", LEVELS)],
)
def test_a_model_has_its_levels_of_thinking(model: str, levels: tuple[str, ...]) -> None:
    assert model_of(model).levels == levels


def test_another_model_is_unknown() -> None:
    assert model_of("gemma-3-27b-it") is UNKNOWN
