"""Actions: everything the console can do, in one table. Keys, footer, help and palette are built from it.

Rules: a letter means the same on every page of one kind; no ctrl key runs anything destructive; nothing needs function
keys, alt or ctrl+enter.
"""

import string
import unicodedata
from collections.abc import Iterator
from functools import partial

import msgspec
from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS


class Action(msgspec.Struct, frozen=True):
    """One action. ``verb`` is the name of the method or function that runs it."""

    scope: str
    """``app``, ``list``, or the id of a page."""
    verb: str
    keys: str
    """Textual's names of its keys, separated by commas. An action without keys is run from the palette."""
    label: str
    """One or two words for the footer."""
    help: str
    command: str = ""
    """The equivalent command line, without ``tollkeeper``, or an empty string."""
    shown: bool = True
    """Whether the footer shows it, if there is space. The order of the table decides which actions come first."""

    @property
    def id(self) -> str:
        return f"{self.scope}.{self.verb}"


class PageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A page: its id, name and purpose."""

    id: str
    name: str
    about: str


PAGES = (
    PageInfo(id="live", name="Live", about="every call as it happens, and what it costs"),
    PageInfo(id="tokens", name="Tokens", about="the keys that clients present"),
    PageInfo(id="groups", name="Groups", about="which tokens use which channels, and at what price"),
    PageInfo(id="channels", name="Channels", about="the upstream accounts that answer"),
    PageInfo(id="models", name="Models", about="the models clients can ask for, and their prices"),
    PageInfo(id="account", name="Account", about="balance, budgets and grants"),
    PageInfo(id="usage", name="Usage", about="cost, calls and tokens over time"),
    PageInfo(id="doctor", name="Doctor", about="find out why calls fail"),
    PageInfo(id="settings", name="Settings", about="every setting: its value, default and meaning"),
)

PAGE_IDS = tuple(page.id for page in PAGES)

_unlisted = partial(Action, shown=False)
"""Returns an action that the footer does not show."""

ACTIONS: tuple[Action, ...] = (
    Action("live", "pause", "space", "Pause", "freeze the list; new calls are counted"),
    Action("live", "errors", "e", "Errors", "show only failed calls, or all", "usage list st:err"),
    _unlisted("live", "cancel", "x", "Cancel", "cancel the selected or marked running calls", "usage cancel ID"),
    _unlisted("live", "curl", "c", "Copy curl", "copy a curl line that makes such a call"),
    _unlisted("live", "follow", "F", "Follow", "jump to the newest call and follow new ones", "usage tail"),
    _unlisted("live", "when", "w", "Go to time", "jump to a date or time", "usage list --until TIME"),
    _unlisted("live", "previous_error", "left_square_bracket", "Newer error", "go to the next newer error"),
    _unlisted("live", "next_error", "right_square_bracket", "Older error", "go to the next older error"),
    Action("tokens", "connect", "c", "Connect", "settings to paste into an app, and a test call", "env"),
    _unlisted("tokens", "rotate", "R", "Rotate", "issue a new key; the old one stops working", "token rotate NAME"),
    _unlisted("tokens", "ended", "a", "Ended runs", "show or hide the tokens of ended runs", "token list --all"),
    Action("channels", "test", "t", "Test", "check the connection, or make a short completion", "channel test NAME"),
    Action("channels", "fetch", "L", "Models", "fetch the upstream's model list", "channel models NAME"),
    Action("channels", "clear", "z", "Resume", "use a paused channel again now", "channel resume NAME"),
    Action("channels", "discover", "a", "Discover", "find local servers and API keys in the environment", "discover"),
    _unlisted("channels", "keys", "A", "Keys", "add, remove or resume keys", "channel key"),
    Action("channels", "incidents", "i", "Incidents", "what failed when, and where calls went", "incident list"),
    _unlisted("channels", "raise", "K", "Priority up", "raise its priority", "channel edit NAME --priority N"),
    _unlisted("channels", "lower", "J", "Priority down", "lower its priority", "channel edit NAME --priority N"),
    Action("models", "edit", "e", "Price", "set the price, with an example cost", "price set MODEL"),
    Action("models", "import", "P", "List prices", "import list prices, with a preview", "price import --dry-run"),
    Action("models", "free", "0", "Free", "make the model free", "price set MODEL --free"),
    Action("models", "delete", "d", "Remove price", "remove the price; it can be undone", "price remove MODEL"),
    Action("account", "grant", "a", "Add money", "top up or correct the balance", "account grant 10"),
    Action("account", "edit", "e", "Budgets", "edit the account's budgets", "account set --budget month=50"),
    Action("account", "suspend", "space", "Suspend", "reject or accept all calls", "account set --status suspended"),
    Action("account", "settings", "s", "Settings", "open the page of all settings", "settings show"),
    Action(
        "usage", "open", "enter", "Calls", "open the calls of the bar and series; arrows or clicks select", "usage list"
    ),
    Action("usage", "period", "p", "Period", "change the period: whole calendar days", "usage summary --since DATE"),
    _unlisted("usage", "period_back", "P", "Period back", "change the period the other way"),
    Action("usage", "value", "v", "Value", "show cost, calls, tokens, errors, or a time", "usage summary"),
    Action("usage", "by", "b", "By", "group by token, model, channel, group, app or API", "usage summary --by model"),
    Action("usage", "filter", "slash", "Filter", "sum up matching calls, as on page 1", "usage summary WORDS"),
    _unlisted("usage", "all", "escape", "All calls", "clear the filter"),
    _unlisted("usage", "budget", "B", "Budget", "show the next budget against its limit"),
    Action("doctor", "run", "enter", "Run", "run the checks again", "doctor"),
    Action("settings", "edit", "e,enter", "Edit", "edit the selected setting", "settings set"),
    Action("settings", "toggle", "space", "Switch", "switch to the other or the next value", "settings set"),
    Action("settings", "default", "d", "Default", "reset the setting to its default; it can be undone", "settings set"),
    # Shared by the pages of entities; a page offers those that it has verbs for
    Action("entity", "new", "n", "New", "create one", "NOUN add"),
    Action("entity", "edit", "e", "Edit", "edit the selected one", "NOUN edit NAME"),
    Action("entity", "toggle", "space", "On/off", "enable or disable it", "NOUN enable NAME"),
    Action("entity", "delete", "d", "Delete", "delete it, after confirmation; it can be undone", "NOUN remove NAME"),
    _unlisted("entity", "duplicate", "D", "Duplicate", "create a copy", "NOUN add"),
    Action("list", "details", "enter", "Details", "open or close the detail pane"),
    _unlisted("list", "full", "f", "Full height", "expand or shrink the detail pane"),
    Action("list", "filter", "slash", "Filter", "filter the list as you type"),
    Action("list", "sort", "s", "Sort", "sort by the next column; a click on a title sorts by it, another reverses"),
    _unlisted("list", "reverse", "S", "Reverse", "reverse the order"),
    Action("list", "why", "W", "Why", "what a call would get right now, and why", "why TOKEN MODEL"),
    _unlisted("list", "columns", "o", "Columns", "choose which columns are shown"),
    _unlisted("list", "mark", "m", "Mark", "mark or unmark the row, and go to the next"),
    _unlisted("list", "mark_all", "asterisk", "Mark all", "mark all rows that are shown, or remove all marks"),
    _unlisted("list", "bulk", "b", "Bulk", "enable, disable, move, limit or delete all marked rows"),
    _unlisted("list", "marked", "M", "Marked only", "show only marked rows, or all"),
    Action("list", "copy", "y", "Copy id", "copy the row's id or name"),
    Action("list", "twin", "Y", "Copy command", "copy the equivalent command (for a call, a curl)"),
    _unlisted("list", "export", "E", "Export", "export the rows shown to a file", "usage export"),
    _unlisted("list", "back", "escape", "Back", "close the pane, then clear the filter, then show all rows"),
    # Everywhere
    Action("app", "help", "question_mark", "Help", "list the keys of this page"),
    _unlisted("app", "undo", "u", "Undo", "undo the last change of the configuration", "undo"),
    _unlisted("app", "history", "H", "History", "what was changed, when and by whom; undo any of it", "history"),
    _unlisted("app", "redo", "U", "Redo", "redo the change that was undone last", "redo"),
    _unlisted("app", "theme", "T", "Theme", "choose a theme; each is previewed"),
    _unlisted("app", "start", "r", "Restart", "start the server again after it stopped", "serve"),
    Action("app", "wizard", "", "First steps", "set up a channel and a token, step by step"),
    _unlisted("app", "suspend", "ctrl+z", "Suspend", "back to the shell; 'fg' returns"),
    _unlisted("app", "stop", "Q", "Stop", "let running calls finish, stop the server and quit", "stop"),
    Action("app", "detach", "", "Detach", "quit and always keep the server running"),
    Action("app", "leave", "q,ctrl+q", "Quit", "quit; the server keeps running"),
)


def key_name(character: str) -> str:
    """Returns Textual's name for the key that types a character; empty if no key does."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


KEY_NAMES = {key_name(sign): sign for sign in string.punctuation} | {"escape": "esc"}
"""The names of keys that users know, by Textual's names that differ from them."""


def actions_in(*scopes: str) -> Iterator[Action]:
    """Returns the actions of these scopes, in the order of the table."""
    return (action for action in ACTIONS if action.scope in scopes)


def shown_key(key: str) -> str:
    """Returns a key as users know it: ``/``, ``esc``, ``^z``."""
    if key.startswith("ctrl+") and len(key) == len("ctrl+z"):
        return f"^{key[-1]}"
    return KEY_NAMES.get(key, key)


def key_text(action: Action) -> str:
    """Returns the display text of the action's first key."""
    return shown_key(action.keys.partition(",")[0])


def bindings(*scopes: str, verbs: frozenset[str] | None = None) -> list[BindingType]:
    """Returns Textual's bindings for the actions of these scopes; with ``verbs``, only for those with one of them."""
    actions = (a for a in actions_in(*scopes) if a.keys and (verbs is None or a.verb in verbs))
    return [Binding(a.keys, f"act('{a.verb}')", a.label, show=False, id=a.id) for a in actions]
