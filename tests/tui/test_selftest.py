"""The console drawn once."""

from pathlib import Path

from gateway.config import Config
from tests.commands.program import serving
from tui.selftest import draw


def test_it_shows_the_server_it_found(tmp_path: Path) -> None:
    with serving(tmp_path, "serve") as served:
        assert "tollkeeper" in draw(Config(home=served.home, port=0))
