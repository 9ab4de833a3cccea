"""Actions: everything that can be done in the console, in one table: keys, footer, help and palette are made from it.

Rules: a letter means the same on every page of one kind; nothing destructive is on ctrl; nothing needs function keys,
alt or ctrl+enter. ``command`` is the command that does the same without the console.
"""

from collections.abc import Iterator

import msgspec
from textual.binding import Binding, BindingType


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action; its method or function is found by ``verb`` where it is run."""

    scope: str
    """``app``, ``list``, or the id of a page."""
    verb: str
    keys: str
    """As Textual names them, separated by commas; empty: in the palette only."""
    label: str
    """One or two words for the footer."""
    help: str
    command: str = ""
    shown: bool = True
    """Whether it is wanted in the footer when there is room; the table's order decides who comes first."""

    @property
    def id(self) -> str:
        """Stable name, for rebinding keys."""
        return f"{self.scope}.{self.verb}"


class PageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One page: its id, its name, and what it is for."""

    id: str
    name: str
    about: str


PAGES = (
    PageInfo(id="live", name="Live", about="every call as it happens, and what it costs"),
    PageInfo(id="tokens", name="Tokens", about="the keys that clients present"),
    PageInfo(id="groups", name="Groups", about="what ties tokens to channels"),
    PageInfo(id="channels", name="Channels", about="the upstream accounts that answer"),
    PageInfo(id="models", name="Models", about="what clients may ask for, and prices"),
    PageInfo(id="account", name="Account", about="the purse: balance, grants, budgets"),
    PageInfo(id="usage", name="Usage", about="cost, calls and tokens over time"),
    PageInfo(id="doctor", name="Doctor", about="find what keeps a call from working"),
)


def _act(scope: str, verb: str, keys: str, label: str, help: str, command: str = "", *, shown: bool = True) -> Action:  # noqa: A002 - the field's name
    return Action(scope=scope, verb=verb, keys=keys, label=label, help=help, command=command, shown=shown)


ACTIONS: tuple[Action, ...] = (
    # Live
    _act("live", "pause", "space", "Pause", "hold the list still; what comes is counted"),
    _act("live", "errors", "e", "Errors", "only calls that failed, and back", "usage list st:err"),
    _act("live", "cancel", "x", "Cancel", "end the running call under the cursor", "usage cancel ID", shown=False),
    _act("live", "follow", "F", "Follow", "to the newest call, and stay there", "usage tail", shown=False),
    _act("live", "when", "w", "When", "jump to a time", "usage list --until TIME", shown=False),
    _act("live", "previous_error", "left_square_bracket", "Error before", "to the next newer error", shown=False),
    _act("live", "next_error", "right_square_bracket", "Next error", "to the next older error", shown=False),
    # Tokens
    _act("tokens", "connect", "c", "Connect", "how to use this token, as text to paste; with a test call", "env"),
    _act("tokens", "rotate", "R", "Rotate", "a new key; the old one stops working", "token rotate NAME", shown=False),
    # Channels
    _act("channels", "test", "t", "Test", "ask the upstream; with a model also for a tiny answer", "channel test NAME"),
    _act("channels", "fetch", "L", "Models", "ask the upstream for its list of models", "channel models NAME"),
    _act("channels", "clear", "z", "Clear", "end the cool-down now", "channel clear NAME"),
    _act("channels", "discover", "a", "Found here", "local servers, and keys in the environment", "discover"),
    _act("channels", "keys", "A", "Keys", "its keys: another, one less, one tried again", "channel key", shown=False),
    _act("channels", "incidents", "i", "Incidents", "who failed when, and where calls went", "usage list st:err"),
    _act(
        "channels",
        "raise",
        "K",
        "Priority up",
        "ask this channel earlier",
        "channel edit NAME --priority N",
        shown=False,
    ),
    _act("channels", "lower", "J", "Priority down", "ask it later", "channel edit NAME --priority N", shown=False),
    # Models
    _act("models", "edit", "e", "Price", "set its price, with an example beside it", "price set MODEL"),
    _act("models", "import", "P", "List prices", "what vendors charge, with a preview", "price import --dry-run"),
    _act("models", "free", "0", "Free", "it costs nothing", "price set MODEL --free"),
    _act("models", "delete", "d", "No price", "take its price away; u takes it back", "price remove MODEL"),
    # Account
    _act("account", "grant", "a", "Add money", "top up the account, or correct it", "account grant 10"),
    _act("account", "edit", "e", "Budgets", "budgets of everything together", "account set --budget month=50"),
    _act(
        "account",
        "suspend",
        "space",
        "Suspend",
        "refuse all calls, or take them again",
        "account set --status suspended",
    ),
    # Usage
    _act("usage", "period", "p", "Period", "another span of time", "usage summary --since 30d"),
    _act("usage", "value", "v", "Value", "cost, calls, tokens or latency", "usage summary"),
    _act("usage", "by", "b", "By", "by token, model, channel, group or app", "usage summary --by model"),
    # Doctor
    _act("doctor", "run", "enter", "Run", "ask the questions again", "doctor"),
    # What pages with entities share; a page takes those it has verbs for
    _act("entity", "new", "n", "New", "make one", "NOUN add"),
    _act("entity", "edit", "e", "Edit", "change what is under the cursor", "NOUN edit NAME"),
    _act("entity", "toggle", "space", "On/off", "enable or disable it", "NOUN enable NAME"),
    _act("entity", "delete", "d", "Delete", "remove it; asks first, and u takes it back", "NOUN remove NAME"),
    _act("entity", "duplicate", "D", "Duplicate", "a new one like this", "NOUN add", shown=False),
    # Lists
    _act("list", "details", "enter", "Details", "open or close the pane about the row"),
    _act("list", "full", "f", "Full height", "give the pane all the room, and back", shown=False),
    _act("list", "filter", "slash", "Filter", "narrow the list while you type"),
    _act("list", "sort", "s", "Sort", "sort by the next column"),
    _act("list", "reverse", "S", "Reverse", "turn the order round", shown=False),
    _act("list", "why", "W", "Why", "what a call of this would get, and by which rules", "why TOKEN MODEL"),
    _act("list", "columns", "o", "Columns", "choose the columns", shown=False),
    _act("list", "mark", "m", "Mark", "mark the row, or unmark it", shown=False),
    _act("list", "marked", "M", "Marked only", "show only what is marked, and back", shown=False),
    _act("list", "copy", "y", "Copy id", "copy the id or name under the cursor"),
    _act("list", "twin", "Y", "As command", "copy the command (for a call: the curl) that does the same"),
    _act("list", "export", "E", "Export", "write what is shown to a file", "usage export", shown=False),
    _act("list", "back", "escape", "Back", "close the pane, then clear the filter", shown=False),
    # Everywhere
    _act("app", "help", "question_mark", "Keys", "this page"),
    _act("app", "undo", "u", "Undo", "take the last change of the configuration back", "undo", shown=False),
    _act("app", "theme", "T", "Theme", "dark, light, high contrast, no colour", shown=False),
    _act("app", "start", "r", "Restart", "start the server again when it is gone", "serve", shown=False),
    _act("app", "mouse", "", "Mouse", "use the mouse here, or leave it to the terminal for selecting"),
    _act("app", "ascii", "", "ASCII", "draw with ASCII only, or with all of Unicode"),
    _act("app", "wizard", "", "First steps", "set up a channel and a token, step by step"),
    _act("app", "suspend", "ctrl+z", "Suspend", "back to the shell; 'fg' returns", shown=False),
    _act("app", "stop", "Q", "Stop", "let running calls end, stop the server and leave", "stop", shown=False),
    _act("app", "detach", "", "Detach", "leave, and the server goes on in any case"),
    _act("app", "leave", "q,ctrl+q", "Leave", "leave; the server goes on", shown=True),
)

KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "colon": ":",
    "ctrl+p": "^p",
    "ctrl+q": "^q",
    "ctrl+z": "^z",
}


def actions_in(*scopes: str) -> Iterator[Action]:
    """The actions of some scopes, in the order of the table."""
    return (action for action in ACTIONS if action.scope in scopes)


def key_text(action: Action) -> str:
    """How its first key is written."""
    key = action.keys.partition(",")[0]
    return KEY_NAMES.get(key, key)


def bindings(*scopes: str, verbs: frozenset[str] | None = None) -> list[BindingType]:
    """Textual's bindings for some scopes; only those with one of these verbs, if any are given."""
    return [
        Binding(action.keys, f"act('{action.verb}')", action.label, show=False, id=action.id)
        for action in actions_in(*scopes)
        if action.keys and (verbs is None or action.verb in verbs)
    ]
