"""Registry: which class is which page. Pages are made when they are first opened."""

from collections.abc import Callable, Mapping

from tui.pages.base import Page
from tui.pages.channels import Channels
from tui.pages.live import Live
from tui.pages.models import Models
from tui.pages.tokens import Tokens
from tui.session import Session

MAKERS: Mapping[str, Callable[[Session], Page]] = {
    "live": Live,
    "tokens": Tokens,
    "channels": Channels,
    "models": Models,
}
