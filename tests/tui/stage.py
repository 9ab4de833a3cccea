"""Stage: a server made of values for the console's tests: a fixed clock, four hundred calls, and all around them.

Long: one world of values that all pictures share.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from textual.app import App
from textual.pilot import Pilot

from gateway import __version__
from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.domain.account import AccountStatus, Grant
from gateway.domain.budget import Window
from gateway.domain.call import NOT_ERRORS, NOT_UPSTREAM, Attempt, FailureKind, Outcome, Record, Running
from gateway.domain.channel import Check, Dialect, ServedModel
from gateway.domain.cost import cost
from gateway.domain.errors import NotFound, Unavailable
from gateway.domain.events import AnyEvent, CallSettled, CallStarted, Snapshot
from gateway.domain.group import Policy
from gateway.domain.history import ChangeSource
from gateway.domain.incidents import PAUSED_STATES, Condition, Incident, Incidents
from gateway.domain.limits import Limits
from gateway.domain.price import Price, rates
from gateway.domain.price_view import PriceView
from gateway.domain.query import CallOrder, parse
from gateway.domain.settings import ExpiringRecords, Settings
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.usage import Usage, UsageSource
from gateway.domain.views import (
    AccountView,
    BudgetView,
    CallPage,
    CallView,
    ChannelView,
    GroupView,
    ModelView,
    Point,
    Status,
    Summary,
    SumRow,
    TokenView,
    call_view,
)
from gateway.runfile import Endpoint
from tui.app import Console
from tui.preferences import Preferences
from tui.saved_state import SavedState
from tui.session import AttachedServer, ConsoleSession, ServerLauncher

NOW = Millis(1_790_000_000_000)

SEARCHED = 300
"""Records that the server looks at before it gives a page of a search."""
ADDRESS = "http://127.0.0.1:8655/v1"
DOLLAR = 1_000_000_000

PRICES = {
    "claude-sonnet-4-5": ("anthropic", 3.0, 15.0),
    "gpt-5-mini": ("openai-main", 0.25, 2.0),
    "gemini-2.5-flash": ("google", 0.3, 2.5),
    "deepseek-chat": ("deepseek", 0.28, 0.42),
    "qwen3-coder:30b": ("ollama", 0.0, 0.0),
    "claude-haiku-4-5": ("anthropic", 1.0, 5.0),
}
TOKENS = ("editor", "laptop", "ci", "phone")
STATUSES: dict[int, tuple[Outcome, str, FailureKind | None, str]] = {
    200: (Outcome.DONE, "", None, ""),
    429: (Outcome.ERROR, "rate_limit_exceeded", FailureKind.RATE, "tokens per minute exceeded, retry after 12s"),
    500: (Outcome.ERROR, "upstream_error", FailureKind.SERVER, "the upstream failed twice"),
    499: (Outcome.CLIENT_CLOSED, "", FailureKind.CUT, "the client closed the connection"),
}


async def wait_until(pilot: Pilot[Any], is_true: Callable[[], object]) -> None:
    """For what tells nobody when it comes about."""
    async with asyncio.timeout(30):
        while not is_true():
            await pilot.pause(0.01)


def call_id(at: int, number: int) -> CallId:
    return CallId(f"req_{at:012x}{number * 7919 % 16**14:014x}")


def price_of(model: str) -> Price:
    _, dollars_in, dollars_out = PRICES[model]
    return Price(
        model=model,
        input=Nanos(round(dollars_in * DOLLAR)),
        output=Nanos(round(dollars_out * DOLLAR)),
        cached_input=Nanos(round(dollars_in * DOLLAR / 10)),
    )


def call(number: int, at: int = NOW, chance: random.Random | None = None, **changes: Any) -> CallView:
    """A settled call; the same for the same number."""
    chance = chance or random.Random(number)
    model = chance.choices(list(PRICES), (6, 5, 2, 2, 2, 2))[0]
    status = chance.choices(list(STATUSES), (93, 3, 2, 2))[0]
    inputs, outputs = int(chance.lognormvariate(7.6, 1.2)), int(chance.lognormvariate(5.6, 1))
    first, each = int(chance.lognormvariate(6.2, 0.6)), chance.uniform(7, 22)
    who = chance.choices(TOKENS, (6, 3, 2, 1))[0]
    record = Record(
        id=call_id(at, number),
        ts=Millis(at),
        token=f"tok_{who}",
        token_name=who,
        group="default",
        model=model,
        upstream_model=model,
        channel=f"ch_{PRICES[model][0]}",
        channel_name=PRICES[model][0],
        app="openai-python",
        stream=True,
        overhead=840,
        balance=Nanos(7 * DOLLAR - number * 1_000_000),
        upstream_id=f"chatcmpl-{number:06d}",
    )
    record = _failed(record, status, first) if status != 200 else _done(record, inputs, outputs, first, each)
    if "token" in changes:
        changes.setdefault("token_id", f"tok_{changes['token']}")
    return msgspec.structs.replace(call_view(record), **changes)


def _done(record: Record, inputs: int, outputs: int, first: int, each: float) -> Record:
    usage = Usage(input=inputs, cached=int(inputs * 0.62), output=outputs, reasoning=outputs // 5)
    nanos = cost(usage, at := rates(price_of(record.model), inputs, 1_000_000))
    return msgspec.structs.replace(
        record,
        status=200,
        finish="stop",
        ttft=Millis(first),
        ms=Millis(first + round(outputs * each)),
        input=usage.input,
        cached=usage.cached,
        output=usage.output,
        reasoning=usage.reasoning,
        source=UsageSource.REPORTED,
        cost=nanos,
        rates=at,
        held=Nanos(nanos * 3),
        attempts=(Attempt(channel=record.channel_name, status=200, ms=Millis(first)),),
    )


def _failed(record: Record, status: int, ms: int) -> Record:
    outcome, code, kind, reason = STATUSES[status]
    attempt = Attempt(channel=record.channel_name, status=status, ms=Millis(ms), kind=kind, reason=reason)
    return msgspec.structs.replace(
        record, status=status, outcome=outcome, code=code, error=reason, ms=Millis(ms), attempts=(attempt, attempt)
    )


def running(number: int, at: int = NOW - 4_000, **changes: Any) -> Running:
    fields: dict[str, Any] = {
        "id": call_id(at, number),
        "ts": Millis(at),
        "token": "tok_1",
        "token_name": "laptop",
        "group": "default",
        "model": "claude-sonnet-4-5",
        "app": "openai-python",
        "stream": True,
        "held": Nanos(80_000_000),
        "channel": "ch_1",
        "channel_name": "anthropic",
        "upstream_model": "claude-sonnet-4-5",
        "attempt": 1,
        "ttft": Millis(610),
        "input": 4_404,
        "output": 184,
        "cost": Nanos(16_000_000),
    }
    return Running(**(fields | changes))


def calls(count: int = 400, end: int = NOW) -> list[CallView]:
    """So many calls three seconds apart, newest first."""
    return list(_calls(count, end))


@cache
def _calls(count: int, end: int) -> tuple[CallView, ...]:
    """They never change, and most tests have the same."""
    chance = random.Random(7)
    return tuple(call(i, end - (count - i) * 3_100, chance) for i in range(count))[::-1]


def budget(spent: float, limit: float | None, window: Window = Window.MONTH) -> BudgetView:
    return BudgetView(
        window=window,
        nanos=None if limit is None else Nanos(round(limit * DOLLAR)),
        spent_nanos=Nanos(round(spent * DOLLAR)),
        held_nanos=Nanos(0),
        spent_tokens=0,
        resets_at_ms=None if window is Window.EVER else Millis(NOW + 10 * 86_400_000),
    )


_ENUMS: dict[str, type[StrEnum]] = {"dialect": Dialect, "policy": Policy, "status": AccountStatus}
_TUPLES = frozenset({"models", "groups", "patterns", "budgets", "fallbacks", "keys"})


def _exact(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields in the types that a server's answer has; a word that is not of the family stays as it is."""
    exact = fields | {name: tuple(fields[name]) for name in _TUPLES & fields.keys()}
    return exact | {name: kind(fields[name]) for name, kind in _ENUMS.items() if fields.get(name) in set(kind)}


