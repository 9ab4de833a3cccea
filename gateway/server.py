"""Server: puts the parts together and owns their life. The only file that knows them all.

Long: every part is made, wired and ended here, and the order of that is the point.
"""

import asyncio
import errno
import gc
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec
from aiohttp import web

from gateway import __version__, frozen, runfile
from gateway.config import DEFAULT_HOST, SOCKET_PATH_LIMIT, Config
from gateway.control import machine, model_lists, tokens
from gateway.control.app import control_app, control_runner
from gateway.core.admission import today_of
from gateway.core.attempts import Attempts
from gateway.core.auth import Passes, new_call_id, new_id, new_key
from gateway.core.channel_health import ChannelHealth
from gateway.core.chooser import ChannelLimits, Chooser, StickyRoutes
from gateway.core.clock import Clock
from gateway.core.engine import Engine
from gateway.core.event_bus import EventBus
from gateway.core.first_run import first_changes, first_token, is_fresh
from gateway.core.live_calls import CallDeadlines, LiveCalls, ProgressReporter
from gateway.core.open_files import OpenFiles
from gateway.core.pipeline import Dependencies, Pipeline
from gateway.core.preparation import Preparer, Worker, share_fairly
from gateway.core.ratelimit import Limiter
from gateway.core.retry import RetryBudget
from gateway.core.settlement import Meter
from gateway.core.tasks import Tasks
from gateway.domain.call import Outcome
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.events import Stopping
from gateway.domain.text import word
from gateway.domain.units import Millis
from gateway.domain.views import Step
from gateway.runfile import Endpoint
from gateway.store.folder import Folder, ordinary
from gateway.store.store import Store
from gateway.upstream import dialects
from gateway.upstream.learned_params import LearnedParams
from gateway.upstream.redaction.redaction import LogFilter
from gateway.upstream.upstreams import Upstreams
from gateway.v1.app import PublicApp
from gateway.v1.endpoints import APIS
from gateway.v1.ollama_port import open_ollama_port
from gateway.web.connection import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.port_owner import free_port, port_owner

_log = logging.getLogger("tollkeeper")


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is reported once the server answers."""

    address: str
    """The base URL of /v1."""
    home: str
    key: str
    """The key of the first token, just created; empty if tokens existed."""
    token: str
    """That token's name."""
    models: list[str]
    """The models that this token sees."""
    open_to: str
    """Empty on loopback; otherwise a warning about who can reach the gateway."""
    notes: list[str]
    """What was repaired when the store was opened."""


LOG_LINE = "{asctime} {levelname}: {message}"
"""The format of log lines on stderr or in ``server.log``."""


def run(config: Config, ready: Callable[[Welcome], None]) -> int:
    """Serve until stopped. Returns the process's exit code. ``ready`` is called once /v1 answers."""
    log = logging.StreamHandler()
    log.setFormatter(logging.Formatter(LOG_LINE, "%Y-%m-%d %H:%M:%S", style="{"))
    logging.getLogger().addHandler(log)
    if sys.platform == "win32":
        return asyncio.run(serve(config, ready=ready))
    import uvloop  # noqa: PLC0415 - there is none on Windows

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config, ready=ready))


async def serve(config: Config, *, ready: Callable[[Welcome], None]) -> int:
    """Serve until a signal or the control surface says stop. Returns 0, or 1 if the store failed.

    Raises GatewayError when the store is in use or damaged, or the address is taken.
    """
    _harden()
    frozen.lock_own_folder()  # the lock ends with the process
    share_fairly()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(config))
        stop = _Stop()
        public_port = await stack.enter_async_context(open_public_port(engine, config))
        await stack.enter_async_context(open_ollama_port(engine))
        endpoint = await stack.enter_async_context(_control(engine, config, private=False))
        held = engine.store.folder.path
        runfile.write(held / config.runfile.name, endpoint)
        stack.callback(runfile.remove, held / config.runfile.name, engine.instance)
        runfile.keep_address(held / config.last_address.name, engine.address)
        key = _begin(engine)  # last, because the key of a first token is shown only once
        engine.stop_asked = stop.ask
        stop.on_signals()
        engine.tasks.spawn(_follow(stop), "the outer process")
        engine.tasks.spawn(_stay(engine.store.folder, config.home, stop), "the data folder")
        engine.tasks.spawn(model_lists.keep_fresh(engine), "lists of models")
        engine.tasks.spawn(tokens.delete_ended(engine), "tokens of programs")
        gc.collect()
        gc.freeze()  # these objects live for ever: the collector need not visit them on the hot path
        gc.set_threshold(3_000, 20, 50)  # calls leave no cycles
        ready(_welcome(engine, config, key))
        await stop.asked.wait()
        await public_port.drain(config.drain_s, stop.at_once)
        return 0 if engine.store.books.healthy and not engine.store.folder.misplaced else 1


