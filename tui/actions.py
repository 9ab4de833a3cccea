"""Actions: everything the console can do, in one table, from which keys, footer, help and palette are built.

Rules: a letter means the same on every page of one kind; nothing destructive is on ctrl; nothing needs function keys,
alt or ctrl+enter. ``command`` is the equivalent command line.
"""

import string
import unicodedata
from collections.abc import Iterator

import msgspec
from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action; its method or function is found by ``verb`` where it is run."""

    scope: str
    """``app``, ``list``, or the id of a page."""
    verb: str
    keys: str
    """In Textual's names, separated by commas; empty: only in the palette."""
    label: str
    """One or two words for the footer."""
    help: str
    command: str = ""
    shown: bool = True
    """Whether the footer shows it when there is room; the order of the table decides which comes first."""

    @property
    def id(self) -> str:
        """Stable name, for rebinding keys."""
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


ACTIONS: tuple[Action, ...] = (
    # Live
    _act("live", "pause", "space", "Pause", "freeze the list; new calls are counted"),
    _act("live", "errors", "e", "Errors", "show only failed calls, or all", "usage list st:err"),
    _act(
        "live",
        "cancel",
        "x",
        "Cancel",
        "cancel the selected running call, or those that are marked",
        "usage cancel ID",
        shown=False,
    ),
    _act("live", "curl", "c", "Copy curl", "copy a curl line that makes such a call", shown=False),
    _act("live", "follow", "F", "Follow", "jump to the newest call and follow new ones", "usage tail", shown=False),
    _act("live", "when", "w", "Go to time", "jump to a date or time", "usage list --until TIME", shown=False),
    _act("live", "previous_error", "left_square_bracket", "Newer error", "go to the next newer error", shown=False),
    _act("live", "next_error", "right_square_bracket", "Older error", "go to the next older error", shown=False),
    # Tokens
    _act("tokens", "connect", "c", "Connect", "settings to paste into an app, and a test call", "env"),
    _act(
        "tokens",
        "rotate",
        "R",
        "Rotate",
        "issue a new key; the old one stops working",
        "token rotate NAME",
        shown=False,
    ),
    _act(
        "tokens",
        "ended",
        "a",
        "Ended runs",
        "show or hide the tokens of programs that 'run' started and that have ended",
        "token list --all",
        shown=False,
    ),
    # Channels
    _act(
        "channels", "test", "t", "Test", "check the connection, optionally with a short completion", "channel test NAME"
    ),
    _act("channels", "fetch", "L", "Models", "fetch the upstream's model list", "channel models NAME"),
    _act("channels", "clear", "z", "Resume", "use a paused channel again now", "channel resume NAME"),
    _act("channels", "discover", "a", "Discover", "find local servers and API keys in the environment", "discover"),
    _act("channels", "keys", "A", "Keys", "add, remove or resume keys", "channel key", shown=False),
    _act("channels", "incidents", "i", "Incidents", "what failed when, and where calls went", "incident list"),
    _act(
        "channels",
        "raise",
        "K",
        "Priority up",
        "raise the channel's priority",
        "channel edit NAME --priority N",
        shown=False,
    ),
    _act(
        "channels",
        "lower",
        "J",
        "Priority down",
        "lower the channel's priority",
        "channel edit NAME --priority N",
        shown=False,
    ),
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
        "open the calls of the selected bar and series on page 1; arrows or clicks select",
        "usage list",
    ),
    _act("usage", "period", "p", "Period", "change the period: whole calendar days", "usage summary --since DATE"),
    _act("usage", "period_back", "P", "Period back", "change the period the other way", shown=False),
    _act("usage", "value", "v", "Value", "show cost, calls, tokens, errors, duration or first token", "usage summary"),
    _act("usage", "by", "b", "By", "group by token, model, channel, group, app or API", "usage summary --by model"),
    _act("usage", "filter", "slash", "Filter", "sum up the calls that fit words, as on page 1", "usage summary WORDS"),
    _act("usage", "all", "escape", "All calls", "clear the filter", shown=False),
    _act("usage", "budget", "B", "Budget", "show the next budget against its limit", shown=False),
    # Doctor
    _act("doctor", "run", "enter", "Run", "run the checks again", "doctor"),
    # Settings
    _act("settings", "edit", "e,enter", "Edit", "edit the selected setting", "settings set"),
    _act("settings", "toggle", "space", "Switch", "switch to the other or the next value", "settings set"),
    _act("settings", "default", "d", "Default", "reset the setting to its default; it can be undone", "settings set"),
    # What pages with entities share; a page takes those it has verbs for
    _act("entity", "new", "n", "New", "create one", "NOUN add"),
    _act("entity", "edit", "e", "Edit", "edit the selected one", "NOUN edit NAME"),
    _act("entity", "toggle", "space", "On/off", "enable or disable it", "NOUN enable NAME"),
    _act("entity", "delete", "d", "Delete", "delete it, after confirmation; it can be undone", "NOUN remove NAME"),
    _act("entity", "duplicate", "D", "Duplicate", "create a copy", "NOUN add", shown=False),
    # Lists
    _act("list", "details", "enter", "Details", "open or close the detail pane"),
    _act("list", "full", "f", "Full height", "expand or shrink the detail pane", shown=False),
    _act("list", "filter", "slash", "Filter", "filter the list as you type"),
    _act("list", "sort", "s", "Sort", "sort by the next column; a click on a title sorts by it, another reverses"),
    _act("list", "reverse", "S", "Reverse", "reverse the order", shown=False),
    _act("list", "why", "W", "Why", "what a call would get right now, and why", "why TOKEN MODEL"),
    _act("list", "columns", "o", "Columns", "choose which columns are shown", shown=False),
    _act("list", "mark", "m", "Mark", "mark or unmark the row, and go to the next", shown=False),
    _act("list", "bulk", "b", "Bulk", "enable, disable, move, limit or delete all marked rows", shown=False),
    _act("list", "marked", "M", "Marked only", "show only marked rows, or all", shown=False),
    _act("list", "copy", "y", "Copy id", "copy the row's id or name"),
    _act("list", "twin", "Y", "Copy command", "copy the equivalent command (for a call, a curl)"),
    _act("list", "export", "E", "Export", "export the rows shown to a file", "usage export", shown=False),
    _act("list", "back", "escape", "Back", "close the pane, then clear the filter, then show all rows", shown=False),
    # Everywhere
    _act("app", "help", "question_mark", "Help", "list the keys of this page"),
    _act("app", "undo", "u", "Undo", "undo the last change of the configuration", "undo", shown=False),
    _act(
        "app", "history", "H", "History", "what was changed, when and by whom; undo any of it", "history", shown=False
    ),
    _act("app", "redo", "U", "Redo", "redo the change that was undone last", "redo", shown=False),
    _act("app", "theme", "T", "Theme", "choose a theme; each is previewed", shown=False),
    _act("app", "start", "r", "Restart", "start the server again after it stopped", "serve", shown=False),
    _act("app", "mouse", "", "Mouse", "use the mouse here, or leave it to the terminal for selecting text"),
    _act("app", "ascii", "", "ASCII", "switch between Unicode and ASCII"),
    _act("app", "wizard", "", "First steps", "set up a channel and a token, step by step"),
    _act("app", "suspend", "ctrl+z", "Suspend", "back to the shell; 'fg' returns", shown=False),
    _act("app", "stop", "Q", "Stop", "let running calls finish, stop the server and quit", "stop", shown=False),
    _act("app", "detach", "", "Detach", "quit and always keep the server running"),
    _act("app", "leave", "q,ctrl+q", "Quit", "quit; the server keeps running", shown=True),
)


def key_name(character: str) -> str:
    """Textual's name for the key that types a character; empty if there is none."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


KEY_NAMES = {key_name(sign): sign for sign in string.punctuation} | {"escape": "esc"}
"""How keys are shown whose names are not what is on them."""


def actions_in(*scopes: str) -> Iterator[Action]:
    """The actions of some scopes, in the order of the table."""
    return (action for action in ACTIONS if action.scope in scopes)


def shown_key(key: str) -> str:
    """A key as people know it: ``/``, ``esc``, ``^z``."""
    if key.startswith("ctrl+") and len(key) == len("ctrl+z"):
        return f"^{key[-1]}"
    return KEY_NAMES.get(key, key)


def key_text(action: Action) -> str:
    """The display text of its first key."""
    return shown_key(action.keys.partition(",")[0])


def bindings(*scopes: str, verbs: frozenset[str] | None = None) -> list[BindingType]:
    """Textual's bindings for some scopes; only those with one of these verbs, if any are given."""
    return [
        Binding(action.keys, f"act('{action.verb}')", action.label, show=False, id=action.id)
        for action in actions_in(*scopes)
        if action.keys and (verbs is None or action.verb in verbs)
    ]
