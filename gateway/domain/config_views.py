"""Config file: the configuration as a text, and what a text would change. See ``domain.views``."""

from enum import StrEnum

import msgspec

from gateway.domain.settings import ExpiringRecords


class ConfigOrigin(StrEnum):
    """The program whose configuration a text is."""

    OURS = "tollkeeper"
    LITELLM = "litellm"
    """LiteLLM's ``config.yaml``, as JSON."""
    ONE_API = "one-api"
    """A list of channels, from the API or the database."""
    NEW_API = "new-api"


class ExportView(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as a text, and what to know about it."""

    text: str
    notes: list[str]


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The present and the new value of one field, for people; empty: the default. Secrets are masked."""

    field: str
    before: str
    after: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One entity that a text adds, changes or removes, or keeps although it does not name it."""

    what: str
    """``added``, ``changed``, ``removed`` or ``kept``."""
    noun: str
    name: str
    fields: list[FieldDifference]


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """What a text changes or changed."""

    applied: bool
    differences: list[Difference]
    notes: list[str]
    """What else to do, and what was not imported from another gateway's file."""
    expiring: ExpiringRecords
    """Call records that are deleted for good because they are kept for fewer days."""
    keys: dict[str, str]
    """The key of each new token by name, shown only once."""
