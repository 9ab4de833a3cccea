"""Checkup: a channel's name, connection, certificate and key, step by step, by the free question for its models.

Nothing is booked and nothing is changed: not even a good answer ends a channel's rest.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from aiohttp import web

from gateway.control.desk import Desk
from gateway.core.engine import Engine
from gateway.domain.advice import advice
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Served
from gateway.domain.checkup import Checkup
from gateway.domain.errors import UpstreamError
from gateway.domain.text import plain, word
from gateway.domain.units import Millis
from gateway.domain.views import Step
from gateway.upstream.connection.contact import Contact, Stage
from gateway.web.errors import status_of

SOON_S = 7 * 86_400
"""A certificate that ends within this time is told of."""
TEXT_LIMIT = 400
NO_LIST = (404, 405, 501)
"""Answers of upstreams that take calls but list no models."""


async def channel(desk: Desk, request: web.Request) -> Checkup:
    """GET /channels/{ref}/checkup."""
    found = desk.engine.catalog.channel(request.match_info["ref"])
    step, ahead = await _examined(desk.engine, found)
    return Checkup(step=step, ahead_ms=ahead)


async def _examined(engine: Engine, channel: Channel) -> tuple[Step, Millis | None]:
    name = plain(channel.name)
    if not channel.enabled:
        return Step(name=f"channel {name}", result="skipped", text="switched off"), None
    contact = await engine.upstreams.contact(channel)
    if contact is not None and contact.failed is not None:
        return _unreached(name, contact), None
    way = _way(contact, engine.now())
    models: list[Served] = []
    for number, key in enumerate(channel.all_keys or ("",), start=1):
        try:
            models = await engine.upstreams.fetch_models(msgspec.structs.replace(channel, key=key, keys=()))
        except UpstreamError as error:
            which = f"key {number}: " if channel.keys else ""
            several = str(number) if channel.keys else ""
            return _unlisted(name, way + which, error, several), _ahead(engine, channel)
    text = f"{way}{_accepted(len(channel.all_keys))}it lists {len(models)} models"
    return Step(name=f"channel {name}", result="ok", text=text), _ahead(engine, channel)


def _accepted(keys: int) -> str:
    return "" if not keys else "its key is accepted; " if keys == 1 else f"its {keys} keys are accepted; "


def _unreached(name: str, contact: Contact) -> Step:
    place = f"{contact.host}:{contact.port}"
    text, fix = {
        Stage.NAME: (
            f"the name {contact.host} is not found: {contact.text}",
            f"is this machine online? Another address: 'tollkeeper channel edit {word(name)} --base-url URL'",
        ),
        Stage.CONNECTION: (
            f"no connection to {place}: {contact.text}",
            f"does the upstream run there? Another address: 'tollkeeper channel edit {word(name)} --base-url URL'",
        ),
        Stage.CERTIFICATE: (
            f"no TLS with {place}: {contact.text}",
            "is this machine's clock right, and is nobody in between who reads along?",
        ),
    }[contact.failed or Stage.NAME]
    code, status = "upstream_unreachable", 502
    return Step(name=f"channel {name}", result="fail", text=plain(text, TEXT_LIMIT), fix=fix, code=code, status=status)


def _unlisted(name: str, way: str, error: UpstreamError, key: str) -> Step:
    """A refused key is a failure, and so is a server that fails; a server without a list may well take calls.

    ``key`` is the number of the key that was tried, empty if the channel has but one.
    """
    message = way + plain(error.record_message.removeprefix(f"channel '{name}': "), TEXT_LIMIT)
    if (status := error.status) in NO_LIST:
        unproven = (
            f"it lists no models (HTTP {status}), so only a call proves it: "
            f"'tollkeeper channel test {word(name)} --model M'"
        )
        return Step(name=f"channel {name}", result="ok", text=way + unproven)
    fix = f"'tollkeeper channel test {word(name)}' tries it again"
    if error.kind is FailureKind.AUTH:
        fix = advice(error, channel=name, key=key)
    return Step(name=f"channel {name}", result="fail", text=message, fix=fix, code=error.code, status=status_of(error))


def _way(contact: Contact | None, now: Millis) -> str:
    """What went well so far, to be followed by the rest."""
    if contact is None:
        return ""
    where = f"{contact.host} is {', '.join(contact.addresses[:2])}" if contact.addresses else contact.host
    if not contact.tls:
        return f"{where}; connected; "
    left_s = contact.expires_s - now / 1000 if contact.expires_s is not None else None
    ends = f", its certificate ends in {left_s / 86_400:.0f} days" if left_s is not None and left_s < SOON_S else ""
    return f"{where}; {contact.tls}{ends}; "


def _ahead(engine: Engine, channel: Channel) -> Millis | None:
    """What the ``Date`` of the answer that has just come says of our clock."""
    try:
        theirs = parsedate_to_datetime(engine.upstreams.dates.get(channel.id, ""))
    except ValueError:
        return None
    ours = datetime.fromtimestamp(engine.now() / 1000, UTC)
    return Millis(round((ours - theirs.astimezone(UTC)).total_seconds() * 1000))
