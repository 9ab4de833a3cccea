import pytest

from tui.listing import row_filter


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
    assert row_filter(text)("Laptop default active") == fits


def test_an_exclamation_mark_alone_is_nothing_yet() -> None:
    assert row_filter("!")("anything")
