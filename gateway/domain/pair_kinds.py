"""Kinds of fields that are pairs: deadlines, headers, mock options, overrides of requests, fallbacks of models."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Overrides, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import Field, Input, Kind, Option, once
from gateway.domain.group import Fallback
from gateway.domain.limit_kinds import NONE
from gateway.domain.quoting import (
    comma_list,
    listed_names,
    names_of,
    pair,
    pair_name,
    quote_name,
    split_pair,
    split_words,
    unquote,
)
from gateway.domain.units import Millis

Pairs = Sequence[tuple[str, str]]
REFERENCE = "env:"
"""Before the name of a variable that holds a secret."""

HEADERS_EXAMPLE = "X-Team=blue X-Title='my app' X-Pass=env:NAME"


def json_or_text(text: str) -> Any:
    """JSON where it is valid JSON, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def json_text(value: Any) -> str:
    """Text as it is, unless it would be read as something else."""
    return value if isinstance(value, str) and json_or_text(value) == value else json.dumps(value, ensure_ascii=False)


def _pair(text: str, _now: Millis) -> tuple[str, str]:
    return pair(text)


class Deadlines(Kind[Timeouts]):
    """Seconds by name, or ``default``; what is not typed has its default."""

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(
                flags=field.flags, name=field.name, help=field.help, metavar="NAME=SECONDS", read=_pair, multiple=True
            )
        ]

    def change(self, field: Field, given: Mapping[str, Any], before: Timeouts) -> Any:
        if not (pairs := given.get(field.name)):
            return msgspec.UNSET
        return self._with(before, {name: _seconds(name, text) for name, text in once(pairs, field.flags).items()})

    def texts(self, value: Timeouts) -> Sequence[str]:
        usual = Timeouts()
        named = ((name, seconds) for name, seconds in msgspec.structs.asdict(value).items())
        return [" ".join(f"{name}={_brief(s)}" for name, s in named if s != getattr(usual, name))]

    def read(self, text: str, now: Millis) -> Timeouts:
        words = [word.partition("=") for word in text.split()]
        if wrong := next(("".join(word) for word in words if not (word[0] and word[2])), None):
            raise BadRequest(f"{wrong!r} is not name=value")
        return self._with(Timeouts(), {name: _seconds(name, seconds) for name, _, seconds in words})

    def arguments(self, field: Field, before: Timeouts, after: Timeouts) -> Sequence[str]:
        old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
        changed = {name: seconds for name, seconds in new.items() if old[name] != seconds}
        return [part for name, seconds in changed.items() for part in (field.flags, f"{name}={_brief(seconds)}")]

    def show(self, value: Timeouts) -> str:
        return ", ".join(f"{name} {_brief(seconds)}s" for name, seconds in msgspec.structs.asdict(value).items())

    def body(self, value: Timeouts) -> Any:
        return msgspec.structs.asdict(value)

    @staticmethod
    def _with(timeouts: Timeouts, changes: Mapping[str, float]) -> Timeouts:
        known = Timeouts.__struct_fields__
        if wrong := next((name for name in changes if name not in known), None):
            raise BadRequest(f"unknown deadline {wrong!r}; use {', '.join(known)}, as in head=60")
        return msgspec.structs.replace(timeouts, **changes)


def _seconds(name: str, text: str) -> float:
    usual: float | None = msgspec.structs.asdict(Timeouts()).get(name)
    if text == "default" and usual is not None:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        back = f"; {name}=default is {_brief(usual)}" if usual is not None else ""
        raise BadRequest(f"{name}: {text!r} is not a number of seconds up to 86400, as in head=60{back}")
    return seconds


def _brief(seconds: float) -> str:
    """Short if that loses nothing."""
    return f"{seconds:g}" if float(f"{seconds:g}") == seconds else str(seconds)


