"""``channel key``: the keys of a channel, one at a time. They are shown masked and go by their numbers."""

from collections.abc import Sequence

import click

from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.channel_fields import key_of
from gateway.commands.completion import CHANNELS
from gateway.commands.options import confirm, json_option, yes_option
from gateway.commands.output import out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.text import plain
from gateway.domain.views import ChannelView, KeyView

COLUMNS = [
    (">Number", lambda k: str(k.number)),
    ("Key", lambda k: k.key),
    ("State", lambda k: k.state),
    ("Until", lambda k: formatting.moment(k.until_ms)),
    ("Reason", lambda k: plain(k.reason, 60)),
]

REF = click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
NUMBER = click.argument("number", type=click.IntRange(min=1))
KEY = click.option(
    "--key",
    metavar="KEY",
    default="-",
    show_default=True,
    help="env:NAME keeps a reference, - reads it from stdin; else the key itself.",
)


@click.group(cls=Noun)
def key() -> None:
    """The keys of a channel. One that is limited or refused rests by itself; the channel goes on with the others."""


@key.command("list", examples=["tollkeeper channel key list openai"])
@REF
@json_option
def list_keys(ref: str, *, as_json: bool) -> None:
    """List the keys of a channel, masked, with their states."""
    found = run(lambda client: client.channel(ref)).keys
    out_list(found, COLUMNS, as_json=as_json, empty=f"channel '{ref}' has no key")


@key.command("add", examples=["tollkeeper channel key add openai --key env:OPENAI_KEY_2"])
@REF
@KEY
@json_option
def add_key(ref: str, *, key: str, as_json: bool) -> None:
    """Give a channel one more key."""
    given = key_of(key)
    _changed(run(lambda client: client.add_key(ref, given)), as_json=as_json)


@key.command("rotate", examples=["tollkeeper channel key rotate openai 2 --key env:OPENAI_KEY_3"])
@REF
@NUMBER
@KEY
@json_option
def rotate_key(ref: str, number: int, *, key: str, as_json: bool) -> None:
    """Put another key in the place of one."""
    given = key_of(key)
    _changed(run(lambda client: client.replace_key(ref, number, given)), as_json=as_json)


@key.command("remove", examples=["tollkeeper channel key remove openai 2"])
@REF
@NUMBER
@yes_option
@json_option
def remove_key(ref: str, number: int, *, yes: bool, as_json: bool) -> None:
    """Take a key away; those after it move up by one number."""
    confirm(f"Remove key {number} of channel '{ref}'?", yes=yes)
    _changed(run(lambda client: client.remove_key(ref, number)), as_json=as_json)


@key.command("clear", examples=["tollkeeper channel key clear openai 2"])
@REF
@NUMBER
@json_option
def clear_key(ref: str, number: int, *, as_json: bool) -> None:
    """Forget what is held against a key: it is used again at once."""
    _changed(run(lambda client: client.clear_key(ref, number)), as_json=as_json)


def _changed(view: ChannelView, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
    words(f"channel '{view.name}' has {formatting.count(len(view.keys), 'key')}: {in_words(view.keys) or 'none'}")


def in_words(keys: Sequence[KeyView]) -> str:
    """The keys on one line."""
    return ", ".join(f"{one.number} {one.key} ({one.state})" for one in keys)
