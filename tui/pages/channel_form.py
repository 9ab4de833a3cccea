"""Channel form: the form of a channel, whose key, dialect, preset and models need more than the table of fields.

A key is never shown: an empty input leaves the current one unchanged. The values of headers are secret too, unless they
are references to variables. Several keys of a channel have a form of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import ChannelFields, Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.fields import CHANNEL
from gateway.domain.pair_kinds import HEADERS_EXAMPLE
from gateway.domain.patterns import is_pattern
from gateway.domain.quoting import Offering, offering_of, offering_words, read_offering
from gateway.domain.text import REFERENCE
from gateway.domain.upstream_views import PresetView
from gateway.domain.urls import base_url_warning
from gateway.domain.views import ChannelView, KeyView
from tui import format as fmt
from tui.pages.entities import EntityForm
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.combobox import Suggestion
from tui.widgets.form import LABEL_WIDTH, FormField, FormPlan, Values


class ChannelForm(EntityForm):
    """A form that edits a channel, or creates one: empty, or as a ``copy`` of another, without its secrets."""

    def __init__(
        self,
        session: ConsoleSession,
        channel: ChannelView | None,
        presets: Sequence[PresetView] = (),
        *,
        copy: bool = False,
    ) -> None:
        blank = ChannelFields(name="")
        self._template = channel
        self._presets = presets
        groups = [group.name for group in session.board.groups]
        group = "default" if "default" in groups or not groups else groups[0]
        source = msgspec.structs.replace(blank, groups=(group,))
        if channel is not None and copy and has_secrets(channel.headers):
            channel = msgspec.structs.replace(channel, headers={})
        super().__init__("channel", CHANNEL, blank, session, channel, copy=copy, source=source)

    def fields(self) -> list[FormField]:
        template, edited = self._template, self.edited
        preset = {
            "suggest": [Suggestion(option.name, _preset_text(option)) for option in self._presets],
            "narrows": True,
            "hint": f"type to search {len(self._presets)} vendors and servers; by default from the URL",
        }
        address, mock = {"applies": _has_address}, {"applies": lambda texts: not _has_address(texts)}
        headers = {"hint": headers_hint(template.headers, copy=edited is None)} if template else {}
        inputs = self.inputs(preset=preset, headers=headers, base_url=address, options=mock)
        name, preset_field, base_url, *others = inputs
        dialects = tuple(option.value for option in Dialect)
        return [
            name,
            preset_field,
            FormField(
                id="dialect",
                label="Dialect",
                value=template.dialect if template else "openai",
                options=dialects,
                applies=lambda texts: edited is not None or not texts["preset"].strip(),
            ),
            base_url,
            self._key_field(),
            FormField(
                id="models",
                errors=("patterns",),
                label="Models",
                value=offering_text(offering_of(template)) if template else "",
                hint="a, name=upstream, gpt-*, !*-mini; empty: all",
                parse=lambda text: read_offering(text, template.models if template else ()),
            ),
            *others,
        ]

    def _key_field(self) -> FormField:
        template, key = self._template, self._template.key if self._template else ""
        is_reference = key.startswith(REFERENCE)
        must_retype = template is not None and self.edited is None and bool(key) and not is_reference

        def parse_again(text: str) -> str:
            if not text.strip():
                name = template.name if template else ""
                raise BadRequest(f"the key of {name} is never shown, so it cannot be copied: enter it again, or 'none'")
            return "" if text.strip() == "none" else text.strip()

        hint = "unchanged" if self.edited and key else "the key, or env:NAME for a variable"
        if must_retype:
            hint = "keys cannot be copied: enter it again, or 'none'"
        return FormField(
            id="key",
            errors=("keys",),
            label="Key",
            value=key if is_reference else "",
            hint=hint,
            secret=not is_reference,
            applies=_has_address,
            parse=parse_again if must_retype else str.strip,
        )

    def body(self, values: Values) -> dict[str, Any]:
        """Returns the request body of the changed fields. An empty key changes nothing. Raises BadRequest."""
        body, edited = super().body(values), self.edited
        if not Dialect(values["dialect"]).info.needs_url:
            body.pop("base_url", None)
        if values["key"] and (edited is None or values["key"] != edited.key):
            body["key"] = values["key"]
        offered: Offering = values["models"]
        if offered.patch() != (offering_of(edited) if edited else Offering([], [])).patch():
            body |= offered.patch()
        if (edited is not None and values["dialect"] != edited.dialect) or not (edited or values["preset"]):
            body["dialect"] = values["dialect"]
        return body

    def preview(self, values: Values) -> str:
        """Returns a warning about the address, what the preset stands for, or what no models mean; or nothing."""
        url, offering = values["base_url"], values["models"]
        if url and (text := base_url_warning(url)):
            return text
        preset = next((preset for preset in self._presets if preset.name == values["preset"]), None)
        if preset is not None and not url:
            return preset_summary(preset)
        if not (offering.models or offering.patterns) and Dialect(values["dialect"]).info.lists_models:
            return "without models, everything the upstream lists is offered and kept up to date"
        return ""

    def command(self, texts: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """Returns the equivalent command. Raises BadRequest if none exists."""
        edited, more = self.edited, [*more]
        default_dialect = edited.dialect.value if edited else "openai"
        if texts["dialect"] != default_dialect and (edited or not texts["preset"].strip()):
            more += ["--dialect", texts["dialect"]]
        key = texts["key"]
        if key and (edited is None or key != edited.key):
            more += ["--key", key if key.startswith(REFERENCE) else "-"]
        if texts["models"].strip() != (offering_text(offering_of(edited)) if edited else ""):
            models = edited.models if edited else ()
            more += models_options(read_offering(texts["models"], models))
        return super().command(texts, more)


def _has_address(texts: Mapping[str, str]) -> bool:
    return bool(texts["preset"].strip()) or Dialect(texts["dialect"]).info.needs_url


def preset_summary(preset: PresetView) -> str:
    """Returns what a preset stands for: ``groq: dialect openai, at https://...; its key is usually env:...``."""
    address = safe(preset.base_url) or "an address you enter"
    key = f"; its key is usually env:{safe(preset.key_variable)}" if preset.key_variable else ""
    return f"{preset.name}: dialect {safe(preset.dialect)}, at {address}{key}"


