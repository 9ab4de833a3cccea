from tui import farewell


def test_leaving_says_that_the_server_goes_on_and_how_to_end_it() -> None:
    left = farewell.left("http://127.0.0.1:8655/v1")
    assert left.code == 0
    assert "still serving http://127.0.0.1:8655/v1" in left.sentence
    assert "'tollkeeper stop'" in left.sentence


def test_each_way_of_leaving_says_what_becomes_of_the_server() -> None:
    assert farewell.stopped().sentence.startswith("stopped")
    assert "ends when" in farewell.draining().sentence
    assert "no server is running" in farewell.gone().sentence
    assert "the server goes on" in farewell.left("").sentence


def test_a_signal_has_its_own_code() -> None:
    assert farewell.terminated(15) == farewell.Farewell("", 143)
