"""Every row of the fault list that this release keeps has a test that bears its letter and number."""

import re
from pathlib import Path

WANTED = {
    *(f"b{n}" for n in range(1, 25)),
    *(f"c{n}" for n in (*range(1, 11), 13, 14, 15)),
    *("k1", "k2", "k3", "k12", "k14", "k16"),
}

_IN_NAMES = re.compile(r"def test_((?:[bcku]\d+_)+)")
_IN_TABLES = re.compile(r'(?:Bad|field)\("(B\d+)"')


def test_every_row_has_its_test() -> None:
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        found.update(row for rows in _IN_NAMES.findall(text) for row in rows.split("_"))
        found.update(row.lower() for row in _IN_TABLES.findall(text))
    assert WANTED - found == set()
