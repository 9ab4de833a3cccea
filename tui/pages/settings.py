"""Settings page: every setting with its value, default and meaning; a setting is edited, switched or reset here.

Settings of the gateway are changed through the server, like everything else, so ``u`` undoes a change. Those of this
console are in the saved state. Those that need a restart of the server are listed with the way to change them.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
from textual.content import Content

from gateway.domain.field_kinds import Field, json_value
from gateway.domain.fields import SETTINGS
from gateway.domain.settings import Settings
from tui import global_actions, glyphs, preferences, themes
from tui.columns import Column
from tui.format import count_text
from tui.pages import list_page
from tui.pages.base import AnyPage, Verb, on_selected
from tui.pages.entities import EntityForm
from tui.pages.list_page import ListPage
from tui.session import ConsoleSession
from tui.text import TextCard, content, safe
from tui.widgets.choices import ChooseOne
from tui.widgets.dialogs import toast
from tui.widgets.form import Form

ORDER = ("Calls", "Access", "Ollama", "Limits", "Load", "Console", "Server")
"""The sections. The section of a gateway's setting is in ``domain.fields``."""

NOW, RESTART = "at once", "restart"


class ConsoleChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of this console with a few possible values."""

    name: str
    label: str
    meaning: str
    options: Callable[[Any], Sequence[tuple[str, str]]]
    """The values and their meanings; the first is the default."""
    read: Callable[[Any], str]
    """Returns the current value in an app."""
    write: Callable[[Any, str], None]
    applies: str = NOW


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the page: one setting."""

    name: str
    section: str
    label: str
    value: str
    default: str = ""
    meaning: str
    unit: str = ""
    applies: str = NOW
    change: str = ""
    """The command line that changes it, or another way to do so."""
    command: str = ""
    """The command line that sets its current value; empty if it has none."""
    changed: bool = False
    """Whether it differs from its default."""
    wrong: bool = False
    """Whether its meaning is a list of problems."""


def gateway_rows(settings: Settings) -> Iterator[SettingRow]:
    """Yields the settings of the gateway."""
    defaults = Settings()
    for field in SETTINGS:
        value, default = getattr(settings, field.name), getattr(defaults, field.name)
        (option, *_) = field.kind.options(field)
        yield SettingRow(
            name=field.name,
            section=field.section,
            label=field.label,
            value=field.kind.show(value) or "none",
            default=field.kind.show(default) or "none",
            meaning=field.help,
            unit=field.kind.unit,
            change=f"tollkeeper settings set {option.flags} {'|'.join(option.choices) or option.metavar}".rstrip(),
            command=shlex.join(["tollkeeper", "settings", "set", *field.arguments(None, value)]),
            changed=value != default,
        )


def _themes(app: Any) -> Sequence[tuple[str, str]]:
    if not app.colour:
        return [(themes.PLAIN, "NO_COLOR is set, so there is only one theme")]
    return global_actions.theme_options(app.session)


CONSOLE: tuple[ConsoleChoice, ...] = (
    ConsoleChoice(
        name="theme",
        label="Theme",
        meaning="Colours of this console. Your own themes are in console.toml.",
        options=_themes,
        read=lambda app: str(app.theme),
        write=global_actions.apply_theme,
    ),
    ConsoleChoice(
        name="mouse",
        label="Mouse",
        meaning="Whether the console uses the mouse, or leaves it to the terminal for selecting text.",
        options=lambda _: [("used here", "click, scroll, sort"), ("terminal", "selects text")],
        read=lambda app: "used here" if app.session.state.mouse else "terminal",
        write=lambda app, value: setattr(app.session.state, "mouse", value == "used here"),
        applies=RESTART,
    ),
    ConsoleChoice(
        name="symbols",
        label="Symbols",
        meaning="Lines and symbols: auto looks at the terminal and the locale.",
        options=lambda _: [("auto", "what the terminal can show"), ("unicode", "● ▁▃▅"), ("ascii", "* .:|")],
        read=lambda app: {None: "auto", True: "ascii", False: "unicode"}[app.session.state.ascii],
        write=global_actions.use_symbols,
    ),
)


