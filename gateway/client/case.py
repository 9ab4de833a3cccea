"""Case: what the doctor examines and what was found out so far, and how a bad answer is told."""

from gateway.client.control import ControlClient
from gateway.client.trial import Door
from gateway.domain.views import TokenView
from gateway.domain.why import Why

START = "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well"
NO_SERVER = "server_gone"
"""Code of the failure that nobody is there to ask."""


class Ill(Exception):
    """A question has a bad answer: what is wrong, what to do, and what a call is refused with for it."""

    def __init__(self, text: str, fix: str, *, code: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.fix = fix
        self.code = code
        self.status = status


class Case:
    """The later fields are filled by one question and used by the next."""

    def __init__(self, client: ControlClient, *, key: str, token: str, model: str) -> None:
        self.client = client
        self.key = key
        self.token_ref = token
        self.model = model
        self.door: Door
        self.token: TokenView | None = None
        """None: the key was given, and none of the tokens looks like it."""
        self.sees: list[str] = []
        self.why: Why
        """What the gateway would do with the call that the last question makes."""
