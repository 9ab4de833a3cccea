"""``channel key``: commands for single keys of a channel. Keys are shown masked, and selected by number."""

from collections.abc import Sequence

import click

from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.channel_fields import key_of, warn_of_unset
from gateway.commands.completion import CHANNELS
from gateway.commands.options import WholeNumber, accept_option, confirm, json_option, yes_option
from gateway.commands.output import ListColumn, out_done, out_list, words
from gateway.commands.session import run
from gateway.domain.errors import NotFound
from gateway.domain.human_values import count_text
from gateway.domain.incidents import reason_text
from gateway.domain.text import plain, word
from gateway.domain.views import ChannelView, KeyView

COLUMNS = [
    ListColumn("Number", lambda k: str(k.number), "number"),
    ListColumn("Key", lambda k: k.key, "whole"),
    ListColumn("State", formatting.channel_state, "state"),
    ListColumn("Reason", lambda k: plain(reason_text(k.reason), 60)),
]

REF = click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
NUMBER = click.argument("number", type=WholeNumber(min=1))
KEY = click.option(
    "--key",
    metavar="KEY",
    default="-",
    show_default=True,
    help="The key, or env:NAME for a variable that the server has, or - to read it from stdin.",
)


@click.group(cls=Noun)
def key() -> None:
    """The keys of a channel. A rate-limited or rejected key is paused on its own; the others stay in use."""


@key.command("list", examples=["tollkeeper channel key list openai"])
@REF
@json_option
def list_keys(ref: str, *, as_json: bool) -> None:
    """List the keys of a channel, masked, with their states."""
    keys = run(lambda client: client.channel(ref)).keys
    out_list(keys, COLUMNS, as_json=as_json, empty=f"channel '{ref}' has no key")


@key.command("add", examples=["tollkeeper channel key add openai --key env:OPENAI_KEY_2"])
@REF
@KEY
@accept_option
@json_option
def add_key(ref: str, *, key: str, as_json: bool) -> None:
    """Add a key to a channel."""
    given = key_of(key)
    _print_keys(run(lambda client: client.add_key(ref, given)), as_json=as_json)


@key.command("rotate", examples=["tollkeeper channel key rotate openai 2 --key env:OPENAI_KEY_3"])
@REF
@NUMBER
@KEY
@accept_option
@json_option
def rotate_key(ref: str, number: int, *, key: str, as_json: bool) -> None:
    """Replace a key."""
    given = key_of(key)
    _print_keys(run(lambda client: client.replace_key(ref, number, given)), as_json=as_json)


@key.command("remove", examples=["tollkeeper channel key remove openai 2"])
@REF
@NUMBER
@yes_option
@json_option
def remove_key(ref: str, number: int, *, yes: bool, as_json: bool) -> None:
    """Remove a key. The numbers of the keys after it decrease by one."""
    if not yes:
        confirm(f"Remove key {_key(ref, number).key} ({number} of channel '{ref}')?", yes=yes)
    view = run(lambda client: client.remove_key(ref, number))
    _print_keys(view, as_json=as_json)
    if not view.keys and view.preset:
        words(f"note: the channel has no key now; if it needs one: tollkeeper channel key add {word(view.name)}")


@key.command("resume", examples=["tollkeeper channel key resume openai 2"])
@REF
@NUMBER
@json_option
def resume_key(ref: str, number: int, *, as_json: bool) -> None:
    """Use a paused key again immediately."""
    _print_keys(run(lambda client: client.clear_key(ref, number)), as_json=as_json)


def _key(ref: str, number: int) -> KeyView:
    """Returns the key. Raises NotFound for an unknown channel or key."""
    keys = run(lambda client: client.channel(ref)).keys
    chosen = next((key for key in keys if key.number == number), None)
    if chosen is None:
        raise NotFound(f"channel '{ref}' has no key {number}; it has: {keys_text(keys) or 'none'}")
    return chosen


def _print_keys(view: ChannelView, *, as_json: bool) -> None:
    listed = f": {keys_text(view.keys)}" if view.keys else ""
    out_done(view, f"Channel '{view.name}' has {count_text(len(view.keys), 'key')}{listed}.", as_json=as_json)
    warn_of_unset(view)


def keys_text(keys: Sequence[KeyView]) -> str:
    """Returns the keys on one line."""
    return ", ".join(f"{key.number} {key.key} ({formatting.channel_state(key)})" for key in keys)