def account(**changes: Any) -> AccountView:
    fields: dict[str, Any] = {
        "status": "active",
        "granted_nanos": Nanos(30 * DOLLAR),
        "spent_nanos": Nanos(18 * DOLLAR),
        "held_nanos": Nanos(80_000_000),
        "balance_nanos": Nanos(12 * DOLLAR),
        "available_nanos": Nanos(12 * DOLLAR - 80_000_000),
        "budgets": [budget(16.4, 40)],
        "begun_ms": Millis(NOW - 40 * 86_400_000),
    }
    return AccountView(**_exact(fields | changes))


def token(name: str, **changes: Any) -> TokenView:
    fields: dict[str, Any] = {
        "id": f"tok_{name}",
        "name": name,
        "group": "default",
        "hint": f"sk-tk-{name[:2]}…9fQ2",
        "state": "active",
        "created_ms": Millis(NOW - 60 * 86_400_000),
        "last_used_ms": Millis(NOW - 14_000),
        "calls": 1_204,
        "spent_nanos": Nanos(round(12.4 * DOLLAR)),
        "held_nanos": Nanos(0),
        "budgets": [budget(12.4, 20)],
        "limits": Limits(rpm=60, tpm=200_000, concurrent=8),
        "sees": list(PRICES),
    }
    return TokenView(**_exact(fields | changes))


