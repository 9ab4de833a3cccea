"""Model choice: the model that a program starts with if its user names none.

It is the one that the program called last. Before its first call, a vendor's own program starts with a model of that
vendor, and any other program with the model that any program called last, else with the first model.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.patterns import is_embedding_model
from gateway.domain.views import CallView

_SMALL = re.compile(r"\b(?:haiku|mini|nano|lite|flash|fast|small|oss|audio|image|realtime|search|transcribe|tts)\b")
"""Matches the names of small or special models. A vendor's own program should not start with one of them."""
_NUMBER = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

ModelChoice = tuple[str, str]
"""A model, empty if the token sees none; and why it was chosen, as the end of a sentence: ``which it called last``."""
RecentCalls = tuple[Sequence[CallView], Sequence[CallView]]
"""The calls of a program, and of all programs, newest first."""


class ProgramStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a program. The tokens of its runs are named after the program and the folder, with a random end."""

    program: str
    folder: str
    model: str = ""
    """The model that the user chose for it; empty if none."""
    arguments: Sequence[str] = ()

    @property
    def model_arguments(self) -> list[str]:
        """Returns the values of ``--model``, then of ``-m``, which may have another meaning."""
        pairs = list(zip(self.arguments, [*self.arguments[1:], ""], strict=False))
        joined = [word.removeprefix("--model=") for word in self.arguments if word.startswith("--model=")]
        separate = [value for option in ("--model", "-m") for word, value in pairs if word == option]
        return [value for value in (*joined, *separate) if value]


async def recent_calls(client: ControlClient, token: str = "", start: ProgramStart | None = None) -> RecentCalls:
    """Returns the last 20 calls of the program (in earlier runs, or of the token with this id) and of all programs."""
    own: list[CallView] = []
    if start is not None:
        calls = (await client.calls(words=f'tok:"{start.program}*"', limit=20)).calls
        own = [call for call in calls if f"{call.token}-".startswith(f"{start.program}-")]
        prefix = f"{start.program}-{start.folder}-"
        own.sort(key=lambda call: not call.token.startswith(prefix))  # runs in the same folder come first
    elif token:
        own = (await client.calls(token=token, limit=20)).calls
    return own, (await client.calls(limit=20)).calls


def choose_model(names: Sequence[str], calls: RecentCalls, family: Sequence[str] = ()) -> ModelChoice:
    """Returns the model to start with, and why."""
    own_calls, all_calls = calls
    if last := _last_model(own_calls, names):
        return last, "which it called last"
    chat_models = [name for name in names if not is_embedding_model(name)]
    by_pattern = [[name for name in chat_models if re.search(pattern, name, re.IGNORECASE)] for pattern in family]
    if suitable := next(filter(None, by_pattern), []):
        last = _last_model(all_calls, [name for matching in by_pattern for name in matching])
        return last or max(suitable, key=_rank), "because it has called none yet"
    if last := _last_model(all_calls, names):
        return last, "the one called last"
    return best_model(names), "because none has been called yet"


def best_model(names: Iterable[str]) -> str:
    """Returns the first model, preferably neither for embeddings nor of the demo; empty if the list is empty."""
    return min(names, key=lambda name: (is_embedding_model(name), name.startswith("demo-")), default="")


def _last_model(calls: Iterable[CallView], names: Sequence[str]) -> str:
    """Returns the model of the newest answered call whose model is among the names, or an empty text."""
    called = (call.model for call in calls if call.outcome == "done" and not is_embedding_model(call.model))
    return next((model for model in called if model in names), "")


def _rank(name: str) -> tuple[bool, list[int], int]:
    """Returns a sort key, greatest for a family's newest full model: ``gpt-5``, not ``gpt-4.1`` or ``gpt-5-mini``."""
    version = [int(number) for number in _NUMBER.findall(_DATE.sub("", name))]
    return not _SMALL.search(name.casefold()), version, -len(name)
