"""SettingsListing: the rows, columns and detail pane of the Settings page.

Three kinds of rows: settings of the gateway, of this console, and those that only a restart of the server changes.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from textual.content import Content

from gateway.domain.field_kinds import Field
from gateway.domain.fields import SETTINGS
from gateway.domain.settings import Settings
from tui import global_actions, glyphs, preferences, themes
from tui.columns import Column
from tui.format import count_text
from tui.listing import PageListing
from tui.session import ConsoleSession
from tui.text import TextCard, content, safe

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
    """The command line that sets its current value; empty: none can."""
    changed: bool = False
    """Whether it differs from its default."""
    wrong: bool = False
    """Whether its meaning is a list of problems."""
    source: Field | ConsoleChoice | None = None
    """The setting; None if it cannot be changed here."""


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
            source=field,
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
            source=choice,
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
    status = session.board.status
    rows = [
        ("home", "Data folder", str(session.config.home), "Everything is stored here.", "--home or TOLLKEEPER_HOME"),
        (
            "address",
            "Address",
            status.address if status else "",
            "Where clients reach the gateway.",
            "tollkeeper serve --host HOST --port PORT, or TOLLKEEPER_HOST and TOLLKEEPER_PORT",
        ),
        (
            "drain_s",
            "Stop waits",
            f"{session.config.drain_s:g} s",
            "How long a stopping server waits for running calls.",
            "TOLLKEEPER_DRAIN_S",
        ),
    ]
    for name, label, value, meaning, change in rows:
        yield SettingRow(
            name=name, section="Server", label=label, value=value, meaning=meaning, applies=RESTART, change=change
        )


def all_rows(app: Any, settings: Settings | None) -> list[SettingRow]:
    """Returns the rows of all settings, without those of the gateway while these are not known."""
    gateway = [] if settings is None else gateway_rows(settings)
    return [*gateway, *console_rows(app), *server_rows(app.session)]


class SettingsListing(PageListing[SettingRow]):
    """What the page shows: settings, by section."""

    noun = "setting"
    key_field = "name"

    app: Any
    """The console."""
    settings: Settings | None = None

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
    return "bad" if row.wrong else "live" if row.changed else ""
