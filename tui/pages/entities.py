"""Entities: forms built from tables of fields, and what all entities can do: create, copy, edit."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.field_kinds import NONE_WORD, Field, json_value
from gateway.domain.fields import Table
from gateway.domain.quoting import quote_name
from tui.pages.base import AnyPage, Verb, on_selected
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.combobox import Suggestion
from tui.widgets.dialogs import UNCHANGED
from tui.widgets.form import Form, FormField, FormPlan, Values

Create = Callable[[AnyPage, Any], Awaitable[None]]
"""Shows the form of a new entity, empty or as a copy of this one, and creates it."""
Send = Callable[..., Awaitable[Any]]
"""A method of the client that creates or edits an entity."""


class EntityForm:
    """A form that edits an entity, or creates one: empty, or as a copy of another.

    The request and the command contain only what differs. An input whose text is unchanged keeps the exact value,
    because the text may be a rounded or masked form of it.
    """

    def __init__(
        self,
        noun: str,
        table: Table,
        blank: msgspec.Struct,
        session: ConsoleSession,
        entity: Any = None,
        *,
        copy: bool = False,
        source: msgspec.Struct | None = None,
    ) -> None:
        """``entity``: what is edited, or with ``copy`` what is copied. ``source`` fills the inputs of a new entity."""
        self._noun = noun
        self._table = table
        self.session = session
        self.edited: Any = None if copy else entity
        """The entity that is edited; None if the form creates one."""
        self._blank = blank
        self._before = self.edited or blank
        """The entity that the form is compared with; for a new one, the defaults."""
        self._source = entity or source or blank
        """The entity whose values fill the inputs."""
        self._last_seen = self.edited
        """The edited entity as the owner last saw it: in the form, or in an error that it was changed meanwhile."""
        if entity is not None and copy:
            self._source = msgspec.structs.replace(entity, name=f"{entity.name}-2")

    def fields(self) -> list[FormField]:
        return self.inputs()

    def preview(self, values: Values) -> str:
        """Returns a sentence about what the current values will do, or an empty string."""
        return ""

    def plan(self, title: str, send: Send, **more: Any) -> FormPlan:
        """Returns the form's plan, with ``more`` attributes. Its result is what ``send`` returns, or UNCHANGED."""

        async def save(values: Values) -> Any:
            body = self.body(values)
            self._check_changed_meanwhile(body)
            return await send(body) if body else UNCHANGED

        parts = {"save": save, "command": self.command, "preview": self.preview}
        return FormPlan(title=title, fields=self.fields(), **(parts | more))

    def inputs(self, **changes: Mapping[str, Any]) -> list[FormField]:
        """Returns the inputs in the order of the table, with attributes of single inputs replaced by ``changes``."""
        return [msgspec.structs.replace(self._input(field), **changes.get(field.id, {})) for field in self._table]

    def body(self, values: Values) -> dict[str, Any]:
        entity = self._entity(values, self._table)
        return {name: json_value(value) for name, value in entity.items() if value != getattr(self._before, name)}

    def _check_changed_meanwhile(self, body: Mapping[str, Any]) -> None:
        """Raises BadRequest, once, for a field that was changed since the form opened; NotFound without the entity."""
        board, before = self.session.board, self._last_seen
        if before is None or self._noun == "settings":  # the board has no settings
            return
        entities = (*board.tokens, *board.ended_tokens, *board.groups, *board.channels, board.account)
        current = next((entity for entity in entities if _identity(entity) == _identity(before)), None)
        if current is None:
            history = self.session.key("app.history")
            raise NotFound(f"it was deleted or renamed meanwhile; after esc, {history} shows the change and undoes it")
        self._last_seen = current
        for field in self._table:
            old_text, new_text = (field.kind.text(getattr(entity, field.name)) for entity in (before, self._last_seen))
            if field.name in body and new_text != old_text:
                msg = f"it was changed meanwhile to: {safe(new_text, 200) or 'nothing'}; save again to replace that"
                raise BadRequest(msg, param=field.name)

    def is_unchanged(self, values: Values) -> bool:
        return all(values[field.id] == field.kind.content(getattr(self._source, field.name)) for field in self._table)

    def command(self, texts: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """Returns the equivalent command; ``more`` are additional options. Raises BadRequest for invalid texts."""
        if self.edited is None:
            words = ["add", texts["name"] or "NAME"]
        else:
            words = ["edit", self.edited.name] if hasattr(self.edited, "name") else ["set"]
        return shlex.join([self._noun, *words, *more, *self.arguments(texts)])

    def arguments(self, texts: Mapping[str, str]) -> list[str]:
        """Returns the options of the command. The name of a new entity is not one of them."""
        fields = [field for field in self._table if self.edited is not None or field.name != "name"]
        after = self._entity({field.id: self._parse(field, texts[field.id]) for field in fields}, fields)
        options = (field.arguments(getattr(self._before, field.name), after[field.name]) for field in fields)
        return [*chain.from_iterable(options)]

    def _input(self, field: Field) -> FormField:
        kind = field.kind
        entities = getattr(self.session.board, kind.completes, ()) if kind.completes else ()
        return FormField(
            id=field.id,
            errors=(field.name,),
            label=field.label,
            value=kind.text(getattr(self._source, field.name)),
            hint=field.placeholder,
            options=kind.choices,
            suggest=[Suggestion(quote_name(entity.name)) for entity in entities],
            many=kind.many,
            line_break=kind.line_break,
            advanced=not (field.basic or field.section),  # a setting is edited alone
            default=kind.text(getattr(self._blank, field.name)),
            parse=partial(self._parse, field),
        )

    def _parse(self, field: Field, text: str) -> Any:
        """Returns the value of a text: the exact original value while the text is unchanged. Raises BadRequest."""
        value = getattr(self._source, field.name)
        if text == field.kind.text(value) and (text.strip() or not field.kind.required):
            return field.kind.content(value)
        offers_none = field.placeholder.partition(",")[0] == NONE_WORD  # the input says that one may type it
        is_none = offers_none and text.strip().lower() == NONE_WORD
        return field.kind.read("" if is_none else text, self.session.now())

    def _entity(self, values: Values, fields: Table) -> dict[str, Any]:
        entity = {field.name: getattr(self._source, field.name) for field in fields}
        for field in fields:
            value = entity[field.name]
            is_changed = values[field.id] != field.kind.content(value)
            if is_changed or self.edited is None:  # an unchanged value is kept: the input may show only a part of it
                entity[field.name] = field.kind.with_content(value, values[field.id])
        return entity


def _identity(entity: Any) -> tuple[type, str]:
    return type(entity), getattr(entity, "id", "") or getattr(entity, "name", "")


def creating_verbs(create: Create) -> Mapping[str, Verb]:
    """Returns the verbs that create an entity: an empty one, or a copy of the selected one."""
    return {"new": lambda page: create(page, None), "duplicate": on_selected(create)}


async def ask_new(page: AnyPage, form: EntityForm, add: Send, template: Any, **more: Any) -> Any:
    """Show the form of a new entity. Returns the result of ``add`` for it."""
    title = f"New {page.noun}" + ("" if template is None else f" like {template.name}")
    return await page.ask(Form(form.plan(title, add, verb="Create", **more)))


async def ask_changes(page: AnyPage, form: EntityForm, edit: Send) -> Any:
    """Show the form of the edited entity. Returns the result of ``edit``."""
    title = f"{page.noun.capitalize()} {form.edited.name}"
    return await page.ask(Form(form.plan(title, partial(edit, getattr(form.edited, page.key_field)))))


def edit_verb(form: Callable[[ConsoleSession, Any], EntityForm], edit: Callable[[ControlClient], Send]) -> Verb:
    """Returns the verb that edits the selected entity in its form."""

    @on_selected
    async def show_form(page: AnyPage, view: Any) -> None:
        await ask_changes(page, form(page.session, view), edit(page.session.client))
        page.report_change(f"{page.noun.capitalize()} {view.name} saved.")

    return show_form
