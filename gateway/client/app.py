"""App: what a client program needs to use the gateway, and how ``tollkeeper run`` starts it."""

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
"""The variable with the key, for programs whose settings name a variable. ``tollkeeper chat`` reads it too."""
HOME_NOTE = "on Windows ~ is %USERPROFILE%"
NO_TRACES = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
"""Without this variable, OpenAI's Agents SDK sends traces to OpenAI, with the key of this gateway."""
FOLDER = "@TOLLKEEPER_FOLDER@"
"""Stands for the temporary folder in the variables and arguments of a launch."""
CLAUDE = ("sonnet", "claude")
"""Patterns of the models that Anthropic's programs should start with, the most suitable first."""


class AppTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a program needs to know about the gateway."""

    base_url: str
    """The base URL, which ends in ``/v1``."""
    model: str
    """The model to start with."""
    models: Mapping[str, int | None]
    """The models that the token sees, with their context lengths if these are known."""
    key: str = ""
    """The key. If it is empty, a placeholder is used."""

    @property
    def root(self) -> str:
        """Returns the address without ``/v1``, for programs that add it themselves."""
        return self.base_url.removesuffix("/v1")

    @property
    def secret(self) -> str:
        return self.key or PLACEHOLDER_KEY

    @property
    def chat_models(self) -> Mapping[str, int | None]:
        """Returns the models for conversations, without embedding models unless one is the model to start with."""
        return {
            name: context for name, context in self.models.items() if name == self.model or not is_embedding_model(name)
        }

    @classmethod
    def of(cls, base_url: str, models: Iterable[ModelView], *, model: str = "", key: str = "") -> "AppTarget":
        """Returns the target without control characters. Without ``model``, it starts with the best one."""
        names = {plain(view.name, 1_000): view.context for view in models}
        return cls(base_url=base_url, model=plain(model, 1_000) or best_model(names), models=names, key=key)

    def model_with(self, part: str) -> str:
        """Returns the first model with this in its name, else the model to start with."""
        return self.model if part in self.model else next((name for name in self.models if part in name), self.model)


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to paste: a text, or variables, which are written in the syntax of the user's shell."""

    place: str
    """Where to paste it: a path, a menu, a shell."""
    text: str = ""
    variables: Mapping[str, str] = {}
    is_file: bool = False
    """Whether the text is a file, or a part of one."""

    def lines(self, shell: Shell) -> str:
        return self.text or "\n".join(assign(name, value, shell) for name, value in self.variables.items())


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How ``tollkeeper run`` starts a program."""

    variables: Mapping[str, str] = {}
    """The variables to set. An empty value removes the variable."""
    defaults: Mapping[str, str] = {}
    """Variables that the user's own values override."""
    arguments: Sequence[str] = ()
    """Arguments before the user's own. They never contain the key, because every user of the machine can read them."""
    files: Mapping[str, str] = {}
    """Our files, by their names in the temporary folder."""
    folder_variable: str = ""
    """The variable that names the program's settings folder. It is set to ours, which links to the real files."""
    folder_default: str = ""
    """The name of the real folder in the user's settings folder, if the variable is not set."""
    warning: str = ""
    """A warning shown before the program starts."""
    resume: str = ""
    """The command that resumes a session, for programs that print it without ``tollkeeper run``."""


class Setup(msgspec.Struct, frozen=True):
    """How a program is pointed at the gateway."""

    guide: Sequence[Snippet]
    """What a person does by hand: files, variables, menus."""
    launch: Launch | None = None
    """How ``tollkeeper run`` starts it without changing its files. None means with the guide's variables."""


class App(msgspec.Struct, frozen=True, kw_only=True):
    """A client program that can be pointed at the gateway."""

    title: str
    setup: Callable[[AppTarget], Setup]
    programs: Sequence[str] = ()
    """The names of its executables. ``tollkeeper run`` recognizes it by them."""
    family: Sequence[str] = ()
    """Patterns of the models that its vendor made it for, the most suitable first; empty if it suits any model."""

    def launch_for(self, target: AppTarget, folder: Path) -> Launch:
        """Returns how to start the program with our files in a temporary folder."""
        setup = self.setup(target)
        if (launch := setup.launch) is not None:
            variables = {name: value.replace(FOLDER, str(folder)) for name, value in launch.variables.items()}
            arguments = tuple(argument.replace(FOLDER, str(folder)) for argument in launch.arguments)
            return msgspec.structs.replace(launch, variables=variables, arguments=arguments)
        variables = {name: value for snippet in setup.guide for name, value in snippet.variables.items()}
        if self.programs:
            return Launch(variables=variables)
        # a library, or an unknown program: it may use any SDK
        generic = {**sdk_variables(target), "OPENAI_API_BASE": target.base_url}
        return Launch(variables={**generic, **variables}, defaults=NO_TRACES)


def shell_snippet(variables: Mapping[str, str], place: str = "in the shell that starts it") -> Snippet:
    """Returns a snippet with variables for a shell."""
    return Snippet(place=place, variables=variables)


def file_snippet(place: str, text: str) -> Snippet:
    """Returns a snippet that is a file or a part of one."""
    return Snippet(place=place, text=text, is_file=True)


def json_text(value: object) -> str:
    """Returns JSON for people to read and edit."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def openai_variables(target: AppTarget) -> dict[str, str]:
    """Returns the variables that OpenAI's SDKs read."""
    return {"OPENAI_BASE_URL": target.base_url, "OPENAI_API_KEY": target.secret}


def anthropic_variables(target: AppTarget) -> dict[str, str]:
    """Returns the variables that Anthropic's SDKs read."""
    return {"ANTHROPIC_BASE_URL": target.root, "ANTHROPIC_API_KEY": target.secret, "ANTHROPIC_AUTH_TOKEN": ""}


def sdk_variables(target: AppTarget) -> dict[str, str]:
    """Returns the variables that both vendors' SDKs read."""
    return {**openai_variables(target), **anthropic_variables(target)}


def key_snippet(target: AppTarget) -> Snippet:
    """Returns a snippet with the key in ``KEY_VARIABLE``, which the program's settings name."""
    return shell_snippet({KEY_VARIABLE: target.secret})
