"""Channel form: what can be set of a channel. A key is never shown: an empty field keeps the one there is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Dialect, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_multiplier, multiplier_of
from gateway.domain.upstream_views import PresetView
from gateway.domain.urls import base_url_warning, checked_base_url, proxy_of
from gateway.domain.views import ChannelView
from tui import cli_commands, field_values
from tui.cli_commands import cli_command, if_changed
from tui.field_values import (
    KEEP,
    WITH_QUEUE,
    integer,
    limits_reader,
    limits_text,
    required,
    text_line,
    text_line_or_same,
)
from tui.pages import channel_fields
from tui.pages.channel_fields import Offering, models_command, offering_of, offering_text, read_offering
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.form import Field, Values

REFERENCE = "env:"
ABANDONED_CALLS = ("finish and record it", "cancel it")
REJECTED_PARAMETERS = ("drop it and retry", "return the error")


def fields(
    session: ConsoleSession, channel: ChannelView | None, presets: Sequence[PresetView] = (), *, copy: bool = False
) -> list[Field]:
    """The fields, filled from a channel if there is one; a copy has another name, and its key must be given again."""
    view = channel
    dialects = (view.dialect,) if view and not copy else tuple(d.value for d in Dialect)
    known = view is not None and view.key.startswith(REFERENCE)
    lost = copy and view is not None and bool(view.key) and not known
    secret = "the key, or env:NAME for a variable" if view is None or copy else "unchanged"
    name = "" if view is None else f"{view.name}-2" if copy else view.name
    return [
        Field(id="name", label="Name", value=name, hint="openai", parse=required),
        Field(id="dialect", label="Dialect", value=view.dialect if view else "openai", options=dialects),
        Field(
            id="preset",
            label="Preset",
            value=view.preset if view else "",
            hint="from the URL; or openrouter, groq, ollama",
            suggest=[preset.name for preset in presets],
            parse=lambda text: _preset(text, presets),
        ),
        Field(
            id="base_url",
            label="Base URL",
            value=view.base_url if view else "",
            hint="https://api.openai.com/v1 (mock has none)",
            parse=lambda text: checked_base_url(text.strip()) if text.strip() else "",
        ),
        Field(
            id="key",
            label="Key",
            value=view.key if view and known else "",
            hint=secret,
            secret=not known,
            parse=_key_again(view.name) if lost and view else text_line,
        ),
        Field(
            id="models",
            label="Models",
            value=offering_text(offering_of(view)) if view else "",
            hint="a, name=upstream, gpt-*, !*-mini; empty: all",
            parse=lambda text: read_offering(text, view.models if view else ()),
        ),
        Field(
            id="groups",
            label="Groups",
            value=field_values.names_text(view.groups if view else [_default_group(session)]),
            hint="none: no token can use it",
            parse=field_values.names_of,
        ),
        *_order_fields(view),
        *_connection_fields(view, copy=copy),
    ]


def _key_again(name: str) -> Callable[[str], str]:
    """A key is stored and never shown, so a copy cannot have it: it must be typed again, or ``none``."""

    def read(text: str) -> str:
        if not text.strip():
            raise BadRequest(f"the key of {name} is never shown, so it cannot be copied: enter it again, or 'none'")
        return "" if text.strip() == "none" else text.strip()

    return read


def _preset(text: str, presets: Sequence[PresetView]) -> str:
    name, known = text.strip(), [one.name for one in presets]
    if name and known and name not in known:
        near = [one for one in known if one.startswith(name[:1])][:6] or known[:6]
        raise BadRequest(f"unknown preset {name!r}; try {', '.join(near)}, or see 'tollkeeper channel presets'")
    return name


def _order_fields(view: ChannelView | None) -> list[Field]:
    return [
        Field(
            id="priority",
            label="Priority",
            value=str(view.priority) if view else "0",
            hint="higher is tried first",
            parse=integer,
        ),
        Field(
            id="weight",
            label="Weight",
            value=str(view.weight) if view else "1",
            hint="share of calls within one priority",
            parse=integer,
        ),
        Field(
            id="cost_factor",
            label="Cost factor",
            value=brief_multiplier(view.cost_factor)[1:] if view else "1",
            hint="times the price, for groups that try the cheapest first",
            parse=multiplier_of,
        ),
        Field(
            id="limits",
            label="Limits",
            value=limits_text(view.limits) if view else "",
            hint="none, or rpm=60 tpm=200k concurrent=4 queue_s=30",
            parse=limits_reader(WITH_QUEUE),
        ),
    ]


def _connection_fields(view: ChannelView | None, *, copy: bool = False) -> list[Field]:
    finishes = view.finish_abandoned if view else True
    return [
        Field(
            id="timeouts",
            label="Timeouts, seconds",
            value=_timeouts_text(view.timeouts) if view else "",
            hint=f"default: {_timeouts_text(Timeouts(), every=True)}",
            parse=_timeouts,
        ),
        *channel_fields.override_fields(view.overrides if view else None),
        channel_fields.headers_field(view.headers if view else {}, copy=copy),
        Field(
            id="proxy",
            label="Proxy",
            value=view.proxy if view else "",
            hint="none, or http://host:3128, or env:NAME",
            parse=lambda text: KEEP if view and text.strip() == view.proxy else _proxy(text),
        ),
        channel_fields.mock_field(view.options if view else {}),
        Field(
            id="strict",
            label="Rejected parameter",
            value=REJECTED_PARAMETERS[view.strict] if view else REJECTED_PARAMETERS[0],
            options=REJECTED_PARAMETERS,
            parse=lambda text: text == REJECTED_PARAMETERS[1],
        ),
        Field(
            id="finish_abandoned",
            label="If the client leaves",
            value=ABANDONED_CALLS[not finishes],
            options=ABANDONED_CALLS,
            parse=lambda text: text == ABANDONED_CALLS[0],
        ),
        Field(
            id="note",
            label="Note",
            value=view.note if view else "",
            hint="for your own use",
            parse=text_line_or_same(view.note if view else ""),
        ),
    ]


def body(values: Values, view: ChannelView | None = None) -> dict[str, Any]:
    """What the server takes; an empty key changes nothing, and a dialect is set once. Raises BadRequest."""
    made = {name: value for name, value in values.items() if value != KEEP}
    dialect = made.pop("dialect")
    info = Dialect(dialect).info
    if view is None and made["preset"] and not made["base_url"]:
        made.pop("base_url")
    elif info.needs_url and not made["base_url"]:
        raise BadRequest("a base URL is required, for example https://api.openai.com/v1", param="base_url")
    if not info.needs_url:
        made.pop("base_url", None)
    if not made["key"]:
        made.pop("key")
    found = channel_fields.overrides_of(values)
    for name in ("parameters", "system", "replace_system"):
        made.pop(name)
    if found or (view is not None and view.overrides):
        made["overrides"] = msgspec.to_builtins(found) if found else None
    offered: Offering = made.pop("models")
    if view is not None or offered.models or offered.patterns:
        made |= offered.patch()
    if view is None and not made["preset"]:
        made["dialect"] = dialect
    return made


def warning(values: Values, presets: Sequence[PresetView] = ()) -> str:
    """A warning about the address, or what the preset means."""
    url, offered = values["base_url"], values["models"]
    text = base_url_warning(url) if url else ""
    known = next((one for one in presets if one.name == values["preset"]), None)
    if not text and known is not None and not url:
        place = safe(known.base_url) or "an address you enter"
        key = f"; its key is usually env:{safe(known.key_variable)}" if known.key_variable else ""
        return f"{known.name}: dialect {safe(known.dialect)}, at {place}{key}"
    if not text and not (offered.models or offered.patterns) and Dialect(values["dialect"]).info.lists_models:
        return "without models, everything the upstream lists is offered and kept up to date"
    return text


def add_command(values: Mapping[str, str]) -> str:
    """The command that makes such a channel."""
    return _options(("channel", "add", values["name"] or "NAME"), values, None)


def edit_command(view: ChannelView, values: Mapping[str, str]) -> str:
    """The command that changes the channel to what the form says."""
    return _options(("channel", "edit", view.name), values, view)


def _options(words: tuple[str, ...], values: Mapping[str, str], view: ChannelView | None) -> str:
    before = {field.id: field.value for field in (*_order_fields(view), *_connection_fields(view))}
    other = if_changed(values["models"], offering_text(offering_of(view)) if view else "")
    known = view.models if view else ()
    models, maps = (None, "") if other is None else models_command(read_offering(other, known), known)
    groups = if_changed(values["groups"], field_values.names_text(view.groups if view else ["default"]))
    groups = groups if groups is None else cli_commands.comma_list(field_values.names_of(groups))
    text = cli_command(
        *words,
        rename=if_changed(values["name"], view.name) if view else None,
        dialect=values["dialect"]
        if view is None and not values["preset"].strip() and values["dialect"] != "openai"
        else None,
        preset=if_changed(values["preset"], view.preset if view else "") or None,
        base_url=if_changed(values["base_url"], view.base_url if view else ""),
        key=_key_shown(values["key"], view),
        models=models,
        group=groups or None,
        priority=if_changed(values["priority"], before["priority"]),
        weight=if_changed(values["weight"], before["weight"]),
        cost_factor=if_changed(values["cost_factor"], before["cost_factor"]),
        proxy=_proxy_shown(values["proxy"], before["proxy"]),
        note=if_changed(values["note"], before["note"]),
    )
    text += " --no-groups" if groups == "" else ""
    text += maps
    text += cli_commands.limit_options(values["limits"], view.limits if view else None)
    text += cli_commands.pair_options("timeout", _all_timeouts(values["timeouts"]), _all_timeouts(before["timeouts"]))
    text += channel_fields.mock_command(values["options"], before["options"])
    text += channel_fields.headers_command(values["headers"], before["headers"])
    text += channel_fields.overrides_command(values, view.overrides if view else None)
    if values["strict"] != before["strict"]:
        text += " --strict" if values["strict"] == REJECTED_PARAMETERS[1] else " --lenient"
    if values["finish_abandoned"] != before["finish_abandoned"]:
        text += " --finish-abandoned" if values["finish_abandoned"] == ABANDONED_CALLS[0] else " --cancel-abandoned"
    return text


def _proxy(text: str) -> str:
    """A URL is checked, a reference is left to the server. It may hold a password, which is never shown."""
    proxy = "" if text.strip().lower() == "none" else text.strip()
    if proxy and not proxy.startswith(REFERENCE):
        proxy_of(proxy)
    return proxy


def _proxy_shown(text: str, before: str) -> str | None:
    """What may hold a password is read from stdin by the command."""
    if (proxy := if_changed(text, before)) is None:
        return None
    return "-" if "@" in proxy else proxy or "none"


def _key_shown(text: str, view: ChannelView | None) -> str | None:
    """A reference may be shown; a key is read from stdin by the command."""
    if not text or (view is not None and text == view.key):
        return None
    return text if text.startswith(REFERENCE) else "-"


def _default_group(session: ConsoleSession) -> str:
    names_ = [group.name for group in session.board.groups]
    return "default" if "default" in names_ or not names_ else names_[0]


def _timeouts_text(timeouts: Timeouts, *, every: bool = False) -> str:
    """Those that are not as usual, or all."""
    usual = Timeouts()
    given = ((name, value) for name, value in msgspec.structs.asdict(timeouts).items())
    return " ".join(f"{name}={_seconds_text(value)}" for name, value in given if every or value != getattr(usual, name))


def _seconds_text(seconds: float) -> str:
    """Short if that loses nothing."""
    return f"{seconds:g}" if float(f"{seconds:g}") == seconds else str(seconds)


def _all_timeouts(text: str) -> str:
    """With the usual ones in front: a deadline that is not typed any more is the usual one again."""
    return f"{_timeouts_text(Timeouts(), every=True)} {text}"


def _timeouts(text: str) -> dict[str, float]:
    """Seconds by name; what is not named has its usual value. Raises BadRequest."""
    known = Timeouts.__struct_fields__
    found = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if not (name and value):
            raise BadRequest(f"{word!r} is not name=value")
        found[name] = _seconds(value) if name in known else 0
        if not 0 < found[name] <= 86_400:
            raise BadRequest(f"{name} is not a timeout of 1 to 86400 seconds; use {', '.join(known)}")
    return found


def _seconds(text: str) -> float:
    """A number of seconds."""
    try:
        return float(text)
    except ValueError:
        return 0
