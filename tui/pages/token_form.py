"""Token form: what can be set of a token, and the preview of the models it will see."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.human_values import local_time
from gateway.domain.limits import Limits
from gateway.domain.patterns import matches
from gateway.domain.views import TokenView
from tui import budgets, cli_commands, field_values
from tui.cli_commands import cli_command, if_changed
from tui.field_values import budget_bodies, expiry, patterns, required, text_line_or_same
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.form import Field, Values

SHOWN = 6
"""Most model names in the preview."""

KEEP = "keep"
"""The value of an unchanged expiry, because its field shows a rounded time."""


def fields(session: ConsoleSession, token: TokenView | None, *, copy: bool = False) -> list[Field]:
    """The fields, filled from a token if there is one; a copy has another name."""
    groups = sorted(group.name for group in session.board.groups) or ["default"]
    group = token.group if token else "default" if "default" in groups else groups[0]
    before, moment = _expiry(token), expiry(session.now)
    return [
        Field(
            id="name",
            label="Name",
            value="" if token is None else f"{token.name}-2" if copy else token.name,
            hint="laptop",
            parse=required,
        ),
        Field(id="group", label="Group", value=group, options=groups),
        Field(
            id="models",
            label="Models",
            value=field_values.names_text(token.models) if token else "",
            hint="all of the group's, or patterns: gpt-*, claude-*",
            parse=patterns,
        ),
        *budgets.budget_fields(token),
        Field(
            id="expires",
            label="Expires",
            value=before,
            hint="never, or 30d, or 2026-12-31",
            parse=lambda text: KEEP if before and text.strip() == before else moment(text),
        ),
        Field(
            id="stop_when_empty",
            label="When used up",
            value="stop running streams" if token and token.stop_when_empty else "let them finish",
            options=("let them finish", "stop running streams"),
            parse=lambda text: text.startswith("stop"),
        ),
        Field(
            id="note",
            label="Note",
            value=token.note if token else "",
            hint="for your own use",
            parse=text_line_or_same(token.note if token else ""),
        ),
    ]


def _expiry(token: TokenView | None) -> str:
    """The expiry as typed; empty for never."""
    return "" if token is None or token.expires is None else local_time(token.expires)[: len("2026-11-30 22:31")]


def body(values: Values, token: TokenView | None = None) -> dict[str, Any]:
    """The request body; an unchanged expiry is left out, or copied from the token being duplicated."""
    made = {name: values[name] for name in ("name", "group", "models", "limits", "stop_when_empty", "note")}
    made["budgets"] = budget_bodies(values["budgets"], values["token_budgets"])
    if values["expires"] != KEEP:
        made["expires"] = values["expires"]
    elif token is not None:
        made["expires"] = token.expires
    return made


def visible_models(session: ConsoleSession, values: Mapping[str, Any]) -> str:
    """``this token sees 3 models: ...`` of the group and patterns typed so far."""
    group = next((one for one in session.board.groups if one.name == values["group"]), None)
    offered = group.sees if group else []
    found = [name for name in offered if matches(name, tuple(values["models"]))]
    if not found:
        why = "no pattern matches a model of its group" if offered else "its group has no enabled channel with models"
        return f"this token sees no models: {why}"
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    shown = ", ".join(safe(name, 40) for name in found[:SHOWN])
    return f"this token sees {len(found)} model{'' if len(found) == 1 else 's'}: {shown}{more}"


def add_command(values: Mapping[str, str]) -> str:
    """The command that creates this token."""
    return _options(("token", "add", values["name"] or "NAME"), values, None)


def edit_command(token: TokenView, values: Mapping[str, str]) -> str:
    """The command that changes the token to what the form says."""
    return _options(("token", "edit", token.name), values, token)


def _options(words: tuple[str, ...], values: Mapping[str, str], token: TokenView | None) -> str:
    stop = values["stop_when_empty"].startswith("stop")
    models = if_changed(values["models"], field_values.names_text(token.models) if token else "")
    expires = if_changed(values["expires"], _expiry(token))
    text = cli_command(
        *words,
        rename=if_changed(values["name"], token.name) if token else None,
        group=if_changed(values["group"], token.group if token else ""),
        models=models if models is None else cli_commands.comma_list(patterns(models)) or "*",
        expires=expires if expires is None else expires or "never",
        note=if_changed(values["note"], token.note if token else ""),
    )
    text += cli_commands.budget_options(values, token.budgets if token else ())
    text += cli_commands.limit_options(values["limits"], token.limits if token else Limits())
    if stop != (token.stop_when_empty if token else False):
        text += " --stop-when-empty" if stop else " --finish-when-empty"
    return text
