from tui.widgets.connect import APPS, guide


def test_each_program_has_a_line_with_the_address() -> None:
    lines = guide("http://127.0.0.1:8655/v1", "gpt-5-mini").splitlines()
    assert [line.startswith(name) for line, (name, _) in zip(lines, APPS, strict=True)] == [True] * len(APPS)
    assert all("http://127.0.0.1:8655/v1" in line for line in lines)
