import pytest

from tui.words import wanted_by


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("lap", True),
        ("LAPTOP default", True),
        ("laptop batch", False),
        ("!batch", True),
        ("!laptop", False),
    ],
)
def test_all_words_must_be_there_and_negated_ones_not(text: str, fits: bool) -> None:
    assert wanted_by(text)("Laptop default active") == fits


def test_an_exclamation_mark_alone_is_nothing_yet() -> None:
    assert wanted_by("!")("anything")
