"""Every row of the fault list has a test that bears its letter and number, or is named by it."""

from tests.faults.rows import ELSEWHERE, EXCUSED, ROWS, missing, places


def test_every_row_has_its_test() -> None:
    assert missing() == []


def test_what_is_excused_is_a_row_without_a_test() -> None:
    found = places()
    assert set(EXCUSED) <= {row for row in ROWS if not found[row]}
    assert set(ELSEWHERE) <= set(ROWS)
