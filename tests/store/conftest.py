"""Stores that tests leave open hold a file for each segment; the collector, which a server slows down, frees them."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    yield
    gc.collect()
