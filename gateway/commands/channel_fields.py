"""The options that ``channel add`` and ``channel edit`` share, the body they make, and how overrides are shown."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import click
import msgspec

from gateway.client.request import encoded
from gateway.commands import options, stdin
from gateway.commands.completion import GROUPS, PRESETS, several
from gateway.commands.options import (
    MULTIPLIER,
    NAMES,
    NO_MATTER,
    PAIR,
    RENAMING,
    Patch,
    limit_options,
    names,
    naming,
    once,
)
from gateway.commands.output import words
from gateway.domain.channel import Overrides, Served, Timeouts, TokenLimitField
from gateway.domain.limits import Limits
from gateway.domain.patterns import is_pattern
from gateway.domain.views import ChannelView

F = TypeVar("F", bound=Callable[..., Any])
Pairs = Sequence[tuple[str, str]]


NO_PARAMS = naming("--no-overrides drops all that is set here")


class OverrideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say; None and empty where nothing was said."""

    set_params: Pairs
    default_params: Pairs
    remove_params: tuple[str, ...]
    system: str | None
    replace_system: bool | None
    no_overrides: bool


def edits_of(given: dict[str, Any]) -> OverrideOptions:
    """The options by name, taken out of the others."""
    return OverrideOptions(**{name: given.pop(name) for name in OverrideOptions.__struct_fields__})


def overrides_patch(edits: OverrideOptions, there: Overrides | None) -> Patch:
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

NO_KEY = "without --key a new channel has none, 'tollkeeper channel key remove NAME 1' takes one away"
NO_PROXY = f"for no proxy write --proxy {NO_MATTER}"


