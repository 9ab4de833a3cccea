"""Case: what the doctor examines and what was found out so far, and how a bad answer is told."""

from gateway.client.control import ControlClient
from gateway.client.trial import Door
from gateway.domain.views import ChannelView, GroupView, ModelView, TokenView

START = "start it with 'tollkeeper serve', or with 'tollkeeper' for the console as well"


class Ill(Exception):
    """A question has a bad answer: what is wrong, and what to do."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.text = text
        self.fix = fix


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
        self.group: GroupView | None = None
        self.sees: list[str] = []
        self.found: ModelView
        self.routes: list[ChannelView] = []
        """Channels that serve the model; from the question about the group on, only those of the token's group."""
