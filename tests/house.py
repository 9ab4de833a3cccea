"""The sources as the rules of the house see them: parsed, with their imports."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FULL = bool(os.environ.get("TOLLKEEPER_FULL"))
"""Whether there is time for everything."""

# Folders of tests that mirror no source folder.
FREE_FOLDERS = frozenset({"apps", "bench", "cases", "conformance", "crash", "e2e", "fakes", "faults"})


def amount(fast: int, full: int) -> int:
    """The usual number of cases, or with TOLLKEEPER_FULL=1 that of the goals."""
    return full if FULL else fast


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name; `late` means inside a function."""

    name: str
    line: int
    late: bool

    def is_in(self, *packages: str) -> bool:
        """Whether the name is one of these packages or lies in one."""
        return is_in(self.name, *packages)


@dataclass(frozen=True)
class Source:
    """One Python file; `path` is relative to the root."""

    path: Path

    @property
    def module(self) -> str:
        """Its dotted name; a package's is its folder's."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        """Parsed each time: the trees of all files together take hundreds of megabytes of a worker that goes on."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.tree, late=False))


def is_in(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of these packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def sources() -> list[Source]:
    """Every source file: `gateway`, `tui` and `cli.py`."""
    return [*files_in("gateway"), *files_in("tui"), *(_source(path) for path in ROOT.glob("cli.py"))]


def files_in(folder: str) -> list[Source]:
    """Every Python file below a folder of the root, in order."""
    return [_source(path) for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def _source(path: Path) -> Source:
    """Each file is read and parsed once, however many rules look at it."""
    return Source(path.relative_to(ROOT))


def _imports(node: ast.AST, *, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (Import(f"{child.module}.{alias.name}", child.lineno, late) for alias in child.names)
        else:
            yield from _imports(child, late=late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))
