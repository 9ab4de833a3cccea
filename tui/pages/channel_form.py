"""Channel form: the form of a channel, whose key, dialect, preset and models need more than the table of fields.

A key is never shown: an empty input leaves the current one unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import ChannelFields, Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.fields import CHANNEL
from gateway.domain.quoting import Offering, offering_of, read_offering
from gateway.domain.text import REFERENCE
from gateway.domain.upstream_views import PresetView
from gateway.domain.urls import base_url_warning
from gateway.domain.views import ChannelView
from tui.entity_form import EntityForm
from tui.pages.channel_fields import has_secrets, headers_hint, models_options, offering_text
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.combobox import Suggestion
from tui.widgets.form import FormField, Values, text_line


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
        source = msgspec.structs.replace(blank, groups=(_default_group(session),))
        if channel is not None and copy and has_secrets(channel.headers):
            channel = msgspec.structs.replace(channel, headers={})
        super().__init__("channel", CHANNEL, blank, session, channel, copy=copy, source=source)

    def fields(self) -> list[FormField]:
        template, edited = self._template, self.edited
        preset = {
            "suggest": [Suggestion(option.name, _preset_text(option)) for option in self._presets],
            "narrows": True,
            "hint": f"type to search {len(self._presets)} vendors and servers; by default from the URL",
            "parse": lambda text: _parse_preset(text, self._presets),
        }
        address, mock = {"applies": _has_address}, {"applies": lambda texts: not _has_address(texts)}
        headers = {"hint": headers_hint(template.headers, copy=edited is None)} if template else {}
        inputs = self.inputs(preset=preset, headers=headers, base_url=address, options=mock)
        by_id = {field.id: field for field in inputs}
        name, preset_field, base_url = (by_id.pop(id_) for id_ in ("name", "preset", "base_url"))
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
            *by_id.values(),
        ]

    def _key_field(self) -> FormField:
        template, key = self._template, self._template.key if self._template else ""
        is_reference = key.startswith(REFERENCE)
        must_retype = template is not None and self.edited is None and bool(key) and not is_reference
        hint = "unchanged" if self.edited and key else NOT_COPIED if must_retype else KEY_HINT
        return FormField(
            id="key",
            errors=("keys",),
            label="Key",
            value=key if is_reference else "",
            hint=hint,
            secret=not is_reference,
            applies=_has_address,
            parse=_require_key(template.name) if must_retype and template else text_line,
        )

    def body(self, values: Values) -> dict[str, Any]:
        """Returns the request body of the changed fields. An empty key changes nothing. Raises BadRequest."""
        body, edited = super().body(values), self.edited
        needs_url = Dialect(values["dialect"]).info.needs_url
        if needs_url and not values["base_url"] and not (edited is None and values["preset"]):
            raise BadRequest("a base URL is required, for example https://api.openai.com/v1", param="base_url")
        if not needs_url:
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
        return form_preview(values, self._presets)

    def command(self, texts: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """Returns the equivalent command. Raises BadRequest if there is none."""
        edited, more = self.edited, [*more]
        default_dialect = edited.dialect.value if edited else "openai"
        if texts["dialect"] != default_dialect and (edited or not texts["preset"].strip()):
            more += ["--dialect", texts["dialect"]]
        if (key := _key_shown(texts["key"], edited)) is not None:
            more += ["--key", key]
        if texts["models"].strip() != (offering_text(offering_of(edited)) if edited else ""):
            models = edited.models if edited else ()
            more += models_options(read_offering(texts["models"], models))
        return super().command(texts, more)


KEY_HINT = "the key, or env:NAME for a variable"
NOT_COPIED = "keys cannot be copied: enter it again, or 'none'"


def _has_address(texts: Mapping[str, str]) -> bool:
    return bool(texts["preset"].strip()) or Dialect(texts["dialect"]).info.needs_url


def _preset_text(preset: PresetView) -> str:
    key = f"   env:{preset.key_variable}" if preset.key_variable else ""
    return f"{preset.base_url or 'an address you enter'}{key}"


def _require_key(name: str) -> Callable[[str], str]:
    """Returns a parser for the key of a copy of this channel, which must be typed again, or be ``none``."""

    def parse(text: str) -> str:
        if not text.strip():
            raise BadRequest(f"the key of {name} is never shown, so it cannot be copied: enter it again, or 'none'")
        return "" if text.strip() == "none" else text.strip()

    return parse


def _parse_preset(text: str, presets: Sequence[PresetView]) -> str:
    name, names = text.strip(), [preset.name for preset in presets]
    if name and names and name not in names:
        similar = [other for other in names if other.startswith(name[:1])][:6] or names[:6]
        raise BadRequest(f"unknown preset {name!r}; try {', '.join(similar)}, or choose one from the list")
    return name


def form_preview(values: Values, presets: Sequence[PresetView] = ()) -> str:
    """Returns a warning about the address, or what the preset stands for, or what no models mean; otherwise nothing."""
    url, offering = values["base_url"], values["models"]
    if url and (text := base_url_warning(url)):
        return text
    preset = next((preset for preset in presets if preset.name == values["preset"]), None)
    if preset is not None and not url:
        address = safe(preset.base_url) or "an address you enter"
        key = f"; its key is usually env:{safe(preset.key_variable)}" if preset.key_variable else ""
        return f"{preset.name}: dialect {safe(preset.dialect)}, at {address}{key}"
    if not (offering.models or offering.patterns) and Dialect(values["dialect"]).info.lists_models:
        return "without models, everything the upstream lists is offered and kept up to date"
    return ""


def _key_shown(text: str, view: ChannelView | None) -> str | None:
    """Returns the key as the command has it: a reference, ``-`` for one on stdin, None if it is unchanged."""
    if not text or (view is not None and text == view.key):
        return None
    return text if text.startswith(REFERENCE) else "-"


def _default_group(session: ConsoleSession) -> str:
    names = [group.name for group in session.board.groups]
    return "default" if "default" in names or not names else names[0]
