"""Refusals: what every refused request has in common, checked in one place."""

from gateway.domain.call import Outcome
from tests.conformance.shapes import error_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider

CONTROLS = frozenset(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066])) - {"\n"}
"""Characters that no message may carry to a screen."""


def nothing_happened(gateway: Gateway, provider: Provider) -> None:
    """No upstream got a request, nothing was held, nothing was charged; its record says refused."""
    assert provider.exchanges == []
    assert dict(gateway.engine.store.books.running) == {}
    for record in gateway.records:
        assert (record.outcome, record.held, record.cost, record.attempts) == (Outcome.REFUSED, 0, 0, ())


def plainly(answer: Answer) -> None:
    """A good error object that is fit for any screen."""
    assert error_faults(answer.json) == []
    assert not CONTROLS & set(answer.error["message"])
    assert answer.head.get("content-type").startswith("application/json")
