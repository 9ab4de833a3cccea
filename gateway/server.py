"""Server: puts the parts of the gateway together, starts them, and ends them. The only file that knows them all."""

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path

import msgspec
from aiohttp import web

from gateway import frozen, runfile
from gateway.config import Config
from gateway.control import machine, model_lists, tokens, validation
from gateway.control.app import control_app, control_runner
from gateway.core.admission import today_of
from gateway.core.attempts import Attempts
from gateway.core.auth import new_id, new_key
from gateway.core.channel_health import ChannelHealth
from gateway.core.channel_limits import ChannelLimits
from gateway.core.chooser import Chooser
from gateway.core.clock import Clock
from gateway.core.engine import Engine
from gateway.core.event_bus import EventBus
from gateway.core.first_run import first_changes, first_token, is_fresh
from gateway.core.live_calls import CallDeadlines, LiveCalls
from gateway.core.open_files import OpenFiles, raise_file_limit
from gateway.core.preparation import Preparer, Worker, share_fairly
from gateway.core.progress import ProgressReporter
from gateway.core.ratelimit import Limiter
from gateway.core.retry import RetryBudget
from gateway.core.store_watch import StoreWatch
from gateway.core.tasks import Tasks
from gateway.domain.views import Step
from gateway.runfile import Endpoint
from gateway.store.errors import cannot_open
from gateway.store.files import Folder, ordinary_path
from gateway.store.store import Store
from gateway.upstream.learned_params import LearnedParams
from gateway.upstream.redaction.redaction import clean_logs
from gateway.upstream.upstreams import Upstreams
from gateway.v1.endpoints import APIS
from gateway.v1.ports import drain, open_ollama_port, open_public_port

_log = logging.getLogger("tollkeeper")


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a server reports once it answers."""

    address: str
    """The base URL of the public port."""
    key: str
    """The key of the first token, if it was just made; empty if the home had tokens."""
    token: str
    """The name of the first token."""
    model: str
    """A model that the first token sees."""
    notes: list[str]
    """Who can reach the gateway from elsewhere, and what was repaired when the store was opened."""


def run(config: Config, ready: Callable[[Welcome], None]) -> int:
    """Serve until stopped. Returns the exit code of the process. ``ready`` is called once the public port answers."""
    log = logging.StreamHandler()
    log.setFormatter(logging.Formatter("{asctime} {levelname}: {message}", "%Y-%m-%d %H:%M:%S", style="{"))
    logging.getLogger().addHandler(log)
    if sys.platform == "win32":
        return asyncio.run(serve(config, ready=ready))
    import uvloop  # noqa: PLC0415 - Windows lacks it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config, ready=ready))


async def serve(config: Config, *, ready: Callable[[Welcome], None]) -> int:
    """Serve until a signal or the owner's API says stop. Returns 0, or 1 if the store failed. Raises GatewayError."""
    _protect_secrets()
    frozen.lock_own_folder()  # the lock ends with the process
    share_fairly()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(config))
        stop_requests = _StopRequests()
        public_port = await stack.enter_async_context(open_public_port(engine, config))
        await stack.enter_async_context(open_ollama_port(engine))
        endpoint = await stack.enter_async_context(_open_control(engine, config))
        folder = engine.store.folder.path
        stack.callback(runfile.remove, folder / config.runfile.name, engine.instance)
        try:
            runfile.write(folder / config.runfile.name, endpoint)
            runfile.replace_file(folder / config.last_address.name, engine.address.encode() + b"\n")
        except OSError as exc:  # the disk is full
            raise cannot_open(config.home, exc) from exc
        key = _fill_home(engine)  # last, because the key of a first token is shown only once
        engine.on_stop = stop_requests.request
        stop_requests.handle_signals()
        engine.tasks.spawn(_follow_parent(stop_requests), "the outer process")
        engine.tasks.spawn(_watch_folder(engine.store.folder, config.home, stop_requests), "the data folder")
        engine.tasks.spawn(model_lists.keep_fresh(engine), "lists of models")
        engine.tasks.spawn(tokens.delete_ended(engine), "tokens of programs")
        gc.collect()
        gc.freeze()  # these objects live as long as the server: the collector need not visit them while calls run
        gc.set_threshold(3_000, 20, 50)  # calls leave no cycles
        ready(_welcome(engine, config, key))
        await stop_requests.requested.wait()
        await drain(engine, public_port, config.drain_s, stop_requests.at_once)
        return 0 if engine.store.books.healthy and not engine.store.folder.missing_reason else 1


