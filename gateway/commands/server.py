"""``serve``, ``status`` and ``stop``: starts, shows and stops the server."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import click
import msgspec

from gateway.client import connect_card, launch
from gateway.client.apps import last_used_token
from gateway.client.control import ControlClient
from gateway.client.test_call import require_serving, version_text
from gateway.commands import formatting
from gateway.commands.base import Command, address_options
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import SECONDS, now
from gateway.commands.output import has_stdout, json_line, notify, out, out_json, out_pairs, wants_json
from gateway.commands.session import NO_SERVER, current_config, run, server_imports
from gateway.commands.usage_tail import print_calls
from gateway.config import Config
from gateway.domain.account import AccountStatus
from gateway.domain.advice import advice
from gateway.domain.budget import BALANCE_ID
from gateway.domain.errors import GatewayError, QuotaExceeded
from gateway.domain.human_values import brief_span, count_text, local_time, parse_past, state_word
from gateway.domain.money import brief_dollars
from gateway.domain.price_view import news_lines
from gateway.domain.text import plain, word
from gateway.domain.views import AccountView, Status, Summary
from gateway.runfile import Endpoint


def serve_here(config: Config, *, log: bool = False) -> int:
    """Serve here until stopped; ``log`` prints the calls. Returns the exit code. Raises Quit if a server runs."""
    require_no_server(config)
    with server_imports():
        from gateway import server  # it loads the whole server, which most commands do without

    if not has_stdout():  # nobody could read the key of a first token
        config = msgspec.structs.replace(config, first_token=False)
    log_thread = threading.Thread(target=print_calls, args=(config,), name="log of calls", daemon=True)

    def ready(welcome: server.Welcome) -> None:
        if not has_stdout():
            return
        if log:
            log_thread.start()
        out(f"Tollkeeper is running at {welcome.address}")
        out(f"Data folder: {plain(str(config.home), limit=1_000)}. Press Ctrl-C to stop.")
        notify(*(f"note: {note}" for note in welcome.notes))
        if welcome.key:
            curl = connect_card.curl(welcome.address, welcome.model or "MODEL", welcome.key)
            out(f"\nToken '{plain(welcome.token)}' created. Its key is shown only this once:\n\n  {welcome.key}")
            out(f"\nTry it in another terminal:\n\n{curl}")
            out(f"\nSettings for SDKs:\n\n{connect_card.environment(welcome.address, welcome.key)}")

    code = server.run(config, ready)
    if log_thread.ident is not None:
        log_thread.join(2.0)  # it prints the last calls
    return code


def require_no_server(config: Config, *, elsewhere: bool = False) -> None:
    """Raise Quit if a server runs on this home, after printing how to use it. Raises Unavailable if it is stopping.

    With ``elsewhere``, a server that already listens at the address of ``config`` is accepted.
    """
    endpoint = asyncio.run(launch.find(config))
    if endpoint is None:
        return
    if elsewhere and (endpoint.host_option, urlsplit(endpoint.address).port) == (config.host, config.port):
        return
    client = ControlClient(endpoint)
    require_serving(asyncio.run(client.status()))
    tokens = [token for token in asyncio.run(client.tokens()) if not token.temporary]
    if has_stdout():
        out(connect_card.assign(connect_card.URL_VARIABLE, endpoint.address, "sh"))
    if tokens:
        token = last_used_token(tokens)
        rotate = f"tollkeeper token rotate {word(token.name)}{config.home_option}"
        notify(f"the key of token '{token.name}' ({token.hint}) was shown when it was created; for a new one: {rotate}")
    hint = f"stop it with 'tollkeeper stop{config.home_option}', or give this one another folder with --home"
    raise Quit(f"already serving at {endpoint.address} (pid {endpoint.pid}); {hint}", Exit.STORE)


def follow_or_serve(config: Config) -> int:
    """Print a line for each call of this home's server, or serve here if none is running. Returns the exit code."""
    if asyncio.run(launch.find(config)) is None:
        return serve_here(config, log=True)
    notify(
        "this terminal cannot show the console, so each call is a line when it ends; Ctrl-C leaves the server running"
    )
    print_calls(config)
    return 0


