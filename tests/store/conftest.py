"""Stores that tests leave open hold a file for each segment; the collector, which a server slows down, frees them.

What is left then stays: without ``freeze`` the collector would look at all that was ever imported after each file.
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()
