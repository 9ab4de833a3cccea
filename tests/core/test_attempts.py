"""A call goes from channel to channel by rule, and its client gets the most of what was learned."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.answer_memory import UNCOUNTED
from gateway.core.attempts import SLICE
from gateway.domain.answer import Buffer
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Timeouts
from gateway.domain.errors import BadRequest, NoChannel, NotFound, Unavailable, UpstreamError
from gateway.domain.failure import AttemptFailed
from gateway.upstream import dialects, failures
from tests.core.ends import (
    DONE,
    GOOD_STREAM,
    Behaviour,
    FakeReply,
    counts,
    ends,
    error_body,
    event,
    says,
    too_slow,
    unreachable,
    unset,
    whole,
)
from tests.core.rig import Rig, until


def good() -> FakeReply:
    return FakeReply(whole())


def good_stream() -> FakeReply:
    return FakeReply(*GOOD_STREAM)


def status(number: int, message: str = "it broke", **fields: Any) -> Callable[[], FakeReply]:
    return lambda: FakeReply(error_body(message, **fields), status=number)


def channels(rig: Rig, *behaviours: Callable[[], Behaviour] | Callable[[Channel], Behaviour]) -> None:
    """Channels a, b, c ... in this order of priority; a behaviour of one parameter is given its channel."""
    for number, behaviour in enumerate(behaviours):
        made = rig.channel("abcdefgh"[number], priority=-number)
        if behaviour in (unreachable, too_slow, unset):
            rig.upstreams.on(made.name, lambda made=made, behaviour=behaviour: behaviour(made))  # type: ignore[misc]
        else:
            rig.upstreams.on(made.name, behaviour)  # type: ignore[arg-type]


async def failure(rig: Rig, **fields: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await rig.call(**fields)
    return caught.value


def kinds(rig: Rig) -> list[str]:
    return [attempt.kind or "" for attempt in rig.record.attempts]


async def test_a_good_answer_needs_one_attempt(rig: Rig) -> None:
    channels(rig, good, good)
    await rig.call()
    assert rig.upstreams.order == ["a"]
    assert [(a.channel, a.status, a.kind, a.billed) for a in rig.record.attempts] == [("a", 200, None, False)]
    assert rig.upstreams.replies[0].end == "released"


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (unreachable, "network"),
        (too_slow, "slow"),
        (status(500), "server"),
        (status(503), "server"),
        (status(401), "auth"),
        (status(403), "auth"),
        (status(402), "quota"),
        (status(429), "rate"),
        (status(429, code="insufficient_quota"), "quota"),
        (status(404, code="model_not_found"), "missing"),
        (status(302), "server"),
        (status(408), "slow"),
        (lambda: FakeReply(b"<html>busy</html>"), "server"),
        (lambda: FakeReply(b""), "server"),
        (lambda: FakeReply(error_body(code=500)), "server"),
    ],
    ids=lambda value: value if isinstance(value, str) else "so",
)
async def test_the_next_channel_answers_when_one_fails(rig: Rig, behaviour: Any, kind: str, stream: bool) -> None:
    channels(rig, behaviour, good_stream if stream else good)
    await rig.call(stream=stream)
    assert rig.upstreams.order == ["a", "b"]
    assert (rig.record.status, rig.record.channel_name, kinds(rig)) == (200, "b", [kind, ""])


async def test_the_next_channel_answers_when_one_knows_the_path_of_neither_api(rig: Rig) -> None:
    channels(rig, status(404), good)
    await rig.call()
    paths = [prepared.url.rpartition("/")[2] for _, prepared in rig.upstreams.asked]
    assert paths == ["completions", "responses", "completions"]
    assert (rig.record.status, rig.record.channel_name, kinds(rig)) == (200, "b", ["server", ""])


@pytest.mark.parametrize("number", [400, 413, 415, 422])
async def test_the_clients_own_mistake_is_tried_nowhere_else(rig: Rig, number: int) -> None:
    channels(rig, status(number, "no such thing", code="bad_value"), good)
    error = await failure(rig)
    assert (error.status, error.code, rig.upstreams.order) == (number, "bad_value", ["a"])
    assert "no such thing" in error.message
    assert rig.record.status == number


async def test_a_slow_attempt_that_was_saved_elsewhere_is_marked_as_perhaps_billed(rig: Rig) -> None:
    channels(rig, too_slow, good)
    await rig.call()
    assert [attempt.billed for attempt in rig.record.attempts] == [True, False]
    assert rig.record.cost > 0


async def test_the_only_channel_is_tried_once_more_after_a_pause(rig: Rig) -> None:
    channels(rig, status(500))
    rig.upstreams.on("a", status(500), good)
    answer = await rig.call()
    assert (rig.upstreams.order, rig.watch.slept, kinds(rig)) == (["a", "a"], [0.5], ["server", ""])
    assert answer.headers["x-gateway-attempts"] == "2"
    assert answer.headers["x-gateway-route"] == "retried after 0.5 s"


async def test_a_client_that_left_while_its_call_paused_is_not_answered(rig: Rig) -> None:
    channels(rig, good)

    def broken() -> FakeReply:
        rig.client.gone = True
        return FakeReply(error_body(), status=500)

    rig.upstreams.on("a", broken, good)
    await failure(rig)
    assert rig.upstreams.order == ["a"]


async def test_no_attempt_begins_after_the_total_deadline(rig: Rig) -> None:
    rig.channel("a", timeouts=Timeouts(total=0.4))
    rig.upstreams.on("a", status(500), good)
    await failure(rig)
    assert (rig.upstreams.order, rig.watch.slept) == (["a"], [])


@pytest.mark.parametrize(
    ("behaviours", "code", "tried"),
    [
        ((status(500), status(429)), "upstream_rate_limited", "ab"),
        ((status(429), status(500)), "upstream_rate_limited", "ab"),
        ((unreachable, status(503)), "upstream_overloaded", "ab"),
        ((status(401), status(500)), "upstream_auth_failed", "ab"),
        ((status(500), status(402)), "upstream_out_of_credit", "ab"),
        ((status(429), status(401)), "upstream_auth_failed", "ab"),
        ((status(500), status(400, code="bad_value")), "bad_value", "ab"),
        ((unreachable, too_slow), "upstream_timeout", "ab"),
        ((status(503), unset), "upstream_overloaded", "aba"),
        ((unset, unreachable), "upstream_unreachable", "abb"),
    ],
)
async def test_the_most_telling_failure_is_reported(
    rig: Rig, behaviours: tuple[Any, ...], code: str, tried: str
) -> None:
    channels(rig, *behaviours)
    error = await failure(rig)
    assert error.code == code
    assert "[attempts: a: " in error.message
    assert [a["channel"] for a in error.details["attempts"]] == [*tried]  # type: ignore[attr-defined]


async def test_one_attempt_is_not_listed_in_the_message(rig: Rig) -> None:
    channels(rig, status(403))
    error = await failure(rig)
    assert "[attempts" not in error.message
    assert json.loads(json.dumps(error.details["attempts"]))[0]["status"] == 403


async def test_the_reason_of_an_attempt_and_of_a_pause_does_not_repeat_the_channels_name(rig: Rig) -> None:
    up = rig.channel("a", answer=status(429, "slow down"))
    await failure(rig)
    assert rig.record.attempts[0].reason == "the upstream is limiting the rate: slow down"
    assert rig.health.state(up).reason == "the upstream is limiting the rate: slow down"


async def test_if_every_channel_needs_attention_the_reasons_are_reported(rig: Rig) -> None:
    channels(rig, status(401))
    await failure(rig)
    with pytest.raises(NoChannel, match="a: needs attention") as caught:
        await rig.call()
    assert (caught.value.retry_after_s, len(rig.upstreams.order)) == (None, 1)


async def test_a_missing_model_is_paused_alone(rig: Rig) -> None:
    rig.channel("a", "m", "n")
    rig.upstreams.on("a", status(404, code="model_not_found"), good)
    error = await failure(rig)
    assert (error.code, error.param) == ("model_not_found", "model")
    assert (await rig.call("n")).body
    with pytest.raises(NotFound, match="does not have the model") as caught:
        await rig.call("m")
    assert (caught.value.http_status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (DONE,),
        (b": hello\n\n",),
        (event(error={"message": "overloaded", "code": 503}),),
        (b"data: {nonsense\n\n",),
        (b'{"error":{"message":"no"}}',),
        (event(choices=[]),),
    ],
    ids=["nothing", "done at once", "comment", "error event", "no json", "error body", "empty chunk"],
)
async def test_a_stream_that_fails_before_its_first_word_is_tried_elsewhere(rig: Rig, pieces: tuple[Any, ...]) -> None:
    channels(rig, lambda: FakeReply(*pieces), good_stream)
    await rig.call(stream=True)
    assert (rig.upstreams.order, rig.record.status) == (["a", "b"], 200)
    assert rig.client.body.count(b'"role"') == 1
    assert [head["x-gateway-channel"] for head in rig.client.heads] == ["b"]


@pytest.mark.parametrize("pieces", [(), (b": hello\n\n",)], ids=["nothing", "comment"])
async def test_a_stream_that_fails_before_its_first_word_proves_the_key(rig: Rig, pieces: tuple[bytes, ...]) -> None:
    channels(rig, status(401), good_stream)
    await rig.call(stream=True)
    rig.upstreams.on("a", lambda: FakeReply(*pieces))
    rig.watch.advance(3600)
    await rig.call(stream=True)
    assert rig.upstreams.order == ["a", "b", "a", "b"]
    assert rig.health.state(rig.catalog.channel("a")).name == "ok"


async def test_a_stream_that_fails_after_its_first_word_is_tried_nowhere(rig: Rig) -> None:
    def cut(channel: Channel) -> AttemptFailed:
        return AttemptFailed(failures.unreachable(channel, "reset", sent=True))

    made = rig.channel("a", priority=1)
    rig.upstreams.on("a", lambda: FakeReply(says("Hello"), cut(made)))
    rig.channel("b", answer=good_stream)
    await rig.call(stream=True)
    assert (rig.upstreams.order, kinds(rig)) == (["a"], [FailureKind.CUT])
    assert rig.client.error is not None
    assert rig.upstreams.replies[0].end == "aborted"


async def test_a_failing_reply_is_closed(rig: Rig) -> None:
    channels(rig, status(500), good)
    await rig.call()
    assert [reply.end for reply in rig.upstreams.replies] in (["aborted", "released"], ["released", "released"])


async def test_a_refused_parameter_is_left_out_there_and_in_the_next_call(rig: Rig) -> None:
    refused = status(400, "Unsupported parameter: 'seed'", code="unsupported_parameter", param="seed")
    rig.channel("a")
    rig.upstreams.on("a", refused, good)
    answer = await rig.call(seed=7)
    assert rig.upstreams.order == ["a", "a"]
    sent = [json.loads(prepared.body) for _, prepared in rig.upstreams.asked]
    assert ["seed" in body for body in sent] == [True, False]
    assert answer.headers["x-gateway-dropped-params"] == "seed"
    assert "dropped=seed" in rig.record.marks
    assert len(rig.record.attempts) == 1
    await rig.call(seed=7)
    assert rig.upstreams.order == ["a", "a", "a"]


async def test_it_is_left_out_once_and_not_again_and_again(rig: Rig) -> None:
    refused = status(400, "Unsupported parameter: 'seed'", code="unsupported_parameter", param="seed")
    rig.channel("a", answer=refused)
    assert ((await failure(rig, seed=7)).status, rig.upstreams.order) == (400, ["a", "a"])


async def test_what_a_dialect_cannot_say_was_never_sent(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BadRequest("no audio here", code="unsupported_parameter", param="audio")

    channels(rig, good)
    monkeypatch.setattr(dialects.new_adapter(rig.channel("a").dialect).__class__, "prepare", refuse)
    with pytest.raises(UpstreamError, match="channel 'a' cannot take this request: no audio here"):
        await rig.call()
    assert (rig.record.status, rig.record.possible, rig.upstreams.order) == (400, 0, [])
    assert not rig.record.attempts[0].billed


async def test_lone_surrogates_reach_an_upstream_that_needs_no_change(rig: Rig) -> None:
    rig.channel("a", answer=good)
    await rig.call(messages=[{"role": "user", "content": "cut \ud83d"}])
    assert b"cut \\ud83d" in rig.upstreams.asked[0][1].body


async def test_headers_of_a_failed_attempt_are_not_those_of_the_answer(rig: Rig) -> None:
    limited = {"retry-after": "30", "x-ratelimit-remaining-requests": "0", "x-request-id": "up-1"}
    made = rig.channel("a", priority=1)
    rig.upstreams.on("a", lambda: FakeReply(error_body(), status=429, headers=limited))
    rig.channel("b", answer=good)
    headers = (await rig.call()).headers
    assert headers["x-gateway-channel"] == "b"
    assert headers["x-gateway-attempts"] == "2"
    assert not {"retry-after", "x-ratelimit-remaining-requests", "x-upstream-request-id"} & set(headers)
    assert rig.health.state(made).left_s == 30


async def test_the_order_of_events_is_kept_and_none_is_held_back(rig: Rig) -> None:
    seen: list[int] = []
    rig.channel("a")
    look = lambda: seen.append(rig.client.body.count(b"data:"))  # noqa: E731
    rig.upstreams.on("a", lambda: FakeReply(says("1"), look, says("2"), look, ends(), look, counts(1, 2), look, DONE))
    await rig.call(stream=True)
    assert seen == [1, 2, 3, 3]


async def test_a_slow_client_slows_the_upstream_down(rig: Rig) -> None:
    """Back-pressure: nothing more is read while a write waits."""
    read: list[int] = []
    rig.channel("a")
    pieces: list[Any] = []
    for number in range(5):
        pieces += [says("x"), lambda n=number: read.append(n)]
    rig.upstreams.on("a", lambda: FakeReply(*pieces, ends(), DONE))
    rig.client.reading.clear()
    task = rig.start(stream=True)
    await rig.pass_time(1)
    assert read == []
    rig.client.reading.set()
    await task
    assert read == [0, 1, 2, 3, 4]


async def test_without_an_open_file_for_an_upstream_no_channel_is_at_fault(rig: Rig) -> None:
    first = rig.channel("a", priority=1)
    rig.channel("b")
    rig.upstreams.on("a", lambda: Unavailable("no connection can be opened"))
    with pytest.raises(Unavailable) as caught:
        await rig.call()
    assert (caught.value.code, rig.record.status, rig.upstreams.order) == ("overloaded", 503, ["a"])
    assert (rig.record.cost, rig.record.possible, rig.health.state(first).name) == (0, 0, "ok")


async def test_what_one_read_brings_goes_out_in_one_write(rig: Rig) -> None:
    """A write wakes the client, and costs more than anything else that is done with the bytes."""
    channels(rig, lambda: FakeReply(says("x" * (UNCOUNTED - 1000)), ends(), DONE))
    sizes: list[int] = []
    write = rig.client.write

    async def watched(data: Buffer, *, last: bool = False) -> None:
        sizes.append(len(data))
        await write(data, last=last)

    rig.client.write = watched  # type: ignore[method-assign]
    await rig.call(stream=True)
    assert sizes[0] > UNCOUNTED - 1000


async def test_a_large_event_goes_slice_by_slice(rig: Rig) -> None:
    """A client that takes one slice after the other is not one that has stopped reading."""
    channels(rig, lambda: FakeReply(says("x" * (5 * SLICE)), ends(), DONE))
    rig.client.reading.clear()
    task = rig.start(stream=True)
    for _ in range(5):
        size = len(rig.client.body)
        rig.client.reading.set()
        await until(lambda size=size: len(rig.client.body) > size)  # type: ignore[misc]
        rig.client.reading.clear()
        assert len(rig.client.body) - size <= SLICE
    rig.client.reading.set()
    await task
    assert rig.client.body.endswith(DONE)
    assert len(rig.client.body) > 5 * SLICE
