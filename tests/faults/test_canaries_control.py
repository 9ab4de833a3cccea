"""No secret reaches a screen or a file by what upstreams answer to the owner's questions, or by what proxies say."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.domain.channel import Channel, Dialect, ServedModel, Timeouts
from gateway.domain.units import ChannelId
from tests.control.conftest import opened
from tests.fakes.replies import dumps
from tests.faults.canaries import KINDS, PROMPT, SPELLINGS, secret_of
from tests.faults.canary_places import Said, error_places
from tests.faults.canary_run import ALL, MODEL, CanaryRun
from tests.upstream.http.makers import OPEN, proxying

LISTS: dict[Dialect, Callable[[str], dict[str, Any]]] = {
    Dialect.OPENAI: lambda text: {"data": [{"id": text, "owned_by": text}, {"id": "m", "note": text}], "note": text},
    Dialect.ANTHROPIC: lambda text: {"data": [{"id": text, "display_name": text}, {"id": "m"}]},
    Dialect.GEMINI: lambda text: {
        "models": [
            {"name": f"models/{text}", "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/m", "displayName": text, "supportedGenerationMethods": ["generateContent"]},
        ]
    },
}
ECHO = (ServedModel(name="demo-echo"),)
ERRORS = ("message", "long message", "string", "html", "text", "field code", "raw", "half json")


async def _ask_all(canaries: CanaryRun, owner: ControlClient) -> None:
    """Every question of the owner's that an upstream answers."""
    await canaries.command(owner, "POST", "/channels/up/refresh", {})
    await canaries.command(owner, "GET", "/channels/up/listing")
    await canaries.command(owner, "POST", "/channels/up/test", {})
    await canaries.command(owner, "POST", "/channels/up/test", {"model": "m"})
    await canaries.command(owner, "GET", "/channels/up/checkup")
    canaries.asked += 4


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dialect", MODEL)
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_lists_of_models(canaries: CanaryRun, dialect: Dialect, spelling: str) -> None:
    async with opened(canaries.gateway.engine) as surface:
        owner = ControlClient(surface.unix, timeout_s=10)
        for number, kind in _some_kinds(list(SPELLINGS).index(spelling)):
            secrets = canaries.plant(dialect, kind, patterns=("*",))
            whole = spelling not in ("inside", "cut")  # of a name only a whole secret counts, unless it is the key
            text = SPELLINGS[spelling](secrets[number % 3 if whole else 0])
            canaries.tell(lambda text: Said(dumps(LISTS[dialect](text))), 200, text)
            await _ask_all(canaries, owner)
    canaries.out["models"] = (await canaries.gateway.client.get("/v1/models")).body
    assert b'"m"' in canaries.out["/channels/up/listing"]
    assert await canaries.found() == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dialect", MODEL)
@pytest.mark.parametrize("name", ERRORS)
async def test_errors_to_the_owners_questions(canaries: CanaryRun, dialect: Dialect, name: str) -> None:
    place = error_places(dialect)[name]
    async with opened(canaries.gateway.engine) as surface:
        owner = ControlClient(surface.unix, timeout_s=10)
        for number, kind in _some_kinds(ERRORS.index(name)):
            secrets = canaries.plant(dialect, kind, patterns=("*",))
            text = list(SPELLINGS.values())[number % len(SPELLINGS)](secrets[number % 3])
            canaries.tell(place, (400, 404, 429, 500, 503, 200)[number % 6], text)
            await _ask_all(canaries, owner)
            root = canaries.provider.root(dialect)
            fresh = {"name": "new", "dialect": dialect.value, "base_url": root, "key": secrets[0]}
            await canaries.command(owner, "POST", "/channels", {**fresh, "headers": {"x-pass": secrets[1]}})
    assert await canaries.found() == []


