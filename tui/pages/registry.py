"""Registry: which class is which page. Pages are made when they are first opened."""

from collections.abc import Callable, Mapping

from tui.pages.account import Account
from tui.pages.base import Page
from tui.pages.channels import Channels
from tui.pages.doctor import Doctor
from tui.pages.groups import Groups
from tui.pages.live import Live
from tui.pages.models import Models
from tui.pages.tokens import Tokens
from tui.pages.usage import Usage
from tui.session import Session

MAKERS: Mapping[str, Callable[[Session], Page]] = {
    "live": Live,
    "tokens": Tokens,
    "groups": Groups,
    "channels": Channels,
    "models": Models,
    "account": Account,
    "usage": Usage,
    "doctor": Doctor,
}
