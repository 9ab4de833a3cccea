"""How long files, functions and classes may be, and what a package's `__init__` may hold."""

import ast
from collections.abc import Iterator

from tests.house import FREE_FOLDERS, Source, files_in, sources

FILE_LINES = 600
FILE_LINES_WITHOUT_REASON = 400
REASON = "Long:"
CLI_LINES = 400
FUNCTION_LINES = 50
CLASS_METHODS = 15

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def test_files_are_short() -> None:
    assert [f"{source.path}: {_lines(source)} lines" for source in _all() if _lines(source) > FILE_LINES] == []


def test_long_source_files_say_why_at_their_head() -> None:
    found = [
        f"{source.path}: {_lines(source)} lines, and no '{REASON} ...' at its head"
        for source in sources()
        if _lines(source) > FILE_LINES_WITHOUT_REASON and REASON not in _head(source)
    ]
    assert found == []


def test_cli_only_parses_calls_and_prints() -> None:
    assert [_lines(source) for source in sources() if source.module == "cli" and _lines(source) > CLI_LINES] == []


def test_functions_are_short() -> None:
    found = [
        f"{source.path}:{function.lineno} {function.name}: {_body_lines(function)} lines"
        for source in _all()
        for function in _definitions(source.tree)
        if isinstance(function, Function) and _body_lines(function) > FUNCTION_LINES
    ]
    assert found == []


def test_classes_have_few_methods() -> None:
    found = [
        f"{source.path}:{class_.lineno} {class_.name}: {_methods(class_)} methods"
        for source in sources()
        for class_ in _definitions(source.tree)
        if isinstance(class_, ast.ClassDef) and _methods(class_) > CLASS_METHODS
    ]
    assert found == []


def test_package_inits_are_empty() -> None:
    inits = [source for source in [*sources(), *files_in("tests")] if source.path.name == "__init__.py"]
    assert [str(source.path) for source in inits if source.module != "gateway" and source.text] == []


def test_the_root_init_holds_the_version_only() -> None:
    (root,) = (source for source in sources() if source.module == "gateway")
    docstring, version = root.tree.body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(version, ast.Assign)
    assert ast.unparse(version.targets[0]) == "__version__"


def _definitions(node: ast.AST) -> Iterator[Definition]:
    """All functions and classes. They are statements, so expressions need not be looked through."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, Definition):
            yield child
        yield from _definitions(child)


def _all() -> list[Source]:
    """The sources, and those tests that mirror them."""
    tests = [source for source in files_in("tests") if source.path.parts[1] not in FREE_FOLDERS]
    return [*sources(), *tests]


def _lines(source: Source) -> int:
    return len(source.text.splitlines())


def _head(source: Source) -> str:
    """Everything before the first statement: comments and the docstring."""
    first = next((node for node in source.tree.body if not isinstance(node, ast.Expr)), source.tree.body[-1])
    return "\n".join(source.text.splitlines()[: first.lineno - 1])


def _body_lines(function: Function) -> int:
    """The lines of a function without its signature and docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _methods(class_: ast.ClassDef) -> int:
    """How many names are defined; a property and its setter are one."""
    return len({node.name for node in class_.body if isinstance(node, Function)})
