"""What can be wrong with a store as a whole, said so that its owner knows what to do."""

from gateway.domain.errors import GatewayError, Unavailable

RETRY_AFTER_S = 5.0
"""What a client is told to wait when the disk refuses."""


class StoreError(GatewayError):
    """The store cannot do what was asked; nothing was changed."""

    default_code = "store_failed"


class StoreBusy(StoreError):
    """Another process writes to this store."""

    default_code = "store_busy"


class StoreTooNew(StoreError):
    """The store was written by a newer version of this program."""

    default_code = "store_too_new"


class StoreDamaged(StoreError):
    """A file that cannot be replaced by another one is missing or makes no sense."""

    default_code = "store_damaged"


def unavailable(exc: OSError) -> Unavailable:
    """What the disk said, for somebody who wanted something written."""
    return Unavailable(
        f"the gateway cannot write to its store: {exc}. It goes on by itself as soon as the disk does",
        code="store_unavailable",
        retry_after_s=RETRY_AFTER_S,
    )
