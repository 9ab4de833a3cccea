"""Token form: its inputs, and the preview of the models the token will see."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.fields import TOKEN
from gateway.domain.human_values import first_of, plural
from gateway.domain.patterns import matches
from gateway.domain.token import TokenFields
from gateway.domain.views import GroupView, TokenView
from tui import format as fmt
from tui.entity_form import EntityForm
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.form import FormField


def token_form(session: ConsoleSession, token: TokenView | None, *, copy: bool = False) -> EntityForm:
    """A form that edits a token, or creates one like it (``copy``) or an empty one."""
    blank = TokenFields(name="", group="")
    source = msgspec.structs.replace(blank, group=_usual_group(session))
    return EntityForm("token", TOKEN, blank, session, token, copy=copy, source=source)


def token_inputs(session: ConsoleSession, form: EntityForm) -> list[FormField]:
    """Its inputs; the group is one of those there are."""
    return form.inputs(group={"options": _groups(session), "suggest": ()})


def _groups(session: ConsoleSession) -> list[str]:
    return sorted(group.name for group in session.board.groups) or ["default"]


def _usual_group(session: ConsoleSession) -> str:
    groups = _groups(session)
    return "default" if "default" in groups else groups[0]


def visible_models(session: ConsoleSession, values: Mapping[str, Any]) -> str:
    """``this token sees 3 models: ...`` of the group and patterns typed so far."""
    group = next((one for one in session.board.groups if one.name == values["group"]), None)
    offered = group.sees if group else []
    fitting = [name for name in offered if matches(name, tuple(values["models"]))]
    found = [name for name in fitting if group is None or not _is_empty_alias(session, group, name, fitting)]
    if not found:
        why = "no pattern matches a model of its group" if offered else "its group has no enabled channel with models"
        return f"this token sees no models: {why}"
    shown = first_of([safe(name, 40) for name in found], 6)
    return f"this token sees {fmt.count_text(len(found), 'model')}: {shown}{_missing_fallbacks(group, fitting)}"


def _is_empty_alias(session: ConsoleSession, group: GroupView, name: str, fitting: Sequence[str]) -> bool:
    """Whether no channel of the group has a model of this name, and the token may use none that answers for it."""
    channels = (one for one in session.board.channels if one.enabled and group.name in one.groups)
    if any(model.name == name for channel in channels for model in channel.models):
        return False
    return not any(other in fitting for rule in group.fallbacks if rule.model == name for other in rule.to)


def _missing_fallbacks(group: GroupView | None, found: Sequence[str]) -> str:
    """The models of the group that may not answer for those that the token sees, as its patterns leave them out."""
    rules = group.fallbacks if group is not None else ()
    used = [rule for rule in rules if any(matches(name, (rule.model,)) for name in found)]
    barred = {name: None for rule in used for name in rule.to if name not in found}
    names = ", ".join(safe(name, 40) for name in barred)
    return f"; its patterns leave out the {plural(len(barred), 'fallback')} {names}" if barred else ""
