"""Config file: the configuration as a text, and what a text would change. See ``domain.views``."""

from enum import StrEnum

import msgspec

from gateway.domain.settings import ExpiringRecords


class ConfigOrigin(StrEnum):
    """Whose configuration a text is."""

    OURS = "tollkeeper"
    LITELLM = "litellm"
    """Its ``config.yaml``, as JSON."""
    ONE_API = "one-api"
    """A list of channels, as the API or the database gives it."""
    NEW_API = "new-api"


class ExportView(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as a text, and what to know of it."""

    text: str
    notes: list[str]


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One field as it is and as it would be, as people read it; empty: the default. Secrets are masked."""

    field: str
    before: str
    after: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a text adds, changes, removes or leaves alone although it does not name it."""

    what: str
    """``added``, ``changed``, ``removed`` or ``kept``."""
    noun: str
    name: str
    fields: list[FieldDifference]


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """What a text changes, or has changed."""

    applied: bool
    differences: list[Difference]
    notes: list[str]
    """What else to do, and what of another gateway's file was not imported."""
    expiring: ExpiringRecords
    """Call records that are deleted for good, because they are kept for fewer days."""
    keys: dict[str, str]
    """Name of a new token to its key, shown only once, when it is created."""
