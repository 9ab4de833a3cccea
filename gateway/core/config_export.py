"""Config export: the configuration as one sorted text. The same configuration gives the same text. Pure.

A channel's secrets become references to environment variables, so that the file may be shown and imported again.
"""

import re
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.config_codec import FORMAT, SECTIONS, Section, Value, table, write_fields
from gateway.domain.registry import Registry
from gateway.domain.text import REFERENCE, plain
from gateway.domain.token import Token

OPEN_HEADERS = frozenset(
    {
        *("anthropic-beta", "anthropic-version", "http-referer", "openai-beta", "openai-organization"),
        *("openai-project", "user-agent", "x-title"),
    }
)
"""Headers whose values are not secret."""


def hide_secrets(channel: Channel) -> Channel:
    """Returns the channel with a reference instead of each secret. Existing references stay."""
    keys = tuple(_reference_for(channel.name, value, number) for number, value in enumerate(channel.all_keys, start=1))
    headers = {
        name: value if name.lower() in OPEN_HEADERS else _reference_for(channel.name, value, name)
        for name, value in channel.headers.items()
    }
    proxy = _reference_for(channel.name, channel.proxy, "proxy") if "@" in channel.proxy else channel.proxy
    return msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:], headers=headers, proxy=proxy)


def secret_variables(channel: Channel) -> list[str]:
    """Returns the environment variables that stand for a channel's secrets in a file."""
    before, after = list(_secrets(channel)), list(_secrets(hide_secrets(channel)))
    return [new.removeprefix(REFERENCE) for old, new in zip(before, after, strict=True) if old != new]


def restore_secrets(channel: Channel, old: Channel) -> Channel:
    """Returns a channel from a file, with the current channel's secrets where the file has references to them."""
    secrets = dict(zip(_secrets(hide_secrets(old)), _secrets(old), strict=True))
    keys = tuple(secrets.get(key, key) for key in channel.all_keys)
    headers = {name: secrets.get(value, value) for name, value in channel.headers.items()}
    proxy = secrets.get(channel.proxy, channel.proxy)
    return msgspec.structs.replace(channel, key=keys[0] if keys else "", keys=keys[1:], headers=headers, proxy=proxy)


def _secrets(channel: Channel) -> Iterator[str]:
    """Yields all values that may be secret, always in the same order."""
    yield from channel.all_keys
    yield from (channel.headers[name] for name in sorted(channel.headers))
    yield channel.proxy


def _reference_for(channel: str, value: str, part: int | str) -> str:
    """Returns the reference for a secret: ``part`` is the number of a key, the name of a header, or ``proxy``."""
    if not value or value.startswith(REFERENCE):
        return value
    number = "" if part == 1 else f"__{part}"
    if re.fullmatch(r"(?=.{1,40}$)[a-z0-9]+(-[a-z0-9]+)*", channel) and isinstance(part, int):
        variable = channel.upper().replace("-", "_") + number
    else:  # the digest lets no two secrets share a variable
        cleaned = re.sub(r"[^A-Z0-9]", "_", f"{channel}{number}".upper())
        variable = f"{cleaned[:40]}_{sha256(f'{channel}/{part}'.encode()).hexdigest()[:8].upper()}"
    return f"{REFERENCE}TOLLKEEPER_KEY_{variable}"


HEAD = f"""\
# The configuration of a Tollkeeper. What is not set here has its default. There are no secrets in it: keys are
# references to the environment, and tokens come without their keys. Money is in dollars, prices per million tokens.

format = {FORMAT}
"""


def export_text(registry: Registry) -> str:
    """Returns the configuration as TOML, without secrets."""
    tables = [table(path, values) for section in SECTIONS for path, values in _tables(section, registry)]
    return "\n".join([HEAD, *tables])


def notes(registry: Registry) -> list[str]:
    """Returns notes for the owner on what the text leaves out."""
    lines = [
        f"channel '{plain(channel.name)}': set {', '.join(names)} where another home reads this file"
        for channel in sorted(registry.channels.values(), key=lambda c: c.name)
        if (names := secret_variables(channel))
    ]
    if any(not token.temporary for token in registry.tokens.values()):
        lines.append("tokens are without their keys: another home makes new ones")
    return lines


def entity_table(entity: msgspec.Struct, section: Section) -> dict[str, Value]:
    """Returns the fields of one entity as the text has them, without its title."""
    if isinstance(entity, Channel):
        named = tuple(model for model in entity.models if not model.live)  # the others come with the upstream's list
        entity = hide_secrets(msgspec.structs.replace(entity, models=named))
    return write_fields(entity, (section.title, *section.omit))


def _tables(section: Section, registry: Registry) -> Iterator[tuple[list[str], dict[str, Value]]]:
    """Yields the path and the fields of each entity of a section, sorted by title."""
    entities = getattr(registry, section.name)
    if not section.title:
        if values := entity_table(entities, section):
            yield [section.name], values
        return
    for entity in sorted(entities.values(), key=lambda entity: str(getattr(entity, section.title))):
        if isinstance(entity, Token) and entity.temporary:
            continue
        yield [section.name, getattr(entity, section.title)], entity_table(entity, section)
