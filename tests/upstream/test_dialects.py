"""Every dialect has an adapter."""

import pytest

from gateway.domain.channel import Dialect
from gateway.upstream.dialects import adapter


@pytest.mark.parametrize("dialect", Dialect)
def test_has_an_adapter(dialect: Dialect) -> None:
    assert callable(adapter(dialect).prepare)
