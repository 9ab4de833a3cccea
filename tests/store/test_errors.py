"""What the store says when it cannot be used."""

from gateway.domain.errors import GatewayError
from gateway.store.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew, unavailable


def test_all_are_store_errors_with_codes_of_their_own() -> None:
    codes = {kind("x").code for kind in (StoreError, StoreBusy, StoreDamaged, StoreTooNew)}
    assert codes == {"store_failed", "store_busy", "store_damaged", "store_too_new"}
    assert issubclass(StoreError, GatewayError)


def test_a_refusing_disk_makes_the_gateway_unavailable_for_a_while() -> None:
    error = unavailable(OSError(28, "No space left on device"))
    assert (error.code, error.retry_after_s) == ("store_unavailable", 5.0)
    assert "No space left" in error.message
