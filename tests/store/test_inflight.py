"""Running calls are known again after a crash."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store import files
from gateway.store.inflight import Inflight
from tests.fakes.disk import refuse, takes_only
from tests.fakes.stored import copied
from tests.house import amount
from tests.store.samples import running


def read(path: Path) -> list[str]:
    """Ids that a new start would find running."""
    with copied(path) as copy:
        inflight = Inflight(copy)
        inflight.close()
        return list(inflight.running)


@pytest.fixture
def inflight(tmp_path: Path) -> Inflight:
    """With one running call."""
    made = Inflight(tmp_path / "inflight.log")
    made.begin(running(0))
    return made


def test_what_began_and_did_not_end_is_running(tmp_path: Path) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    for i in range(3):
        inflight.begin(running(i))
    inflight.end([running(1).id])
    assert read(inflight.path) == [running(0).id, running(2).id]
    with copied(inflight.path) as copy:
        assert Inflight(copy).running[running(0).id] == running(0)


def test_the_file_is_emptied_when_nothing_runs(tmp_path: Path) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    for i in range(3):
        inflight.begin(running(i))
    for i in range(3):
        inflight.end([running(i).id])
    assert inflight.path.stat().st_size == 0


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    inflight = Inflight(tmp_path / "inflight.log", limit=2000)
    inflight.begin(running(0))
    for i in range(1, 100):
        inflight.begin(running(i))
        inflight.end([running(i).id])
        if inflight.needs_compaction:
            inflight.compact()
    assert inflight.path.stat().st_size < 2500
    assert read(inflight.path) == [running(0).id]


def _replace(path: Path) -> None:
    path.with_name("other").write_bytes(b"\n")
    path.with_name("other").replace(path)


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.rename(path.with_name("away")), _replace])
def test_a_file_that_is_deleted_moved_or_replaced_is_written_again(
    tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    needs = []
    for i in range(3):
        inflight.begin(running(i))
        needs.append(inflight.needs_compaction)
        inflight.compact() if needs[-1] else None
        lose(inflight.path) if i == 0 else None
    assert (needs, read(inflight.path)) == ([False, True, False], [running(i).id for i in range(3)])


def test_a_file_system_that_does_not_tell_files_apart_needs_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(99))
    monkeypatch.setattr(files, "identity", lambda _: (0, next(numbers)))
    inflight = Inflight(tmp_path / "inflight.log")
    inflight.begin(running(1))
    assert not inflight.needs_compaction


def test_calls_may_begin_while_the_file_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    for i in range(5):
        inflight.begin(running(i))
    inflight.end([running(i).id for i in range(3)])
    real = files.write_file

    def slow(path: Path, data: bytes) -> None:
        real(path, data)
        inflight.begin(running(7))

    monkeypatch.setattr(files, "write_file", slow)
    inflight.compact()
    inflight.begin(running(8))
    assert read(inflight.path) == [running(i).id for i in (3, 4, 7, 8)]
    assert b"0000001" not in inflight.path.read_bytes()


def test_ending_what_does_not_run_writes_nothing(inflight: Inflight) -> None:
    size = inflight.path.stat().st_size
    inflight.end([running(5).id])
    assert inflight.path.stat().st_size == size


def test_any_torn_line_spoils_no_other(inflight: Inflight) -> None:
    before = inflight.path.read_bytes()
    inflight.begin(running(1))
    after = inflight.path.read_bytes()
    for end in range(len(before), len(after)):
        inflight.path.write_bytes(after[:end] + after[len(before) :].replace(b"0001", b"0002"))
        assert running(0).id in read(inflight.path)
        assert len(read(inflight.path)) == (2 if end < len(after) - 1 else 3)


def test_a_flipped_bit_spoils_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "inflight.log"
    inflight = Inflight(path)
    for i in range(3):
        inflight.begin(running(i))
    first, second, third = path.read_bytes().split(b"\n\n")
    for place in range(0, 8 * len(second), amount(3, 1)):
        at, bit = divmod(place, 8)
        flipped = second[:at] + bytes([second[at] ^ 1 << bit]) + second[at + 1 :]
        path.write_bytes(b"\n\n".join([first, flipped, third]))
        assert {running(0).id, running(2).id} <= set(read(path))


def test_unreadable_lines_are_counted_and_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "inflight.log"
    path.write_bytes(b'\n{"id": torn\n')
    told = list[str]()
    Inflight(path, moment=7, report=told.append)
    assert told == [f"{path} had 1 unreadable lines; the original is inflight.log.7.damaged"]
    assert (tmp_path / "inflight.log.7.damaged").read_bytes() == b'\n{"id": torn\n'
    assert path.read_bytes() == b""


def test_every_unreadable_original_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "inflight.log"
    for i in range(3):
        path.write_bytes(b"torn %d" % i)
        Inflight(path, moment=7)
    assert sorted(kept.read_bytes() for kept in tmp_path.glob("*.damaged")) == [b"torn 0", b"torn 1", b"torn 2"]


def test_a_line_that_could_not_be_written_whole_is_removed(inflight: Inflight, monkeypatch: pytest.MonkeyPatch) -> None:
    before = inflight.path.read_bytes()
    with monkeypatch.context() as patch:
        takes_only(patch, "write", 20)
        with pytest.raises(OSError, match="No space left"):
            inflight.begin(running(1))
    assert inflight.path.read_bytes() == before
    assert list(inflight.running) == [running(0).id]


def test_what_could_not_be_removed_takes_no_later_line_with_it(
    inflight: Inflight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are appended behind the torn one, but it is cut off where it begins."""
    with monkeypatch.context() as patch:
        takes_only(patch, "write", 20)
        patch.setattr(os, "ftruncate", refuse)
        for i in (1, 2):
            with pytest.raises(OSError, match=r"No space left|refused"):
                inflight.begin(running(i))
        with pytest.raises(OSError, match="refused"):
            inflight.compact()
    inflight.begin(running(3))
    with monkeypatch.context() as patch:
        takes_only(patch, "write", 30)
        with pytest.raises(OSError, match="No space left"):
            inflight.begin(running(4))
    assert list(inflight.running) == read(inflight.path) == [running(0).id, running(3).id]