def group(name: str, **changes: Any) -> GroupView:
    fields: dict[str, Any] = {
        "name": name,
        "sees": list(PRICES),
        "limits": Limits(rpm=120),
        "budgets": [budget(16.4, 40)],
        "tokens": ["editor", "laptop", "phone"],
        "channels": ["anthropic", "openai-main", "ollama"],
        "calls": 1_204,
        "spent_nanos": Nanos(round(16.4 * DOLLAR)),
        "created_ms": Millis(NOW - 60 * 86_400_000),
    }
    return GroupView(**_exact(fields | changes))


def channel(name: str, **changes: Any) -> ChannelView:
    models = [ServedModel(name=model, context=200_000) for model, (at, _, _) in PRICES.items() if at == name]
    fields: dict[str, Any] = {
        "id": f"ch_{name}",
        "name": name,
        "dialect": "openai",
        "base_url": f"https://api.{name}.com/v1",
        "key": "…3kQA",
        "models": models,
        "groups": ["default"],
        "priority": 1,
        "state": "ok",
        "reason": "",
        "until_ms": None,
        "in_flight": 0,
        "headers": {},
        "calls": 812,
        "errors": 4,
        "spent_nanos": Nanos(round(11.2 * DOLLAR)),
        "possible_nanos": Nanos(0),
        "created_ms": Millis(NOW - 60 * 86_400_000),
        "last_check": Check(time=Millis(NOW - 600_000), ok=True, ms=Millis(610), text="14 models"),
    }
    return ChannelView(**_exact(fields | changes))


def model(known: str, **changes: Any) -> ModelView:
    listed = price_of(known)
    view = PriceView(
        model=known,
        input=listed.input,
        cached_input=listed.cached_input,
        output=listed.output,
        per_call=Nanos(0),
        free=listed.free,
        source="manual",
        updated_ms=NOW,
        tier_count=0,
    )
    fields: dict[str, Any] = {
        "name": known,
        "channels": [PRICES[known][0]],
        "groups": ["default"],
        "context": 200_000,
        "price": view,
        "calls": 300,
        "spent_nanos": Nanos(round(9.84 * DOLLAR)),
    }
    return ModelView(**(fields | changes))


def status(records: int, **changes: Any) -> Status:
    fields: dict[str, Any] = {
        "version": __version__,
        "instance": "one",
        "pid": 4711,
        "address": ADDRESS,
        "home": "/home/me/.local/share/tollkeeper",
        "started_ms": Millis(NOW - 3_600_000),
        "in_flight": 2,
        "watchers": 1,
        "state": "serving",
        "durability": "interval",
        "channels": {"ok": 4, "cooling": 1, "off": 1},
        "records": records,
    }
    return Status(**(fields | changes))