class Headers(Kind[dict[str, str]]):
    """Request headers. Their values are secret unless they are references: a view has them masked."""

    def options(self, field: Field) -> Sequence[Option]:
        option = Option(
            flags=field.flags, name=field.name, help=field.help, metavar="NAME=VALUE", read=_pair, multiple=True
        )
        return [option, Option(flags="--no-headers", name="no_headers", help="Remove all additional headers.")]

    def change(self, field: Field, given: Mapping[str, Any], before: dict[str, str]) -> Any:
        pairs, none = given.get(field.name), given.get("no_headers")
        if none and pairs:
            raise BadRequest("--no-headers and --header exclude each other")
        return once(pairs or (), field.flags) if none or pairs else msgspec.UNSET

    def texts(self, value: dict[str, str]) -> Sequence[str]:
        """Empty if some are secret."""
        if not all(text.startswith(REFERENCE) for text in value.values()):
            return [""]
        return [" ".join(shlex.quote(f"{name}={text}") for name, text in value.items())]

    def read(self, text: str, now: Millis) -> dict[str, str]:
        if text.strip().lower() == NONE:
            return {}
        headers: dict[str, str] = {}
        seen: set[str] = set()
        for word in _shell_words(text):
            name, equals, value = word.partition("=")
            if not (equals and name and value):
                raise BadRequest(f"{word!r} is not Name=value, for example {HEADERS_EXAMPLE}")
            if name.lower() in seen:
                raise BadRequest(f"{name} is given twice; header names ignore case")
            seen.add(name.lower())
            headers[name] = value
        return headers

    def arguments(self, field: Field, before: dict[str, str], after: dict[str, str]) -> Sequence[str]:
        """Values that may be secret are left for the owner to fill in."""
        if before == after:
            return []
        shown = ((name, value if value.startswith(REFERENCE) else "VALUE") for name, value in after.items())
        return [part for name, value in shown for part in (field.flags, f"{name}={value}")] or ["--no-headers"]

    def show(self, value: dict[str, str]) -> str:
        return ", ".join(f"{name}: {text}" for name, text in value.items())


class MockOptions(Kind[dict[str, Any]]):
    """Options of the mock dialect: JSON values by name."""

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(flags=field.flags, name=field.name, help=field.help, metavar="NAME=VALUE", read=_pair, multiple=True)
        ]

    def change(self, field: Field, given: Mapping[str, Any], before: dict[str, Any]) -> Any:
        """A name may be written as in a message: ``no-usage`` is ``no_usage``."""
        pairs = given.get(field.name)
        if not pairs:
            return msgspec.UNSET
        changes = once([(name.replace("-", "_"), text) for name, text in pairs], field.flags)
        kept = {_key(name): value for name, value in before.items() if _key(name) not in changes}
        return kept | {name: _simple(text) for name, text in changes.items() if text != NONE}

    def texts(self, value: dict[str, Any]) -> Sequence[str]:
        return [" ".join(f"{quote_name(name, '=')}={quote_name(json_text(item))}" for name, item in value.items())]

    def read(self, text: str, now: Millis) -> dict[str, Any]:
        values = {}
        for word in split_words(text):
            left, _, right = split_pair(word)
            name, value = unquote(left), unquote(right)
            if not (name and value):
                raise BadRequest(f"{word!r} is not name=value")
            values[name] = json_or_text(value)
        return values

    def arguments(self, field: Field, before: dict[str, Any], after: dict[str, Any]) -> Sequence[str]:
        changed = {n: json_text(value) for n, value in after.items() if n not in before or before[n] != value}
        changed |= {name: NONE for name in before if name not in after}
        return [part for name, text in changed.items() for part in (field.flags, f"{name}={text}")]

    def show(self, value: dict[str, Any]) -> str:
        return ", ".join(f"{name}={item}" for name, item in value.items())


def _key(name: str) -> str:
    return name.replace("-", "_")


def _simple(text: str) -> str | int | float | bool:
    value = json_or_text(text)
    return value if isinstance(value, str | int | float | bool) else text


