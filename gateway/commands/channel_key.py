"""``channel key``: adds, replaces, removes and resumes single keys of a channel, which are shown masked."""

from collections.abc import Sequence

import click

from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.channel_fields import read_key, warn_about_unset_variables
from gateway.commands.completion import CHANNELS
from gateway.commands.options import WholeNumber, confirm, says_yes, yes_option
from gateway.commands.output import ListColumn, notify, out_change, out_list
from gateway.commands.session import run
from gateway.domain.human_values import count_text
from gateway.domain.text import plain, word
from gateway.domain.views import ChannelView, KeyView

COLUMNS = [
    ListColumn("Number", lambda k: str(k.number), "number"),
    ListColumn("Key", lambda k: k.key, "whole"),
    ListColumn("State", formatting.channel_state, "state"),
    ListColumn("Reason", lambda k: plain(k.reason, 60)),
]

REF = click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
NUMBER = click.argument("number", type=WholeNumber(min=1))
REVIVAL = "Do not ask before a former key works again."
KEY = click.option(
    "--key",
    metavar="KEY",
    default="-",
    show_default=True,
    help="The key, or env:NAME for a variable of the server's environment, or - to read a line of stdin.",
)


@click.group(cls=Noun)
def key() -> None:
    """The keys of a channel. If a key is rate-limited or rejected, only that key is paused."""


@key.command("list", examples=["tollkeeper channel key list openai"])
@REF
def list_keys(ref: str) -> None:
    """List the keys of a channel, masked, with their states."""
    keys = run(lambda client: client.channel(ref)).keys
    out_list(keys, COLUMNS, empty=f"channel '{ref}' has no key")


@key.command("add", examples=["tollkeeper channel key add openai --key env:OPENAI_KEY_2"])
@REF
@KEY
@yes_option(text=REVIVAL)
def add_key(ref: str, *, key: str) -> None:
    """Add a key to a channel."""
    secret = read_key(key)
    _print_keys(run(lambda client: client.add_key(ref, secret)))


@key.command("rotate", examples=["tollkeeper channel key rotate openai 2 --key env:OPENAI_KEY_3"])
@REF
@NUMBER
@KEY
@yes_option(text=REVIVAL)
def rotate_key(ref: str, number: int, *, key: str) -> None:
    """Replace a key with another one."""
    secret = read_key(key)
    _print_keys(run(lambda client: client.replace_key(ref, number, secret)))


@key.command("remove", examples=["tollkeeper channel key remove openai 2"])
@REF
@NUMBER
@yes_option()
def remove_key(ref: str, number: int) -> None:
    """Remove a key. The numbers of the keys after it decrease by one."""
    if not says_yes():
        keys = {key.number: key for key in run(lambda client: client.channel(ref)).keys}
        if number in keys:  # else the server refuses the removal
            confirm(f"Remove key {number} of channel '{ref}' ({keys[number].key})?")
    view = run(lambda client: client.remove_key(ref, number))
    _print_keys(view)
    if not view.keys and view.preset:
        notify(f"note: the channel has no key now; if it needs one: tollkeeper channel key add {word(view.name)}")


@key.command("resume", examples=["tollkeeper channel key resume openai 2"])
@REF
@NUMBER
def resume_key(ref: str, number: int) -> None:
    """Use a paused key again at once."""
    _print_keys(run(lambda client: client.clear_key(ref, number)))


def _print_keys(view: ChannelView) -> None:
    keys = f": {keys_text(view.keys)}" if view.keys else ""
    out_change(view, f"Channel '{view.name}' has {count_text(len(view.keys), 'key')}{keys}.")
    warn_about_unset_variables(view)


def keys_text(keys: Sequence[KeyView]) -> str:
    """Returns ``1 sk-…abcd (ok), 2 sk-…efgh (needs attention)``."""
    return ", ".join(f"{key.number} {key.key} ({formatting.channel_state(key)})" for key in keys)
