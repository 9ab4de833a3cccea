"""Entities: the common actions of the pages of tokens, groups and channels: create, copy, edit, enable and disable."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from tui.entity_form import EntityForm, save_changes
from tui.pages import marked
from tui.pages.base import AnyPage, Verb, on_selected
from tui.widgets.form import Form, FormPlan

Create = Callable[[AnyPage, Any], Awaitable[None]]
"""Shows the form of a new entity, empty or as a copy of this one, and creates it."""
Send = Callable[..., Awaitable[Any]]
"""A method of the client that creates or edits an entity."""


def creating_verbs(create: Create) -> Mapping[str, Verb]:
    """Returns the verbs that create an entity: an empty one, or a copy of the selected one."""
    return {"new": lambda page: create(page, None), "duplicate": on_selected(create)}


async def ask_new(page: AnyPage, form: EntityForm, add: Send, template: Any, progress_text: str = "") -> Any:
    """Show the form of a new entity. Returns the result of ``add`` for it; None if the form was closed."""
    plan = FormPlan(
        title=f"New {page.listing.noun}" + ("" if template is None else f" like {template.name}"),
        fields=form.fields(),
        save=lambda values: add(form.body(values)),
        command=form.command,
        preview=form.preview,
        verb="Create",
        progress_text=progress_text,
    )
    return await page.ask(Form(plan))


async def ask_changes(page: AnyPage, form: EntityForm, edit: Send) -> Any:
    """Show the form of the edited entity. Returns the result of ``edit``, UNCHANGED, or None if the form was closed."""
    view: Any = form.edited
    plan = FormPlan(
        title=f"{page.listing.noun.capitalize()} {view.name}",
        fields=form.fields(),
        save=save_changes(form.body, partial(edit, getattr(view, page.listing.key_field))),
        command=form.command,
        preview=form.preview,
    )
    return await page.ask(Form(plan))


def toggle_verb(edit: Callable[[AnyPage], Send], effect: str = "") -> Verb:
    """Returns the verb that disables or enables the selected or all marked entities. ``effect`` ends its message."""

    @marked.on_selected_or_marked("toggle")
    async def toggle(page: AnyPage, view: Any) -> None:
        await edit(page)(view.id, {"enabled": not view.enabled})
        result = f"disabled{effect}" if view.enabled else "enabled"
        page.report_change(f"{page.listing.noun.capitalize()} {view.name} {result}.")

    return toggle