@asynccontextmanager
async def embedded_server(config: Config, *, listen: bool = False) -> AsyncIterator[Endpoint]:
    """Run the control surface inside this process, for one command, when no server runs; ``listen``: /v1 as well.

    It holds the store's lock like a server, but leaves no runfile, so that nothing else finds it.
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
        yield await stack.enter_async_context(_control(engine, config, private=True))


def machine_checks(config: Config) -> list[Step]:
    """Returns what the doctor can find out about the machine if the store cannot be opened."""
    return machine.check_machine(config, "")


def _begin(engine: Engine) -> str:
    """Fill an empty home. Returns the key of the first token if it had none."""
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
    config: Config, *, clock: Clock | None = None, patience: CallDeadlines | None = None
) -> AsyncIterator[Engine]:
    """Open everything but the two surfaces, in order; it is closed in reverse."""
    clock, tasks = clock or Clock(), Tasks()
    store = Store.open(config, now=clock.wall)
    files = OpenFiles(partial(attrgetter("entities.registry.settings"), store))
    upstreams, worker = Upstreams(most=files.upstreams), Worker()
    log_filter = LogFilter(upstreams.redaction)
    log_filter.install()
    try:
        bus = EventBus()
        engine = Engine(
            config=config,
            store=store,
            clock=clock,
            tasks=tasks,
            bus=bus,
            passes=Passes(),
            health=ChannelHealth(clock.mono, bus.changed, lambda channel: store.books.held(("channel", channel)).calls),
            limiter=Limiter(clock.mono, today_of(store.books, clock.wall)),
            live=LiveCalls(clock.mono, tasks, patience or CallDeadlines()),
            lessons=LearnedParams(),
            upstreams=upstreams,
            files=files,
            worker=worker,
            make_pipeline=_pipeline,
        )
        engine.apis = APIS
        with engine.store_watched():
            yield engine
        engine.pipeline.refusals.close()
        engine.incident_watch.look()
        engine.incident_watch.save()
        bus.close()
    finally:
        await tasks.close()
        await upstreams.close()
        worker.close()
        store.close()
        log_filter.remove()


def _pipeline(engine: Engine) -> Pipeline:
    chance = secrets.SystemRandom()
    channel_limits, adapter_of = ChannelLimits(engine.limiter), dialects.adapters()
    progress = ProgressReporter(engine.bus, engine.store.books, engine.clock)
    engine.live.report = progress.report
    attempts = Attempts(
        sender=engine.upstreams,
        adapter_of=adapter_of,
        preparer=Preparer(engine.lessons, engine.worker, engine.clock.wall),
        health=engine.health,
        clock=engine.clock,
        progress=progress,
        chooser=Chooser(
            health=engine.health,
            draw=chance.randrange,
            retries=RetryBudget(engine.clock.mono, engine.live.__len__),
            channel_limits=channel_limits,
            sticky=StickyRoutes(engine.clock.mono),
        ),
        channel_limits=channel_limits,
    )
    return Pipeline(
        Dependencies(
            books=engine.store.books,
            catalog=partial(getattr, engine, "catalog"),
            passes=engine.passes,
            limiter=engine.limiter,
            attempts=attempts,
            meter=Meter(),
            live=engine.live,
            bus=engine.bus,
            answers=engine.answers,
            clock=engine.clock,
            worker=engine.worker,
        )
    )


class PublicPort:
    """The public port: accepts connections, keeps them, and runs their calls."""

    def __init__(self, engine: Engine, acceptor: Acceptor, listener: Listener) -> None:
        self._engine = engine
        self._acceptor = acceptor
        self._listener = listener

    async def drain(self, limit_s: float, at_once: asyncio.Event) -> None:
        """Accept nothing new, let running calls end, cut what is left with an error event; all of it is settled."""
        engine = self._engine
        engine.close_doors()
        self._acceptor.close()
        until = Millis(engine.now() + round(limit_s * 1000))
        engine.bus.tell(Stopping(until_ms=until, running=list(engine.store.books.running)))
        if limit_s and not at_once.is_set():
            await _unless(at_once, self._quiet(), limit_s)
        engine.live.cancel_all(Outcome.STOPPED)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.4):  # for streams that are cut to get their error event
                await self._quiet()
        await self._listener.shutdown(0.05)

    async def _quiet(self) -> None:
        """Wait until every answer is sent and no call runs. Some run on after their clients have left."""
        await self._listener.emptied()
        await self._engine.live.empty.wait()


async def _unless(event: asyncio.Event, work: Coroutine[object, object, None], limit_s: float) -> None:
    """Wait until the work is done, the event is set or the time is over."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(work), group.create_task(event.wait())]
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


