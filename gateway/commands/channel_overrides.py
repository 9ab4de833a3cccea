"""Channel overrides: the options that say what a channel changes in every request, and how that is shown."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from gateway.client.caller import encoded
from gateway.commands.options import PAIR, names, naming, once
from gateway.commands.patches import Patch
from gateway.domain.overrides import Overrides

F = TypeVar("F", bound=Callable[..., Any])
Pairs = Sequence[tuple[str, str]]


NO_PARAMS = naming("--no-overrides drops all that is set here")


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say; None and empty where nothing was said."""

    set_params: Pairs
    default_params: Pairs
    remove_params: tuple[str, ...]
    system: str | None
    replace_system: bool | None
    no_overrides: bool


def edits_of(given: dict[str, Any]) -> Edits:
    """The options by name, taken out of the others."""
    return Edits(**{name: given.pop(name) for name in Edits.__struct_fields__})


def overrides_patch(edits: Edits, there: Overrides | None) -> Patch:
    """The overrides with what was said put over them, kind by kind; no field at all when nothing was said."""
    now = Overrides() if there is None or edits.no_overrides else there
    asked: dict[str, Any] = {}
    if edits.set_params:
        asked["set"] = _values(edits.set_params, "--set-param")
    if edits.default_params:
        asked["default"] = {
            name: value_of(text) for name, text in once(edits.default_params, "--default-param").items()
        }
    if edits.remove_params:
        asked["remove"] = tuple(names(edits.remove_params))
    if edits.system is not None:
        asked["system"] = edits.system
    if edits.replace_system is not None:
        asked["replace_system"] = edits.replace_system
    if not asked:
        return {"overrides": None} if edits.no_overrides else {}
    new = msgspec.structs.replace(now, **asked)
    return {"overrides": msgspec.json.decode(encoded(new)) if new else None}


def _values(pairs: Pairs, option: str) -> dict[str, object]:
    return {name: value_of(text) for name, text in once(pairs, option).items()}


def value_of(text: str) -> object:
    """A parameter's value: JSON where it is some, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def overrides_shown(overrides: Overrides | None) -> list[tuple[str, str]]:
    """A line for each kind."""
    if overrides is None:
        return []
    return [
        ("always", ", ".join(f"{name}={json.dumps(value)}" for name, value in overrides.set.items())),
        ("unless given", ", ".join(f"{name}={json.dumps(value)}" for name, value in overrides.default.items())),
        ("never", ", ".join(overrides.remove)),
        ("instead of system" if overrides.replace_system else "before system", overrides.system),
    ]


OPTIONS: Sequence[Callable[[F], F]] = (
    click.option("--set-param", "set_params", type=PAIR, multiple=True, help="A parameter every request gets."),
    click.option(
        "--default-param", "default_params", type=PAIR, multiple=True, help="One it gets if the client gives none."
    ),
    click.option(
        "--remove-param",
        "remove_params",
        type=NO_PARAMS,
        multiple=True,
        metavar="NAMES",
        help="Parameters that never go out.",
    ),
    click.option("--system", metavar="TEXT", help="A system prompt before the client's; '' for none."),
    click.option("--replace-system/--prepend-system", default=None, help="In place of the client's, or before it."),
    click.option("--no-overrides", is_flag=True, help="Drop all parameters and the system prompt set here."),
)