@asynccontextmanager
async def embedded_server(config: Config, *, listen: bool = False) -> AsyncIterator[Endpoint]:
    """Run the owner's API in this process, for one command, when no server runs; with ``listen`` the public port too.

    It holds the store's lock like a server, but writes no runfile, so that no other program finds it.
    """
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(config))
        for note in engine.store.notes:  # repairs are always reported
            _log.warning("%s", note)
        if changes := first_changes(engine.catalog.registry, engine.now()):
            engine.change(changes)
        if listen:
            local = msgspec.structs.replace(config, host="127.0.0.1", port=0)
            await stack.enter_async_context(open_public_port(engine, local))
        yield await stack.enter_async_context(_open_control(engine, config))


def machine_checks(config: Config) -> list[Step]:
    """Returns the doctor's checks of the machine, which are possible if the store cannot be opened."""
    return machine.check_machine(config, "")


def _fill_home(engine: Engine) -> str:
    """Fill an empty home. Returns the key of the first token, if it was made; else nothing."""
    now = engine.now()
    registry = engine.catalog.registry
    changes, key = first_changes(registry, now), ""
    if engine.config.first_token and not registry.tokens and (is_fresh(registry) or "default" in registry.groups):
        key = new_key()
        changes.append(first_token(key, new_id("tok"), now))
    if changes:
        engine.change(changes)
    return key


@asynccontextmanager
async def open_engine(
    config: Config, *, clock: Clock | None = None, deadlines: CallDeadlines | None = None
) -> AsyncIterator[Engine]:
    """Open all parts except for the two APIs, in order. They are closed in the reverse order."""
    clock, tasks = clock or Clock(), Tasks()
    store = Store(config, now=clock.wall, check=validation.check_registry)
    files = OpenFiles(lambda: store.entities.registry.settings, raise_file_limit())
    upstreams = Upstreams(max_connections=files.upstreams)
    with clean_logs(upstreams.redaction):
        try:
            live = LiveCalls(clock.mono, tasks, deadlines or CallDeadlines())
            engine = Engine(
                config=config,
                store=store,
                tasks=tasks,
                live=live,
                upstreams=upstreams,
                files=files,
                attempts=_make_attempts(store, upstreams, live, clock),
                apis=APIS,
            )
            with closing(StoreWatch(store, str(config.home), engine.report_store)):
                yield engine
            engine.pipeline.refusals.close()
            engine.incident_watch.refresh()
            engine.incident_watch.save()
            engine.bus.close()
        finally:
            await tasks.close()
            await upstreams.close()
            store.close()


def _make_attempts(store: Store, upstreams: Upstreams, live: LiveCalls, clock: Clock) -> Attempts:
    """Returns the part that makes the attempts of calls, and lets ``live`` report the progress of its calls."""
    bus = EventBus()
    progress = ProgressReporter(bus, store.books)
    live.report = progress.report_output
    limiter = Limiter(clock.mono, today_of(store.books, clock.wall))
    return Attempts(
        sender=upstreams,
        preparer=Preparer(LearnedParams(), Worker(), clock.wall),
        chooser=Chooser(
            health=ChannelHealth(
                clock.mono, bus.publish_change, lambda channel: store.books.held(("channel", channel)).calls
            ),
            draw=secrets.SystemRandom().randrange,
            retries=RetryBudget(clock.mono, live.calls.__len__),
            channel_limits=ChannelLimits(limiter, progress),
            mono=clock.mono,
        ),
        progress=progress,
        clock=clock,
    )