@asynccontextmanager
async def open_public_port(engine: Engine, config: Config) -> AsyncIterator[PublicPort]:
    """Open the public port; at the end it is closed at once. Raises Conflict if it is taken, BadRequest for an unknown
    host.
    """
    surface = PublicApp(engine, config.host)
    limits = ConnectionLimits(partial(attrgetter("catalog.registry.settings"), engine), most=engine.files.clients)
    listener = Listener(surface.handle, limits, lambda: new_call_id(engine.clock.wall()))
    try:
        acceptor = Acceptor(listening(config.host, config.port), listener)
    except (UnicodeError, socket.gaierror) as error:
        msg = f"{config.host!a} is not an address of this machine; choose another with --host"
        raise BadRequest(msg, param="host") from error
    except OSError as error:
        raise _cannot_listen(config, error) from error
    surface.port = acceptor.port
    engine.address = f"http://{_reachable(config.host)}:{surface.port}/v1"
    engine.incident_watch.serving = True
    engine.connections = lambda: limits.open
    engine.tasks.spawn(acceptor.run(), "accepting connections")
    public_port = PublicPort(engine, acceptor, listener)
    try:
        yield public_port
    finally:
        await public_port.drain(0.0, asyncio.Event())


def _cannot_listen(config: Config, error: OSError) -> Conflict:
    """Returns the error: who has the port, and the command that starts this gateway at another one."""
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = f"{port_owner(config.port) or 'another program'} already listens there"
    other = free_port(config.host, config.port) or "PORT"
    where = f"--host {word(config.host)} " if config.host != DEFAULT_HOST else ""
    command = f"tollkeeper serve{config.home_option} {where}--port {other}"
    return Conflict(
        f"cannot listen on {config.host}:{config.port}: {why}; use another port: {command}", code="port_in_use"
    )


def _reachable(host: str) -> str:
    """Returns the host for the base URL."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


@asynccontextmanager
async def _control(engine: Engine, config: Config, *, private: bool) -> AsyncIterator[Endpoint]:
    """Open the control surface: a Unix socket that only this user can reach, or loopback TCP without Unix sockets."""
    secret = secrets.token_urlsafe(32)
    runner = control_runner(control_app(engine, secret))
    await runner.setup()
    path = _socket_path(config, engine.instance, private=private)
    held = engine.store.folder.path / path.name if path is not None else Path()
    bound: os.stat_result | None = None
    try:
        port = 0
        if path is not None:
            held.unlink(missing_ok=True)  # left by a killed server; the lock says it is not in use
            await web.UnixSite(runner, str(held)).start()
            held.chmod(0o600)
            bound = held.lstat()
        else:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
        yield Endpoint(
            instance=engine.instance,
            secret=secret,
            socket=str(path) if path is not None else "",
            port=port,
            address=engine.address,
            host_option=engine.config.host,
            pid=os.getpid(),
            version=__version__,
            started=engine.started,
            home=str(config.home.resolve()),
        )
    finally:
        await runner.cleanup()
        with suppress(FileNotFoundError):
            if bound is not None and os.path.samestat(held.lstat(), bound):  # not what somebody has put there since
                held.unlink()


def _socket_path(config: Config, instance: str, *, private: bool) -> Path | None:
    if config.socket is None or not private:
        return config.socket
    path = config.socket.with_name(f"control-{instance[:6]}.sock")
    return path if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT else None


class _Stop:
    """Requests to stop a server: the first one drains, a later one may end it at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self, now: bool) -> None:  # noqa: FBT001 - the one question there is
        """Begin to stop. Later requests change nothing, except with ``now``."""
        if now:
            self.at_once.set()
        self.asked.set()

    def on_signal(self) -> None:
        """A signal cannot say ``now``: one that comes while the server stops means it."""
        self.ask(self.asked.is_set())

    def on_signals(self) -> None:
        """SIGTERM, SIGINT and SIGHUP drain; another one while it stops ends it."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                loop.add_signal_handler(number, self.on_signal)
            except NotImplementedError:  # Windows: only from the interpreter's own handler
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self.on_signal))


async def _follow(stop: _Stop) -> None:
    """Stop when the outer process of a one-file executable was killed: nothing else could stop this one."""
    await frozen.wait_for_parent_exit()
    stop.ask(False)


async def _stay(folder: Folder, home: Path, stop: _Stop) -> None:
    """Stop when two checks find that the path of the data folder leads elsewhere: nobody finds this server."""
    looks = 0
    while looks < 2:
        await asyncio.sleep(1.0)
        looks = looks + 1 if folder.misplaced else 0
    where = ordinary(folder.path / "config.json").parent
    now = f"it is {where} now" if where.is_dir() else "it is gone, and with it the records of its calls"
    _log.error("the data folder %s %s: %s. This server stops when its calls have ended", home, folder.misplaced, now)
    stop.ask(False)


def _welcome(engine: Engine, config: Config, key: str) -> Welcome:
    registry = engine.catalog.registry
    token = next(iter(registry.tokens.values()), None) if key else None
    local = config.host in ("127.0.0.1", "localhost", "::1")
    return Welcome(
        address=engine.address,
        home=str(config.home),
        key=key,
        token=token.name if token is not None else "",
        models=list(engine.catalog.visible(token)) if token is not None else [],
        open_to="" if local else f"this gateway listens on {config.host}: other machines can reach it with a token",
        notes=list(engine.store.notes),
    )


def _harden() -> None:
    """Make new files private, and switch core dumps off: they would hold keys."""
    os.umask(0o077)
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
