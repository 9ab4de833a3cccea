"""Rows: which rows of the fault list (upstreams, requests, clients, concurrency) have a test, and which have none.

``python -m tests.faults.rows`` prints them. A test bears the letter and number of its row in its name, or is named
here.
"""

import re
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent

ROWS = (
    *(f"u{n}" for n in range(1, 37)),
    *(f"b{n}" for n in range(1, 25)),
    *(f"c{n}" for n in range(1, 17)),
    *(f"k{n}" for n in range(1, 17)),
)

EXCUSED = {
    "c11": "without a test: ten thousand idle connections are more files than a test may open",
    "c16": "without a test: urgent data and small segments need a network of their own",
}
"""Rows of clients that no test holds, and why."""

ELSEWHERE = {
    "c9": ("faults/test_half_closed_clients.py", "test_every_api_answers_a_client_that_sends_no_more"),
    "k7": ("core/test_routing.py", "test_weights_are_shares"),
}
"""Rows whose test lies with the part that it is about, under another name."""

_IN_NAMES = re.compile(r"def test_((?:[bcku]\d+_)+)")
_IN_TABLES = re.compile(r'(?:Bad|field)\("(B\d+)"')


def places() -> dict[str, list[str]]:
    """The files that have a test of each row; no file at all for a row without."""
    found: dict[str, list[str]] = {row: [] for row in ROWS}
    for path in sorted(TESTS.rglob("test_*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(TESTS).as_posix()
        rows = {row for rows in _IN_NAMES.findall(text) for row in rows.split("_")}
        rows |= {row.lower() for row in _IN_TABLES.findall(text)}
        rows |= {row for row, (file, test) in ELSEWHERE.items() if file == name and f"def {test}(" in text}
        for row in rows & found.keys():
            found[row].append(name)
    return found


def missing() -> list[str]:
    """Rows without a test and without an excuse."""
    return [row for row, files in places().items() if not files and row not in EXCUSED]


def main() -> int:
    """The table; the exit code tells whether it is complete."""
    for row, files in places().items():
        sys.stdout.write(f"{row.upper():4} {', '.join(files) or EXCUSED.get(row, 'NONE')}\n")
    sys.stdout.write(f"rows without a test: {', '.join(missing()) or 'none'}\n")
    return 1 if missing() else 0


if __name__ == "__main__":
    sys.exit(main())
