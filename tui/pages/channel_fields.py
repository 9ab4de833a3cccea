"""Channel fields: the special fields of a channel's form: models, request headers, mock options and overrides.

Models are typed as names and patterns, or chosen from a list. Header values are secret unless they are references:
they are never shown.
"""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Overrides, Served
from gateway.domain.errors import BadRequest
from gateway.domain.patterns import NOT, is_pattern
from gateway.domain.upstream_views import ListedModel, ListingView
from gateway.domain.views import ChannelView
from tui import cli_commands, field_values
from tui import format as fmt
from tui.cli_commands import comma_list, pair_name
from tui.field_values import KEEP, quote_name, split_names, split_pair, unquote
from tui.text import safe
from tui.widgets.form import Field, Values

ORDER = ("new", "gone", "kept_out", "offered")
"""States in the order of interest."""

STATE_NAMES = {"new": "new", "gone": "gone", "kept_out": "not offered", "offered": "offered"}


class Offering(msgspec.Struct, frozen=True):
    """Models by name, and patterns that select from the upstream's list."""

    models: list[Served]
    patterns: list[str]
    live: list[Served] = []
    """Models that patterns selected and that stay; the server drops those missing here."""

    def patch(self) -> dict[str, Any]:
        """As the server takes it."""
        models = [*self.models, *(self.live if self.patterns else ())]
        return {"models": msgspec.to_builtins(models), "patterns": self.patterns}


def read_offering(text: str, known: Sequence[Served] = ()) -> Offering:
    """``a, name=upstream, gpt-*, !*-preview``; known data of a model that stays is kept. Raises BadRequest."""
    there = {model.name: model for model in known}
    own = {model.name for model in known if not model.live}
    models, patterns = [], []
    for word in dict.fromkeys(split_names(text)):
        before, equals, behind = split_pair(word)
        name, upstream = unquote(before), unquote(behind)
        if not equals and is_pattern(name) and name not in own:
            patterns.append(name)
            continue
        if not name or (equals and not upstream):
            raise BadRequest(f"{word!r} is not a model name or name=upstream-name")
        model = there.get(name, Served(name=name))
        models.append(msgspec.structs.replace(model, upstream="" if upstream == name else upstream, live=False))
    named = {model.name for model in models}
    return Offering(models, patterns, [model for model in known if model.live and model.name not in named])


def offering_of(view: ChannelView) -> Offering:
    """The offering of a channel as its owner configured it."""
    live = [model for model in view.models if model.live]
    return Offering([model for model in view.models if not model.live], list(view.patterns), live)


def offering_text(found: Offering) -> str:
    """The text to type for it."""
    named = [quote_name(m.name, "=") + (f"={quote_name(m.upstream, '=')}" if m.upstream else "") for m in found.models]
    return ", ".join([*named, *(quote_name(pattern, "=") for pattern in found.patterns)])


def models_command(found: Offering, known: Sequence[Served] = ()) -> tuple[str, str]:
    """What ``--models`` takes, and the options beside it. Raises BadRequest if options cannot express it.

    The command keeps a model's upstream name, so dropping it in the form needs an explicit mapping.
    """
    if odd := next((model.name for model in found.models if is_pattern(model.name)), None):
        raise BadRequest(f"'{odd}' is a model name, but the command line would read it as a pattern")
    renamed = {model.name for model in known if model.upstream}
    mapped = [model for model in found.models if model.upstream or model.name in renamed]
    maps = [f"{pair_name(model.name)}={model.upstream_name}" for model in mapped]
    names = comma_list([*(model.name for model in found.models), *found.patterns])
    return names or "*", "".join(f" --map {shlex.quote(pair)}" for pair in maps)


def listing_options(listing: ListingView) -> list[tuple[str, str]]:
    """Ids and texts of all listed models, new and gone ones first."""
    rows = sorted(listing.models, key=lambda one: (ORDER.index(one.state) if one.state in ORDER else 9, one.name))
    return [(one.name, _listed_text(one)) for one in rows]


def listing_summary(listing: ListingView) -> str:
    """``2 new, 1 gone, 12 not offered, 40 offered``."""
    states = [one.state for one in listing.models]
    return ", ".join(f"{states.count(state):,} {STATE_NAMES[state]}" for state in ORDER if state in states)


def offering_with(view: ChannelView, listing: ListingView, on: Collection[str]) -> Offering:
    """The offering if exactly these of the list are selected; models outside the list stay.

    Where patterns choose, a name that they let in and that is unwanted is taken out by a pattern of its own.
    """
    now, rows = offering_of(view), {one.name: one for one in listing.models}
    models = [one for one in now.models if one.upstream_name not in rows or one.upstream_name in on]
    kept_out = {pattern.removeprefix(NOT) for pattern in now.patterns if pattern.startswith(NOT)}
    models += [
        Served(name=one.name, context=one.context, max_output=one.max_output, told=one.told)
        for one in listing.models
        if one.name in on and not one.served and one.state != "gone" and one.name not in kept_out
    ]
    gone = {one.upstream_name for one in now.live} & rows.keys() - set(on)
    patterns = [p for p in now.patterns if not (p.startswith(NOT) and p.removeprefix(NOT) in on)]
    patterns += [f"{NOT}{name}" for name in sorted(gone)]
    return Offering(models, patterns, [one for one in now.live if one.upstream_name not in gone])


