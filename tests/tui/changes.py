"""A server with a history of changes, for the console's tests."""

from typing import Any, Literal

import msgspec

from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.errors import Conflict
from gateway.domain.history import ChangeSource, HistoryView, UndoDoubt, UndoView
from gateway.domain.units import Millis
from tests.tui.stage import NOW, FakeClient, calls

THIS = ChangeSource(via="console", session="this", place="pts/1")
COMMAND = ChangeSource(via="command", command="token add", place="pts/2")


def change(number: int, text: str = "changed token 'ci'", **fields: Any) -> HistoryView:
    """An entry, made by this console two minutes ago."""
    difference = Difference(
        what="changed",
        noun="token",
        name="ci",
        fields=[FieldDifference(field="limits", before="", after="{ rpm = 60 }")],
    )
    given: dict[str, Any] = {
        "time_ms": Millis(NOW - 120_000),
        "kind": "change",
        "source": THIS,
        "undone_by": 0,
        "undoes": 0,
        "differences": [difference],
    }
    return HistoryView(id=number, text=text, **{**given, **fields})


class HistoryClient(FakeClient):
    """Its entries do not change by themselves."""

    def __init__(self) -> None:
        super().__init__(calls(3))
        self.source = THIS
        self.entries = [change(1)]
        """Newest first."""
        self.doubts: list[str] = []
        """Why an undo has to be confirmed."""
        self.refusal = ""
        """Why none is possible."""

    async def history(self, **filters: object) -> list[HistoryView]:
        self.asked.append(f"history {filters}")
        return self.entries

    async def undo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        return self._undone("undo", number, accept=accept)

    async def redo(self, number: int = 0, *, accept: bool = False) -> UndoView:
        return self._undone("redo", number, accept=accept)

    def undos(self) -> list[str]:
        """What was requested."""
        return [one for one in self.asked if one.startswith(("undo", "redo"))]

    def _undone(self, kind: Literal["undo", "redo"], number: int, *, accept: bool) -> UndoView:
        self.asked.append(f"{kind} {number}{' accepted' if accept else ''}")
        if self.refusal:
            raise Conflict(self.refusal, code="newer_change")
        entry = next(one for one in self.entries if number in (0, one.id))
        if self.doubts and not accept:
            details = msgspec.to_builtins(UndoDoubt(entry, self.doubts))
            raise Conflict("used", code="needs_confirmation", details=details)
        return UndoView(id=entry.id + 1, kind=kind, text="token 'ci' is as before", target=entry)
