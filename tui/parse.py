"""Parse: what is typed into a field, as the value the server takes. Everything raises BadRequest with its reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_count, count_of, future_of
from gateway.domain.limits import Window
from gateway.domain.money import dollars, nanos_of
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView
from tui.quoted import listed

T = TypeVar("T")

KEEP = "\N{HORIZONTAL ELLIPSIS}"
"""What a field parses to that is to stay as it is."""
NO_MATTER = ("", "none", "never")
"""Words for no limit."""


def line(text: str) -> str:
    """Any text."""
    return text.strip()


def line_like(there: str) -> Callable[[str], str]:
    """Any text; the one that is there stays as it is, also with blanks at its ends."""
    return lambda text: there if text == there else text.strip()


def required(text: str) -> str:
    """Any text but none."""
    if not text.strip():
        raise BadRequest("this may not be empty")
    return text.strip()


def optional(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same, where nothing, ``none`` or ``never`` is no value."""
    return lambda text: None if text.strip().lower() in NO_MATTER else read(text)


def patterns(text: str) -> list[str]:
    """Names or patterns of models, as ``quoted`` reads them; ``*`` alone is all of them: no names."""
    found = listed(text)
    return [] if found == ["*"] else found


def whole(text: str) -> int:
    """A whole number, also below zero."""
    sign, digits = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
    return sign * count_of(digits)


def expiry(now: Callable[[], Millis]) -> Callable[[str], Millis | None]:
    """``30d``, a date (to its end), or ``never``."""
    return optional(lambda text: future_of(text, now()))


def budgets(text: str) -> dict[Window, int]:
    """``day=5 month=50``: dollars a window, in nano-dollars; without a window for ever."""
    return _windows(text, nanos_of)


def token_budgets(text: str) -> dict[Window, int]:
    """``day=1M``: tokens a window."""
    return _windows(text, count_of)


def budget_bodies(nanos: Mapping[Window, int], tokens: Mapping[Window, int]) -> list[dict[str, object]]:
    """Both kinds together, as the server takes them."""
    return [
        {"window": window.value, "nanos": nanos.get(window), "tokens": tokens.get(window)}
        for window in Window
        if window in nanos or window in tokens
    ]


def written_budgets(views: Sequence[BudgetView]) -> str:
    """The dollars of budgets as they are typed."""
    return " ".join(f"{v.window.value}={_amount(v.limit_nanos)}" for v in views if v.limit_nanos is not None)


def written_token_budgets(views: Sequence[BudgetView]) -> str:
    """The tokens of budgets as they are typed."""
    return " ".join(f"{v.window.value}={exact(v.limit_tokens)}" for v in views if v.limit_tokens is not None)


def exact(number: int | None) -> str:
    """A count as it is typed: short if that loses nothing."""
    if number is None:
        return ""
    brief = brief_count(number)
    return brief if count_of(brief) == number else str(number)


def _amount(nanos: int) -> str:
    return dollars(nanos).replace("$", "").replace(",", "").removesuffix(".00")


def _windows(text: str, read: Callable[[str], int]) -> dict[Window, int]:
    found: dict[Window, int] = {}
    for word in text.replace(",", " ").split():
        name, equals, amount = word.rpartition("=")
        try:
            window = Window(name) if equals else Window.EVER
        except ValueError:
            known = ", ".join(Window)
            raise BadRequest(f"{name!r} is no budget window; known are {known}, as in day=5") from None
        if amount not in NO_MATTER:
            found[window] = read(amount)
    return found