def _listed_text(one: ListedModel) -> str:
    public = f" as {safe(one.public)}" if one.public not in ("", one.name) else ""
    context = f"   {fmt.short_count(one.context)} tokens" if one.context else ""
    price = f"   {fmt.price(one.told.input)} / {fmt.price(one.told.output)} $/M list price" if one.told else ""
    return f"{STATE_NAMES.get(one.state, one.state):<12}{safe(one.name)}{public}{context}{price}"


REFERENCE = "env:"
EXAMPLE = "X-Team=blue X-Title='my app' X-Pass=env:NAME"


def headers_field(headers: Mapping[str, str], *, copy: bool = False) -> Field:
    """The field. It is filled if all values are references; else it is empty, and empty keeps them.

    A copy cannot have what is never shown.
    """
    known = all(value.startswith(REFERENCE) for value in headers.values())
    names = ", ".join(safe(name, 40) for name in headers)
    hint = f"none, or {EXAMPLE}"
    if not known:
        hint = (
            f"{names}: secret, not copied; retype all, or none"
            if copy
            else f"{names} kept; retype all to change, or none"
        )
    empty: dict[str, str] | str = {} if known or copy else KEEP
    return Field(
        id="headers",
        label="Headers",
        value=" ".join(shlex.quote(f"{name}={value}") for name, value in headers.items()) if known else "",
        hint=hint,
        parse=lambda text: read_headers(text) if text.strip() else empty,
    )


def read_headers(text: str) -> dict[str, str]:
    """``NAME=VALUE`` separated by spaces, quoted if a value contains spaces. Raises BadRequest."""
    if text.strip().lower() == "none":
        return {}
    try:
        split_names = shlex.split(text)
    except ValueError as error:
        raise BadRequest("the closing quotation mark is missing") from error
    found: dict[str, str] = {}
    given: set[str] = set()
    for word in split_names:
        name, equals, value = word.partition("=")
        if not (equals and name and value):
            raise BadRequest(f"{word!r} is not Name=value, for example {EXAMPLE}")
        if name.lower() in given:
            raise BadRequest(f"{name} is given twice; header names ignore case")
        given.add(name.lower())
        found[name] = value
    return found


def headers_command(text: str, before: str) -> str:
    """The equivalent options; values that may be secret are left out."""
    if cli_commands.if_changed(text, before) is None:
        return ""
    try:
        headers = read_headers(text)
    except BadRequest:
        return ""
    shown = ((name, value if value.startswith(REFERENCE) else "VALUE") for name, value in headers.items())
    return "".join(f" --header {shlex.quote(f'{name}={value}')}" for name, value in shown) or " --no-headers"


def mock_field(knobs: Mapping[str, Any]) -> Field:
    """The field, filled with those there are."""
    value = " ".join(
        f"{field_values.quote_name(name, '=')}={field_values.quote_name(_text(value))}" for name, value in knobs.items()
    )
    return Field(id="options", label="Mock options", value=value, hint="latency=200", parse=read_mock_options)


def read_mock_options(text: str) -> dict[str, Any]:
    """Values by name: JSON where a value is some, else the text itself. Raises BadRequest."""
    found = {}
    for word in field_values.split_words(text):
        before, _, behind = field_values.split_pair(word)
        name, value = field_values.unquote(before), field_values.unquote(behind)
        if not (name and value):
            raise BadRequest(f"{word!r} is not name=value")
        found[name] = _value(value)
    return found


def mock_command(text: str, before: str) -> str:
    """The options that set what is new or other than before, and take away what is gone. Raises BadRequest."""
    new, old = read_mock_options(text), read_mock_options(before)
    asked = {name: _text(value) for name, value in new.items() if name not in old or old[name] != value}
    asked |= {name: "none" for name in old if name not in new}
    return "".join(f" --option {shlex.quote(f'{name}={value}')}" for name, value in asked.items())


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _text(value: Any) -> str:
    """Text as it is, unless it would be read as something else."""
    return value if isinstance(value, str) and _value(value) == value else json.dumps(value, ensure_ascii=False)


PROMPT_PLACES = ("before the client's", "instead of the client's")


def override_fields(found: Overrides | None) -> list[Field]:
    """Parameters, the system prompt, and where it goes."""
    prompt = field_values.prompt_text(found)
    return [
        Field(
            id="parameters",
            label="Parameters",
            value=field_values.parameters_text(found),
            hint="none, or temperature=0.2 ?seed=1 -logprobs",
            parse=field_values.read_parameters,
        ),
        Field(
            id="system",
            label="System prompt",
            value=prompt,
            hint="none",
            parse=lambda text: found.system if found and text == prompt else field_values.read_prompt(text),
        ),
        Field(
            id="replace_system",
            label="Prompt goes",
            value=PROMPT_PLACES[bool(found and found.replace_system)],
            options=PROMPT_PLACES,
            parse=lambda text: text == PROMPT_PLACES[1],
        ),
    ]


def overrides_of(values: Values) -> Overrides:
    """Of the three fields about them. Raises BadRequest."""
    found = values["parameters"]
    replaces = values["replace_system"] and bool(values["system"])
    return Overrides(
        set=found.set,
        default=found.default,
        remove=found.remove,
        system=values["system"],
        replace_system=replaces,
    )


def overrides_command(values: Mapping[str, str], there: Overrides | None) -> str:
    """The options that say the same; nothing while what is typed makes no sense."""
    try:
        read = {field.id: field.parse(values[field.id]) for field in override_fields(there)}
    except BadRequest:
        return ""
    return field_values.parameters_command(overrides_of(read), there)
