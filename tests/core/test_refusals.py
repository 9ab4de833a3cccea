"""A flood of one refusal is recorded as a trickle."""

from collections.abc import Callable
from operator import itemgetter

import pytest

from gateway.core.event_bus import EventBus
from gateway.core.refusal_log import BURST, GAP_S, LONG_GAP_S, Refusals
from gateway.domain.call import SKIPPED_MARK, Outcome, Record, mark_values
from gateway.domain.errors import GatewayError, InvalidToken, NoChannel, NotFound, RateLimited
from gateway.domain.group import Group
from gateway.domain.token import Token
from gateway.domain.views import call_view
from tests.core import kit
from tests.core.clocks import Watch


class Desk:
    """Refusals over a list."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.bus = EventBus()
        self.records: list[Record] = []
        self.due: list[tuple[float, Callable[[], None]]] = []
        """What is to be done, and when."""
        self.refusals = Refusals(
            self.records.append, self.bus, self.watch.clock, self.later, lambda token: Group(name=token.group)
        )

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        self.due.append((self.watch.clock.mono() + delay_s, work))

    def advance(self, seconds: float) -> None:
        """Time passes, and what is due is done when it is due."""
        end = self.watch.clock.mono() + seconds
        while self.due and (first := min(self.due, key=itemgetter(0)))[0] <= end:
            self.due.remove(first)
            self.watch.advance(first[0] - self.watch.clock.mono())
            first[1]()
        self.watch.advance(end - self.watch.clock.mono())

    @property
    def told(self) -> int:
        """Refusals that are in the records."""
        marks = [mark for record in self.records for mark in record.marks]
        return len(self.records) + sum(int(mark.removeprefix("repeated=")) for mark in marks)

    def refuse(
        self,
        error: GatewayError | None = None,
        token: Token | None = None,
        model: str = "m",
        app: str = "curl",
        request: str = "",
    ) -> None:
        began = self.watch.clock.mono() - 0.25
        origin = kit.origin(request=request, key="sk", app=app, retry=2, began=began)
        self.refusals.note(origin, error or RateLimited("too fast"), token, kit.ask(model) if model else None)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_refusal_is_recorded_and_told(desk: Desk) -> None:
    with desk.bus.watch() as watcher:
        desk.refuse(token=kit.token())
        told = (await watcher.next_batch(0)).notices
    (record,) = desk.records
    assert (record.status, record.code, record.error, record.outcome) == (
        429,
        "rate_limit_exceeded",
        "too fast",
        Outcome.REFUSED,
    )
    assert (record.token, record.token_name, record.group) == ("tok_laptop", "laptop", "home")
    assert (record.app, record.retry, record.ms, record.cost, record.held) == ("curl", 2, 250, 0, 0)
    assert told == [record]


def test_an_unknown_caller_has_no_name(desk: Desk) -> None:
    desk.refuse(InvalidToken("no such key"))
    assert (desk.records[0].token, desk.records[0].group) == ("", "")


def test_a_flood_is_recorded_once_a_second(desk: Desk) -> None:
    for _ in range(100):
        desk.refuse()
        desk.advance(0.03125)
    assert len(desk.records) == 4
    assert [record.marks for record in desk.records] == [(), ("repeated=30",), *[("repeated=31",)] * 2]


def test_a_burst_shows_its_count_although_none_follows(desk: Desk) -> None:
    for _ in range(37):
        desk.refuse()
    assert len(desk.records) == 1
    desk.advance(GAP_S)
    assert [record.marks for record in desk.records] == [(), ("repeated=35",)]
    assert [record.ms for record in desk.records] == [250, 250]
    assert desk.told == 37
    desk.advance(60)
    assert (len(desk.records), desk.due) == (2, [])


def test_the_single_refusal_that_was_left_out_is_recorded_as_one(desk: Desk) -> None:
    desk.refuse()
    desk.refuse()
    desk.advance(GAP_S)
    assert [record.marks for record in desk.records] == [(), ()]


def test_at_the_end_nothing_is_left_untold(desk: Desk) -> None:
    for _ in range(5):
        desk.refuse()
    desk.refusals.close()
    assert desk.told == 5
    desk.refuse()
    desk.advance(60)
    assert len(desk.records) == 2


def test_a_flood_of_hours_leaves_few_records(desk: Desk) -> None:
    for number in range(3 * 3600):
        desk.refuse(InvalidToken("no"), request=f"GET /{number}")
        desk.advance(1 / 3)
    assert len(desk.records) <= BURST + 600 + 3600 / LONG_GAP_S * 2
    assert desk.told >= 3 * 3600 - 50
    desk.advance(3600)
    desk.refuse(InvalidToken("no"), request="GET /again")
    assert desk.records[-1].request == "GET /again"


def test_requests_to_different_addresses_are_distinguished_by_program_too(desk: Desk) -> None:
    unknown = NotFound("no", code="unknown_url")
    desk.refuse(unknown, request="GET /a", model="")
    desk.refuse(unknown, request="GET /b", model="")
    desk.refuse(unknown, request="GET /a", model="", app="other")
    desk.refuse(unknown, request="GET /a", model="")
    assert [(record.app, record.request) for record in desk.records] == [
        ("curl", "GET /a"),
        ("curl", "GET /b"),
        ("other", "GET /a"),
    ]


def test_other_refusals_are_recorded_beside_it(desk: Desk) -> None:
    desk.refuse()
    desk.refuse(token=kit.token())
    desk.refuse(InvalidToken("no"))
    desk.refuse(model="other")
    assert len(desk.records) == 4


def counts(desk: Desk) -> dict[str, int]:
    """How many refusals the records have, by model."""
    found: dict[str, int] = {}
    for record in desk.records:
        found[record.model] = found.get(record.model, 0) + call_view(record).count
    return found


def test_what_is_left_out_is_counted_for_its_own_model(desk: Desk) -> None:
    sent = {"gpt-4o-mini": 6, "claude-haiku-4-5": 18, "gpt-4o": 6}
    for model, number in sent.items():
        for _ in range(number):
            desk.refuse(token=kit.token(), model=model)
    desk.advance(GAP_S)
    assert counts(desk) == sent
    assert len(desk.records) == 6


def test_too_many_different_refusals_share_a_record_without_a_model(desk: Desk) -> None:
    for number in range(3 * BURST):
        desk.refuse(model=f"model-{number}")
    desk.advance(GAP_S)
    assert desk.told == 3 * BURST
    assert [(record.model, record.app, call_view(record).count) for record in desk.records[BURST:]] == [
        ("", "curl", 2 * BURST)
    ]


def test_floods_are_forgotten_when_they_are_over(desk: Desk) -> None:
    for number in range(3000):
        desk.refuse(RateLimited("x", code=str(number)))
        desk.advance(GAP_S)
    desk.advance((BURST + 1) * GAP_S)
    assert (len(desk.records), desk.due) == (3000, [])
    assert not desk.refusals._floods  # noqa: SLF001 - what is remembered is what this is about


@pytest.mark.parametrize("kinds", [1, 3, BURST])
def test_kinds_that_go_on_and_on_are_recorded_about_once_a_second(desk: Desk, kinds: int) -> None:
    for number in range(60 * 20):
        desk.refuse(model=str(number % kinds))
        desk.advance(GAP_S / 20)
    assert 60 <= len(desk.records) <= 60 + 2 * BURST
    desk.advance(GAP_S)
    assert desk.told == 60 * 20


def test_names_that_change_each_time_are_recorded_as_a_trickle(desk: Desk) -> None:
    for number in range(10_000):
        desk.refuse(NotFound("no such model", code="model_not_found"), kit.token(), model=f"made-up-{number}")
        desk.advance(0.001)
    assert BURST + 8 <= len(desk.records) <= BURST + 10
    told = sum(int(mark.partition("=")[2]) for record in desk.records for mark in record.marks)
    assert 10_000 - len(desk.records) - told < 1100


def test_another_tokens_refusals_are_recorded_in_a_flood(desk: Desk) -> None:
    for number in range(100):
        desk.refuse(token=kit.token(), model=str(number))
    desk.refuse(token=kit.token("other"))
    assert desk.records[-1].token_name == "other"


def test_a_quiet_day_saves_nothing_up(desk: Desk) -> None:
    desk.refuse(model="first")
    desk.advance(86_400)
    for number in range(100):
        desk.refuse(model=str(number))
    assert len(desk.records) == 1 + BURST


@pytest.mark.parametrize("count", [BURST - 1, BURST, BURST + 1])
def test_so_many_are_recorded_at_once(desk: Desk, count: int) -> None:
    for number in range(count):
        desk.refuse(model=str(number))
    assert len(desk.records) == min(count, BURST)


@pytest.mark.parametrize("count", [199, 200, 201])
def test_so_many_names_that_do_not_exist_are_kept(desk: Desk, count: int) -> None:
    for number in range(count):
        desk.refuse(NotFound("no", code="model_not_found"), model=str(number))
        desk.advance(1)
    desk.refuse(NotFound("no", code="model_not_found"), model="0")
    desk.advance(1)
    desk.refuse(RateLimited("too fast"), model="a real one")
    names = [record.model for record in desk.records]
    assert len({name for name in names[:-2] if name}) == min(count, 200)
    assert names[-2:] == ["0", "a real one"]


def test_a_call_that_met_only_paused_channels_records_them(desk: Desk) -> None:
    error = NoChannel("none is left")
    error.marks += ["skipped=up", "skipped=other"]
    for _ in range(2):
        desk.refuse(error)
    desk.advance(GAP_S)
    first, second = desk.records
    assert (first.marks, mark_values(second.marks, SKIPPED_MARK)) == (("skipped=up", "skipped=other"), ["up", "other"])
    desk.refuse(RateLimited("too fast"))
    assert list(desk.bus.noteworthy) == [first, second]


def test_strange_texts_are_made_harmless(desk: Desk) -> None:
    desk.refuse(RateLimited("\x1b[2J" + "x" * 2000), model="\u202e" * 200)
    (record,) = desk.records
    assert record.error.isprintable()
    assert record.model.isprintable()
    assert (len(record.error), len(record.model)) == (1200, 80)


def test_a_key_that_was_pasted_into_the_wrong_field_is_not_recorded(desk: Desk) -> None:
    own, vendors = "sk-tk-" + "aB3" * 14 + "x", "sk-proj-" + "q" * 40
    for key in (own, vendors):
        desk.refuse(NotFound(f"there is no '{key}' here", code="model_not_found"), model=key)
        desk.refuse(NotFound(f"there is no GET /v1/{key}", code="unknown_url"), request=f"GET /v1/{key}", model="")
    desk.refuse(RateLimited("too fast"), model="fw-llama-v3p1-70b-instruct")
    assert not [record for record in desk.records if own in str(record) or vendors in str(record)]
    assert desk.records[0].model.startswith("sk-tk-aB3a…")
    assert desk.records[-1].model == "fw-llama-v3p1-70b-instruct"


def test_the_gap_is_a_second() -> None:
    assert GAP_S == 1.0


def test_programs_that_call_themselves_otherwise_each_time_lose_their_names(desk: Desk) -> None:
    for number in range(200 + 5):
        desk.refuse(InvalidToken("no"), app=f"agent-{number}")
        desk.advance(1)
    assert [record.app for record in desk.records].count("") == 5
