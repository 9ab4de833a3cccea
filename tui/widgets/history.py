"""Undo and redo, with a question where they may surprise."""

from typing import Any

import msgspec

from gateway.domain.errors import Conflict
from gateway.domain.history import UndoDoubt, UndoView, undo_text
from tui.widgets.dialogs import Confirm, toast

Console = Any
"""The app; it imports this file."""


async def undo_change(app: Console, number: int = 0, *, redo: bool = False) -> bool:
    """Undo a change, by default the newest one, or redo what was undone; whether it was done."""
    client, verb = app.session.client, "Redo" if redo else "Undo"
    try:
        done = await _sent(client, number, redo=redo, accept=False)
    except Conflict as error:
        if error.code != "needs_confirmation":
            raise
        doubt = msgspec.convert(error.details, UndoDoubt)
        question = f"{verb} change {doubt.entry.id}: {doubt.entry.text}?"
        if not await app.push_screen_wait(Confirm(question, "\n".join(doubt.reasons), verb)):
            return False
        done = await _sent(client, doubt.entry.id, redo=redo, accept=True)
    other = "Press u to undo" if done.kind == "redo" else "Press U to redo"
    toast(app, "\n".join([f"{undo_text(done, app.session.now(), client.source)}. {other}.", *done.notes]))
    return True


async def _sent(client: Any, number: int, *, redo: bool, accept: bool) -> UndoView:
    send = client.redo if redo else client.undo
    done: UndoView = await send(number, accept=accept)
    return done