def source_of(row: SettingRow) -> Field | ConsoleChoice | None:
    """Returns the setting that a row shows; None if it cannot be changed here."""
    sources: tuple[Field | ConsoleChoice, ...] = (*SETTINGS, *CONSOLE)
    return next((source for source in sources if source.name == row.name), None)


def console_rows(app: Any) -> Iterator[SettingRow]:
    """Yields the settings of this console."""
    for choice in CONSOLE:
        value, default = choice.read(app), choice.options(app)[0][0]
        yield SettingRow(
            name=choice.name,
            section="Console",
            label=choice.label,
            value=value,
            default=default,
            meaning=choice.meaning,
            applies=choice.applies,
            change="kept in console.json of the data folder",
            changed=value != default,
        )
    own_preferences: preferences.Preferences = app.session.preferences
    counts = [count_text(len(own_preferences.keymap.changed), "key"), count_text(len(own_preferences.themes), "theme")]
    hint = f"{app.session.key('settings.edit')} creates it with examples"
    problems = f"{len(own_preferences.problems)} ignored" if own_preferences.problems else ""
    yield SettingRow(
        name="file",
        section="Console",
        label="Keys and themes",
        value=", ".join(filter(None, (*counts, problems))),
        default="0 keys, 0 themes",
        meaning="\n".join(own_preferences.problems) or f"Your own keys and themes are in {preferences.NAME}. {hint}.",
        applies=RESTART,
        change=str(app.session.config.home / preferences.NAME),
        changed=bool(own_preferences.keymap.changed or own_preferences.themes),
        wrong=bool(own_preferences.problems),
    )


def server_rows(session: ConsoleSession) -> Iterator[SettingRow]:
    """Yields the options that the server was started with."""
    status, row = session.board.status, partial(SettingRow, section="Server", applies=RESTART)
    yield row(
        name="home",
        label="Data folder",
        value=str(session.config.home),
        meaning="Everything is stored here.",
        change="--home or TOLLKEEPER_HOME",
    )
    yield row(
        name="address",
        label="Address",
        value=status.address if status else "",
        meaning="Where clients reach the gateway.",
        change="tollkeeper serve --host HOST --port PORT, or TOLLKEEPER_HOST and TOLLKEEPER_PORT",
    )
    yield row(
        name="drain_s",
        label="Stop waits",
        value=f"{status.drain_s:g} s" if status else "",
        meaning="How long a stopping server waits for running calls.",
        change="tollkeeper serve --drain SECONDS, or TOLLKEEPER_DRAIN_S",
    )


def all_rows(app: Any, settings: Settings | None) -> list[SettingRow]:
    """Returns the rows of all settings, without the gateway's until they are known."""
    gateway = [] if settings is None else gateway_rows(settings)
    return [*gateway, *console_rows(app), *server_rows(app.session)]


async def _edit(page: AnyPage, row: SettingRow) -> None:
    source = source_of(row)
    if isinstance(source, Field):
        await _edit_field(page, source)
    elif isinstance(source, ConsoleChoice):
        preview = partial(source.write, page.app) if source.name == "theme" else None
        dialog = ChooseOne(source.label, source.options(page.app), source.read(page.app), preview)
        _choose(page, source, await page.ask(dialog))
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


async def _toggle(page: AnyPage, row: SettingRow) -> None:
    """Switch a setting to its next value. A setting without fixed values is edited instead."""
    source = source_of(row)
    if isinstance(source, ConsoleChoice):
        values = [value for value, _ in source.options(page.app)]
        _choose(page, source, values[(values.index(source.read(page.app)) + 1) % len(values)])
    elif isinstance(source, Field) and (options := source.kind.choices):
        current = options.index(source.kind.text(getattr(page.settings, source.name)))
        await _save(page, source, source.kind.read(options[(current + 1) % len(options)], page.session.now()))
    else:
        await _edit(page, row)