@click.command(cls=Command, json_help="", examples=["tollkeeper serve", "tollkeeper serve --port 8700 --log"])
@click.option("--drain", type=SECONDS, help="Seconds that running calls get to finish when the server stops.")
@click.option("--log", is_flag=True, help="Print a line for each call as it ends.")
@click.option("--no-token", is_flag=True, help="Do not create a first token; for a server whose output nobody reads.")
def serve(drain: float | None, *, log: bool, no_token: bool) -> None:
    """Run the gateway in the foreground, until Ctrl-C or 'tollkeeper stop'."""
    config = msgspec.structs.replace(current_config(), first_token=not no_token)
    if drain is not None:
        config = msgspec.structs.replace(config, drain_s=drain)
    click.get_current_context().exit(serve_here(config, log=log))


serve.params[:0] = address_options()


@click.command(
    cls=Command,
    examples=[
        "tollkeeper status",
        "tollkeeper status --json",
        """tmux: set -g status-right '#(tollkeeper status --line)'""",
        """waybar: "exec": "tollkeeper status --line --json", "return-type": "json", "interval": 5""",
    ],
)
@click.option("--line", is_flag=True, help="Print one line for a status bar; with --json in waybar's format.")
def status(*, line: bool) -> None:
    """Show the running server.

    If no server is running, the exit code is 5, and --json prints {"running": false, ...}; --line prints 'off', and the
    exit code is 0.
    """
    if line:
        status_line = _fetch_bar_line()
        out(json_line(status_line) if wants_json() else plain(status_line["text"], limit=1_000))
        return

    async def work(client: ControlClient) -> tuple[Status, formatting.BalanceOutlook | None, list[str], list[str]]:
        view, outlook = await client.status(), await formatting.find_balance_outlook(client)
        spent = await _fetch_spent_budgets(client)
        news: list[str] = []
        with suppress(GatewayError):
            news = news_lines(await client.price_news())
        return view, outlook, spent, news

    try:
        view, outlook, spent, news = run(work, running=True)
    except Quit as error:
        if wants_json() and error.exit_code is Exit.UNREACHABLE:
            out_json({"running": False, "home": str(current_config().home), "error": error.message})
        raise
    if wants_json():
        account = outlook.json() if outlook else None
        facts = {**msgspec.structs.asdict(view), "account": account, "used_up": spent, "prices": news}
        out_json({"running": True, **facts})
        return
    _print_status(view, outlook, spent, news)


async def _fetch_spent_budgets(client: ControlClient) -> list[str]:
    """Returns the budgets that reject calls, as in ``daily budget of token 'ci'``. The balance is not among them."""
    with suppress(GatewayError):
        incidents = [incident for incident in await client.incidents() if incident.subject_id != BALANCE_ID]
        return [incident.budget for incident in incidents if incident.refuses(now())]
    return []


def _print_status(
    view: Status, outlook: formatting.BalanceOutlook | None, spent: Sequence[str], news: Sequence[str]
) -> None:
    ollama, waiting = view.ollama_address or view.ollama_error, sum(view.waits.values())
    most_connections = f" of {view.most_connections}" if view.most_connections else ""
    out_pairs(
        [
            ("state", view.state),
            ("address", view.address),
            *([("Ollama's port", ollama)] if ollama else []),
            ("home", view.home),
            ("version", version_text(view)),
            ("process", str(view.pid)),
            ("started", f"{local_time(view.started_ms)}, {brief_span(view.uptime_s * 1000)} ago"),
            *([("account", _account_problem(outlook.account)), ("balance", outlook.text())] if outlook else []),
            ("refusing", ", ".join(plain(name) for name in spent)),
            ("calls", f"{view.in_flight + view.queued - waiting} running · {waiting} waiting"),
            *(("", f"{count} waiting for {plain(resource)}") for resource, count in view.waits.items()),
            ("open consoles", str(view.watchers)),
            ("connections", f"{view.connections}{most_connections}{formatting.files_note(view)}"),
            (
                "channels",
                ", ".join(f"{n} {state_word(state, n)}" for state, n in sorted(view.channels.items())) or "none",
            ),
            ("keys", ", ".join(_key_problems(view))),
            *((("" if number else "prices"), line) for number, line in enumerate(news)),
            ("recorded calls", f"{view.records:,}"),
            ("durability", view.durability),
            ("store", f"FAILED: {plain(view.store_error)}; calls are rejected" if view.store_error else "works"),
        ]
    )