def _preset_text(preset: PresetView) -> str:
    key = f"   env:{preset.key_variable}" if preset.key_variable else ""
    return f"{preset.base_url or 'an address you enter'}{key}"


def offering_text(offering: Offering) -> str:
    """Returns the text that a user would type for an offering."""
    return ", ".join(offering_words(offering))


def models_options(offering: Offering) -> list[str]:
    """Returns the option of the command line for an offering. Raises BadRequest if the option cannot express it."""
    unmapped = (model.name for model in offering.models if not model.upstream)
    if ambiguous := next(filter(is_pattern, unmapped), None):
        raise BadRequest(f"'{ambiguous}' is a model name, but the command line would read it as a pattern")
    return ["--models", ",".join(offering_words(offering)) or "*"]


def has_secrets(headers: Mapping[str, str]) -> bool:
    """Returns whether some values are secret, because they are not references to variables."""
    return not all(value.startswith(REFERENCE) for value in headers.values())


def headers_hint(headers: Mapping[str, str], *, copy: bool) -> str:
    """Returns the hint of the empty input: secret values stay, but a copy cannot have them."""
    if not has_secrets(headers):
        return f"none, or {HEADERS_EXAMPLE}"
    names = ", ".join(safe(name, 40) for name in headers)
    return f"{names}: secret, not copied; enter all, or none" if copy else f"{names} kept; or enter all again, or none"


KEEP, RESUME, REMOVE = "keep", "resume", "remove"
"""The choices for a key. All but the first are verbs of ``channel key``."""


def keys_plan(session: ConsoleSession, channel: ChannelView) -> FormPlan:
    """Returns the form with a field to add a key, and a field for each existing key."""
    return FormPlan(
        title=f"Keys of {channel.name}",
        intro="Each key is paused on its own when it is rate-limited or rejected; the others stay in use.",
        fields=[
            FormField(id="key", label="Add a key", hint="the key, or env:NAME for a variable", secret=True),
            *(_key_field(key, session) for key in channel.keys),
        ],
        save=lambda values: save_keys(session, channel, values),
        command=lambda values: keys_command(channel, values),
    )


async def save_keys(session: ConsoleSession, channel: ChannelView, values: Values) -> str:
    """Save the form. Returns the changes in words. The last key is removed first, as the numbers after it change."""
    changes = []
    if values["key"]:
        added = (await session.client.add_key(channel.id, values["key"])).keys[-1]
        changes.append("key added" if added.state != "unset" else f"key added; {safe(added.reason)}")
    send = {REMOVE: session.client.remove_key, RESUME: session.client.clear_key}
    for key in reversed(channel.keys):
        if (choice := values[_field_id(key)]) != KEEP:
            await send[choice](channel.id, key.number)
            changes.append(f"key {key.number} {choice}d")
    return ", ".join(changes) or "No changes."


def keys_command(channel: ChannelView, values: Mapping[str, str]) -> str:
    """Returns the equivalent commands, joined by semicolons."""
    parts = []
    if values["key"]:
        shown_key = values["key"] if values["key"].startswith(REFERENCE) else "-"
        parts.append(fmt.cli_command("channel", "key", "add", channel.name, key=shown_key))
    parts += [
        fmt.cli_command("channel", "key", choice, channel.name, str(key.number))
        for key in reversed(channel.keys)
        if (choice := values[_field_id(key)]) != KEEP
    ]
    return "; tollkeeper ".join(parts)


def _key_field(key: KeyView, session: ConsoleSession) -> FormField:
    """Returns the field for an existing key, with the reason below it if the key is not in use."""
    options = (KEEP, REMOVE) if key.state in ("ok", "unset") else (KEEP, RESUME, REMOVE)
    return FormField(
        id=_field_id(key),
        label=safe(f"{key.number} {key.key}", LABEL_WIDTH - 2),
        value=KEEP,
        options=options,
        note=key_trouble(key, session),
    )


def _field_id(key: KeyView) -> str:
    return f"key-{key.number}"


def key_trouble(key: KeyView, session: ConsoleSession) -> str:
    """Returns why a key is not in use, and until when; empty if it is in use."""
    if key.state == "ok":
        return ""
    state = safe(fmt.channel_state(key.state, key.until_ms, session.now()))
    return f"{state}: {session.advice(safe(key.reason))}" if key.reason else state
