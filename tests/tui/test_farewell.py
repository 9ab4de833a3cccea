from tui import exit_status


def test_leaving_says_that_the_server_goes_on_and_how_to_end_it() -> None:
    left = exit_status.left_by_user("http://127.0.0.1:8655/v1")
    assert left.code == 0
    assert "still serving http://127.0.0.1:8655/v1" in left.sentence
    assert "'tollkeeper stop'" in left.sentence


def test_each_way_of_leaving_says_what_becomes_of_the_server() -> None:
    assert exit_status.stopped().sentence.startswith("stopped")
    assert "ends when" in exit_status.draining().sentence
    assert "no server is running" in exit_status.gone().sentence
    assert "the server goes on" in exit_status.left_by_user("").sentence


def test_a_signal_has_its_own_code() -> None:
    assert exit_status.terminated(15) == exit_status.Farewell("", 143)
