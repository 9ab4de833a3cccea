"""The audit of a store, at once."""

from gateway.domain.diagnosis import Verdict
from gateway.store.store import Store
from gateway.store.verify import check, take_snapshot


def verify(store: Store) -> Verdict:
    """Returns whether the current numbers of a store are right."""
    return check(take_snapshot(store))
