"""Hostile: five hundred strings that take careless terminals, tables and markup apart, and a server full of them."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.domain.call import Attempt, FailureKind
from gateway.domain.channel import Check, ServedModel
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import CallView, ChannelView, KeyView
from tests.tui.owner import Owner, price_of
from tests.tui.stage import NOW, account, call, channel, group, model, running, token

ESCAPES = (
    *("\x1b[2J", "\x1b[31m", "\x1b[?1049l", "\x1b[8;5;5t", "\x1b]0;pwned\x07", "\x1b]2;pwned\x1b\\", "\x1bc"),
    *("\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Gf=1\x1b\\"),
    *("\x1b#8", "\x1b(0", "\x9b2J", "\x9d0;pwned\x9c", "\x90q\x9c", "\x85", "\x0e", "\x0f", "\x07", "\x7f", "\x00"),
    *("\x08\x08\x08", "\r", "\n", "\t", "\x0b", "\x0c"),
)
MARKUP = (
    *("[/]", "[/foo]", "[bold", "[bold]x[/]", "[@click=app.quit]x[/]", "[@click=app.act('stop')]x[/]", "\\[", "[["),
    *("[link=http://evil]x[/]", "]]", "[red on blue]", "[$error]", "[not a tag]", "{0}", "%s%n", "${HOME}"),
    *("$(reboot)", "`reboot`", "';--", "=1+1", "-rf", "@x", "../../etc"),
)
LETTERS = (
    *("\u2028", "\u2029", "\u202e", "\u202d\u202c", "\u2066\u2069", "\u200f", "\u200b", "\ufeff", "\u00ad", "\u3000"),
    *("e" + "\u0301" * 1_000, "\u0e33" * 40, "\u0e49" * 50, "\u20dd" * 30, "\u5bbd" * 300, "\uff21" * 90, "\ufdfd"),
    *("\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "\uf8ff"),
    *("\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\U000e0041\U000e0042", "\U0010ffff"),
    *("\ufffe", "\ud800", "\udfff", "A" * 10_000, " " * 500, "", "\u2500" * 9, "\u2588" * 99, "\u28ff" * 9),
)
CORES = (*ESCAPES, *MARKUP, *LETTERS)
FRAMES = ("{}", "a{}b", "{}{}", "name {} name", "\u5bbd{}", "{}\u0301", "x" * 30 + "{}", "{}[/]", "\x1b{}", "gpt-{}")


def strings(count: int = 500) -> list[str]:
    """The same ones each time, no two alike; each core at least once as it is."""
    chance = random.Random(3)
    found = dict.fromkeys(CORES)
    while len(found) < count:
        found[chance.choice(FRAMES).replace("{}", chance.choice(CORES))] = None
    return list(found)[:count]


def owner(texts: Sequence[str]) -> Owner:
    """A server in which every text of clients, upstreams and the owner is one of these."""
    made, there = Owner(0), list(enumerate(texts))
    made.records = [_call(i, text) for i, text in there]
    made.recent = len(texts)
    made.now_running = [running(9_000 + i, NOW, model=t, token_name=t, channel_name=t, app=t) for i, t in there[:20]]
    made.account_now = account(status=texts[0])
    made.tokens_now = [
        msgspec.structs.replace(token("a", id=f"tok_{i}", group=t, hint=t, models=[t], sees=[t], note=t), name=t)
        for i, t in there
    ]
    made.groups_now = [
        msgspec.structs.replace(group("a", models=[t], sees=[t], tokens=[t], channels=[t], note=t), name=t)
        for t in texts
    ]
    made.channels_now = [_channel(i, t) for i, t in there]
    price = price_of("gpt-5-mini")
    made.models_now = [
        model("gpt-5-mini", name=t, channels=[t], groups=[t], price=msgspec.structs.replace(price, source=t))
        for t in texts
    ]
    return made


def _channel(number: int, text: str) -> ChannelView:
    fields = ("name", "base_url", "key", "preset", "dialect", "reason", "note", "proxy")
    texts: dict[str, Any] = dict.fromkeys(fields, text)
    texts |= {"groups": (text,), "headers": {text: text}, "options": {text: text}}
    texts["models"] = (ServedModel(name=text, upstream=text),)
    texts["keys"] = tuple(KeyView(number=n, key=text, state=text, reason=text, until_ms=None) for n in (1, 2))
    check = Check(time=NOW, ok=False, ms=Millis(1), text=text)
    made = channel("a", id=f"ch_{number}", state="cooling", until_ms=Millis(NOW + 9_000), last_check=check)
    return msgspec.structs.replace(made, **texts)


def _call(number: int, text: str) -> CallView:
    attempt = Attempt(channel=text, status=500, ms=Millis(5), kind=FailureKind.SERVER, reason=text)
    names = ("token", "group", "model", "upstream_model", "channel", "app", "code", "error")
    rest = ("finish_reason", "upstream_id", "usage_source", "outcome")
    texts: dict[str, Any] = dict.fromkeys((*names, *rest), text)
    texts |= {"attempts": [attempt], "marks": [text], "possible_nanos": Nanos(5), "status": 500}
    return call(number, NOW - number * 1_000, **texts)
