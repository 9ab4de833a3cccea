"""Config views: the configuration as text, and what a text would change. See ``domain.views``."""

from enum import StrEnum

import msgspec

from gateway.domain.settings import ExpiringRecords


class ConfigOrigin(StrEnum):
    """The program that a configuration was made for."""

    OURS = "tollkeeper"
    LITELLM = "litellm"
    """LiteLLM's ``config.yaml``, as JSON."""
    ONE_API = "one-api"
    """A list of channels, from the API or the database."""
    NEW_API = "new-api"


class ExportView(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as text, and what the owner should know about it."""

    text: str
    notes: list[str]


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The current and the new value of one field, as texts; a default is empty. Secrets are masked."""

    field: str
    before: str
    after: str


class Difference(msgspec.Struct, frozen=True, kw_only=True, rename={"action": "what"}):
    """One entity that a text adds, changes or removes; or that is kept although the text does not have it.

    In JSON, whose field names are stable, ``action`` is called ``what``.
    """

    action: str
    """``added``, ``changed``, ``removed`` or ``kept``."""
    noun: str
    name: str
    fields: list[FieldDifference]


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """What importing a text changes, or has changed if it is ``applied``."""

    applied: bool
    differences: list[Difference]
    notes: list[str]
    """What the owner still has to do, and what was not imported from another gateway's file."""
    expiring: ExpiringRecords
    """Call records that are deleted for good because records are kept for fewer days."""
    keys: dict[str, str]
    """The keys of new tokens by name, which are shown only once."""
