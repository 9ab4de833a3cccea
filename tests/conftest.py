"""Fixtures: a provider, a gateway in front of it, and the law that every test with a gateway must leave intact."""

import asyncio
import gc
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from gateway.core.live_calls import CallDeadlines
from tests.fakes import law
from tests.fakes.clock import HastyLoop
from tests.fakes.gateway import HASTE, Gateway, running
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.house import FULL, amount

LONGEST_ID = 80
"""Characters of one value in a test's name."""
MEMORY_FOLDER = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30
"""Bytes. A home takes about one megabyte, and is removed when its test has passed."""


def pytest_configure(config: pytest.Config) -> None:
    """Our own marker; examples take the time they need, on a busy machine as well; ctrl-c reaches programs under test.

    A shell starts what it puts in the background with SIGINT ignored, and programs started from there inherit that.
    The garbage collector is off during collection, which makes a million objects and frees none.
    Nothing is forced onto the disk: what a test writes outlives its process, and no power is cut. Starts of a gateway
    would wait for the disk a dozen times each. Programs under test do it, and so do all with TOLLKEEPER_FULL=1.
    For the same reason folders of tests are in memory where it has room: on ext4, replacing a file waits for the disk.
    """
    gc.disable()
    if not FULL:
        os.fsync = os.fdatasync = os.fstat  # type: ignore[assignment]
        if MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > MEMORY_NEEDED:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "sampled(count): so many of its cases run, with TOLLKEEPER_FULL=1 all")
    config.addinivalue_line("markers", "long: takes many seconds and begins first")
    config.addinivalue_line("markers", "every_frame: the console draws what nobody sees, too")
    config.addinivalue_line("markers", "hasty(factor): loop time runs faster than the wall's")
    settings.register_profile("unhurried", deadline=None, max_examples=amount(40, 100))
    settings.load_profile("unhurried")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Long values are cut in names: a report of each test carries its name from process to process."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_ID:
        return None
    start = val[:40] if isinstance(val, str) else val[:40].decode("latin-1")
    return f"{start.encode('unicode_escape').decode()}... ({len(val)})"


def pytest_collection_finish() -> None:
    """What was collected stays until the end, so the collector need not look at it after each of many tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each test marked ``sampled(count)`` keep so many cases, evenly spread; all with TOLLKEEPER_FULL=1."""
    if os.environ.get("TOLLKEEPER_FULL"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped = set()
    for same in cases.values():
        marker = same[0].get_closest_marker("sampled")
        assert marker is not None
        count = min(marker.args[0], len(same))
        kept = {number * len(same) // count for number in range(count)}
        dropped |= {item for number, item in enumerate(same) if number not in kept}
    config.hook.pytest_deselected(items=list(dropped))
    kept_items = [item for item in items if item not in dropped]
    items[:] = _ordered(kept_items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _ordered(items: Iterable[pytest.Item], workers: int) -> list[pytest.Item]:
    """The order in which tests run: those marked ``long`` first, for one that begins last keeps a core idle.

    xdist gives each of several workers an equal part of the list, so each part begins with its share of the long ones.
    The files are in no order then: tests that wait, such as those of screens, run beside others.
    """
    every = sorted(items, key=_place) if workers > 1 else [*items]
    long = [item for item in every if item.get_closest_marker("long")]
    others = [item for item in every if not item.get_closest_marker("long")]
    ordered: list[pytest.Item] = []
    for number in range(workers):
        size = (len(every) - len(ordered)) // (workers - number)
        share = long[number::workers]
        count = max(0, size - len(share))
        ordered += share + others[:count]
        others = others[count:]
    return ordered + others


def _place(item: pytest.Item) -> int:
    """The tests of a file stay together, and all that need the libraries of vendors, whose import takes seconds."""
    name = item.location[0]
    return crc32(b"conformance" if name.startswith("tests/conformance/") else name.encode())


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The usual event loop, or a hasty one where a test asks for it."""
    marker = item.get_closest_marker("hasty")
    return {"hasty": partial(HastyLoop, *marker.args)} if marker else {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """An upstream that answers model ``m`` well, unless it has other scripts."""
    async with Provider().running() as upstream:
        upstream.usual = speak()
        yield upstream
    assert upstream.faults == []


@pytest.fixture(params=[False, True], ids=["plain", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether calls are streamed: such a test runs for both."""
    return bool(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    return tmp_path / "home"


@pytest.fixture
def patience() -> CallDeadlines:
    """How long the gateway waits; to be overridden where a test is about waiting."""
    return CallDeadlines()


@pytest.fixture
def haste() -> float:
    """How many times shorter the pauses between attempts are than real ones."""
    return HASTE


@pytest.fixture
async def gateway(home: Path, provider: Provider, patience: CallDeadlines, haste: float) -> AsyncIterator[Gateway]:
    """A gateway whose channel ``up`` leads to the provider and serves model ``m``, which has a price.

    The law is checked when the test is over.
    """
    ajar = law.Ajar()
    async with running(home, patience=patience, haste=haste) as running_gateway:
        running_gateway.channel(provider.base_url)
        running_gateway.price()
        yield running_gateway
        await running_gateway.settled(0)
        assert law.breaches(running_gateway, [provider]) == []
    assert law.on_disk(home) == []
    await ajar.closed()
