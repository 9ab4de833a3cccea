"""Exported: the configuration as one text, sorted, without secrets: the same configuration is the same text. Pure."""

from collections.abc import Iterator

import msgspec

from gateway.core.references import hidden, variables
from gateway.domain.channel import Channel
from gateway.domain.config_codec import FORMAT, INNER, SECTIONS, Section, Value, table, written
from gateway.domain.registry import Registry
from gateway.domain.text import plain

HEAD = f"""\
# The configuration of a Tollkeeper. What is not said here is as it comes. There are no secrets in it: keys are
# references to the environment, tokens stand here without their keys. Money is in dollars, prices per million tokens.

format = {FORMAT}
"""


def exported(registry: Registry) -> str:
    """The text."""
    tables = [table(path, values) for section in SECTIONS for path, values in _tables(section, registry)]
    return "\n".join([HEAD, *tables])


def notes(registry: Registry) -> list[str]:
    """What the owner should know of a text that was made of this configuration."""
    told = [
        f"channel '{plain(channel.name)}': set {', '.join(variables(channel))} where another home reads this file"
        for channel in sorted(registry.channels.values(), key=lambda c: c.name)
        if variables(channel)
    ]
    if registry.tokens:
        told.append("tokens are without their keys: another home makes new ones")
    return told


def form(entity: msgspec.Struct, section: Section) -> dict[str, Value]:
    """One entity as it stands in the text, without its title."""
    shown = _shown(entity) if isinstance(entity, Channel) else entity
    return written(shown, (section.title, *section.omit), INNER)


def _shown(channel: Channel) -> Channel:
    """A channel without secrets, and without the models that its patterns let in: those come with the list."""
    named = tuple(model for model in channel.models if not model.live)
    return hidden(msgspec.structs.replace(channel, models=named))


def _tables(section: Section, registry: Registry) -> Iterator[tuple[list[str], dict[str, Value]]]:
    """Entities by title; one that says nothing is told, too, for it is there."""
    found = getattr(registry, section.name)
    if not section.title:
        if values := form(found, section):
            yield [section.name], values
        return
    for entity in sorted(found.values(), key=lambda entity: str(getattr(entity, section.title))):
        yield [section.name, getattr(entity, section.title)], form(entity, section)