class Fallbacks(Kind[tuple[Fallback, ...]]):
    """Which models may answer for others: ``gpt-*=a,b other=c``."""

    def options(self, field: Field) -> Sequence[Option]:
        option = Option(
            flags=field.flags, name=field.name, help=field.help, metavar="MODEL=OTHERS", read=_pair, multiple=True
        )
        return [option, Option(flags="--no-fallbacks", name="no_fallbacks", help="No other model may answer.")]

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[Fallback, ...]) -> Any:
        pairs, none = given.get(field.name), given.get("no_fallbacks")
        if none and pairs:
            raise BadRequest("--no-fallbacks and --fallback exclude each other")
        if not (pairs or none):
            return msgspec.UNSET
        named = once(pairs or (), field.flags).items()
        return tuple(Fallback(model=model, to=tuple(listed_names([others]))) for model, others in named)

    def texts(self, value: tuple[Fallback, ...]) -> Sequence[str]:
        return [
            " ".join(f"{quote_name(one.model, '=')}={','.join(quote_name(to, '=') for to in one.to)}" for one in value)
        ]

    def read(self, text: str, now: Millis) -> tuple[Fallback, ...]:
        return tuple(map(_fallback, split_words(text)))

    def arguments(self, field: Field, before: tuple[Fallback, ...], after: tuple[Fallback, ...]) -> Sequence[str]:
        if before == after:
            return []
        pairs = (f"{pair_name(one.model)}={comma_list(one.to)}" for one in after)
        return [part for text in pairs for part in (field.flags, text)] or ["--no-fallbacks"]

    def show(self, value: tuple[Fallback, ...]) -> str:
        return "; ".join(f"{one.model}: {', '.join(one.to)}" for one in value)


def _fallback(word: str) -> Fallback:
    left, equals, others = split_pair(word)
    model, to = unquote(left), tuple(names_of(others))
    if not (model and equals and to):
        raise BadRequest(f"{word!r} is not MODEL=OTHER,ANOTHER, as in gpt-*=claude-sonnet-4-5")
    return Fallback(model=model, to=to)


PROMPT_PLACES = ("before the client's", "instead of the client's")
DEFAULT, REMOVE = "?", "-"
BREAK = "\\n"
"""A line end of the system prompt, in an input of one line."""


