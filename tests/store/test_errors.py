"""What the store says when it cannot be used."""

import errno
import os
from pathlib import Path

import pytest

from gateway.domain.errors import GatewayError
from gateway.store.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew, cannot_open


def test_all_are_store_errors_with_codes_of_their_own() -> None:
    codes = {kind("x").code for kind in (StoreError, StoreBusy, StoreDamaged, StoreTooNew)}
    assert codes == {"store_failed", "store_busy", "store_damaged", "store_too_new"}
    assert issubclass(StoreError, GatewayError)


@pytest.mark.parametrize(
    ("number", "file", "text"),
    [
        (errno.EROFS, "/h o/lock", " (lock); mount its file system writable, or name another folder with --home"),
        (errno.EACCES, None, "; make it yours: sudo chown -R $(id -u) '/h o', or name another folder with --home"),
        (errno.ENOSPC, None, "; free some disk space, or name another folder with --home"),
        (errno.EIO, "/h o/usage/calls-1.json", " (calls-1.json)"),
    ],
)
def test_a_store_that_cannot_be_opened_says_in_words_what_to_do(number: int, file: str | None, text: str) -> None:
    error = cannot_open(Path("/h o"), OSError(number, os.strerror(number), file))
    assert error.message == f"the store in /h o cannot be opened: {os.strerror(number)}{text}"
