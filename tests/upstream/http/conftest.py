"""A pool in front of the provider."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.provider import Provider
from tests.upstream.http.makers import Asker


@pytest.fixture
async def ask(provider: Provider) -> AsyncIterator[Asker]:
    asker = Asker(provider)
    yield asker
    await asker.close()