class CurrentChannel(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel has so far that an option may be put over; nothing of a new one."""

    models: Sequence[Served] = ()
    patterns: Sequence[str] = ()
    overrides: Overrides | None = None
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    knobs: dict[str, Any] = {}

    @classmethod
    def of(cls, view: ChannelView) -> Self:
        """Of an existing channel."""
        return cls(
            models=view.models,
            patterns=view.patterns,
            overrides=view.overrides,
            limits=view.limits,
            timeouts=view.timeouts,
            knobs=dict(view.options),
        )


class ChannelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say; None and empty where nothing was said."""

    base_url: str | None
    keys: tuple[str, ...]
    groups: tuple[str, ...]
    no_groups: bool
    models: tuple[str, ...]
    maps: Pairs
    preset: str | None
    priority: int | None
    weight: int | None
    cost_factor: int | None
    headers: Pairs
    no_headers: bool
    overrides: OverrideOptions
    proxy: str | None
    timeouts: Pairs
    knobs: Pairs
    token_limit_field: str | None
    strict: bool | None
    finish_abandoned: bool | None
    note: str | None
    limits: dict[str, tuple[int | None] | None]


def channel_options(command: F) -> F:
    """The shared options; the command gets them as ``**given`` for ``fields_of``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fields_of(given: dict[str, Any]) -> ChannelOptions:
    """The options by name, limits apart."""
    limits = {name: given.pop(name) for name in ("rpm", "tpm", "rpd", "tpd", "concurrent", "queue", "queue_s")}
    return ChannelOptions(limits=limits, overrides=edits_of(given), **given)


def patch_of(fields: ChannelOptions, there: CurrentChannel) -> Patch:
    """The body for the control surface."""
    patch = options.given(
        base_url=fields.base_url,
        preset=fields.preset,
        priority=fields.priority,
        weight=fields.weight,
        cost_factor=fields.cost_factor,
        token_limit_field=fields.token_limit_field,
        strict=fields.strict,
        finish_abandoned=fields.finish_abandoned,
        note=fields.note,
    )
    if fields.keys:
        patch["key"], *others = map(key_of, fields.keys)
        patch["keys"] = others
    options.one_of("--no-groups", "--group", both=fields.no_groups and bool(fields.groups))
    options.one_of("--no-headers", "--header", both=fields.no_headers and bool(fields.headers))
    if fields.groups or fields.no_groups:
        patch["groups"] = names(fields.groups)
    patch |= _models(fields, there)
    if fields.headers or fields.no_headers:
        patch["headers"] = once(fields.headers, "--header")
    patch |= overrides_patch(fields.overrides, there.overrides)
    if fields.proxy is not None:
        patch["proxy"] = proxy_of(fields.proxy)
    if fields.timeouts:
        patch["timeouts"] = msgspec.structs.asdict(there.timeouts) | _seconds(fields.timeouts)
    if fields.knobs:
        patch["options"] = _knobs(fields.knobs, there.knobs)
    return patch | options.limits(there.limits, fields.limits)


def _models(fields: ChannelOptions, there: CurrentChannel) -> Patch:
    """``--models`` replaces names and patterns, ``--map`` alone adds to them."""
    listed = names(fields.models)
    patterns = [name for name in listed if is_pattern(name)]
    plain = [name for name in listed if not is_pattern(name)]
    patch: Patch = {}
    if listed and (patterns or there.patterns):
        patch["patterns"] = patterns
    if plain or fields.maps or (listed and there.models):
        known = [] if listed and not plain else there.models
        patch["models"] = msgspec.to_builtins(served(known, plain, fields.maps))
    return patch


def served(there: Iterable[Served], wanted: Sequence[str], maps: Pairs) -> list[Served]:
    """The models of a channel: those wanted (else those there are), with the names the upstream knows them by."""
    known = {model.name: model for model in there}
    mapping = once(maps, "--map")
    listed = list(wanted) or list(known)
    models = [known.get(name, Served(name=name)) for name in dict.fromkeys([*listed, *mapping])]
    return [
        msgspec.structs.replace(
            model,
            upstream=_upstream(model.name, mapping) if model.name in mapping else model.upstream,
            live=model.live and not wanted and model.name not in mapping,
        )
        for model in models
    ]


def _upstream(name: str, mapping: dict[str, str]) -> str:
    return "" if mapping[name] == name else mapping[name]


def key_of(text: str) -> str:
    """The key of ``--key``: as it is, a reference, or read from stdin for ``-``. Raises BadParameter if it is empty.

    An empty one is a variable that was not set or a command that failed, and must not take away the key there is.
    """
    if text == "-":
        return stdin.secret("key", NO_KEY)
    if not text.strip():
        raise click.BadParameter(f"the key is empty, so nothing was done; {NO_KEY}", param_hint="--key")
    if not text.startswith("env:"):
        words("note: other programs of this machine can see command lines; prefer env:NAME, or - and stdin")
    return text


def proxy_of(text: str) -> str:
    """The proxy of ``--proxy``: as it is, a reference, read from stdin for ``-``, or ``none``."""
    if text == NO_MATTER:
        return ""
    if text == "-":
        return stdin.secret("proxy", NO_PROXY)
    if not text.strip():
        raise click.BadParameter(f"the proxy is empty, so nothing was done; {NO_PROXY}", param_hint="--proxy")
    return key_of(text) if "@" in text else text


def knob_of(text: str) -> str | int | float | bool:
    """A knob's value: a number or true or false where it looks like one, else text."""
    value = value_of(text)
    return value if isinstance(value, str | int | float | bool) else text


def _knob(name: str) -> str:
    """A knob may be written as in a message, too: ``no-usage`` is ``no_usage``."""
    return name.replace("-", "_")


def _knobs(pairs: Pairs, there: dict[str, Any]) -> dict[str, Any]:
    """The knobs there are with some set and some (none) taken away."""
    asked = once(((_knob(name), text) for name, text in pairs), "--option")
    kept = {_knob(name): value for name, value in there.items() if _knob(name) not in asked}
    return kept | {name: knob_of(text) for name, text in asked.items() if text != NO_MATTER}


def _seconds(pairs: Pairs) -> dict[str, float]:
    return {name: _second(text) for name, text in once(pairs, "--timeout").items()}


def _second(text: str) -> float:
    """Raises BadParameter for what is no number, or none that JSON has."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise click.BadParameter(f"'{text}' is no number of seconds; write them as in head=60", param_hint="--timeout")
    return seconds


_OPTIONS: Sequence[Callable[[F], F]] = (
    click.option("--base-url", metavar="URL", help="The root under which /chat/completions lies: https://host/v1"),
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="env:NAME keeps a reference, - reads it from stdin; else the key itself. Given again for several keys; "
        "they replace those there are.",
    ),
    click.option(
        "--models",
        type=NAMES,
        multiple=True,
        metavar="NAMES",
        help="Models it offers: a,b,c; of its list: 'gpt-*,!*-preview'.",
    ),
    click.option(
        "--map", "maps", type=RENAMING, multiple=True, metavar="PUBLIC=UPSTREAM", help="Offer one by another name."
    ),
    click.option(
        "--group",
        "groups",
        type=naming("write --no-groups for none"),
        multiple=True,
        shell_complete=several(GROUPS),
        help="Groups it serves: default,friends.",
    ),
    click.option("--no-groups", is_flag=True, help="It serves no group: nobody can use it."),
    click.option(
        "--preset",
        shell_complete=PRESETS,
        help="Known upstream: 'tollkeeper channel presets'; found by the URL if not given.",
    ),
    click.option("--priority", type=int, help="Higher is asked first."),
    click.option("--weight", type=click.IntRange(min=0), help="Share of the draw within one priority."),
    click.option("--cost-factor", type=MULTIPLIER, help="What it asks, as a multiple of the price: 0.5."),
    click.option("--header", "headers", type=PAIR, multiple=True, help="Further request headers; they replace all."),
    click.option("--no-headers", is_flag=True, help="Drop the further headers."),
    *OPTIONS,
    click.option(
        "--proxy", metavar="URL", help="HTTP proxy to go through: http://host:3128, env:NAME, - for stdin, or none."
    ),
    click.option(
        "--timeout", "timeouts", type=PAIR, multiple=True, metavar="NAME=SECONDS", help="connect, head, idle ..."
    ),
    click.option(
        "--option",
        "knobs",
        type=PAIR,
        multiple=True,
        help="Knob of the mock dialect: latency=200 (ms), bad_json=true; latency=none takes it away.",
    ),
    click.option(
        "--token-limit-field",
        type=click.Choice([f.value for f in TokenLimitField]),
        help="What it calls the limit of output tokens.",
    ),
    click.option("--strict/--lenient", default=None, help="Never drop a parameter it refuses, or do."),
    click.option("--finish-abandoned/--cancel-abandoned", default=None, help="When a plain call's client goes away."),
    click.option("--note", help="A line for you."),
    limit_options,
)
