import os
from pathlib import Path

import pytest

from tui.saved_state import NAME, PageState, SavedState, load, merge, save


def test_a_saved_state_is_read_back(tmp_path: Path) -> None:
    kept = SavedState(
        theme="light", page="live", views={"live": PageState(sort="cost", reverse=True, columns=["time"])}
    )
    save(tmp_path, kept)
    assert load(tmp_path) == (kept, "")


def test_nothing_is_remembered_at_first(tmp_path: Path) -> None:
    assert load(tmp_path) == (SavedState(), "")


def test_a_damaged_file_is_set_aside_and_said_so(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"theme": 5')
    remembered, note = load(tmp_path)
    assert remembered == SavedState()
    assert "cannot be read" in note
    assert (tmp_path / "console.damaged").is_file()
    assert load(tmp_path)[1] == ""


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    save(tmp_path, SavedState())
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode is the point


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(OSError, match="directory"):
        save(tmp_path, SavedState())
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_what_another_console_has_changed_stays() -> None:
    before = SavedState(theme="dark", page="live", views={"live": PageState(sort="cost"), "tokens": PageState()})
    mine = SavedState(theme="dark", page="usage", views={"live": PageState(sort="cost", reverse=True)})
    theirs = SavedState(
        theme="contrast",
        page="live",
        views={"live": PageState(sort="time", choices={"by": "app"}), "tokens": PageState(detail=True)},
    )
    assert merge(mine, before, theirs) == SavedState(
        theme="contrast", page="usage", views={"live": PageState(sort="time", reverse=True, choices={"by": "app"})}
    )
    assert merge(before, before, theirs) == theirs
    assert merge(mine, SavedState(), SavedState()) == mine


def test_a_view_is_made_on_demand() -> None:
    remembered = SavedState()
    remembered.view("live").sort = "cost"
    assert remembered.views["live"].sort == "cost"
