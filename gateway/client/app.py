"""Apps: what a client program needs to use the gateway, and how ``tollkeeper run`` starts it.

``guide`` is what a person does by hand: files, variables, menus. ``launch`` is how ``tollkeeper run`` starts the
program without touching any of its files; a program without one needs only the variables of its guide.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from gateway.client.connect_card import Shell, assign
from gateway.client.model_choice import best_model
from gateway.domain.patterns import is_embedding_model
from gateway.domain.text import plain
from gateway.domain.views import ModelView

PLACEHOLDER_KEY = "sk-tk-..."
KEY_VARIABLE = "TOLLKEEPER_TOKEN"
"""Holds the key for programs that let the user choose a variable; ``tollkeeper chat`` reads it, too."""
HOME_NOTE = "on Windows ~ is %USERPROFILE%"
NO_TRACES = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
"""OpenAI's Agents SDK would send traces to OpenAI, with the key of this gateway."""
CLAUDE = ("sonnet", "claude")
"""Expressions for the models that programs of Anthropic begin with, the most suitable ones first."""


class AppTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is pointed at."""

    base_url: str
    """Ends in ``/v1``."""
    model: str
    models: Mapping[str, int | None]
    """All model names that the token sees, with the size of their context if it is known."""
    key: str = ""
    """Empty: not known, a placeholder stands for it."""

    @property
    def root(self) -> str:
        """The address without ``/v1``, for programs that add it themselves."""
        return self.base_url.removesuffix("/v1")

    @property
    def secret(self) -> str:
        """The key or its placeholder."""
        return self.key or PLACEHOLDER_KEY

    @property
    def chat_models(self) -> Mapping[str, int | None]:
        """Those that can be chosen for a conversation: without the ones that make embeddings."""
        return {
            name: context for name, context in self.models.items() if name == self.model or not is_embedding_model(name)
        }

    @property
    def embedding_model(self) -> str:
        """The first one that makes embeddings; empty if there is none."""
        return next(filter(is_embedding_model, (self.model, *self.models)), "")

    @classmethod
    def of(cls, base_url: str, models: Iterable[ModelView], *, model: str = "", key: str = "") -> "AppTarget":
        """With these models, of which the best one is chosen if none is named; harmless on any screen."""
        seen = {plain(view.name, 1_000): view.context for view in models}
        return cls(base_url=base_url, model=plain(model, 1_000) or best_model(seen), models=seen, key=key)

    def like(self, part: str) -> str:
        """The first model with this in its name, else the chosen one."""
        return self.model if part in self.model else next((name for name in self.models if part in name), self.model)


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to paste: a text, or variables, which are written as the shell wants them."""

    where: str
    """Where it goes: a path, a menu, a shell."""
    text: str = ""
    variables: Mapping[str, str] = {}
    is_file: bool = False
    """The text is a whole file, or what to put into one."""

    def lines(self, shell: Shell) -> str:
        """The text to paste."""
        return self.text or "\n".join(assign(name, value, shell) for name, value in self.variables.items())


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How ``tollkeeper run`` starts a program."""

    variables: Mapping[str, str] = {}
    """An empty value removes the variable."""
    defaults: Mapping[str, str] = {}
    """Variables over which a value of the user's own wins."""
    arguments: Sequence[str] = ()
    """Put before those that the user gave. Never the key: everyone on the machine can read them."""
    files: Mapping[str, str] = {}
    """Files of ours, by their name in the temporary folder."""
    folder_variable: str = ""
    """Names the program's settings folder; the temporary one then has links to all else that is in the real one."""
    folder_default: str = ""
    """The real one's name among the user's folders for settings, if that variable is not set."""
    warning: str = ""
    """What a person has to know before the program starts."""
    note: str = ""
    """What a person has to know when the program has ended and called a model."""


class App(msgspec.Struct, frozen=True, kw_only=True):
    """A program that people connect."""

    title: str
    guide: Callable[[AppTarget], Sequence[Snippet]]
    programs: Sequence[str] = ()
    """Names of its executables, by which ``tollkeeper run`` recognizes it."""
    family: Sequence[str] = ()
    """Expressions for the models that its vendor made it for, the most suitable ones first; empty: for any."""
    launch: Callable[[AppTarget, Path], Launch] | None = None
    """The path is the temporary folder's."""

    def launched(self, target: AppTarget, folder: Path) -> Launch:
        """How to start it."""
        if self.launch is not None:
            return self.launch(target, folder)
        variables = {name: value for snippet in self.guide(target) for name, value in snippet.variables.items()}
        if self.programs:
            return Launch(variables=variables)
        return Launch(variables={**generic_variables(target), **variables}, defaults=NO_TRACES)


def shell_part(variables: Mapping[str, str], where: str = "in the shell that starts it") -> Snippet:
    """Variables for a shell."""
    return Snippet(where=where, variables=variables)


def file_part(where: str, text: str) -> Snippet:
    """A whole file, or what to put into one."""
    return Snippet(where=where, text=text, is_file=True)


def json_text(value: object) -> str:
    """JSON that people read and edit."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def quote(text: str) -> str:
    """A string in JSON, TOML, YAML, Python and JavaScript alike."""
    return msgspec.json.encode(plain(text, limit=1_000)).decode()


def openai_variables(target: AppTarget) -> dict[str, str]:
    """What OpenAI's SDKs read."""
    return {"OPENAI_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}


def anthropic_variables(target: AppTarget) -> dict[str, str]:
    """What Anthropic's SDKs read."""
    return {"ANTHROPIC_BASE_URL": target.root, "ANTHROPIC_API_KEY": target.secret, "ANTHROPIC_AUTH_TOKEN": ""}


def sdk_variables(target: AppTarget) -> dict[str, str]:
    """What the SDKs of both read."""
    return {**openai_variables(target), **anthropic_variables(target)}


def generic_variables(target: AppTarget) -> dict[str, str]:
    """For a program that is in no table."""
    return {**sdk_variables(target), "OPENAI_API_BASE": target.base_url}


def own_key(target: AppTarget) -> Snippet:
    """The key, in a variable that the settings of a program name."""
    return shell_part({KEY_VARIABLE: target.secret})
