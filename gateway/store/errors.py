"""Errors of the whole store. Their messages tell the owner what to do."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.text import plain, word
from gateway.store.disk_reserve import NO_SPACE
from gateway.store.files import ordinary_path, reason

RETRY_AFTER_S = 5.0
"""How long a client should wait while the disk refuses to write, in seconds."""


class StoreError(GatewayError):
    """An operation of the store failed; nothing was changed."""

    default_code = "store_failed"


class StoreDamaged(StoreError):
    """An irreplaceable file is missing or damaged."""

    default_code = "store_damaged"


def too_new(path: Path, version: int, supported: int) -> StoreError:
    """Returns the error (``store_too_new``) of a file whose format this program does not know yet."""
    formats = f"has format {version}, this program supports formats up to {supported}"
    return StoreError(f"{ordinary_path(path)} {formats}; use a newer version", code="store_too_new")


def cannot_open(home: Path, exc: OSError) -> StoreError:
    """Returns the error for a store that the system does not let us open, with what the owner can do."""
    file = Path(os.fsdecode(exc.filename)) if isinstance(exc.filename, str | bytes | Path) else home
    is_inside = file.is_relative_to(home) or ordinary_path(file).is_relative_to(home.resolve())
    place = f" ({plain(file.name)})" if is_inside and home not in (file, ordinary_path(file)) else ""
    elsewhere = "or name another folder with --home"
    fix = ""
    if exc.errno in NO_SPACE:
        fix = f"; free some disk space, {elsewhere}"
    elif exc.errno == errno.EROFS:
        fix = f"; mount its file system writable, {elsewhere}"
    elif exc.errno in (errno.EACCES, errno.EPERM):
        fix = f"; make it yours: sudo chown -R $(id -u) {word(str(home))}, {elsewhere}"
    return StoreError(f"the store in {plain(str(home), 500)} cannot be opened: {reason(exc)}{place}{fix}")


class DiskErrors:
    """The current errors of writing and syncing, without paths; each is empty while all is well."""

    def __init__(self) -> None:
        self.write = ""
        self.sync = ""
        self.on_change: Callable[[], None] = lambda: None
        """Called when an error appears and when it ends, from any thread."""

    @property
    def text(self) -> str:
        """Returns why new calls are rejected; empty if they are accepted."""
        return self.write or self.sync

    def set(self, *, write: str | None = None, sync: str | None = None) -> None:
        """Set the error of writing, of syncing, or of both; an empty text clears it."""
        before = self.text
        self.write = self.write if write is None else write
        self.sync = self.sync if sync is None else sync
        if bool(before) is not bool(self.text):
            self.on_change()


def unavailable(exc: OSError) -> Unavailable:
    """Returns the error for a call or a change that cannot be recorded, so that nothing is changed."""
    return Unavailable(
        f"the gateway cannot write to its store: {reason(exc)}. It recovers as soon as the disk does",
        code="store_unavailable",
        retry_after_s=RETRY_AFTER_S,
    )