def sums(key: str = "", rows: Sequence[CallView] = ()) -> SumRow:
    return SumRow(
        key=key,
        name=key,
        calls=len(rows),
        errors=sum(row.status != 200 and row.outcome not in NOT_ERRORS for row in rows),
        aborts=sum(row.outcome in NOT_UPSTREAM for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        cached_tokens=sum(row.cached_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        cost_nanos=Nanos(sum(row.cost_nanos for row in rows)),
        possible_nanos=Nanos(0),
        duration_ms=sum(row.duration_ms for row in rows),
        first_byte_ms=sum(row.first_byte_ms or 0 for row in rows),
        first_bytes=sum(row.first_byte_ms is not None for row in rows),
    )


def timed_sums(key: str, rows: Sequence[CallView]) -> SumRow:
    """The same with percentiles."""
    firsts = [row.first_byte_ms for row in rows if row.first_byte_ms is not None]
    durations = [row.duration_ms for row in rows]
    return msgspec.structs.replace(
        sums(key, rows),
        duration_p50_ms=_share(durations, 0.5),
        duration_p95_ms=_share(durations, 0.95),
        first_byte_p50_ms=_share(firsts, 0.5),
        first_byte_p95_ms=_share(firsts, 0.95),
    )


def _share(times: Sequence[Millis], share: float) -> Millis | None:
    return sorted(times)[int(share * (len(times) - 1))] if times else None


def start_of(ms: int, step: str) -> int:
    """The beginning of the hour or day (local time is UTC in tests)."""
    size = {"hour": 3_600_000, "day": 86_400_000}.get(step, 1)
    return ms // size * size


def _pause(channel: ChannelView) -> Condition:
    reason, until = channel.reason, channel.until_ms
    return Condition(channel=channel.name, subject_id=channel.name, reason=reason, until=until)


class FakeClient(ControlClient):
    """A server of values: change them and ``tell`` what happened. Methods that are missing here fail loudly."""

    def __init__(self, records: Sequence[CallView] = (), recent: int = 200) -> None:
        endpoint = Endpoint(instance="one", secret="s", address=ADDRESS)
        super().__init__(endpoint, source=ChangeSource(via="console", session="here"))
        self.records = list(records)
        """Newest first."""
        self.recent = recent
        self.now_waiting: list[Running] = []
        self.now_running = [running(1, NOW - 4_000), running(2, NOW - 1_500, ttft=None, output=0, cost=Nanos(0))]
        self.account_now = account()
        self.refuses_unpriced = False
        self.tokens_now = [
            token("ci", group="batch", budgets=[budget(4.87, 5)]),
            token("editor"),
            token("guest", state="expired", expires=Millis(NOW - 86_400_000), last_used_ms=None, budgets=[]),
            token("laptop", budgets=[budget(3.6, 20)]),
            token("phone", enabled=False, state="disabled", budgets=[]),
        ]
        self.groups_now = [
            group("batch", multiplier=500_000, tokens=["ci"]),
            group("default"),
            group("free", multiplier=0),
        ]
        self.channels_now = [
            channel("anthropic"),
            channel("deepseek", state="cooling", reason="402: no balance", until_ms=Millis(NOW + 720_000)),
            channel("google", errors=31),
            channel("ollama", dialect="openai", base_url="http://127.0.0.1:11434/v1", spent_nanos=Nanos(0)),
            channel("openai-main"),
            channel("openrouter", enabled=False, state="off"),
        ]
        self.models_now = [
            *(model(name) for name in sorted(PRICES)),
            model("gpt-5-mini", name="my-finetune-7", price=None),
        ]
        self.settings_now = Settings()
        self.expiring = ExpiringRecords()
        self.grants_now = [
            Grant(id="gr_1", nanos=Nanos(10 * DOLLAR), time=Millis(NOW - 60 * 86_400_000), note="a first amount"),
            Grant(id="gr_2", nanos=Nanos(20 * DOLLAR), time=Millis(NOW - 9 * 86_400_000)),
        ]
        self.consoles = 1
        self.address = ADDRESS
        self.asked: list[str] = []
        """What was done, for tests."""
        self._told: asyncio.Queue[AnyEvent | None] = asyncio.Queue()

    async def status(self) -> Status:
        return self.snapshot().status

    def snapshot(self) -> Snapshot:
        now = {"instance": self.endpoint.instance, "watchers": self.consoles, "address": self.address}
        return Snapshot(
            status=status(len(self.records), **now),
            account=self.account_now,
            tokens=self.tokens_now,
            groups=self.groups_now,
            channels=self.channels_now,
            models=self.models_now,
            running=self.now_running,
            waiting=self.now_waiting,
            incidents=self._incidents(),
            recent=self.records[: self.recent],
            older=max(0, len(self.records) - self.recent),
            refuses_unpriced=self.refuses_unpriced,
        )

    def tell(self, *events: AnyEvent) -> None:
        for event in events:
            if isinstance(event, CallSettled):
                self.records.insert(0, event.call)
                self.now_running = [one for one in self.now_running if one.id != event.call.id]
            elif isinstance(event, CallStarted):
                self.now_running.append(event.call)
            self._told.put_nowait(event)

    def end(self) -> None:
        self._told.put_nowait(None)

    async def events(self, recent: int = 200, **_: object) -> AsyncGenerator[AnyEvent, None]:
        self._told = asyncio.Queue()
        snapshot = self.snapshot()
        yield msgspec.structs.replace(snapshot, recent=snapshot.recent[:recent])
        while (event := await self._told.get()) is not None:
            yield event

    async def numbered_calls(self, at: int, limit: int) -> list[CallView]:
        self.asked.append(f"numbered_calls {at} {limit}")
        start = max(0, len(self.records) - at)
        return self.records[start : start + limit]

    def _incidents(self) -> list[Incident]:
        """As the server would find them."""
        found = Incidents()
        for one in reversed(self.records[: self.recent]):
            found.add_failures(one)
        paused = [one for one in self.channels_now if one.state in PAUSED_STATES]
        found.update([_pause(one) for one in paused], {(one.name, "") for one in paused}, Millis(NOW))
        return found.newest()[::-1]

    async def calls(self, **filters: Any) -> CallPage:
        """Looks at so many records at a time; a cursor is the number of records that are older."""
        self.asked.append(f"calls {filters}")
        before, older = str(filters.get("before", "")), len(self.records)
        if before.isdecimal():
            older = int(before)
        elif before:
            older = next((older - 1 - i for i, one in enumerate(self.records) if one.id == before), 0)
        query = parse(filters.get("words", ""), Millis(NOW))
        since, until = filters.get("since") or 0, filters.get("until") or 2**62
        looked_at = self.records[len(self.records) - older :][:SEARCHED]
        found = [one for one in looked_at if since <= one.time_ms < until and query.matches(one)]
        if sort := filters.get("sort"):
            found = CallOrder(sort, bool(filters["ascending"])).best(found, filters["limit"])
        elif len(found) >= filters.get("limit", 2**62):
            found = found[: filters["limit"]]
            looked_at = looked_at[: looked_at.index(found[-1]) + 1]
        left = older - len(looked_at)
        back_to = looked_at[-1].time_ms if left else Millis(0)
        return CallPage(calls=found, cursor=str(left) if left else None, left=left, back_to_ms=back_to)

    async def cancel(self, call_id: str) -> dict[str, str]:
        self.asked.append(f"cancel {call_id}")
        if call_id not in [one.id for one in self.now_running]:
            raise NotFound(f"{call_id} does not run")
        return {}

    async def summary(
        self,
        *,
        by: Any = "",
        since: Any = 0,
        until: Any = None,
        step: Any = "",
        percentiles: Any = False,
        **picked: Any,
    ) -> Summary:
        words = picked.get("words") or ""
        self.asked.append(f"summary {by} {step}" + (f" {words}" if words else ""))
        query = parse(words, Millis(NOW))
        rows = [one for one in self.records if since <= one.time_ms < (until or 2**62) and query.matches(one)]

        def key(one: CallView) -> str:
            return {"": "", "token": one.token_id, "channel": f"ch_{one.channel}"}.get(by) or (
                getattr(one, by) if by else ""
            )

        parts: dict[str, list[CallView]] = {}
        points: dict[tuple[int, str], list[CallView]] = {}
        for one in rows:
            parts.setdefault(key(one), []).append(one)
            points.setdefault((start_of(one.time_ms, step), key(one)), []).append(one)
        summed = timed_sums if percentiles else sums
        named = [msgspec.structs.replace(summed(k, part), name=k.partition("_")[2] or k) for k, part in parts.items()]
        return Summary(
            since_ms=Millis(since),
            until_ms=Millis(until or NOW),
            by=by,
            total=summed("", rows),
            rows=sorted(named, key=lambda row: -row.cost_nanos) if by else [],
            series=[Point(start_ms=Millis(at), key=k, row=summed(k, part)) for (at, k), part in sorted(points.items())]
            if step
            else [],
            first_ms=min((one.time_ms for one in self.records), default=None),
        )

    async def settings(self) -> Settings:
        return self.settings_now

    async def grants(self) -> list[Grant]:
        return self.grants_now


class FakeLauncher(ServerLauncher):
    """Finds the fake server once it was started, while it is there."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.there = True
        self.findable = True
        self.started = False

    async def find(self) -> AttachedServer | None:
        found = self.started and self.there and self.findable
        return AttachedServer(self.client) if found else None

    async def ensure(self) -> AttachedServer:
        if not self.there:
            raise Unavailable("the server ended with status 1 before it answered", code="start_failed")
        self.started = True
        self.client.endpoint = msgspec.structs.replace(self.client.endpoint, starter="here")
        return AttachedServer(self.client)


def words(app: App[Any]) -> list[str]:
    """The texts of the toasts."""
    return [notice.message for notice in app._notifications]  # noqa: SLF001 - Textual shows them nowhere else


def console(
    client: FakeClient | None = None,
    *,
    home: Path = Path("/nowhere"),
    in_ascii: bool = False,
    state: SavedState | None = None,
    preferences: Preferences | None = None,
    colour: bool = True,
) -> Console:
    session = ConsoleSession(Config(home=home), lambda: NOW, state or SavedState(), preferences, in_ascii=in_ascii)
    return Console(session, FakeLauncher(client or FakeClient(calls())), colour=colour)
