"""Money: exact dollars as people write them, to and from integer nano-dollars. Floats are never used."""

import re

from gateway.domain.errors import BadRequest
from gateway.domain.units import DOLLAR, MAX_NUMBER, Nanos

_AMOUNT = re.compile(r"(-?)\$?(?=\.?[0-9])([0-9]{0,40})(?:\.([0-9]{1,9}))?", re.ASCII)


def parse_dollars(text: str) -> Nanos:
    """Returns an amount such as ``2.50``, ``$2.50``, ``.5`` or ``-1`` in nano-dollars. Raises BadRequest."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        msg = f"{text!r} is not an amount of dollars such as 2.50 (at most 9 digits after the point)"
        raise BadRequest(msg)
    sign, whole, fraction = match.groups()
    nanos = int(whole or "0") * DOLLAR + int((fraction or "").ljust(9, "0"))
    if nanos > MAX_NUMBER:
        raise BadRequest(f"{text!r} is more than {dollars(MAX_NUMBER)}, the most an amount may be")
    return Nanos(-nanos if sign else nanos)


def dollars(nanos: int) -> str:
    """Returns the exact amount with at least two digits after the point: ``$0.00438``, ``$1,200.00``, ``-$0.50``."""
    whole, rest = divmod(abs(nanos), DOLLAR)
    return f"{'-' if nanos < 0 else ''}${whole:,}.{f'{rest:09}'.rstrip('0'):0<2}"


def number(nanos: int) -> str:
    """Returns the exact amount as programs read it: ``0.00438``, ``1200.00``, ``-0.50``."""
    whole, rest = divmod(abs(nanos), DOLLAR)
    return f"{'-' if nanos < 0 else ''}{whole}.{f'{rest:09}'.rstrip('0'):0<2}"


def typed_dollars(nanos: int) -> str:
    """Returns the exact amount as one types it: ``0.00438``, ``1200``, ``-0.50``."""
    return number(nanos).removesuffix(".00")


def brief_dollars(nanos: int) -> str:
    """Returns the amount with four digits after the point, or four significant ones. Only zero is ``$0.00``."""
    size = abs(nanos)
    step = 10 ** max(0, min(5, len(str(size)) - 4))
    rounded = (2 * size + step) // (2 * step) * step
    return dollars(rounded if nanos >= 0 else -rounded)