def _account_problem(account: AccountView) -> str:
    """Returns why calls are rejected because of the account; empty if they are not."""
    if account.status is not AccountStatus.ACTIVE:
        fix = advice(QuotaExceeded("", code="account_suspended"))
        return f"{account.status.value}: all calls are rejected; {fix}"
    if account.balance_nanos > 0:
        return ""
    fix = advice(QuotaExceeded("", details={"missing_nanos": -account.balance_nanos}))
    return f"balance used up: all calls that cost something are rejected; {fix}"


@click.command(cls=Command, json_help="", examples=["tollkeeper stop", "tollkeeper stop --now"])
@click.option("--now", "at_once", is_flag=True, help="Do not wait for running calls; they end with an error.")
@click.option(
    "--wait", type=SECONDS, default=60, show_default=True, help="Seconds to wait until the server has stopped."
)
def stop(wait: float, *, at_once: bool) -> None:
    """Stop accepting calls, let running ones finish, then stop the server. Waits until it has stopped."""
    config = current_config()

    async def work() -> Endpoint | None:
        endpoint = await launch.find_unless_silent(config)
        if endpoint is not None:
            await launch.stop(endpoint, now=at_once, wait_s=wait)
        return endpoint

    notify("Server stopped." if asyncio.run(work()) else NO_SERVER.format(home=config.home))


def _fetch_bar_line() -> dict[str, str]:
    """Returns what a status bar shows, in waybar's format. The class is ``ok``, ``attention`` or ``off``."""

    async def work(client: ControlClient) -> tuple[Status, AccountView, Summary, list[str]]:
        today = await client.summary(by="", since=parse_past("today", now()))
        return await client.status(), await client.account(), today, await _fetch_spent_budgets(client)

    try:
        return bar_line(*run(work, running=True))
    except Quit as error:
        if error.exit_code is not Exit.UNREACHABLE:
            raise
        return {"text": "off", "tooltip": error.message, "class": "off"}


def bar_line(view: Status, account: AccountView, today: Summary, spent: Sequence[str] = ()) -> dict[str, str]:
    """Returns ``3 running, $1.24 today, $8.76 left`` and what needs attention. ``spent``: budgets that reject calls."""
    troubled = {state: count for state, count in view.channels.items() if state not in ("ok", "off")}
    problems = [_state_count("channel", state, count) for state, count in troubled.items()] + _key_problems(view)
    if account.status is not AccountStatus.ACTIVE:
        problems.append(f"account {account.status.value}")
    if account.balance_nanos <= 0:
        problems.append("balance used up")
    problems += [f"{name} refusing" for name in spent]
    if view.state != "serving":
        problems.append(view.state.replace("_", " "))
    running = f"{view.in_flight} running" + (f", {view.queued} waiting" if view.queued else "")
    left = f"{brief_dollars(account.available_nanos)} left"
    parts = [running, f"{brief_dollars(today.total.cost_nanos)} today", left, *problems]
    counts = f"{count_text(today.total.calls, 'call')} today, {count_text(today.total.errors, 'error')}"
    tooltip = f"{view.address}: {counts}"
    return {"text": ", ".join(parts), "tooltip": tooltip, "class": "attention" if problems else "ok"}


def _key_problems(view: Status) -> list[str]:
    return [_state_count("key", state, count) for state, count in view.keys.items()]


def _state_count(noun: str, state: str, count: int) -> str:
    """Returns ``1 key needs attention``, ``2 keys need attention``."""
    return f"{count_text(count, noun)} {state_word(state, count)}"
