"""Plain English: phrases that a native engineer would not write, in documents and in the code.

Documents and texts that users may read have none. What docstrings and comments still have is counted in
``COMMENTS_LEFT``, which only shrinks: ``python -m tests.test_wording`` prints the counts.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house import ROOT, Source, sources

PHRASES = {
    r"\banew\b": "again",
    r"\banswered for\b": "served",
    r"\bas it says\b": "as given",
    r"\bas (?:it|they) comes?\b": "by default",
    r"\basks (?:more|less)\b": "charges more, less",
    r"\bbecame of\b": "happened to",
    r"\b(?:be|is|was) had\b": "be read, fetched",
    r"\bbesides\b": "also",
    r"\bbut for\b": "except for",
    r"\bcall's way\b": "the path of a call",
    r"\bchooses? of\b": "select from",
    r"\bcomes? of it\b": "results",
    r"\bdear(?:er|est)\b": "more expensive",
    r"\bfor want of\b": "for lack of",
    r"\bfurther (?:calls|names|headers|host|request)": "more, additional",
    r"\bgo(?:es)? on by (?:itself|themselves)\b": "recovers",
    r"\bheld against\b": "the failures of",
    r"\bif nothing is\b": "by default",
    r"\bin (?:the )?place of\b": "instead of",
    r"\b(?:is|are|was) asked\b(?! to\b)": "is called, is requested",
    r"\b(?:is|are|was) said\b": "is given, reported",
    r"\b(?:is|are|was|were|be|been) told\b": "is reported; gets",
    r"(?<!there )\b(?:is|are|was|were) no (?!(?:longer|more|less|better|worse|different|need|other)\b)\w": "is not (a)",
    r"\bkept out\b": "excluded",
    r"\bknobs?\b": "option",
    r"\bknows? no\b": "does not know",
    r"\bmake one:|^Make a\b": "create",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\bmidst\b": "middle",
    r"\bpurse\b": "account, money",
    r"\bput beside\b": "compared with",
    r"\b(?:rests|rested|resting)\b": "paused",
    r"\bseldom\b": "rarely",
    r"\bserved on\b": "stays in use",
    r"\bspoken (?:here|to)\b": "supported",
    r"\bst(?:ands?|ood) (?:in|there|beside|without|as|between)\b": "is in, is listed",
    r"\btak(?:e|es|en|ing) (?:\w+ ){1,3}away\b": "remove",
    r"\btak(?:e|es|en)(?: \w+){0,2} back\b": "undo",
    r"\btaken over\b": "imported, used",
    r"\btakes? over what\b": "imports",
    r"\btells (?:its|no|with)\b": "reports, shows",
    r"\btells? of\b": "reports",
    r"\bthe asked\b": "the requested",
    r"\b(?:there|where|here)(?:of|upon|with)\b": "of it, on it",
    r"\bwants (?:an?|one)\b": "requires",
    r"' was made\b": "created",
    r"\bwhat is usual\b": "the defaults",
    r"\bwho (?:asks|waits)\b": "the caller; waiting calls",
    r"\bworks? no more\b|\bno more until\b": "no longer",
}
"""Patterns, and what to write."""

FINDER = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)

DOCUMENTS = ("README.md", "CHANGELOG.md", "CONVENTIONS.md", "Makefile", "pyproject.toml")

COMMENTS_LEFT = {"gateway": 201, "tui": 6}
"""Findings that docstrings and comments may still have, by folder."""


@pytest.mark.parametrize("path", [*DOCUMENTS, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_documents_are_plain_english(path: str) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if FINDER.search(line)] == [], advice()


def test_texts_are_plain_english() -> None:
    found = [f"{source.path}: {text}" for source in sources() for text in _texts(source) if FINDER.search(text)]
    assert found == [], advice()


def test_comments_have_no_more_of_them() -> None:
    found = _comments_found()
    assert {name: count for name, count in found.items() if count > COMMENTS_LEFT.get(name, 0)} == {}, advice()


def test_no_allowance_is_left_that_is_not_needed() -> None:
    found = _comments_found()
    assert {name: left for name, left in COMMENTS_LEFT.items() if not found[name]} == {}


def advice() -> str:
    """What to write instead."""
    return "\n".join(f"{phrase}  ->  {better}" for phrase, better in PHRASES.items())


def _texts(source: Source) -> Iterator[str]:
    """String literals, each on one line, with ``{}`` for what an f-string fills in, and the help of commands."""
    nodes = list(ast.walk(source.tree))
    skipped = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield " ".join("".join(map(str, parts)).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield " ".join(node.value.split())
        elif isinstance(node, ast.FunctionDef) and _is_command(node):
            yield " ".join((ast.get_docstring(node) or "").split())


def _is_command(node: ast.FunctionDef) -> bool:
    return any(re.search(r"\b(?:command|group)\(", ast.unparse(decorator)) for decorator in node.decorator_list)


@cache
def _comments_found() -> Counter[str]:
    found: Counter[str] = Counter()
    for source in sources():
        docstrings = [node.value for node in ast.walk(source.tree) if isinstance(node, ast.Expr)]
        texts = [str(node.value) for node in docstrings if isinstance(node, ast.Constant)]
        texts += re.findall(r"(?:^|  )# .*$", source.text, re.MULTILINE)
        found[source.path.parts[0]] += sum(len(FINDER.findall(" ".join(text.split()))) for text in texts)
    return found


if __name__ == "__main__":
    sys.stdout.write(f"COMMENTS_LEFT = {dict(+_comments_found())}\n")
