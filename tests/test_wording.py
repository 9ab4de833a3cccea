"""Plain English: phrases that no native engineer would write are in no document, text, docstring, comment or test."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house import ROOT, Source, files_in, sources

PHRASES = {
    r"\banew\b": "again",
    r"\b(?:anybody|everybody)\b": "anyone, all",
    r"\bdear(?:er|est)\b": "more expensive",
    r"\bfor want of\b|\bin vain\b": "for lack of; failed",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\bof late\b|\bseldom\b": "recently; rarely",
    r"\b(?:rests|rested|resting)\b": "paused",
    r"\btaken over\b|\btakes? over what\b": "imported, used",
    r"\b(?:there|where|here)(?:of|upon|with)\b": "of it, on it",
    r"^test (?:of (?:an?|the|several|many|two)|those|who) ": "the subject first",
    r"\bwhat (?:becomes?|became) of\b|\bwhatever becomes of\b": "what happens to",
}
"""Patterns, and what to write."""

FINDER = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)

DOCUMENTS = ("README.md", "CHANGELOG.md", "CONVENTIONS.md", "Makefile", "pyproject.toml")


@pytest.mark.parametrize("path", [*DOCUMENTS, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_documents_are_plain_english(path: str) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if FINDER.search(line)] == [], advice()


def test_texts_are_plain_english() -> None:
    found = [f"{source.path}: {text}" for source in sources() for text in _texts(source) if FINDER.search(text)]
    assert found == [], advice()


def test_comments_are_plain_english() -> None:
    every = [*sources(), *(source for source in files_in("tests") if source.path.name != "test_wording.py")]
    found = [f"{source.path}: {text}" for source in every for text in _comments(source) if FINDER.search(text)]
    assert found == [], advice()


def test_names_of_tests_are_plain_english() -> None:
    found = [f"{source.path}: {name}" for source in files_in("tests") for name in _tests(source) if FINDER.search(name)]
    assert found == [], advice()


def test_docstrings_have_no_lone_surrogates() -> None:
    """Python 3.13 refuses to compile one: what quotes such an escape must be a raw string."""
    every = [*sources(), *files_in("tests"), *files_in("docs")]
    found = [f"{source.path}: {text!r}" for source in every for text in _comments(source) if not _encodable(text)]
    assert found == []


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


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _is_command(node: ast.FunctionDef) -> bool:
    return any(re.search(r"\b(?:command|group)\(", ast.unparse(decorator)) for decorator in node.decorator_list)


@cache
def _comments(source: Source) -> tuple[str, ...]:
    """Docstrings, each on one line, and comments."""
    docstrings = [node.value for node in _statements(source.tree) if isinstance(node, ast.Expr)]
    texts = [" ".join(str(node.value).split()) for node in docstrings if isinstance(node, ast.Constant)]
    return (*texts, *re.findall(r"(?:^|  )# .*$", source.text, re.MULTILINE))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node. A statement is never inside an expression."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.expr):
            yield from _statements(child)


def _tests(source: Source) -> Iterator[str]:
    """The names of its tests, as words."""
    yield from (name.replace("_", " ") for name in re.findall(r"\bdef (test_\w+)", source.text))
