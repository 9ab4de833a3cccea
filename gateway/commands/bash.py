"""Bash: completion for bash, which cuts the line into words of its own and inserts what it gets as it is.

Of the word under the cursor bash replaces only what follows the last character of ``COMP_WORDBREAKS``, a colon for
instance, and what is inserted must be quoted as the line demands. So the whole line is read here, as bash reads it.
"""

import os
import re

import msgspec
from click import shell_completion
from click.shell_completion import CompletionItem

SOURCE = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Line(msgspec.Struct):
    """A line up to the cursor, as far as it has been read."""

    breaks: str
    words: list[str] = []
    """Whole ones, without their quotes."""
    word: str | None = None
    """The one being read; None between two."""
    kept: str = ""
    """What of it bash leaves as it is."""
    quote: str = ""
    """The quotation mark that is open."""
    escaped: bool = False

    def take(self, char: str) -> None:
        """Read one more character."""
        if self.escaped or (self.quote and char != self.quote and (char, self.quote) != ("\\", '"')):
            self.word, self.escaped = (self.word or "") + char, False
        elif char == "\\":
            self.word, self.escaped = self.word or "", True
        elif char in ("'", '"'):
            self.word = self.word or ""
            self.quote = "" if self.quote else char
        elif char.isspace():
            self._end()
        else:
            self.word = (self.word or "") + char
            self.kept = self.word if char in self.breaks else self.kept

    def _end(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
        self.word, self.kept = None, ""

    def quoted(self, text: str) -> str:
        """Text as it must stand at the cursor to mean itself."""
        if self.quote == "'":
            return text.replace("'", "'\\''")
        return re.sub(r'(["$`\\])' if self.quote else r"([^\w@%+=:,./-])", r"\\\1", text)


def line_of(text: str, breaks: str) -> Line:
    """The line, read."""
    line = Line(breaks)
    for char in text:
        line.take(char)
    return line


class BashComplete(shell_completion.BashComplete):
    """What click asks of a shell."""

    source_template = SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor's one but the first, and that one."""
        line = self._line()
        return line.words[1:], line.word or ""

    def format_completion(self, item: CompletionItem[str]) -> str:
        """``plain,VALUE``: what bash puts in the place of the part of the word that it replaces."""
        line = self._line()
        word = line.word or ""
        option, equals, value = word.partition("=")
        whole = item.value
        if equals and word.startswith("-") and not whole.startswith(word) and whole.startswith(value):
            whole = f"{option}={whole}"
        kept = line.kept if whole.startswith(line.kept) else ""
        return f"{item.type},{line.quoted(whole.removeprefix(kept))}"

    def _line(self) -> Line:
        return line_of(os.environ.get("COMP_LINE", ""), os.environ.get("COMP_WORDBREAKS", ""))


def register() -> None:
    """Have click complete for bash in this way."""
    shell_completion.add_completion_class(BashComplete)
