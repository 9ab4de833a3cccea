"""A fifth of the calls, and three a second: no storm, and no call is left alone on a quiet day."""

import msgspec
import pytest

from gateway.core.channel_health import ChannelHealth
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.recent_items import MAX_FAILURES, BrokenStreams
from gateway.core.retry import NextStep, RetryBudget, RetryState
from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamError
from gateway.domain.units import Millis
from tests.core.clocks import Mono
from tests.core.kit import ask, route
from tests.fakes.failures import failed


class Flight:
    """How many calls run."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


def granted(retries: RetryBudget, asked: int) -> int:
    return sum(retries.take() for _ in range(asked))


def test_three_are_always_allowed() -> None:
    assert granted(RetryBudget(Mono(), Flight()), 10) == 3


def test_twenty_of_a_hundred_calls_that_fail_at_once_are_tried_again() -> None:
    retries = RetryBudget(Mono(), Flight(100))
    retries.calls = 100
    assert granted(retries, 100) == 20


def test_three_a_second_come_back() -> None:
    mono = Mono()
    retries = RetryBudget(mono, Flight())
    assert granted(retries, 10) == 3
    mono.now += 0.5
    assert granted(retries, 10) == 1
    mono.now += 60
    assert granted(retries, 10) == 3


K = FailureKind


def entry(*routes: Route) -> ModelEntry:
    return ModelEntry(name="m", created=Millis(0), owner="up", context=None, routes=routes)


def failure(
    kind: FailureKind, *, sent: bool = True, after: float | None = None, status: int = 500, lasting: bool = False
) -> UpstreamError:
    error = failed(status, "x", "no", retry_after_s=after)
    error.kind, error.sent, error.lasting = kind, sent, lasting
    return error


class Case:
    """A call whose attempts fail one after the other."""

    def __init__(self, *routes: Route) -> None:
        self.mono = Mono()
        self.health = ChannelHealth(self.mono, lambda: None)
        self.retries = RetryBudget(self.mono, lambda: 1)
        self.asked = entry(*routes)
        self.tries = RetryState(self.asked, self.asked.name)
        self.routes = routes

    def fails(self, route: Route, found: UpstreamError) -> NextStep | None:
        self.health.note_failure(route.channel.id, found.kind, "no", found.retry_after_s)
        self.tries.add_failure(route, found)
        return self.tries.next(self.health, lambda n: n - 1, self.retries)


@pytest.mark.parametrize(
    ("found", "wait"),
    [
        (failure(K.SERVER), 0.999),
        (failure(K.SERVER, after=3), 3.499),
        (failure(K.SERVER, after=6), None),
        (failure(K.SERVER, status=302), None),
        (failure(K.SERVER, status=404), None),
        (failure(K.SERVER, status=498), 0.999),
        (failure(K.SERVER, status=503), 0.999),
        (failure(K.SERVER, status=529), 0.999),
        (failure(K.SERVER, after=2, status=529), 2.499),
        (failure(K.SERVER, after=30, status=529), None),
        (failure(K.SERVER, status=0), 0.999),
        (failure(K.NETWORK, sent=False), 0.999),
        (failure(K.NETWORK, sent=False, lasting=True), None),
        (failure(K.NETWORK), None),
        (failure(K.RATE, after=2), 2.499),
        (failure(K.RATE, after=5.5), None),
        (failure(K.RATE), None),
        (failure(K.SLOW), None),
        (failure(K.SLOW, sent=False), None),
        (failure(K.AUTH), None),
        (failure(K.QUOTA), None),
        (failure(K.MISSING), None),
        (failure(K.CLIENT), None),
    ],
)
def test_the_only_channel_is_tried_a_second_time_if_there_is_hope(found: UpstreamError, wait: float | None) -> None:
    a = route("a")
    step = Case(a).fails(a, found)
    assert (step.route, round(step.wait_s, 3)) == (a, wait) if step is not None else wait is None


def test_but_not_a_third_time() -> None:
    a = route("a")
    case = Case(a)
    assert case.fails(a, failure(K.SERVER)) is not None
    assert case.fails(a, failure(K.SERVER)) is None


def test_a_channel_whose_breaker_opened_is_left_in_peace() -> None:
    a = route("a")
    case = Case(a)
    for _ in range(2):
        case.health.note_failure(a.channel.id, K.SERVER, "no")
    assert case.fails(a, failure(K.SERVER)) is None


def test_another_channel_comes_before_the_same_one() -> None:
    a, b = route("a"), route("b")
    case = Case(a, b)
    step = case.fails(a, failure(K.SERVER))
    assert step is not None
    assert (step.route, step.wait_s) == (b, 0)
    assert case.fails(b, failure(K.SERVER)) is None


@pytest.mark.parametrize("names", ["ba", "ab", "bca", "acb"])
def test_channels_whose_variable_is_not_set_leave_the_only_channel_that_can_be_tried(names: str) -> None:
    routes = {name: route(name) for name in names}
    case = Case(*routes.values())
    kinds = [K.SERVER if name == "a" else K.UNSET for name in names]
    found = [failure(kind, sent=kind is K.SERVER, status=503) for kind in kinds]
    steps = [case.fails(routes[name], each) for name, each in zip(names, found, strict=True)]
    assert steps[-1] is not None
    assert (steps[-1].route, round(steps[-1].wait_s, 3)) == (routes["a"], 0.999)


def test_the_same_one_comes_before_a_paused_one() -> None:
    a, b = route("a"), route("b")
    case = Case(a, b)
    case.health.note_failure(b.channel.id, K.RATE, "429", 60)
    steps = [case.fails(a, failure(K.SERVER)), case.fails(a, failure(K.SERVER))]
    assert [step.route.channel.name for step in steps if step is not None] == ["a", "b"]


def test_attempts_are_bounded() -> None:
    routes = [route(name) for name in "abcde"]
    case = Case(*routes)
    steps = [case.fails(one, failure(K.NETWORK, sent=False)) for one in routes[:3]]
    assert [step is None for step in steps] == [False, False, True]


def test_what_was_sent_and_brought_nothing_is_sent_once_more_at_most() -> None:
    a, b, c = route("a"), route("b"), route("c")
    case = Case(a, b, c)
    assert case.fails(a, failure(K.SLOW)) is not None
    assert case.fails(b, failure(K.NETWORK)) is None


def test_without_budget_there_is_no_second_time_but_another_channel() -> None:
    a, b = route("a"), route("b")
    case = Case(a)
    while case.retries.take():
        pass
    assert case.fails(a, failure(K.SERVER)) is None
    case = Case(a, b)
    while case.retries.take():
        pass
    assert case.fails(a, failure(K.SERVER)) is not None


def test_without_budget_a_paused_channel_is_not_a_second_attempt() -> None:
    a, b = route("a"), route("b")
    case = Case(a, b)
    case.health.note_failure(b.channel.id, K.RATE, "429", 60)
    while case.retries.take():
        pass
    assert case.fails(a, failure(K.AUTH)) is None


def test_after_a_fallback_that_came_first_the_requested_model_is_the_last_one_to_try() -> None:
    own, first, second = route("own"), route("first", "b"), route("second", "c")
    others = tuple(msgspec.structs.replace(entry(one), name=one.served.name) for one in (first, second))
    case = Case(own)
    case.asked = msgspec.structs.replace(entry(own), fallbacks=others)
    case.tries = RetryState(case.asked, "b")
    steps = [case.fails(one, failure(K.SERVER, status=404)) for one in (first, second)]
    assert [step and step.route for step in steps] == [second, own]


def paused_fallbacks(own: Route, *lent: Route) -> Case:
    """A call without a retry budget, and fallbacks whose channels are paused."""
    case = Case(own)
    others = tuple(msgspec.structs.replace(entry(one), name=one.served.name) for one in lent)
    case.asked = msgspec.structs.replace(entry(own), fallbacks=others)
    case.tries = RetryState(case.asked, case.asked.name)
    for one in lent:
        case.health.note_failure(one.channel.id, K.RATE, "429", 60)
    while case.retries.take():
        pass
    return case


def test_without_budget_only_one_of_the_fallbacks_at_paused_channels_is_tried() -> None:
    """A call of that fallback itself would be tried there, too."""
    own, lent = route("a"), [route(name, model=f"m{name}") for name in "bcdef"]
    case = paused_fallbacks(own, *lent)
    step = case.fails(own, failure(K.AUTH))
    assert step is not None
    assert "last resort" in step.reason
    assert case.fails(step.route, failure(K.SERVER)) is None


def test_without_budget_a_fallback_is_not_tried_at_a_paused_channel_that_has_failed_this_call() -> None:
    own, well = route("a"), route("b", model="mb")
    case = paused_fallbacks(own, well, route("a", model="ma"))
    case.health.clear(well.channel.id)
    case.health.note_failure(own.channel.id, K.RATE, "429", 60)
    step = case.fails(own, failure(K.SERVER))
    assert step is not None
    assert step.route.channel.name == "b"
    assert case.fails(well, failure(K.SERVER)) is None


def test_a_model_whose_paused_channels_waited_for_others_is_not_tried_again_where_it_failed() -> None:
    failed, paused, other = route("a"), route("b"), route("c", model="mc")
    case = Case(failed, paused)
    fallback = msgspec.structs.replace(entry(other), name="mc")
    asked = msgspec.structs.replace(case.asked, fallbacks=(fallback,))
    case.tries = RetryState(asked, asked.name)
    case.health.note_failure(paused.channel.id, K.RATE, "429", 60)
    steps = [case.fails(tried, failure(K.SERVER, status=404)) for tried in (failed, other)]
    assert [step.route.channel.name for step in steps if step is not None] == ["c", "b"]


def test_what_repeats_a_broken_stream_is_known_once_and_for_a_few_seconds() -> None:
    mono = Mono()
    broken = BrokenStreams(mono)
    streamed, plain, other = ask(stream=True), ask(max_tokens=5), ask(messages=[{"role": "user", "content": "Hm?"}])
    broken.note("tok_1", streamed)
    mono.now += 5
    assert not broken.is_repetition("tok_2", plain)
    assert not broken.is_repetition("tok_1", other)
    assert broken.is_repetition("tok_1", plain)
    assert not broken.is_repetition("tok_1", plain)
    broken.note("tok_1", streamed)
    mono.now += 5 + 0.1
    assert not broken.is_repetition("tok_1", plain)


def test_few_broken_streams_are_kept() -> None:
    broken = BrokenStreams(Mono())
    for number in range(MAX_FAILURES + 1):
        broken.note(str(number), ask())
    assert not broken.is_repetition("0", ask())
    assert broken.is_repetition("1", ask())
