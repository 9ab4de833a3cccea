"""The service's commands, with a stand-in for the system."""

import json

import pytest

from gateway.commands import service
from tests.commands.runner import run


class Stand:
    """A system on which everything works."""

    def __init__(self) -> None:
        self.installed = False

    def install(self, _config: object) -> service.ServiceState:
        self.installed = True
        return self.state()

    def remove(self) -> service.ServiceState:
        self.installed = False
        return self.state()

    def state(self) -> service.ServiceState:
        return service.ServiceState(
            system="systemd", installed=self.installed, running=self.installed, file="/u/tollkeeper.service"
        )


@pytest.fixture(autouse=True)
def _stand(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    monkeypatch.setattr(service, "service_manager", lambda: stand)


def test_installed_shown_and_removed() -> None:
    assert "at every login" in run("service", "install").err
    assert json.loads(run("service", "status", "--json").out)["running"] is True
    assert run("service", "remove").code == 0
    assert "no" in run("service", "status").out.splitlines()[1]
