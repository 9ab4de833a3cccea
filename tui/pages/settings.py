"""Settings page: every setting with its value, default and meaning; a setting is edited, switched or reset here.

Settings of the gateway are changed through the server, like everything else, so ``u`` undoes a change. Those of this
console are in the saved state. Those that need a restart are listed with the way to change them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from gateway.domain.errors import GatewayError
from gateway.domain.field_kinds import Field, json_value
from gateway.domain.settings import Settings
from tui import preferences
from tui.pages import list_page
from tui.pages.base import AnyPage, Verb
from tui.pages.entities import EntityForm
from tui.pages.list_page import ListPage
from tui.pages.settings_table import RESTART, ConsoleChoice, SettingRow, SettingsListing
from tui.session import ConsoleSession
from tui.widgets.choices import ChooseOne
from tui.widgets.dialogs import toast
from tui.widgets.form import Form


async def _edit(page: AnyPage) -> None:
    row: SettingRow | None = page.table.current
    if row is None:
        return
    source = row.source
    if isinstance(source, Field):
        await _edit_field(page, source)
    elif isinstance(source, ConsoleChoice):
        current, options = source.read(page.app), source.options(page.app)
        preview = partial(source.write, page.app) if source.name == "theme" else None
        chosen = await page.ask(ChooseOne(source.label, options, current, preview))
        _choose(page, source, chosen or current)
    elif row.name == "file":
        home = page.session.config.home
        try:
            message = "Created, with all keys as comments" if preferences.create(home) else "Edit this file"
        except OSError as exc:
            toast(page, f"{home / preferences.NAME} cannot be written: {exc.strerror}", bad=True)
        else:
            toast(page, f"{message}: {home / preferences.NAME}\nThe console reads it when it starts.")
    else:
        toast(page, f"{row.label} is set when the server starts: {row.change}")


async def _toggle(page: AnyPage) -> None:
    """Switch the selected setting to its next value. A setting without fixed values is edited instead."""
    row: SettingRow | None = page.table.current
    source = None if row is None else row.source
    if isinstance(source, ConsoleChoice):
        values = [value for value, _ in source.options(page.app)]
        _choose(page, source, values[(values.index(source.read(page.app)) + 1) % len(values)])
    elif isinstance(source, Field) and (options := source.kind.choices):
        current = options.index(source.kind.text(getattr(page.settings, source.name)))
        await _save(page, source, source.kind.read(options[(current + 1) % len(options)], page.session.now()))
    else:
        await _edit(page)


async def _reset(page: AnyPage) -> None:
    row: SettingRow | None = page.table.current
    source = None if row is None else row.source
    if row is None or source is None:
        await _edit(page)
    elif not row.changed:
        toast(page, f"{row.label} already has its default: {row.default}")
    elif isinstance(source, Field):
        await _save(page, source, getattr(Settings(), source.name))
    else:
        _choose(page, source, source.options(page.app)[0][0])


async def _edit_field(page: AnyPage, field: Field) -> None:
    session: ConsoleSession = page.session
    settings = await session.client.settings()
    form = EntityForm("settings", [field], Settings(), session, settings)
    default = field.kind.show(getattr(Settings(), field.name)) or "none"

    intro = f"{field.help}\nDefault: {default}.{f' In {field.kind.unit}.' if field.kind.unit else ''}"
    saved = await page.ask(Form(form.plan(field.label, session.client.set_settings, intro=intro)))
    if isinstance(saved, Settings):  # otherwise it was closed or saved unchanged
        _show_saved(page, field, saved)


async def _save(page: AnyPage, field: Field, value: Any) -> None:
    _show_saved(page, field, await page.session.client.set_settings({field.name: json_value(value)}))


def _show_saved(page: AnyPage, field: Field, saved: Settings) -> None:
    page.settings = saved
    page.renew()
    page.report_change(f"{field.label}: {field.kind.show(getattr(saved, field.name)) or 'none'}.")


def _choose(page: AnyPage, choice: ConsoleChoice, value: str) -> None:
    is_changed = value != choice.read(page.app)
    choice.write(page.app, value)
    page.renew()
    if is_changed and choice.applies == RESTART:
        toast(page, f"{choice.label}: {value}, from the next start of the console.")


LIST_VERBS = ("full", "filter", "sort", "reverse", "columns", "copy", "twin", "export", "back")


class SettingsPage(SettingsListing, ListPage[SettingRow]):
    """The page with a table of settings; the pane next to it explains the selected one."""

    scopes = ("settings", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {
        **{verb: list_page.VERBS[verb] for verb in LIST_VERBS},
        "edit": _edit,
        "toggle": _toggle,
        "default": _reset,
    }

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self.view.detail = True

    def renew(self) -> None:
        super().renew()
        # commands, other consoles and an undo change settings, too: the server reports a change of the tables then
        self.fetch_if_due(self._fetch, self.session.board.tables_version)

    def on_live_table_opened(self) -> None:
        self.do(_edit)

    async def _fetch(self) -> None:
        try:
            self.settings = await self.session.client.settings()
        except GatewayError:
            self.fetched = None  # it is asked again, unless it is gone, which the header shows
            return
        super().renew()
