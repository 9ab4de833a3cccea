"""What is foretold is what a real call gets, whatever the configuration and whatever happened before."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.core.auth import require_usable
from gateway.core.dry_run import DryRun, PlannedCall, dry_run
from gateway.domain.account import Account, AccountStatus
from gateway.domain.budget import Budget, Window
from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Overrides
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.group import Fallback, Group, Policy
from gateway.domain.limits import Limits
from gateway.domain.registry import Change
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, ChannelId, Millis, Nanos
from tests.core import kit
from tests.core.ends import FakeReply, whole
from tests.core.rig import Rig, rigged

ROUNDS = 40
GROUPS = ("home", "work")
CHANNELS = ("a", "b", "c")


def foretold(rig: Rig, model: str = "m", prompt_tokens: int = 1000, max_tokens: int | None = None) -> DryRun:
    wanted = PlannedCall(token=rig.token, model=model, prompt_tokens=prompt_tokens, max_tokens=max_tokens)
    catalog, chooser = rig.catalog, rig.pipeline.attempts.chooser

    def check_open() -> None:
        if rig.pipeline.closed is not None:
            raise rig.pipeline.closed

    now = rig.watch.clock.wall()
    return dry_run(wanted, catalog, rig.books, chooser, now, check_open=check_open, usable=lambda model: model)


async def test_a_stopping_gateway_is_the_foretold_error(rig: Rig) -> None:
    rig.pipeline.closed = Unavailable("closed")
    assert foretold(rig).error is rig.pipeline.closed


async def test_where_nothing_is_left_the_need_is_that_of_the_requested_model(rig: Rig) -> None:
    """At 10 dollars per million output tokens; the fallback would need five times as much."""
    rig.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="m", to=("dear",)),)))
    for name, dollars in (("m", 10), ("dear", 50)):
        rig.channel(name, name)
        rig.put("prices", name, msgspec.structs.replace(kit.PRICE, model=name, output=Nanos(dollars * DOLLAR)))
    rig.grant(-rig.books.available())
    told = foretold(rig, prompt_tokens=0, max_tokens=1000)
    assert (told.error is not None, list(told.unaffordable)) == (True, [])
    assert told.need is not None
    assert 10_000_000 <= told.need.nanos < 11_000_000


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(16))
async def test_every_real_call_gets_what_was_foretold(tmp_path: Path, seed: int) -> None:
    """Refusals word for word; else the hold, and the channel that is tried first."""
    chance = random.Random(seed)
    with rigged(tmp_path) as rig:
        for name in CHANNELS:
            rig.upstreams.on(name, lambda: FakeReply(whole()))
        reached = set()
        for _ in range(ROUNDS):
            _stir(rig, chance)
            cap = chance.choice((None, 1, 200, 30_000))
            asked = kit.ask("m", max_tokens=cap)
            reached.add(await _compared(rig, foretold(rig, "m", asked.bound.tokens, cap), cap))
        assert len(reached) > 2


async def _compared(rig: Rig, told: DryRun, cap: int | None) -> str:
    """Make the call; what it got, as a word."""
    before = len(rig.records)
    error = await _failure(rig, cap)
    if error is not None or told.error is not None:
        assert _said(told.error) == _said(error)
        return error.code if error is not None else ""
    assert told.admission is not None
    assert told.choice is not None
    assert told.choice.route is not None
    made = (record for record in rig.records[before:] if record.outcome is not Outcome.REFUSED)
    record = next(made)  # counts of refusals, which come later, may stand before it
    assert (told.admission.hold_plan.nanos, told.choice.route.channel.id) == (record.held, record.channel)
    return "done"


async def _failure(rig: Rig, cap: int | None) -> GatewayError | None:
    try:
        require_usable(rig.token, rig.watch.clock.wall())  # /v1 asks this before it reads the body
        await rig.call("m", max_tokens=cap)
    except GatewayError as error:
        return error
    return None


def _said(error: GatewayError | None) -> tuple[type, str, str]:
    return type(error), getattr(error, "code", ""), getattr(error, "message", "")


def _stir(rig: Rig, chance: random.Random) -> None:
    """Some of everything that can keep a token from a model."""
    rig.watch.advance(chance.choice((0, 1, 20, 70)))
    for name in GROUPS:
        shows = chance.choice(((), (), ("m",), ("x*",)))
        rig.put(
            "groups",
            name,
            Group(
                name=name,
                models=shows,
                multiplier=chance.choice((10**6, 15 * 10**5)),
                policy=chance.choice(tuple(Policy)),
                fallbacks=chance.choice(
                    ((), (Fallback(model="m*", to=("x",)),), (Fallback(model="m", to=("x", "m")),))
                ),
                **_account(chance),
            ),
        )
    for name in CHANNELS:
        models = chance.choice((("m",), ("m=there",), ("x",), ("m", "x")))
        up = rig.channel(
            name,
            *models,
            groups=chance.choice((("home",), ("home",), ("work",), GROUPS, ())),
            priority=chance.choice((0, 0, 5)),
            weight=chance.choice((0, 1, 3)),
            enabled=chance.random() < 0.8,
            keys=chance.choice(((), ("sk-second",))),
            cost_factor=chance.choice((10**6, 10**7)),
            limits=chance.choice((Limits(), Limits(), Limits(rpm=1), Limits(tpm=150), Limits(rpd=3))),
            overrides=chance.choice((None, Overrides(system="be brief"), Overrides(default={"max_tokens": 9}))),
        )
        _ail(rig, up.id, chance)
    rig.put("account", "", Account(status=chance.choice((AccountStatus.ACTIVE,) * 9 + (AccountStatus.SUSPENDED,))))
    rig.put("settings", "", Settings(refuse_unpriced=chance.random() < 0.5))
    rig.put("prices", "m", kit.PRICE)
    rig.put("prices", "x", msgspec.structs.replace(kit.PRICE, model="x", output=Nanos(chance.choice((1, 10**11)))))
    if chance.random() < 0.2:
        rig.store.entities.apply([Change("prices", "m", None)])
    expires = chance.choice((None, None, None, Millis(1)))
    rig.change_token(
        group=chance.choice((*GROUPS, "home", "home")),
        models=chance.choice(((), (), ("m",), ("y",))),
        expires=expires,
        **_account(chance),
    )


def _account(chance: random.Random) -> dict[str, Any]:
    budget = Budget(window=chance.choice(tuple(Window)), nanos=Nanos(DOLLAR // chance.choice((10, 10_000, 500_000))))
    limits = Limits(
        rpm=chance.choice((None, 1, 40)), tpm=chance.choice((None, 150, 10**6)), tpd=chance.choice((None, 500))
    )
    return {"budgets": chance.choice(((), (), (budget,))), "limits": chance.choice((Limits(), Limits(), limits))}


def _ail(rig: Rig, channel: ChannelId, chance: random.Random) -> None:
    rig.health.clear(channel)
    kind = chance.choice((None, None, FailureKind.AUTH, FailureKind.RATE, FailureKind.QUOTA))
    if kind is not None:
        rig.health.note_failure(channel, kind, "it is ill")
    elif chance.random() < 0.1:
        rig.health.note_missing(channel, "m")
