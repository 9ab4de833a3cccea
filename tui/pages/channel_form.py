"""Channel form: its inputs, request body and command; key, dialect and models have code of their own.

A key is never shown: an empty input keeps the present one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import ChannelFields, Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.fields import CHANNEL
from gateway.domain.offering import Offering, offering_of, read_offering
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
    """A form that edits a channel, or creates one: empty, or like another (``copy``), whose secrets it cannot have."""

    def __init__(
        self,
        session: ConsoleSession,
        channel: ChannelView | None,
        presets: Sequence[PresetView] = (),
        *,
        copy: bool = False,
    ) -> None:
        blank = ChannelFields(name="")
        self._like = channel
        self._presets = presets
        source = msgspec.structs.replace(blank, groups=(_default_group(session),))
        if channel is not None and copy and has_secrets(channel.headers):
            channel = msgspec.structs.replace(channel, headers={})
        super().__init__("channel", CHANNEL, blank, session, channel, copy=copy, source=source)

    def fields(self) -> list[FormField]:
        view, edited = self._like, self.edited
        preset = {
            "suggest": [Suggestion(option.name, _about(option)) for option in self._presets],
            "narrows": True,
            "hint": f"type to search {len(self._presets)} vendors and servers; by default from the URL",
            "parse": lambda text: _preset(text, self._presets),
        }
        address, mock = {"applies": _has_address}, {"applies": lambda texts: not _has_address(texts)}
        headers = {"hint": headers_hint(view.headers, copy=edited is None)} if view else {}
        drawn = self.inputs(preset=preset, headers=headers, base_url=address, options=mock)
        by_id = {field.id: field for field in drawn}
        first = [by_id.pop(name) for name in ("name", "preset", "base_url")]
        dialects = tuple(option.value for option in Dialect)
        return [
            *first[:2],
            FormField(
                id="dialect",
                label="Dialect",
                value=view.dialect if view else "openai",
                options=dialects,
                applies=lambda texts: edited is not None or not texts["preset"].strip(),
            ),
            first[2],
            self._key_field(),
            FormField(
                id="models",
                errors=("patterns",),
                label="Models",
                value=offering_text(offering_of(view)) if view else "",
                hint="a, name=upstream, gpt-*, !*-mini; empty: all",
                parse=lambda text: read_offering(text, view.models if view else ()),
            ),
            *by_id.values(),
        ]

    def _key_field(self) -> FormField:
        view = self._like
        known = view is not None and view.key.startswith(REFERENCE)
        lost = view is not None and self.edited is None and bool(view.key) and not known
        return FormField(
            id="key",
            errors=("keys",),
            label="Key",
            value=view.key if view and known else "",
            hint="unchanged" if self.edited and view and view.key else NOT_COPIED if lost else KEY_HINT,
            secret=not known,
            applies=_has_address,
            parse=_key_again(view.name) if lost and view else text_line,
        )

    def body(self, values: Values) -> dict[str, Any]:
        """Returns the request body; an empty key changes nothing. Raises BadRequest."""
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
        return warning(values, self._presets)

    def command(self, texts: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """Returns the equivalent command. Raises BadRequest if there is none."""
        edited, more = self.edited, [*more]
        usual = edited.dialect.value if edited else "openai"
        if texts["dialect"] != usual and (edited or not texts["preset"].strip()):
            more += ["--dialect", texts["dialect"]]
        if (key := _key_shown(texts["key"], edited)) is not None:
            more += ["--key", key]
        if texts["models"].strip() != (offering_text(offering_of(edited)) if edited else ""):
            known = edited.models if edited else ()
            more += models_options(read_offering(texts["models"], known))
        return super().command(texts, more)


KEY_HINT = "the key, or env:NAME for a variable"
NOT_COPIED = "keys cannot be copied: enter it again, or 'none'"


def _has_address(texts: Mapping[str, str]) -> bool:
    """Returns whether such a channel has an address and a key."""
    return bool(texts["preset"].strip()) or Dialect(texts["dialect"]).info.needs_url


def _about(preset: PresetView) -> str:
    """Returns the preset's address, and the variable that usually holds its key, according to its documentation."""
    key = f"   env:{preset.key_variable}" if preset.key_variable else ""
    return f"{preset.base_url or 'an address you enter'}{key}"


def _key_again(name: str) -> Callable[[str], str]:
    """Returns a reader for the key of a copy. A key is stored and never shown, so it must be typed again, or be
    ``none``.
    """

    def read(text: str) -> str:
        if not text.strip():
            raise BadRequest(f"the key of {name} is never shown, so it cannot be copied: enter it again, or 'none'")
        return "" if text.strip() == "none" else text.strip()

    return read


def _preset(text: str, presets: Sequence[PresetView]) -> str:
    name, known = text.strip(), [other.name for other in presets]
    if name and known and name not in known:
        near = [other for other in known if other.startswith(name[:1])][:6] or known[:6]
        raise BadRequest(f"unknown preset {name!r}; try {', '.join(near)}, or choose one from the list")
    return name


def warning(values: Values, presets: Sequence[PresetView] = ()) -> str:
    """Returns a warning about the address, or the meaning of the preset."""
    url, offered = values["base_url"], values["models"]
    text = base_url_warning(url) if url else ""
    known = next((preset for preset in presets if preset.name == values["preset"]), None)
    if not text and known is not None and not url:
        place = safe(known.base_url) or "an address you enter"
        key = f"; its key is usually env:{safe(known.key_variable)}" if known.key_variable else ""
        return f"{known.name}: dialect {safe(known.dialect)}, at {place}{key}"
    if not text and not (offered.models or offered.patterns) and Dialect(values["dialect"]).info.lists_models:
        return "without models, everything the upstream lists is offered and kept up to date"
    return text


def _key_shown(text: str, view: ChannelView | None) -> str | None:
    """Returns the key as the command shows it: a reference as it is; any other key is read from stdin."""
    if not text or (view is not None and text == view.key):
        return None
    return text if text.startswith(REFERENCE) else "-"


def _default_group(session: ConsoleSession) -> str:
    names_ = [group.name for group in session.board.groups]
    return "default" if "default" in names_ or not names_ else names_[0]
