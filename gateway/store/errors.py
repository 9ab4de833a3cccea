"""What can be wrong with a store as a whole, said so that its owner knows what to do."""

from gateway.domain.errors import GatewayError


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
