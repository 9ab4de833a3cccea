"""Model choice: the model that a program begins with if its user names none.

It is the one that the program called last. Before its first call, a vendor's own program begins with a model of that
vendor, any other one with the model that was last called by any program, else with the first one.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from gateway.client.control import ControlClient
from gateway.domain.patterns import is_embedding_model
from gateway.domain.views import CallView

_SMALL = re.compile(r"\b(?:haiku|mini|nano|lite|flash|fast|small|oss|audio|image|realtime|search|transcribe|tts)\b")
"""Smaller or special models of a family, which a vendor's own program should not begin with."""
_NUMBER = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and why it was chosen."""

    model: str
    """Empty if there are none."""
    reason: str = ""
    """The end of a sentence: ``which it called last``."""


class FormerRuns(msgspec.Struct, frozen=True, kw_only=True):
    """How the tokens of a program's former runs are named: the program, the folder, and something random."""

    program: str
    folder: str
    arguments: Sequence[str] = ()
    """The present arguments of the program."""

    @property
    def model_arguments(self) -> list[str]:
        """Returns what may be the model in these arguments: after ``--model`` or as ``--model=NAME``, then after
        ``-m``, which means other things too.
        """
        pairs = list(zip(self.arguments, [*self.arguments[1:], ""], strict=False))
        joined = [word.removeprefix("--model=") for word in self.arguments if word.startswith("--model=")]
        after = [value for option in ("--model", "-m") for word, value in pairs if word == option]
        return [value for value in (*joined, *after) if value]

    def __contains__(self, token: str) -> bool:
        return token == self.program or token.startswith(f"{self.program}-")

    def in_folder(self, token: str) -> bool:
        """Returns whether a token belongs to a run in this folder."""
        return token.startswith(f"{self.program}-{self.folder}-")


async def usual_model(
    client: ControlClient,
    names: Sequence[str],
    *,
    family: Sequence[str] = (),
    token: str = "",
    runs: FormerRuns | None = None,
) -> ModelChoice:
    """Returns the model to begin with.

    ``family`` has patterns of the models that a vendor's own program is made for, the most suitable first. The program
    is known by its token's id, or by its former runs.
    """
    return choose_model(names, await CallsBefore.of(client, token, runs), family)


class CallsBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The newest calls of a token, and of all tokens."""

    own: Sequence[CallView] = ()
    recent: Sequence[CallView] = ()

    @classmethod
    async def of(cls, client: ControlClient, token: str = "", runs: FormerRuns | None = None) -> "CallsBefore":
        """Read the last 20 of each. ``token`` is an id; of former runs, those in the same folder come first."""
        own: list[CallView] = []
        if runs is not None:
            calls = (await client.calls(words=f'tok:"{runs.program}*"', limit=20)).calls
            own = [call for call in calls if call.token in runs]
            own.sort(key=lambda call: not runs.in_folder(call.token))
        elif token:
            own = (await client.calls(token=token, limit=20)).calls
        return cls(own=own, recent=(await client.calls(limit=20)).calls)


def choose_model(names: Sequence[str], calls: CallsBefore, family: Sequence[str] = ()) -> ModelChoice:
    """Returns the model to begin with, as ``usual_model`` does, from calls that were already read."""
    own, recent = calls.own, calls.recent
    if last := _last_of(own, names):
        return ModelChoice(model=last, reason="which it called last")
    fit = [name for name in names if not is_embedding_model(name)]
    by_family = [[name for name in fit if re.search(part, name, re.IGNORECASE)] for part in family]
    if suitable := next(filter(None, by_family), []):
        last = _last_of(recent, [name for kin in by_family for name in kin])
        return ModelChoice(model=last or max(suitable, key=_rank), reason="because it has called none yet")
    if last := _last_of(recent, names):
        return ModelChoice(model=last, reason="the one called last")
    return ModelChoice(model=best_model(names), reason="because none has been called yet")


def best_model(names: Iterable[str]) -> str:
    """Returns the model to begin with: none for embeddings, and the built-in ones last. Empty if there are none."""
    ranked = sorted(names, key=lambda name: (is_embedding_model(name), name.startswith("demo-")))
    return ranked[0] if ranked else ""


def _last_of(calls: Iterable[CallView], names: Sequence[str]) -> str:
    """Returns the model of the newest answered call; empty if it is not among the names."""
    usual = (call.model for call in calls if call.outcome == "done" and not is_embedding_model(call.model))
    return next((model for model in usual if model in names), "")


def _rank(name: str) -> tuple[bool, list[int], int]:
    """Returns a sort key: the newest full model of a family is the greatest, ``gpt-5`` before ``gpt-4.1`` and
    ``gpt-5-mini``.
    """
    version = [int(number) for number in _NUMBER.findall(_DATE.sub("", name))]
    return not _SMALL.search(name.casefold()), version, -len(name)