class RequestOverrides(Kind[Overrides | None]):
    """Parameters, the system prompt, and where it goes.

    Parameters are ``temperature=0.2 ?max_tokens=4096 -logprobs``: always set, set unless the client sets it, removed.
    """

    def options(self, field: Field) -> Sequence[Option]:
        pairs: dict[str, Any] = {"metavar": "NAME=VALUE", "read": _pair, "multiple": True}
        return [
            Option(flags="--set-param", name="set_params", help="A parameter that every request gets.", **pairs),
            Option(
                flags="--default-param", name="default_params", help="One for requests that do not set it.", **pairs
            ),
            Option(
                flags="--remove-param",
                name="remove_params",
                help="Parameters that are never sent.",
                metavar="NAMES",
                read=_removed_name,
                multiple=True,
            ),
            Option(flags="--system", name="system", help="A system prompt; '' for none.", metavar="TEXT"),
            Option(
                flags="--replace-system/--prepend-system",
                name="replace_system",
                help="The system prompt goes instead of the client's, or before it.",
            ),
            Option(
                flags="--no-overrides",
                name="no_overrides",
                help="Remove the parameters and the system prompt set here.",
            ),
        ]

    def change(self, field: Field, given: Mapping[str, Any], before: Overrides | None) -> Any:
        """Each kind of change replaces what was there of its kind."""
        changes: dict[str, Any] = {}
        if pairs := given.get("set_params"):
            changes["set"] = {name: json_or_text(text) for name, text in once(pairs, "--set-param").items()}
        if pairs := given.get("default_params"):
            changes["default"] = {name: json_or_text(text) for name, text in once(pairs, "--default-param").items()}
        if names := given.get("remove_params"):
            changes["remove"] = tuple(listed_names(names))
        changes |= {name: given[name] for name in ("system", "replace_system") if given.get(name) is not None}
        if not changes:
            return None if given.get("no_overrides") else msgspec.UNSET
        base = Overrides() if before is None or given.get("no_overrides") else before
        return msgspec.structs.replace(base, **changes) or None

    def inputs(self, field: Field) -> Sequence[Input]:
        return [
            Input(
                id="parameters",
                label="Parameters",
                placeholder="none, or temperature=0.2 ?seed=1 -logprobs",
            ),
            Input(id="system", label="System prompt", placeholder="none"),
            Input(id="replace_system", label="Prompt goes", choices=PROMPT_PLACES),
        ]

    def texts(self, value: Overrides | None) -> Sequence[str]:
        found = value or Overrides()
        words = [f"{name}={json_text(item)}" for name, item in found.set.items()]
        usual = [f"{name}={json_text(item)}" for name, item in found.default.items()]
        parameters = [
            *map(shlex.quote, words),
            *(DEFAULT + shlex.quote(word) for word in usual),
            *(REMOVE + shlex.quote(name) for name in found.remove),
        ]
        return [" ".join(parameters), found.system.replace("\n", BREAK), PROMPT_PLACES[found.replace_system]]

    def parts(self, value: Overrides | None) -> Sequence[Any]:
        found = value or Overrides()
        return [
            msgspec.structs.replace(found, system="", replace_system=False),
            found.system,
            found.replace_system,
        ]

    def parse(self, number: int, text: str, now: Millis) -> Any:
        if number == 0:
            return _parameters(text)
        return text.strip().replace(BREAK, "\n") if number == 1 else text == PROMPT_PLACES[1]

    def join(self, parts: Sequence[Any]) -> Overrides | None:
        parameters, system, replaces = parts
        return msgspec.structs.replace(parameters, system=system, replace_system=replaces and bool(system)) or None

    def arguments(self, field: Field, before: Overrides | None, after: Overrides | None) -> Sequence[str]:
        """All of them again if there were some before."""
        if before == after:
            return []
        found, out = after or Overrides(), ["--no-overrides"] if before else []
        for name, value in found.set.items():
            out += ["--set-param", f"{name}={json_text(value)}"]
        for name, value in found.default.items():
            out += ["--default-param", f"{name}={json_text(value)}"]
        for name in found.remove:
            out += ["--remove-param", name]
        out += ["--system", found.system] if found.system else []
        return [*out, "--replace-system"] if found.replace_system else out

    def show(self, value: Overrides | None) -> str:
        if value is None:
            return ""
        parts = [f"always {name}={json.dumps(item)}" for name, item in value.set.items()]
        parts += [f"by default {name}={json.dumps(item)}" for name, item in value.default.items()]
        parts += [f"never {name}" for name in value.remove]
        if value.system:
            parts.append(f"system prompt {PROMPT_PLACES[value.replace_system]}: {value.system}")
        return ", ".join(parts)


def _parameters(text: str) -> Overrides:
    always: dict[str, Any] = {}
    usual: dict[str, Any] = {}
    removed: list[str] = []
    for word in _shell_words(text):
        name, equals, value = word.removeprefix(DEFAULT).partition("=")
        if word.startswith(REMOVE) and not equals:
            removed.append(word.removeprefix(REMOVE))
        elif not name or not equals:
            raise BadRequest(f"{word!r} is not name=value, ?name=value or -name")
        else:
            (usual if word.startswith(DEFAULT) else always)[name] = json_or_text(value)
    return Overrides(set=always, default=usual, remove=tuple(dict.fromkeys(removed)))


def _removed_name(text: str, _now: Millis) -> str:
    if not listed_names([text]):
        raise BadRequest(f"{text!r} contains no names; --no-overrides removes all that is set here")
    return text


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadRequest("the closing quotation mark is missing") from error
