"""Words: the filter of the pages with few rows: words that must all be there, and ``!word`` that must not."""

from collections.abc import Callable


def wanted_by(text: str) -> Callable[[str], bool]:
    """Whether a row's words fit; case does not matter."""
    words = text.casefold().split()
    there = [word for word in words if not word.startswith("!")]
    missing = [word[1:] for word in words if len(word) > 1 and word.startswith("!")]

    def fits(row: str) -> bool:
        row = row.casefold()
        return all(word in row for word in there) and not any(word in row for word in missing)

    return fits
