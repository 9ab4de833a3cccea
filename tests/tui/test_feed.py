import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from textual.message import Message

from gateway.domain.errors import Unavailable
from gateway.domain.events import AnyEvent, CallSettled, Snapshot
from tests.tui.stage import FakeClient, FakeLauncher, call, calls
from tui.feed import ConsoleFeed
from tui.session import AttachedServer

M = TypeVar("M", bound=Message)


class Inbox:
    """What was posted; waiting for more is bounded."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue()

    async def next(self, kind: type[M]) -> M:
        async with asyncio.timeout(30):
            while not isinstance(message := await self.queue.get(), kind):
                pass
        return message


@asynccontextmanager
async def running(launcher: FakeLauncher) -> AsyncIterator[tuple[ConsoleFeed, Inbox]]:
    inbox = Inbox()
    feed = ConsoleFeed(launcher, inbox.queue.put_nowait)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(feed.run())
        yield feed, inbox
        task.cancel()


async def test_it_attaches_and_gives_the_snapshot() -> None:
    async with running(FakeLauncher(FakeClient(calls(3)))) as (feed, inbox):
        assert (await inbox.next(AttachedServer)).client.endpoint.starter == "here"
        await inbox.next(ConsoleFeed.EventsReady)
        assert [type(event) for event in feed.take_events()] == [Snapshot]


async def test_a_server_that_runs_already_is_not_said_to_be_started() -> None:
    launcher = FakeLauncher(FakeClient())
    async with running(launcher) as (_, inbox):
        assert isinstance(await inbox.next(Message), ConsoleFeed.Starting)
    launcher.started = True
    async with running(launcher) as (_, inbox):
        joined = await inbox.next(Message)
        assert isinstance(joined, AttachedServer)


async def test_many_events_are_one_message_until_they_are_taken() -> None:
    client = FakeClient()
    async with running(FakeLauncher(client)) as (feed, inbox):
        await inbox.next(ConsoleFeed.EventsReady)
        feed.take_events()
        client.tell(*(CallSettled(call=call(i)) for i in range(50)))
        await inbox.next(ConsoleFeed.EventsReady)
        await asyncio.sleep(0)
        taken: list[AnyEvent] = feed.take_events()
        assert len(taken) == 50
        assert inbox.queue.empty()


async def test_a_server_that_goes_away_is_lost_and_found_again() -> None:
    client = FakeClient()
    async with running(FakeLauncher(client)) as (_, inbox):
        await inbox.next(ConsoleFeed.EventsReady)
        client.end()
        lost = await inbox.next(ConsoleFeed.Disconnected)
        assert (lost.reason, lost.fatal) == ("it stopped", None)
        assert (await inbox.next(AttachedServer)).client is client


async def test_a_server_is_started_again_when_asked() -> None:
    client = FakeClient()
    launcher = FakeLauncher(client)
    async with running(launcher) as (feed, inbox):
        await inbox.next(ConsoleFeed.EventsReady)
        launcher.findable = False
        client.end()
        await inbox.next(ConsoleFeed.Disconnected)
        feed.start_requested.set()
        assert (await inbox.next(AttachedServer)).client.endpoint.starter == "here"


async def test_no_server_at_the_beginning_is_fatal() -> None:
    launcher = FakeLauncher(FakeClient())
    launcher.there = False
    inbox = Inbox()
    await ConsoleFeed(launcher, inbox.queue.put_nowait).run()
    assert isinstance((await inbox.next(ConsoleFeed.Disconnected)).fatal, Unavailable)
