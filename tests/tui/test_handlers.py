"""Message handlers are found by name: one whose message was renamed would never be called again."""

import ast
import importlib

import pytest
from textual.message import Message

from tests.house import Source, files_in

SOURCES = [source for source in files_in("tui") if source.path.name != "__init__.py"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.module)
def test_every_handler_has_its_message(source: Source) -> None:
    importlib.import_module(source.module)
    known = {message.handler_name for message in _subclasses(Message)}
    handlers = {
        method.name
        for class_ in ast.walk(source.tree)
        if isinstance(class_, ast.ClassDef)
        for method in class_.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name.startswith("on_")
    }
    assert handlers - known - {"on_event"} == set()


def _subclasses(base: type[Message]) -> list[type[Message]]:
    direct = base.__subclasses__()
    return [*direct, *(one for child in direct for one in _subclasses(child))]
