from pathlib import Path

import pytest

from gateway.config import Config
from tests.tui.stage import NOW
from tui.glyphs import UNICODE
from tui.listing import Column, Listing
from tui.saved_state import Remembered
from tui.session import Session


class Fruits(Listing[str]):
    noun = "fruit"

    def columns(self) -> list[Column[str]]:
        return [Column("name", "Name", 8, str), Column("size", "Size", 4, lambda row: str(len(row)))]


def made() -> Fruits:
    return Fruits(Session(Config(home=Path("/nowhere")), UNICODE, lambda: NOW, Remembered()))


def test_the_filter_looks_in_all_columns() -> None:
    assert made().words("apple") == "apple 5"


def test_an_empty_list_says_what_is_missing() -> None:
    assert made().empty().plain == "No fruits yet."


def test_what_a_listing_must_say_it_must_say_itself() -> None:
    listing = made()
    for ask in (listing.rows, lambda: listing.lead(80), lambda: listing.name("a"), lambda: listing.twin("a")):
        with pytest.raises(NotImplementedError):
            ask()
