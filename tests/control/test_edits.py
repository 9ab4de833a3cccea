import errno
from pathlib import Path

import pytest

from gateway.control.edits import ConfigEdits
from gateway.core.undo import undo_plan
from gateway.domain.errors import Conflict, Unavailable
from gateway.domain.group import Group
from gateway.domain.registry import Change
from tests.fakes.disk import Disk
from tests.fakes.gateway import Gateway


@pytest.fixture
def edits(gateway: Gateway) -> ConfigEdits:
    return ConfigEdits(gateway.engine)


@pytest.fixture
def disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch, home)


def group(name: str, note: str = "") -> Change:
    return Change("groups", name, Group(name=name, note=note))


async def undo(edits: ConfigEdits, number: int = 0, *, redo: bool = False) -> str:
    entry = edits.find_entry(number, redo=redo).entry
    return (await edits.undo(entry, undo_plan(entry, edits.history, edits.registry))).text


async def test_undoing_goes_back_step_by_step_and_redoing_forth(edits: ConfigEdits) -> None:
    before = edits.registry
    await edits.commit("one", "not one", group("a"))
    await edits.commit("two", "not two", group("a", "changed"), group("b"))
    after = edits.registry
    assert await undo(edits) == "not two"
    assert edits.registry.groups["a"].note == ""
    assert await undo(edits) == "not one"
    assert edits.registry == before
    assert [await undo(edits, redo=True), await undo(edits, redo=True)] == ["one", "two"]
    assert edits.registry == after
    assert await undo(edits) == "not two"


async def test_a_new_change_ends_redoing(edits: ConfigEdits) -> None:
    await edits.commit("one", "not one", group("a"))
    await undo(edits)
    await edits.commit("two", "not two", group("b"))
    with pytest.raises(Conflict) as caught:
        edits.find_entry(redo=True)
    assert caught.value.code == "nothing_to_redo"


async def test_quiet_changes_are_not_in_the_history(edits: ConfigEdits) -> None:
    await edits.commit("loud", "not loud", group("a"))
    edits.engine.change([group("b")])
    assert await undo(edits) == "not loud"


async def test_a_full_disk_is_reported_and_changes_nothing(edits: ConfigEdits, disk: Disk) -> None:
    await edits.commit("kept", "not kept", group("a"))
    disk.refuse(errno.ENOSPC, "replace", file="config.json")
    with pytest.raises(Unavailable, match="No space left") as caught:
        await edits.commit("lost", "not lost", group("b"))
    assert caught.value.code == "store_unavailable"
    with pytest.raises(Unavailable, match="No space left"):
        edits.engine.change([group("b")])
    assert [entry.done for entry in edits.history] == ["kept"]
    with pytest.raises(Unavailable):
        await undo(edits)
    disk.heal()
    assert await undo(edits) == "not kept"


async def test_without_room_for_history_nothing_changes(edits: ConfigEdits, disk: Disk) -> None:
    disk.refuse(errno.ENOSPC, "replace", file="history.json")
    with pytest.raises(Unavailable, match="No space left"):
        await edits.commit("lost", "not lost", group("b"))
    assert "b" not in edits.registry.groups
    assert edits.history == []