async def _reset(page: AnyPage, row: SettingRow) -> None:
    source = source_of(row)
    if source is None:
        await _edit(page, row)
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
    plan = form.plan(field.label, session.client.set_settings, intro=intro)
    _show_saved(page, field, await page.ask(Form(plan)))


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


class SettingsPage(ListPage[SettingRow]):
    """The page with a table of settings; the pane next to it explains the selected one."""

    scopes = ("settings", "list")
    noun = "setting"
    key_field = "name"
    creation_hint = "They are being loaded."
    verbs: ClassVar[Mapping[str, Verb]] = {
        **{verb: list_page.VERBS[verb] for verb in LIST_VERBS},
        "edit": on_selected(_edit),
        "toggle": on_selected(_toggle),
        "default": on_selected(_reset),
    }

    settings: Settings | None = None

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self.view.detail = True

    def renew(self) -> None:
        super().renew()
        # commands, other consoles and an undo change settings, too: the server reports a change of the tables then
        self.fetch_if_due(self.session.board.tables_version)

    def on_live_table_opened(self) -> None:
        self.action_act("edit")

    async def fetch(self) -> None:
        self.settings = await self.session.client.settings()

    def all_columns(self) -> Sequence[Column[SettingRow]]:
        return [
            Column("changed", "", 1, lambda r: glyphs.MARKED if r.changed else "", tone=lambda _: "live"),
            Column("label", "Setting", 12, lambda r: r.label, sort=lambda r: r.label.casefold(), max_width=19),
            Column("value", "Value", 18, lambda r: safe(r.value), flex=True, tone=_value_tone, sort=lambda r: r.value),
            Column("default", "Default", 17, lambda r: safe(r.default), rank=2, dim=True, max_width=20),
            Column("section", "Section", 7, lambda r: r.section, rank=4, dim=True, sort=lambda r: r.section),
            Column("applies", "Applies", 7, lambda r: r.applies, rank=3, dim=True, sort=lambda r: r.applies),
        ]

    def rows(self) -> Sequence[SettingRow]:
        if self.settings is None and self.session.link == "attached":
            return []  # all rows appear at once, so that the cursor stays at the top
        return sorted(all_rows(self.app, self.settings), key=lambda row: ORDER.index(row.section))

    def command(self, row: SettingRow) -> str:
        return row.command or row.change

    def lead(self, width: int) -> Content:
        rows = self.rows()
        changed = sum(row.changed for row in rows)
        dot, key = glyphs.DOT, self.session.key
        keys = f"{key('settings.edit')} edits, {key('settings.toggle')} switches, {key('settings.default')} resets"
        return content(f" {self.count_rows(len(rows))} {dot} {changed} changed", (f"   {keys}", "dim"))

    def detail(self, row: SettingRow, width: int) -> Content:
        card = TextCard(width)
        card.line((row.label, "bold"), (f"   {row.name}", "dim"))
        for line in row.meaning.splitlines():
            card.line((safe(line), "bad" if row.wrong else ""))
        card.row("value", (safe(row.value), _value_tone(row)), (f"   in {row.unit}" if row.unit else "", "dim"))
        status = self.session.board.status
        if row.name == "ollama_port" and status is not None and status.ollama_error:
            card.row("problem", (safe(status.ollama_error), "bad"))
        if row.default:
            card.row("default", safe(row.default))
        card.row("applies", NOW if row.applies == NOW else f"after a restart of the {row.section.lower()}")
        card.row("change", (safe(row.change), "dim"))
        return card.content()

    def empty(self) -> Content:
        return content(("Loading the settings ...", "dim"))

    def words(self, row: SettingRow) -> str:
        return safe(f"{row.label} {row.name} {row.section} {row.value} {row.meaning} {row.applies}", 1_000)


def _value_tone(row: SettingRow) -> str:
    if row.wrong:
        return "bad"
    return "live" if row.changed else ""