@asynccontextmanager
async def _open_control(engine: Engine, config: Config) -> AsyncIterator[Endpoint]:
    """Open the owner's API at a Unix socket that only this user can reach, or at a loopback port if the system has no
    Unix sockets. Raises StoreError if another file is in the socket's place.
    """
    secret = secrets.token_urlsafe(32)
    runner = control_runner(control_app(engine, secret))
    await runner.setup()
    socket_file = engine.store.folder.path / "control.sock"
    bound: os.stat_result | None = None
    try:
        port = 0
        if config.socket is not None:
            socket_file.unlink(missing_ok=True)  # left by a killed server; the lock says it is not in use
            await web.UnixSite(runner, str(socket_file)).start()
            socket_file.chmod(0o600)
            bound = socket_file.lstat()
        else:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
    except OSError as exc:
        await runner.cleanup()
        raise cannot_open(config.home, exc) from exc
    try:
        yield Endpoint(
            instance=engine.instance,
            secret=secret,
            socket=str(config.socket or ""),
            port=port,
            address=engine.address,
            host_option=engine.config.host,
            pid=os.getpid(),
            starter=config.starter,
            home=str(config.home.resolve()),
        )
    finally:
        await runner.cleanup()
        with suppress(FileNotFoundError):
            if bound is not None and os.path.samestat(socket_file.lstat(), bound):  # it is still ours
                socket_file.unlink()


class _StopRequests:
    """Requests to stop a server. The first one lets its calls end; a later one may end them at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()

    def request(self, now: bool) -> None:  # noqa: FBT001 - its only parameter
        """Begin to stop. ``now``: without waiting for calls."""
        if now:
            self.at_once.set()
        self.requested.set()

    def _on_signal(self) -> None:
        self.request(self.requested.is_set())

    def handle_signals(self) -> None:
        """Let SIGTERM, SIGINT and SIGHUP stop the server."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                loop.add_signal_handler(number, self._on_signal)
            except NotImplementedError:  # Windows: only from the interpreter's own handler
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._on_signal))


async def _follow_parent(stop_requests: _StopRequests) -> None:
    """Stop when the outer process of a one-file executable was killed, because nothing else could stop this one."""
    await frozen.wait_for_parent_exit()
    stop_requests.request(False)


async def _watch_folder(folder: Folder, home: Path, stop_requests: _StopRequests) -> None:
    """Stop when two checks find that the path of the data folder leads elsewhere: no client finds this server then."""
    missing_checks = 0
    while missing_checks < 2:
        await asyncio.sleep(1.0)
        missing_checks = missing_checks + 1 if folder.missing_reason else 0
    place = ordinary_path(folder.path / "config.json").parent
    now = f"it is {place} now" if place.is_dir() else "it is gone, and with it the records of its calls"
    _log.error(
        "the data folder %s %s: %s. This server stops when its calls have ended", home, folder.missing_reason, now
    )
    stop_requests.request(False)


def _welcome(engine: Engine, config: Config, key: str) -> Welcome:
    """Returns the report of a server that answers. ``key`` is the first token's, if it was just made."""
    registry = engine.catalog.registry
    token = next(iter(registry.tokens.values()), None) if key else None
    notes = list(engine.store.notes)
    if config.host not in ("127.0.0.1", "localhost", "::1"):
        notes.insert(0, f"this gateway listens on {config.host}: other machines can reach it with a token")
    return Welcome(
        address=engine.address,
        key=key,
        token=token.name if token is not None else "",
        model=next(iter(engine.catalog.visible(token)), "") if token is not None else "",
        notes=notes,
    )


def _protect_secrets() -> None:
    """Make new files private, and switch off core dumps, which would contain keys."""
    os.umask(0o077)
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - Windows lacks it

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
