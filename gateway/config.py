"""Config: the data folder and the address of the gateway, read once from options and environment."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_seconds
from gateway.domain.text import plain, word

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8655
ENV_PREFIX = "TOLLKEEPER_"

SOCKET_PATH_LIMIT = 100
"""The maximum length of the path of a Unix socket, in bytes. Some systems allow 104 with the zero byte at the end."""

HOME_FILES = frozenset(
    {
        "config.json",
        "config.old.json",
        "console-crash.log",
        "console.damaged",
        "console.json",
        "console.toml",
        "control.sock",
        "high-water",
        "history.json",
        "inflight.log",
        "last-address",
        "lock",
        "run.json",
        "server.log",
        "usage",
    }
)
"""The files of a data folder. Two such files identify one; a single one may lie in any folder."""
TEMPORARY = re.compile(r"^\.(.+)\.\w{8}$|^(.+)\.tmp$")
"""The name of a new file that is going to replace another one, by ``runfile`` or by the store. Another process may see
it, and one that is killed may leave it behind.
"""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The data folder and the address. Everything else that the owner decides is a setting in the store."""

    home: Path
    """The data folder, with mode 0700. Its files have mode 0600."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """The port; 0 for any free one."""
    address_given: bool = False
    """Whether an option or the environment sets host or port."""
    drain_s: float = 30.0
    """How long a stopping server waits for running calls, in seconds."""
    first_token: bool = True
    """Whether a first token is created at the start if none exists, for a user who reads what the server prints."""
    starter: str = ""
    """The id of the console that starts the server, to recognize its own; empty for others."""

    @property
    def runfile(self) -> Path:
        return self.home / "run.json"

    @property
    def socket(self) -> Path | None:
        """Returns the path of the control socket; None, and TCP is used, on Windows and if it is too long."""
        path = self.home / "control.sock"
        if os.name == "nt" or len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
            return None
        return path

    @property
    def last_address(self) -> Path:
        return self.home / "last-address"

    @property
    def home_option(self) -> str:
        """Returns the option ``--home`` for a command to be copied, after a space; empty for the default folder."""
        return "" if self.home == load().home else f" --home {word(str(self.home))}"

    @property
    def log(self) -> Path:
        return self.home / "server.log"


def load(
    *,
    home: str | None = None,
    host: str | None = None,
    port: str | int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Returns options, else ``TOLLKEEPER_HOME``, ``_HOST``, ``_PORT``, ``_DRAIN_S``, or defaults. Raises BadRequest."""
    env = os.environ if environ is None else environ
    hosts, ports = (host, env.get(ENV_PREFIX + "HOST")), (port, env.get(ENV_PREFIX + "PORT"))
    folder = home or env.get(ENV_PREFIX + "HOME") or platformdirs.user_data_dir("tollkeeper", appauthor=False)
    return Config(
        home=_folder(folder),
        host=next(filter(None, hosts), DEFAULT_HOST),
        port=_port(next((value for value in ports if value is not None), DEFAULT_PORT)),
        address_given=any(hosts) or any(value is not None for value in ports),
        drain_s=_drain_s(env.get(ENV_PREFIX + "DRAIN_S", "30")),
        starter=env.get(ENV_PREFIX + "STARTER", ""),
    )


def is_home(folder: Path) -> bool:
    """Returns whether a folder is a data folder with files. It is assumed if the system refuses to list the folder."""
    try:
        names = _names(folder)
    except PermissionError:
        return True
    return len(names & HOME_FILES) > 1 or bool(names and names <= HOME_FILES)


def make_home(folder: Path) -> None:
    """Create a data folder with mode 0700.

    An empty folder is used as it is, with the mode its owner gave it. Raises OSError, and BadRequest if the folder has
    files of something else; then it is not changed.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        is_ours = True
    except FileExistsError:
        is_ours = is_home(folder)
    if is_ours:
        if os.name != "nt" and stat.S_IMODE(folder.stat().st_mode) != 0o700:
            folder.chmod(0o700)
    elif names := _names(folder):
        problem = f"holds files of another program ({plain(min(names), 40)})"
        msg = f"{plain(str(folder))} {problem}; name an empty or a new folder with --home"
        raise BadRequest(msg, param="home")


def _names(folder: Path) -> set[str]:
    """Returns the names of a folder's files that count. A temporary file counts as the one that it will replace."""
    made_by_systems = {".DS_Store", "lost+found"}
    try:
        return {TEMPORARY.sub(r"\1\2", path.name) for path in folder.iterdir()} - made_by_systems
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _folder(text: str) -> Path:
    """Returns the absolute path. Raises BadRequest if it is not text, because the runfile and reports contain it."""
    home = Path(text).expanduser().absolute()
    try:
        str(home).encode()
    except UnicodeEncodeError as exc:
        msg = f"the path {plain(str(home))} of the data folder is not UTF-8 text; choose another with --home"
        raise BadRequest(msg, param="home") from exc
    return home


def _port(value: str | int) -> int:
    """Returns the port in a text or number. Raises BadRequest."""
    try:
        port = int(value)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        msg = f"port {value!r} is not a number from 0 to 65535; use --port or {ENV_PREFIX}PORT"
        raise BadRequest(msg, param="port")
    return port


def _drain_s(value: str) -> float:
    try:
        return parse_seconds(value)
    except BadRequest as error:
        raise BadRequest(f"{ENV_PREFIX}DRAIN_S={error.message}", param="drain_s") from error
