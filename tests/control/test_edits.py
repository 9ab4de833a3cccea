import errno
from collections.abc import Sequence

import pytest

from gateway.control.edits import UNDO_LIMIT, ConfigEdits
from gateway.domain.errors import Conflict, Unavailable
from gateway.domain.group import Group
from gateway.domain.registry import Change
from tests.fakes.gateway import Gateway


@pytest.fixture
def edits(gateway: Gateway) -> ConfigEdits:
    return ConfigEdits(gateway.engine)


def group(name: str, note: str = "") -> Change:
    return Change("groups", name, Group(name=name, note=note))


def test_a_change_holds_at_once(edits: ConfigEdits) -> None:
    assert edits.commit("added group 'a'", "group 'a' is removed", group("a")) == {"done": "added group 'a'"}
    assert edits.registry.groups["a"] == Group(name="a")


def test_undoing_goes_back_step_by_step(edits: ConfigEdits) -> None:
    before = edits.registry
    edits.commit("one", "not one", group("a"))
    edits.commit("two", "not two", group("a", "changed"), group("b"))
    assert edits.undo() == "not two"
    assert edits.registry.groups["a"].note == ""
    assert edits.undo() == "not one"
    assert edits.registry == before


def test_only_so_many_changes_are_remembered(edits: ConfigEdits) -> None:
    for number in range(UNDO_LIMIT + 3):
        edits.commit(str(number), f"not {number}", group("a", str(number)))
    assert [edits.undo() for _ in range(UNDO_LIMIT)][-1] == "not 3"
    with pytest.raises(Conflict):
        edits.undo()


def test_quiet_changes_are_not_remembered(edits: ConfigEdits) -> None:
    edits.commit("loud", "not loud", group("a"))
    edits.change(group("b"))
    assert edits.undo() == "not loud"


def test_a_full_disk_is_told_and_changes_nothing(edits: ConfigEdits, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(changes: Sequence[Change]) -> list[Change]:
        raise OSError(errno.ENOSPC, "No space left on device")

    edits.commit("kept", "not kept", group("a"))
    monkeypatch.setattr(edits.engine.store.entities, "apply", full)
    with pytest.raises(Unavailable, match="No space left") as caught:
        edits.commit("lost", "not lost", group("b"))
    assert caught.value.code == "store_failed"
    with pytest.raises(Unavailable):
        edits.undo()
    monkeypatch.undo()
    assert edits.undo() == "not kept"
