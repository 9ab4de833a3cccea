"""Two processes on one home: one writes, the other is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from tests.fakes.stored import stored
from tests.store.samples import record, settle, store_of

HOLDER = """
import sys
from pathlib import Path
from tests.store.samples import settle, store_of
store = store_of(Path(sys.argv[1]))
settle(store, 1)
print("open", flush=True)
sys.stdin.read()
"""


def child(program: str, home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_a_second_writer_waits_for_the_death_of_the_first(home: Path) -> None:
    with child(HOLDER, home) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match=f"pid {holder.pid}"):
            store_of(home)
        holder.kill()
    store = store_of(home)
    assert store.calls.count == 1
    store.close()


def test_a_call_that_is_read_is_a_call_that_was_written(home: Path) -> None:
    store = store_of(home)
    settled = settle(store, 1)
    with stored(home) as found:
        assert found.calls.get(record(1).id) == settled
    store.close()
