"""The program proves itself."""

from pathlib import Path

from tests.commands.program import tollkeeper


def test_everything_works_here_and_nothing_is_left_in_the_home(tmp_path: Path) -> None:
    ran = tollkeeper(tmp_path, "selftest")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "everything works"), ran.err
    for proof in ("a real call works", "the books are right", "the console draws"):
        assert f"ok  {proof}" in ran.out
    assert list(tmp_path.iterdir()) == []
