from tests.tui.stage import calls
from tui.pages.live_source import Ask, History


def test_what_is_missing_is_asked_for_a_page_at_a_time() -> None:
    history = History(page=10)
    assert history.row(25) is None
    assert history.waiting
    assert history.next(1_000) == Ask(2, 30, 10)
    assert history.next(1_000) is None


def test_a_page_that_is_asked_for_is_not_asked_for_again() -> None:
    history = History(page=10)
    history.row(25)
    history.next(1_000)
    history.row(24)
    assert history.next(1_000) is None


def test_rows_are_found_by_their_numbers() -> None:
    history = History(page=10)
    history.row(25)
    ask = history.next(1_000)
    assert ask is not None
    rows = calls(10)
    history.fill(ask, rows)
    assert history.row(30) is rows[0]
    assert history.row(21) is rows[-1]


def test_only_what_was_looked_at_last_is_asked_for() -> None:
    history = History(page=10)
    history.row(25)
    history.row(905)
    assert history.next(1_000) == Ask(90, 910, 10)
    assert not history.waiting


def test_the_newest_page_may_be_short() -> None:
    history = History(page=10)
    history.row(23)
    ask = history.next(24)
    assert ask == Ask(2, 24, 4)
    history.fill(ask, calls(4))
    assert history.row(24) is not None
    assert history.row(25) is None
    assert history.waiting


def test_pages_looked_at_long_ago_are_forgotten() -> None:
    history = History(page=10, pages=2)
    for number in (5, 15, 25):
        history.row(number)
        ask = history.next(1_000)
        assert ask is not None
        history.fill(ask, calls(10))
    assert history.row(5) is None
    assert history.row(25) is not None


def test_a_failed_request_may_be_made_again() -> None:
    history = History(page=10)
    history.row(5)
    ask = history.next(1_000)
    assert ask is not None
    history.fail(ask)
    history.row(5)
    assert history.next(1_000) == ask


def test_everything_can_be_forgotten() -> None:
    history = History(page=10)
    history.row(5)
    history.clear()
    assert not history.waiting
