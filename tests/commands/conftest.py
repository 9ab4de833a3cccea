"""One real server for all the tests that only need some server."""

from collections.abc import Iterator

import pytest

from tests.commands.program import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A running server on a home that was empty; what a file's tests leave there is in no other file's way."""
    with serving(tmp_path_factory.mktemp("served") / "home", "serve") as server:
        yield server
