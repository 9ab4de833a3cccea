"""Two processes on one home: one writes, the other is refused or reads."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store.errors import StoreBusy
from gateway.store.verify import verify
from tests.house import amount
from tests.store.samples import grant, record, settle, store_of

HOLDER = """
import sys
from pathlib import Path
from tests.store.samples import settle, store_of
store = store_of(Path(sys.argv[1]))
settle(store, 1)
print("open", flush=True)
sys.stdin.read()
"""

READER = """
import sys
from pathlib import Path
from tests.store.samples import store_of
reader = store_of(Path(sys.argv[1]), writer=False)
looks = last = 0
for line in sys.stdin:
    reader.refresh()
    calls = reader.calls.newest(50)
    numbers = [int(call.id[-14:], 16) for call in calls]
    assert not numbers or numbers == list(range(numbers[0], numbers[0] - len(numbers), -1)), numbers
    assert not numbers or numbers[0] >= last, (numbers[0], last)
    assert reader.notes == [], reader.notes
    last, looks = (numbers[0] if numbers else 0), looks + 1
    print(reader.calls.count, reader.books.balance(), flush=True)
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
        with pytest.raises(StoreBusy, match=f"pid {holder.pid}"):
            store_of(home)
        holder.kill()
    store = store_of(home)
    assert store.calls.count == 1
    store.close()


@pytest.mark.timeout(300)
def test_a_reader_sees_no_gap_while_the_writer_appends_and_seals(scratch: Path) -> None:
    rng = random.Random(1)
    store = store_of(scratch / "home", segment_bytes=6000)
    grant(store)
    with child(READER, scratch / "home") as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        asked = 0
        for i in range(amount(1500, 8000)):
            settle(store, i)
            if i % 40 == 0:
                store.books.sync()
            if rng.random() < 0.1:
                reader.stdin.write("look\n")
                reader.stdin.flush()
                asked += 1
        for _ in range(asked):
            assert reader.stdout.readline(), "the reader failed"
        reader.stdin.write("look\n")
        reader.stdin.close()
        assert reader.stdout.readline().split() == [str(store.calls.count), str(store.books.balance())]
    assert verify(store).equal
    store.close()


def test_a_call_that_is_read_is_a_call_that_was_written(home: Path) -> None:
    store = store_of(home)
    settled = settle(store, 1)
    assert store_of(home, writer=False).calls.get(record(1).id) == settled
    store.close()
