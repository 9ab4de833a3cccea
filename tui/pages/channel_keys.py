"""Channel keys: the keys of a channel with their states: one more, one less, one that is to be tried again."""

from collections.abc import Mapping

from gateway.domain.views import ChannelView, KeyView
from tui import format as fmt
from tui.safe import safe
from tui.session import Session
from tui.twins import command
from tui.widgets.form import Field, Plan, Values

STAYS, AGAIN, GOES = "stays", "is tried again now", "is removed"
REFERENCE = "env:"


def plan(session: Session, channel: ChannelView) -> Plan:
    """A line a key that there is, and one for another."""
    return Plan(
        title=f"Keys of {channel.name}",
        intro="Each rests by itself when it is limited or refused; the others go on.",
        fields=[
            *(_field(key, session.now()) for key in channel.keys),
            Field(id="key", label="Another key", hint="the key, or env:NAME to keep a reference", secret=True),
        ],
        save=lambda values: save(session, channel, values),
        twin=lambda values: twin(channel, values),
    )


async def save(session: Session, channel: ChannelView, values: Values) -> str:
    """What was done, in words; keys are removed from the last on, so that numbers stay right."""
    done = []
    if values["key"]:
        await session.client.add_key(channel.id, values["key"])
        done.append("a key was added")
    for key in reversed(channel.keys):
        wanted = values[_id(key)]
        if wanted == GOES:
            await session.client.remove_key(channel.id, key.number)
            done.append(f"key {key.number} was removed")
        elif wanted == AGAIN:
            await session.client.clear_key(channel.id, key.number)
            done.append(f"key {key.number} is tried again")
    return ", ".join(done) or "nothing was changed"


def twin(channel: ChannelView, values: Mapping[str, str]) -> str:
    """The commands that do the same."""
    verbs = {GOES: "remove", AGAIN: "clear"}
    told = []
    if values["key"]:
        shown = values["key"] if values["key"].startswith(REFERENCE) else "-"
        told.append(command("channel", "key", "add", channel.name, key=shown))
    told += [
        command("channel", "key", verbs[values[_id(key)]], channel.name, str(key.number))
        for key in reversed(channel.keys)
        if values[_id(key)] in verbs
    ]
    return "; tollkeeper ".join(told)


def _field(key: KeyView, now: int) -> Field:
    rest = f" {fmt.left(now, key.until_ms)}" if key.until_ms is not None else ""
    state = f" {key.state.replace('_', ' ')}{rest}" if key.state != "ok" else ""
    options = (STAYS, GOES) if key.state == "ok" else (STAYS, AGAIN, GOES)
    return Field(id=_id(key), label=safe(f"{key.number} {key.key}{state}", 19), value=STAYS, options=options)


def _id(key: KeyView) -> str:
    return f"key-{key.number}"