def test_a_sync_that_failed_is_made_good_by_a_new_file(inflight: Inflight, monkeypatch: pytest.MonkeyPatch) -> None:
    inode = inflight.path.stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="refused"):
            inflight.sync()
    with pytest.raises(OSError, match="Input/output"):
        inflight.sync()
    assert inflight.needs_compaction
    inflight.compact()
    inflight.sync()
    assert (inflight.needs_compaction, read(inflight.path)) == (False, [running(0).id])
    assert inflight.path.stat().st_ino != inode


@pytest.mark.parametrize("name", ["open", "write", "fsync", "replace"])
def test_a_file_that_cannot_be_rewritten_stays_in_use(
    inflight: Inflight, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, name, refuse)
        with pytest.raises(OSError, match="refused"):
            inflight.compact()
    inflight.begin(running(1))
    assert read(inflight.path) == [running(0).id, running(1).id]


def test_syncing_needs_no_further_file(inflight: Inflight, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of files may be full."""
    for name in ("dup", "open"):
        monkeypatch.setattr(os, name, refuse)
    inflight.sync()


def test_probing_leaves_nothing_behind(inflight: Inflight, monkeypatch: pytest.MonkeyPatch) -> None:
    before = inflight.path.read_bytes()
    inflight.probe()
    with monkeypatch.context() as patch:
        takes_only(patch, "write", 5)
        with pytest.raises(OSError, match="No space left"):
            inflight.probe()
    assert inflight.path.read_bytes() == before
    inflight.begin(running(1))
    assert read(inflight.path) == [running(0).id, running(1).id]


def test_an_end_that_could_not_be_written_is_not_an_error(inflight: Inflight, monkeypatch: pytest.MonkeyPatch) -> None:
    inflight.begin(running(1))
    monkeypatch.setattr(os, "write", lambda *_: 0)
    inflight.end([running(0).id])
    assert list(inflight.running) == [running(1).id]


def test_syncing_waits_only_if_something_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    inflight.sync()
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    inflight.sync()
    inflight.begin(running(0))
    inflight.sync()
    inflight.sync()
    assert len(synced) == 1
    inflight.close()
    inflight.sync()
