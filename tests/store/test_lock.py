"""One writer per store."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from gateway.store.store import lock_store

HOLDER = """
import sys, time
from pathlib import Path
from gateway.store.store import lock_store
lock_store(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_lock_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    lock = lock_store(tmp_path / "lock")
    with pytest.raises(StoreError, match=f"pid {os.getpid()}"):
        lock_store(tmp_path / "lock")
    os.close(lock)
    os.close(lock_store(tmp_path / "lock"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has another lock")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.EIO])
def test_another_error_of_the_system_is_raised_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=os.strerror(number)):
        lock_store(tmp_path / "lock")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=f"pid {holder.pid}"):
            lock_store(path)
        holder.kill()
        holder.wait()
    os.close(lock_store(path))
    assert path.read_text() == str(os.getpid())
