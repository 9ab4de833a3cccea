"""Entity form: inputs, request body and equivalent command of a form, drawn from the table of an entity's fields."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from gateway.domain.field_kinds import Field
from gateway.domain.fields import Table
from gateway.domain.quoting import quote_name
from tui.board import Board
from tui.session import ConsoleSession
from tui.widgets.combobox import Suggestion
from tui.widgets.dialogs import UNCHANGED
from tui.widgets.form import FormField, Values


def known_names(board: Board, what: str) -> list[str]:
    """The names of all ``groups``, ``models`` or ``tokens``; empty for anything else."""
    if what == "groups":
        return [quote_name(group.name) for group in board.groups]
    if what == "models":
        return [quote_name(model.name) for model in board.models]
    return [quote_name(token.name) for token in board.tokens] if what == "tokens" else []


def save_changes(
    body: Callable[[Values], dict[str, Any]], send: Callable[[dict[str, Any]], Awaitable[Any]]
) -> Callable[[Values], Awaitable[Any]]:
    """What saves a form: ``send`` gets its body; one without changes is not sent."""

    async def save(values: Values) -> Any:
        changes = body(values)
        return await send(changes) if changes else UNCHANGED

    return save


class EntityForm:
    """A form that edits an entity, or creates one: empty, or as a copy of another.

    Only what differs is sent, and only that is in the command. An input whose text is unchanged keeps the exact value,
    of which the text may be a rounded or masked form.
    """

    def __init__(
        self,
        noun: str,
        table: Table,
        blank: msgspec.Struct,
        session: ConsoleSession,
        *,
        edited: msgspec.Struct | None = None,
        source: msgspec.Struct | None = None,
    ) -> None:
        self._noun = noun
        self._table = table
        self._session = session
        self._edited = edited
        self._blank = blank
        self._before = edited or blank
        """What the form is compared with: a new entity has the defaults."""
        self._source = source or self._before
        """What fills the inputs."""

    def inputs(self, **changes: Mapping[str, Any]) -> list[FormField]:
        """The inputs in the order of the table; ``changes`` replace attributes of single inputs."""
        fields = [one for field in self._table for one in self._inputs(field)]
        return [msgspec.structs.replace(one, **changes.get(one.id, {})) for one in fields]

    def body(self, values: Values) -> dict[str, Any]:
        """The request body: what changed."""
        found = {
            field: self._joined(field, [values[one.id] for one in field.kind.inputs(field)]) for field in self._table
        }
        changed = {field: value for field, value in found.items() if value != getattr(self._before, field.name)}
        return {field.name: field.kind.body(value) for field, value in changed.items()}

    def is_as_shown(self, values: Values) -> bool:
        """Whether every input still has the value that it was filled with."""
        return all(
            [values[one.id] for one in field.kind.inputs(field)]
            == list(field.kind.parts(getattr(self._source, field.name)))
            for field in self._table
        )

    def command(self, texts: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """The equivalent command; ``more`` are options beside those of the table. Raises BadRequest for bad texts."""
        if self._edited is None:
            words = [self._noun, "add", texts["name"] or "NAME"]
            return shlex.join([*words, *more, *self.arguments(texts, but=["name"])])
        name = getattr(self._edited, "name", None)
        words = [self._noun, "set"] if name is None else [self._noun, "edit", name]
        return shlex.join([*words, *more, *self.arguments(texts)])

    def arguments(self, texts: Mapping[str, str], but: Sequence[str] = ()) -> list[str]:
        """The options of that command."""
        found: list[str] = []
        for field in self._table:
            if field.name in but:
                continue
            inputs = field.kind.inputs(field)
            parts = [self._parse(field, number, texts[one.id]) for number, one in enumerate(inputs)]
            before = getattr(self._before, field.name)
            found += field.kind.arguments(field, before, self._joined(field, parts))
        return found

    def _inputs(self, field: Field) -> list[FormField]:
        texts = field.kind.texts(getattr(self._source, field.name))
        defaults = field.kind.texts(getattr(self._blank, field.name))
        return [
            FormField(
                id=one.id,
                errors=() if number else (field.name,),
                label=one.label,
                value=texts[number],
                hint=one.placeholder,
                options=one.choices,
                suggest=[Suggestion(name) for name in known_names(self._session.board, one.completes)],
                many=one.many,
                advanced=field.advanced,
                default=defaults[number],
                parse=partial(self._parse, field, number),
            )
            for number, one in enumerate(field.kind.inputs(field))
        ]

    def _parse(self, field: Field, number: int, text: str) -> Any:
        value = getattr(self._source, field.name)
        unchanged = text == field.kind.texts(value)[number]
        if unchanged and (text.strip() or not field.kind.required):
            return field.kind.parts(value)[number]
        return field.kind.parse(number, text, self._session.now())

    def _joined(self, field: Field, parts: Sequence[Any]) -> Any:
        """The value; if no part changed the very same one, also where parts do not hold all of it."""
        value = getattr(self._source, field.name)
        return value if list(parts) == list(field.kind.parts(value)) else field.kind.join(parts)
