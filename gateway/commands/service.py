"""``service``: starts the gateway at login."""

import click

from gateway.client.login_service import ServiceState, service_manager
from gateway.commands.base import Noun
from gateway.commands.options import json_option
from gateway.commands.output import notify, out_view
from gateway.commands.session import current_config
from gateway.config import make_home


@click.group(cls=Noun, bare="status")
def service() -> None:
    """Start the gateway at login, with the operating system's own tools."""


@service.command(examples=["tollkeeper service install"])
def install() -> None:
    """Start the gateway now and at every login, with a systemd user unit, a launchd agent or a Windows task."""
    config = current_config()
    make_home(config.home)
    state = service_manager().install(config)
    notify(f"{state.system} starts the gateway at every login")
    _print(state)


@service.command(examples=["tollkeeper service remove"])
def remove() -> None:
    """Stop the service and remove it. Data is kept."""
    _print(service_manager().remove())


@service.command(examples=["tollkeeper service status --json"])
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the gateway starts at login, and whether it runs as a service now."""
    _print(service_manager().state(), as_json=as_json)


def _print(state: ServiceState, *, as_json: bool = False) -> None:
    pairs = [
        ("system", state.system),
        ("installed", "yes" if state.installed else "no"),
        ("running", "yes" if state.running else "no"),
        ("file", state.file if state.installed else ""),
    ]
    out_view(state, pairs, as_json=as_json)
