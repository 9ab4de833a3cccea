"""Help: the dialog with the keys of the open page by subject, the keys of every page, and equivalent commands.

The rows are made from the table of actions, with the current keys. On wide screens they are in two columns.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from textual.content import Content

from gateway.client.cells import cut
from tui.actions import Action, shown_key
from tui.text import content, lines, side_by_side
from tui.widgets.text_block import TextDialog

MOVES = (
    ("1 ... 9", "open a page"),
    ("j k", "down, up (or the arrow keys)"),
    ("g G", "first, last row"),
    ("^f ^b", "page down, up"),
    ("^p :", "command palette"),
    ("tab", "next part of the screen, such as the details, to scroll them"),
)

FILTER = (
    ("claude", "in any field; all words must match"),
    ("!word", 'excludes; "two words" is a phrase'),
    ("tok: grp: ch:", "also model: app: api: id: with * and ?"),
    ("model:o3,gpt-*", "any of these; so with st: and names"),
    ("as:gpt-4o", "calls that went to this model, asked for or not"),
    ("st:", "err, ok, running, waiting, an outcome, 4xx, 429, >=400"),
    ("dur: ttft:", ">5s, <=250ms"),
    ("in: out:", ">10k tokens"),
    ("cost:", ">0.01 dollars"),
    ("since: until:", "10m, 14:00, 2026-11-30"),
)

WORDS = (
    ("words", "all must be in the row"),
    ("!word", "excludes rows with it"),
)
"""The words of the filter of every list except Live's."""

LIST_SUBJECTS: Mapping[str, str] = {
    **dict.fromkeys(("filter", "mark", "marked"), "Find and mark"),
    **dict.fromkeys(("copy", "twin", "export", "curl"), "Copy and export"),
}
"""The headings of the actions of a list. Others are under View."""

Row = tuple[str, str, str]
"""A key, a label and a text. The label may be empty."""

Sections = Sequence[tuple[str, Sequence[Row]]]


def help_dialog(title: str, actions: Sequence[Action], noun: str = "") -> TextDialog:
    """Returns the dialog with all keys of one page. ``noun`` is what the commands call the page's rows."""
    hint = Content("space scrolls, G shows the end, esc closes; shift + mouse selects text")
    return TextDialog(f"Keys: {title}", partial(help_text, sections(title, actions, noun)), hint, id="help")


def sections(title: str, actions: Sequence[Action], noun: str = "") -> Sections:
    """Returns the rows of a page by subject, with their headings."""
    by_subject: dict[str, list[Row]] = {}
    for action in actions:
        keys = " ".join(map(shown_key, filter(None, action.keys.split(","))))
        by_subject.setdefault(_subject(action, title), []).append((keys, action.label, action.help))
    everywhere = by_subject.pop("Everywhere", [])
    by_subject["Move"] = [(key, "", text) for key, text in MOVES]
    by_subject["Everywhere"] = sorted(everywhere, key=lambda row: not row[0])
    scopes = {action.scope for action in actions}
    if "list" in scopes:
        by_subject["Filter words"] = [(key, "", text) for key, text in (FILTER if "live" in scopes else WORDS)]
    by_subject["The same as a command: tollkeeper ..."] = [
        ("", action.label, action.command.replace("NOUN", noun))
        for action in actions
        if action.command and (action.id != "list.export" or "live" in scopes)  # only calls are exported by a command
    ]
    return [(subject, rows) for subject, rows in by_subject.items() if rows]


def help_text(parts: Sections, width: int) -> Content:
    """Returns the whole help, in two columns if it is wide enough."""
    if width < 112:  # too narrow for two columns
        return lines(*(line for part in parts for line in _section(part, width)))
    half = (width - 4) // 2  # and four cells between them
    blocks = [_section(part, half) for part in parts]
    heights = [len(block) for block in blocks]
    # the higher column is as low as possible
    split = min(range(1, len(heights) + 1), key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
    left, right = ([line for block in side for line in block] for side in (blocks[:split], blocks[split:]))
    return lines(*side_by_side(left, right, half + 4))


def _subject(action: Action, title: str) -> str:
    if action.scope == "app":
        return "Everywhere"
    if action.scope == "entity":
        return "Create and change"
    return LIST_SUBJECTS.get(action.verb, "View") if action.scope == "list" else title


def _section(part: tuple[str, Sequence[Row]], width: int) -> list[Content]:
    """Returns the heading, the rows with their texts aligned, and an empty line."""
    title, rows = part
    keys = [len(key) for key, _, _ in rows]
    key_width = 10 if any(keys) else 2
    if max(keys) >= 10:
        key_width = 17
    label_width = 15 if any(label for _, label, _ in rows) else 0
    result = [content((title, "bold"))]
    for key, name, text in rows:
        head = content(
            (f"  {key:<{key_width - 2}}", "key"),
            (f"{cut(name, label_width - 1):<{label_width}}" if label_width else "", ""),
        )
        body = content((text, "dim" if label_width else "")).wrap(max(10, width - key_width - label_width))
        first, *wrapped = body or [Content("")]
        result += [Content.assemble(head, first), *(line.pad_left(key_width + label_width) for line in wrapped)]
    return [*result, Content("")]
