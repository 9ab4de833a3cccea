"""``settings``: what the owner decides for the whole gateway."""

from collections.abc import Callable
from typing import TypeVar

import click

from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.options import json_option, names
from gateway.commands.output import out_json, out_pairs
from gateway.commands.session import run
from gateway.domain.settings import Durability, Settings
from gateway.domain.views import Status

COUNT = click.IntRange(min=0)

F = TypeVar("F", bound=Callable[..., object])

LIMITS = (
    ("--token-streams", "Streams of a token at a time, if it has no limit of its own; 0: any number."),
    ("--channel-calls", "Calls of a channel at a time, if it has no limit of its own; 0: any number."),
    ("--queue", "Calls that may wait for a place at one such limit."),
    ("--queue-s", "Seconds they may wait for it; 0: they are refused at once."),
    ("--connections", "Open connections of clients; 0: any number."),
    ("--address-connections", "Those of one address of another machine; 0: any number."),
    ("--bodies-mib", "Size of all request bodies together; 0: any."),
    ("--answers-mib", "Size of all answers together that are held in memory; 0: any."),
    ("--memory-mib", "Above this use of memory no further calls are taken; 0: no limit."),
)


def limit_options(command: F) -> F:
    """The limits of the whole gateway."""
    for name, text in reversed(LIMITS):
        command = click.option(name, type=COUNT, help=text)(command)
    return command


def _number(limit: int) -> str:
    return str(limit or "any number")


@click.group(cls=Noun)
def settings() -> None:
    """What you decide for the whole gateway."""


@settings.command("show", examples=["tollkeeper settings show"])
@json_option
def show_settings(*, as_json: bool) -> None:
    """Show all settings."""
    _print(run(lambda client: client.settings()), as_json=as_json)


@settings.command(
    "set",
    examples=[
        "tollkeeper settings set --durability call",
        "tollkeeper settings set --hosts gateway.lan,10.0.0.5 --refuse-unpriced",
    ],
)
@click.option(
    "--durability",
    type=click.Choice([d.value for d in Durability]),
    help="interval: synced every 100 ms; call: an answer's end waits for its own sync.",
)
@click.option("--refuse-unpriced/--allow-unpriced", default=None, help="Calls to models that have no price.")
@click.option("--hosts", metavar="NAMES", help="Further host names clients may call it by; '' for none.")
@click.option("--origins", metavar="URLS", help="Web pages that may call it: https://app.example.com; '' for none.")
@click.option("--keep-days", type=click.IntRange(min=1), help="How long call records are kept; sums stay.")
@click.option(
    "--refresh-models-h",
    type=click.IntRange(0, 8760),
    metavar="HOURS",
    help="How often upstreams are asked for their models where patterns choose of them; 0 for never.",
)
@click.option("--stop-on-leave/--stay-on-leave", default=None, help="Whether leaving the console stops the server.")
@limit_options
@json_option
def set_settings(
    *,
    durability: str | None,
    refuse_unpriced: bool | None,
    hosts: str | None,
    origins: str | None,
    keep_days: int | None,
    refresh_models_h: int | None,
    stop_on_leave: bool | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Change settings; only what is named changes."""
    patch = options.given(
        durability=durability,
        refuse_unpriced=refuse_unpriced,
        hosts=None if hosts is None else names((hosts,)),
        origins=None if origins is None else names((origins,)),
        keep_days=keep_days,
        refresh_models_h=refresh_models_h,
        stop_on_leave=stop_on_leave,
        **limits,
    )
    _print(run(lambda client: client.set_settings(options.something(patch))), as_json=as_json)


def _print(view: Settings, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
        return
    status = run(lambda client: client.status())
    out_pairs(
        [
            ("durability", view.durability.value),
            ("refuse unpriced", formatting.yes_no(view.refuse_unpriced)),
            ("hosts", ", ".join(view.hosts) or "loopback names only"),
            ("origins", ", ".join(view.origins) or "none"),
            ("keep days", str(view.keep_days)),
            ("refresh models", f"every {view.refresh_models_h} h" if view.refresh_models_h else "never by itself"),
            ("stop on leave", formatting.yes_no(view.stop_on_leave)),
            ("streams of a token", _number(view.token_streams)),
            ("calls of a channel", _number(view.channel_calls)),
            ("who waits for a place", f"{view.queue} calls for {view.queue_s} s" if view.queue_s else "nobody"),
            ("connections", _connections(view, status)),
            ("request bodies", f"{view.bodies_mib} MiB together" if view.bodies_mib else "of any size together"),
            ("answers", f"{view.answers_mib} MiB together" if view.answers_mib else "of any size together"),
            ("memory", f"no further calls above {view.memory_mib} MiB" if view.memory_mib else "no limit"),
        ]
    )


def _connections(view: Settings, status: Status) -> str:
    text = f"{_number(view.connections)}, {_number(view.address_connections)} of one address"
    return f"{text}; now {status.most_connections}{formatting.files_note(status)}" if status.open_files else text
