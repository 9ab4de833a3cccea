"""Actions: everything the console can do, in one table, from which keys, footer, help and palette are built.

Rules: a letter means the same on every page of one kind; nothing destructive is on ctrl; nothing needs function keys,
alt or ctrl+enter. ``command`` is the equivalent command line.
"""

import string
import unicodedata
from collections.abc import Iterator
from functools import partial

import msgspec
from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action. ``verb`` is the name of the method or function that runs it."""

    scope: str
    """``app``, ``list``, or the id of a page."""
    verb: str
    keys: str
    """Textual's names of the keys, separated by commas. Empty: the action is only in the palette."""
    label: str
    """One or two words for the footer."""
    help: str
    command: str = ""
    shown: bool = True
    """Whether the footer shows it if there is room; the order of the table decides which comes first."""

    @property
    def id(self) -> str:
        """Returns the stable name, for rebinding keys."""
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


def _act(scope: str, verb: str, keys: str, label: str, help: str, command: str = "", *, shown: bool = True) -> Action:  # noqa: A002 - the field's name
    return Action(scope=scope, verb=verb, keys=keys, label=label, help=help, command=command, shown=shown)


_more = partial(_act, shown=False)
"""Returns an action that is not in the footer."""


ACTIONS: tuple[Action, ...] = (
    # Live
    _act("live", "pause", "space", "Pause", "freeze the list; new calls are counted"),
    _act("live", "errors", "e", "Errors", "show only failed calls, or all", "usage list st:err"),
    _more(
        "live", "cancel", "x", "Cancel", "cancel the selected running call, or those that are marked", "usage cancel ID"
    ),
    _more("live", "curl", "c", "Copy curl", "copy a curl line that makes such a call"),
    _more("live", "follow", "F", "Follow", "jump to the newest call and follow new ones", "usage tail"),
    _more("live", "when", "w", "Go to time", "jump to a date or time", "usage list --until TIME"),
    _more("live", "previous_error", "left_square_bracket", "Newer error", "go to the next newer error"),
    _more("live", "next_error", "right_square_bracket", "Older error", "go to the next older error"),
    # Tokens
    _act("tokens", "connect", "c", "Connect", "settings to paste into an app, and a test call", "env"),
    _more("tokens", "rotate", "R", "Rotate", "issue a new key; the old one stops working", "token rotate NAME"),
    _more("tokens", "ended", "a", "Ended runs", "show or hide the tokens of ended runs", "token list --all"),
    # Channels
    _act(
        "channels", "test", "t", "Test", "check the connection, optionally with a short completion", "channel test NAME"
    ),
    _act("channels", "fetch", "L", "Models", "fetch the upstream's model list", "channel models NAME"),
    _act("channels", "clear", "z", "Resume", "use a paused channel again now", "channel resume NAME"),
    _act("channels", "discover", "a", "Discover", "find local servers and API keys in the environment", "discover"),
    _more("channels", "keys", "A", "Keys", "add, remove or resume keys", "channel key"),
    _act("channels", "incidents", "i", "Incidents", "what failed when, and where calls went", "incident list"),
    _more("channels", "raise", "K", "Priority up", "raise the channel's priority", "channel edit NAME --priority N"),
    _more("channels", "lower", "J", "Priority down", "lower the channel's priority", "channel edit NAME --priority N"),
    # Models
    _act("models", "edit", "e", "Price", "set the price, with an example cost", "price set MODEL"),
    _act(
        "models", "import", "P", "List prices", "import vendors' list prices, with a preview", "price import --dry-run"
    ),
    _act("models", "free", "0", "Free", "make the model free", "price set MODEL --free"),
    _act("models", "delete", "d", "Remove price", "remove the price; it can be undone", "price remove MODEL"),
    # Account
    _act("account", "grant", "a", "Add money", "top up or correct the balance", "account grant 10"),
    _act("account", "edit", "e", "Budgets", "edit the account's budgets", "account set --budget month=50"),
    _act(
        "account",
        "suspend",
        "space",
        "Suspend",
        "reject all calls, or accept them again",
        "account set --status suspended",
    ),
    _act("account", "settings", "s", "Settings", "open the page of all settings", "settings show"),
    # Usage
    _act(
        "usage",
        "open",
        "enter",
        "Calls",
        "open the calls of the bar and series; arrows or clicks select",
        "usage list",
    ),
    _act("usage", "period", "p", "Period", "change the period: whole calendar days", "usage summary --since DATE"),
    _more("usage", "period_back", "P", "Period back", "change the period the other way"),
    _act("usage", "value", "v", "Value", "show cost, calls, tokens, errors, duration or first token", "usage summary"),
    _act("usage", "by", "b", "By", "group by token, model, channel, group, app or API", "usage summary --by model"),
    _act("usage", "filter", "slash", "Filter", "sum up the calls that fit words, as on page 1", "usage summary WORDS"),
    _more("usage", "all", "escape", "All calls", "clear the filter"),
    _more("usage", "budget", "B", "Budget", "show the next budget against its limit"),
    # Doctor
    _act("doctor", "run", "enter", "Run", "run the checks again", "doctor"),
    # Settings
    _act("settings", "edit", "e,enter", "Edit", "edit the selected setting", "settings set"),
    _act("settings", "toggle", "space", "Switch", "switch to the other or the next value", "settings set"),
    _act("settings", "default", "d", "Default", "reset the setting to its default; it can be undone", "settings set"),
    # Shared by pages with entities; a page takes those it has verbs for
    _act("entity", "new", "n", "New", "create one", "NOUN add"),
    _act("entity", "edit", "e", "Edit", "edit the selected one", "NOUN edit NAME"),
    _act("entity", "toggle", "space", "On/off", "enable or disable it", "NOUN enable NAME"),
    _act("entity", "delete", "d", "Delete", "delete it, after confirmation; it can be undone", "NOUN remove NAME"),
    _more("entity", "duplicate", "D", "Duplicate", "create a copy", "NOUN add"),
    # Lists
    _act("list", "details", "enter", "Details", "open or close the detail pane"),
    _more("list", "full", "f", "Full height", "expand or shrink the detail pane"),
    _act("list", "filter", "slash", "Filter", "filter the list as you type"),
    _act("list", "sort", "s", "Sort", "sort by the next column; a click on a title sorts by it, another reverses"),
    _more("list", "reverse", "S", "Reverse", "reverse the order"),
    _act("list", "why", "W", "Why", "what a call would get right now, and why", "why TOKEN MODEL"),
    _more("list", "columns", "o", "Columns", "choose which columns are shown"),
    _more("list", "mark", "m", "Mark", "mark or unmark the row, and go to the next"),
    _more("list", "bulk", "b", "Bulk", "enable, disable, move, limit or delete all marked rows"),
    _more("list", "marked", "M", "Marked only", "show only marked rows, or all"),
    _act("list", "copy", "y", "Copy id", "copy the row's id or name"),
    _act("list", "twin", "Y", "Copy command", "copy the equivalent command (for a call, a curl)"),
    _more("list", "export", "E", "Export", "export the rows shown to a file", "usage export"),
    _more("list", "back", "escape", "Back", "close the pane, then clear the filter, then show all rows"),
    # Everywhere
    _act("app", "help", "question_mark", "Help", "list the keys of this page"),
    _more("app", "undo", "u", "Undo", "undo the last change of the configuration", "undo"),
    _more("app", "history", "H", "History", "what was changed, when and by whom; undo any of it", "history"),
    _more("app", "redo", "U", "Redo", "redo the change that was undone last", "redo"),
    _more("app", "theme", "T", "Theme", "choose a theme; each is previewed"),
    _more("app", "start", "r", "Restart", "start the server again after it stopped", "serve"),
    _act("app", "wizard", "", "First steps", "set up a channel and a token, step by step"),
    _more("app", "suspend", "ctrl+z", "Suspend", "back to the shell; 'fg' returns"),
    _more("app", "stop", "Q", "Stop", "let running calls finish, stop the server and quit", "stop"),
    _act("app", "detach", "", "Detach", "quit and always keep the server running"),
    _act("app", "leave", "q,ctrl+q", "Quit", "quit; the server keeps running"),
)


def key_name(character: str) -> str:
    """Returns Textual's name for the key that types a character; empty if no key does."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


KEY_NAMES = {key_name(sign): sign for sign in string.punctuation} | {"escape": "esc"}
"""The printed characters of keys that Textual names differently."""


def actions_in(*scopes: str) -> Iterator[Action]:
    """Returns the actions of some scopes, in the order of the table."""
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
    """Returns Textual's bindings for some scopes; only those with one of ``verbs``, if any are given."""
    return [
        Binding(action.keys, f"act('{action.verb}')", action.label, show=False, id=action.id)
        for action in actions_in(*scopes)
        if action.keys and (verbs is None or action.verb in verbs)
    ]
