"""The options of a channel with the ``mock`` dialect, and which values have a meaning."""

from collections.abc import Callable, Mapping

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain

Value = str | int | float | bool

DAY_MS = 86_400_000
MOST = 1_000_000
"""The most events, and words a second."""


def check(options: Mapping[str, Value]) -> None:
    """Raises BadRequest for an unknown option, naming the known ones, and for an invalid value."""
    for name, value in options.items():
        option = OPTIONS.get(usual(name))
        if option is None:
            known = ", ".join(OPTIONS)
            raise BadRequest(
                f"options: '{plain(name, 64)}' is not an option of the mock; the options are: {known}", param="options"
            )
        meaning, fits = option
        if not fits(value):
            raise BadRequest(f"options: {name} is {meaning}, not '{plain(str(value), 64)}'", param="options")


def usual(name: str) -> str:
    """Returns the stored spelling: ``no-usage``, as a message has it, is ``no_usage``."""
    return name.replace("-", "_")


def spelt(options: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the options in the stored spelling; if one is given in both, the later value counts."""
    return {usual(name): value for name, value in options.items()}


def _number(most: float) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _whole(value: Value) -> bool:
    return _number(MOST)(value) and isinstance(value, int)


def _switch(value: Value) -> bool:
    return isinstance(value, bool)


def _status(value: Value) -> bool:
    return _whole(value) and (value == 200 or value in range(300, 600))


def _wait(value: Value) -> bool:
    return bool(value) if isinstance(value, str) else _number(DAY_MS)(value)


OPTIONS: Mapping[str, tuple[str, Callable[[Value], bool]]] = {
    "latency": (f"milliseconds before the answer, from 0 to {DAY_MS}", _number(DAY_MS)),
    "speed": (f"words a second of a stream, from 0 (all at once) to {MOST}", _number(MOST)),
    "status": ("a status to answer with: 200, or 300 to 599", _status),
    "auth": ("true or false: whether the key is refused", _switch),
    "retry_after": ("the Retry-After header: seconds, or a text", _wait),
    "cut": (f"after how many events a stream is cut off, from 0 to {MOST}", _whole),
    "silence": (f"after how many events a stream falls silent, from 0 to {MOST}", _whole),
    "no_usage": ("true or false: whether usage is left out", _switch),
    "bad_json": ("true or false: whether the answer is broken JSON", _switch),
    "html": ("true or false: whether the answer is a page", _switch),
}
