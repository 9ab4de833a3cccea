"""Names: unique classes, no past participles alone, no question words, and docstrings that name what exists."""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import sources

PARTICIPLE = re.compile(
    r"(?!.*(?:feed|need|seed|speed|zed)$)\w+ed|asked|begun|bound|built|chosen|done|drawn|found|given|gone|held|hidden|kept"
    r"|known|left|lost|made|said|seen|sent|shown|spent|taken|told|tried|written"
)
AMOUNTS = ("bound", "held", "spent")
SINGLE_WORD = re.compile(r"_?[A-Za-z][a-z0-9]*")

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Every source file, parsed once for the tests of this file."""
    return {source.path: source.tree for source in sources()}


def test_class_names_are_unique(trees: dict[Path, ast.Module]) -> None:
    names = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1 and not name.startswith("_")] == []


def test_no_class_or_function_is_a_past_participle_alone(trees: dict[Path, ast.Module]) -> None:
    """What answers with a bool may be: ``closed``. So may a property, which is a value, the amounts of the books, and a
    message of a widget, as Textual's own are.
    """
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Named) and _is_participle(node.name) and not _may_be_participle(node)
    ]
    assert found == []


def test_no_name_begins_with_a_question_word(trees: dict[Path, ast.Module]) -> None:
    question = re.compile(r"_*(?:what|who|where|when|how|which)(?:_|$)")
    names = ((path, name) for path, tree in trees.items() for name in _own_names(tree))
    assert [f"{path}: {name}" for path, name in names if question.match(name)] == []


def test_nothing_is_called_by_an_underscore_alone(trees: dict[Path, ast.Module]) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "_"
    ]
    assert found == []


def test_classes_and_errors_that_docstrings_name_exist(trees: dict[Path, ast.Module]) -> None:
    """``Content-Type`` and the like are headers, not classes."""
    there = (
        {name for tree in trees.values() for name in _names_in(tree)} | set(dir(builtins)) | {"Date", "Host", "Origin"}
    )
    named = ((path, name) for path, tree in trees.items() for name in _classes_in_docstrings(tree))
    assert sorted(f"{path}: {name}" for path, name in named if name not in there and not name.isupper()) == []


def _names_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Named | ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _own_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Named):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _classes_in_docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value
            yield from re.findall(r"``([A-Z][A-Za-z]+)(?:\(\))?``", text)
            yield from re.findall(r"\bRaises ([A-Z]\w+)", text)
            yield from re.findall(r"\bRaises [A-Z]\w+(?:, [A-Z]\w+)* (?:and|or) ([A-Z]\w+)", text)


def _is_participle(name: str) -> bool:
    return bool(SINGLE_WORD.fullmatch(name) and PARTICIPLE.fullmatch(name.strip("_").lower()))


def _may_be_participle(node: Named) -> bool:
    if isinstance(node, ast.ClassDef):
        return "Message" in map(ast.unparse, node.bases)
    is_value = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    return is_value or node.name in AMOUNTS or (node.returns is not None and ast.unparse(node.returns) == "bool")
