import errno
from collections.abc import Sequence

import pytest

from gateway.control.desk import UNDO_LIMIT, Desk
from gateway.domain.change import Change
from gateway.domain.errors import Conflict, Unavailable
from gateway.domain.group import Group
from tests.fakes.gateway import Gateway


@pytest.fixture
def desk(gateway: Gateway) -> Desk:
    return Desk(gateway.engine)


def group(name: str, note: str = "") -> Change:
    return Change("groups", name, Group(name=name, note=note))


def test_a_change_holds_at_once(desk: Desk) -> None:
    assert desk.commit("added group 'a'", group("a")) == {"done": "added group 'a'"}
    assert desk.registry.groups["a"] == Group(name="a")


def test_undoing_goes_back_step_by_step(desk: Desk) -> None:
    before = desk.registry
    desk.commit("one", group("a"))
    desk.commit("two", group("a", "changed"), group("b"))
    assert desk.undo() == "two"
    assert desk.registry.groups["a"].note == ""
    assert desk.undo() == "one"
    assert desk.registry == before


def test_only_so_many_changes_are_remembered(desk: Desk) -> None:
    for number in range(UNDO_LIMIT + 3):
        desk.commit(str(number), group("a", str(number)))
    assert [desk.undo() for _ in range(UNDO_LIMIT)][-1] == "3"
    with pytest.raises(Conflict):
        desk.undo()


def test_quiet_changes_are_not_remembered(desk: Desk) -> None:
    desk.commit("loud", group("a"))
    desk.change(group("b"))
    assert desk.undo() == "loud"


def test_a_full_disk_is_told_and_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(changes: Sequence[Change]) -> list[Change]:
        raise OSError(errno.ENOSPC, "No space left on device")

    desk.commit("kept", group("a"))
    monkeypatch.setattr(desk.engine.store.entities, "apply", full)
    with pytest.raises(Unavailable, match="No space left") as caught:
        desk.commit("lost", group("b"))
    assert caught.value.code == "store_failed"
    with pytest.raises(Unavailable):
        desk.undo()
    monkeypatch.undo()
    assert desk.undo() == "kept"
