"""Every case of the wire contract that this release keeps has a test that bears its number."""

import ast
import re
from pathlib import Path

WANTED = {*range(1, 57), *range(69, 78)}
"""57 to 68 are the native dialects of other vendors."""

_NUMBERED = re.compile(r"test_(\d\d)_")


def test_every_case_has_its_test() -> None:
    found: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (number := _NUMBERED.match(node.name)):
                found.add(int(number[1]))
    assert WANTED - found == set()
