"""The sixteen failover scenarios. TOLLKEEPER_FULL=1: in real time."""

import pytest

from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.faults.failover import SCENARIOS, verdicts
from tests.house import FULL

FACTOR, SLACK_S = (1, 0.5) if FULL else (10, 6.0)


@pytest.fixture
def haste() -> float:
    """Pauses are as long as they are."""
    return 1.0


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.hasty(FACTOR)
@pytest.mark.long
async def test_thirteen_pass_three_are_safe_and_none_fails(gateway: Gateway, provider: Provider) -> None:
    found = await verdicts(gateway, provider, SLACK_S)
    assert dict(zip((name for name, _, _ in SCENARIOS), found, strict=True)) == {
        name: wanted for name, _, wanted in SCENARIOS
    }
