"""Fixtures: a gateway with secrets planted in it."""

from pathlib import Path

import pytest

from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.faults.canary_run import CanaryRun


@pytest.fixture
def canaries(gateway: Gateway, provider: Provider, home: Path, caplog: pytest.LogCaptureFixture) -> CanaryRun:
    """The gateway under test, its upstream, and all that comes out of them."""
    caplog.set_level(0)
    return CanaryRun(gateway, provider, home, caplog)
