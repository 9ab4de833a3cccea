"""ImportedConfig: another gateway's configuration as a document of ours, with notes on what was left out. Pure."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any

from gateway.domain.channel import Overrides, check_overrides
from gateway.domain.config_codec import write_fields
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import first_of
from gateway.domain.text import plain


class ImportedConfig:
    """A document that importers fill, with notes on what they left out."""

    def __init__(self) -> None:
        self.channels: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {"default": {}}
        self.prices: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, dict[str, None]] = {}
        """The places of each message."""
        self._numbers: dict[str, int] = {}
        """The next number for a channel with this preferred name."""

    @property
    def document(self) -> dict[str, Any]:
        """Returns the document in the form of our configuration file."""
        return {"format": 1, "groups": self.groups, "channels": self.channels, "prices": self.prices}

    @property
    def notes(self) -> list[str]:
        """Returns what was not imported, each note with the places in the file."""
        return [
            f"{message} ({first_of(list(places), 4)})" if any(places) else message
            for message, places in self._notes.items()
        ]

    def note(self, message: str, place: str = "") -> None:
        """Note that something was not imported, or only approximately."""
        self._notes.setdefault(plain(message, 300), {})[plain(place, 100)] = None

    @contextmanager
    def without_invalid(self, place: str) -> Iterator[None]:
        """End the block at a BadRequest, and note that what it was about was not imported."""
        try:
            yield
        except BadRequest as error:
            self.note(f"not imported: {error.message}", place)

    def overrides(
        self, place: str, always: Mapping[str, Any], default: Mapping[str, Any] = {}, system: str = ""
    ) -> dict[str, Any]:
        """Returns overrides with these parameters as our file has them. Notes parameters that we refuse."""
        overrides = Overrides(system=system)
        for parameters, accepted in ((always, overrides.set), (default, overrides.default)):
            for name, value in parameters.items():
                with self.without_invalid(place):
                    check_overrides(Overrides(set={name: value}))
                    accepted[name] = value
        return write_fields(overrides)

    def note_fields(self, names: object, place: str, prefix: str = "") -> None:
        for name in sorted(map(str, names)) if isinstance(names, set | list | dict) else ():
            self.note(f"not imported: {prefix}{plain(name, 80)}", place)

    def channel_name(self, preferred: str) -> str:
        """Returns a valid, unused name for a channel: the preferred one, with a number if necessary."""
        base = plain(preferred, 60).strip(" .") or "channel"
        name, number = base, self._numbers.get(base, 2)
        while name in self.channels:
            name, number = f"{base}-{number}", number + 1
        self._numbers[base] = number
        return name

    def add_price(self, model: str, rates: Mapping[str, object], place: str) -> None:
        """Add a price in dollars per token. If the model already has another price, that one stays."""
        dollars = {field: million for field, rate in rates.items() if (million := _per_million(rate)) is not None}
        if len(dollars) < sum(rate is not None for rate in rates.values()):
            self.note(f"not imported: a price of '{plain(model, 80)}' that is not a number of dollars a token", place)
        if not dollars:
            return
        dollars = {"input": "0", "output": "0"} | dollars
        if self.prices.setdefault(model, dollars) != dollars:
            self.note(f"not imported: another price of '{plain(model, 80)}'", place)


def model_name(value: object) -> str:
    """Returns a value as the name of a model; empty if it is not a valid one."""
    text = value.strip() if isinstance(value, str) else ""
    return text if text and plain(text, 200) == text else ""


def table(value: object) -> Mapping[str, Any]:
    """Returns the value if it is a table, else an empty table."""
    return value if isinstance(value, Mapping) else {}


def without_empty(**fields: object) -> dict[str, Any]:
    """Returns the fields that have a value: not None, an empty text or an empty table."""
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def with_version(url: str, version: str) -> str:
    """Returns a base URL with the version at its end, added if it is missing."""
    bare = url.strip().rstrip("/")
    return bare if not bare or bare.endswith(version) else bare + version


def whole(value: object, minimum: int = 0) -> int | None:
    """Returns a value, which may be a text, as a whole number; None if it is not a number, or is out of range."""
    try:
        number = int(Decimal(str(value)))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return number if minimum <= number < 10**15 and not isinstance(value, bool) else None


def _per_million(rate: object) -> str | None:
    try:
        dollars = Decimal(str(rate)) * 1_000_000
    except InvalidOperation:
        return None
    if not (dollars.is_finite() and 0 <= dollars < 1_000_000):
        return None
    return f"{dollars.quantize(Decimal('1e-9')).normalize():f}"
