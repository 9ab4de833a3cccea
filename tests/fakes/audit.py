"""The audit of a store, at once."""

from gateway.domain.diagnosis import Verdict
from gateway.store.store import Store
from gateway.store.verify import Audit


def verify(store: Store) -> Verdict:
    """Returns whether the current numbers of a store are right."""
    return Audit(store).verdict()