def _some_kinds(number: int) -> list[tuple[int, str]]:
    """All of them with a number each, or other ones each time."""
    kinds = list(enumerate(KINDS))
    return kinds if ALL else [kinds[(5 * number + step) % len(kinds)] for step in range(5)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
async def test_further_keys_and_those_of_the_environment(
    canaries: CanaryRun, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another channel, too: an upstream may get them from others."""
    keys = [secret_of(kind, number) for number in range(10, 14)]
    monkeypatch.setenv("UP_KEY", keys[1])
    monkeypatch.setenv("UP_HEADER", keys[2])
    place = error_places(Dialect.OPENAI)["message"]
    canaries.plant(Dialect.OPENAI, kind, keys=(keys[0], "env:UP_KEY"), headers={"x-pass": "env:UP_HEADER"})
    other = Channel(id=ChannelId("ch_o"), name="other", dialect=Dialect.OPENAI, base_url="http://127.0.0.1:1/v1")
    canaries.gateway.change("channels", "ch_o", Channel(**{**_fields(other), "key": keys[3]}))
    canaries.secrets |= set(keys)
    for number, spell in enumerate(SPELLINGS.values()):
        await canaries.ask(place, (400, 500)[number % 2], spell(keys[number % 4]))
    await canaries.ask(place, 400, canaries.gateway.client.key)
    assert await canaries.found() == []


def _fields(channel: Channel) -> dict[str, Any]:
    return {name: getattr(channel, name) for name in channel.__struct_fields__}


async def test_the_demo_keeps_no_prompt(canaries: CanaryRun) -> None:
    for number, kind in enumerate(KINDS):
        canaries.plant(
            Dialect.MOCK, kind, base_url="", models=ECHO, options={"status": (200, 400, 429, 500)[number % 4]}
        )
        await canaries.gateway.client.chat(model="demo-echo", messages=[{"role": "user", "content": PROMPT}])
    assert await canaries.found() == []


# ---------------------------------------------------------------------------------------------- proxies


ANSWERS: dict[str, Callable[[str], bytes]] = {
    "reason": lambda text: f"HTTP/1.1 502 {text}\r\nX-Said: {text}\r\n\r\n{text}".encode(),
    "407": lambda text: f'HTTP/1.1 407 {text}\r\nProxy-Authenticate: Basic realm="{text}"\r\n\r\n'.encode(),
    "body": lambda text: f"HTTP/1.1 403 No\r\n\r\n<html>{_decoded(text)}</html>".encode(),
    "garbage": lambda text: f"{_decoded(text)}\r\n\r\n".encode(),
    "after": lambda text: f"HTTP/1.1 200 OK\r\n\r\n{_decoded(text)}".encode(),
    "redirect": lambda text: f"HTTP/1.1 302 Found\r\nLocation: http://{_decoded(text)}@x/\r\n\r\n".encode(),
}


def _decoded(authorization: str) -> str:
    return b64decode(authorization.partition(" ")[2]).decode()


def _password(kind: str) -> str:
    """One that a URL can hold."""
    return re.sub(r"[^0-9A-Za-z._-]", "-", secret_of(kind, 20))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_proxys_password_is_never_shown(canaries: CanaryRun, name: str) -> None:
    async with proxying(ANSWERS[name], []) as port, opened(canaries.gateway.engine) as surface:
        owner = ControlClient(surface.unix, timeout_s=10)
        for _, kind in _some_kinds(list(ANSWERS).index(name)):
            password = _password(kind)
            canaries.plant(
                Dialect.OPENAI, kind, proxy=f"http://anna:{password}@127.0.0.1:{port}", timeouts=Timeouts(connect=2)
            )
            canaries.secrets |= {password, b64encode(f"anna:{password}".encode()).decode()}
            await canaries.call()
            await _ask_all(canaries, owner)
    assert await canaries.found() == []


async def test_an_upstream_that_knows_the_proxys_password(canaries: CanaryRun) -> None:
    places = error_places(Dialect.OPENAI)
    async with proxying(OPEN, []) as port:
        for number, kind in enumerate(KINDS):
            password = _password(kind)
            pair = f"anna:{password}"
            canaries.plant(Dialect.OPENAI, kind, proxy=f"http://{pair}@127.0.0.1:{port}")
            canaries.secrets |= {password, b64encode(pair.encode()).decode()}
            for text in (
                password,
                pair,
                f"Basic {b64encode(pair.encode()).decode()}",
                f"http://{pair}@127.0.0.1:{port}",
            ):
                name = ("message", "field code", "html", "header x-request-id")[number % 4]
                await canaries.ask(places[name], (400, 500)[number % 2], text)
    assert await canaries.found() == []
