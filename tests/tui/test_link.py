from pathlib import Path

from gateway.config import Config
from tui.session import Launcher


async def test_on_an_empty_home_no_server_is_found(tmp_path: Path) -> None:
    assert await Launcher(Config(home=tmp_path)).find() is None
