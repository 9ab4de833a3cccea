"""Apps: all apps by name, and how to find the one that a name or an executable means."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gateway.client.app import KEY_VARIABLE, NO_TRACES, App, AppTarget, Launch, generic_variables
from gateway.client.chat_apps import CHAT_APPS
from gateway.client.coding_agents import CODING_AGENTS
from gateway.client.libraries import LIBRARIES
from gateway.domain.errors import NotFound
from gateway.domain.text import plain
from gateway.domain.token import PREFIX
from gateway.domain.views import TokenView

APPS: Mapping[str, App] = {**CODING_AGENTS, **CHAT_APPS, **LIBRARIES}

GEMINI = (
    "Gemini CLI speaks only Gemini's API, which this gateway does not offer to programs, so it would call Google. "
    "Qwen Code, which is derived from it, works: tollkeeper run -- qwen"
)
GENAI = (
    "Google's Gen AI SDK speaks only Gemini's API, which this gateway does not offer to programs. "
    "OpenAI's SDK can call the same models here: tollkeeper env --for openai"
)
OTHER_APIS: Mapping[str, str] = {
    **dict.fromkeys(("gemini", "gemini-cli"), GEMINI),
    **dict.fromkeys(("genai", "google-genai", "google-generativeai"), GENAI),
}
"""Why a program cannot use the gateway, by the name of the program or its executable."""


def find_app(name: str) -> App:
    """Returns the app with this name or executable. Raises NotFound with a suggestion and the names of all apps."""
    require_api(name)
    app = APPS.get(name.casefold()) or APPS.get(app_of_program(name))
    if app is None:
        keys = {word: key for key, other in APPS.items() for word in (*other.programs, key)}
        near = get_close_matches(name.casefold(), keys, n=1)
        suggestion = f". Did you mean '{keys[near[0]]}'? The apps are" if near else "; the apps are"
        raise NotFound(f"unknown app '{plain(name)}'{suggestion}: {', '.join(APPS)}")
    return app


def app_of_program(program: str) -> str:
    """Returns the name of the app with this executable; empty if there is none."""
    return next((name for name, app in APPS.items() if _stem(program) in app.programs), "")


def require_api(program: str) -> None:
    """Raise NotFound for a program that speaks none of the gateway's APIs, because it would bypass the gateway."""
    if reason := OTHER_APIS.get(_stem(program)):
        raise NotFound(reason)


def _stem(program: str) -> str:
    """Returns the name of an executable without folder and suffix, in lower case."""
    return Path(program).name.casefold().removesuffix(".exe").removesuffix(".cmd")


def last_used_token(tokens: Sequence[TokenView]) -> TokenView:
    """Returns the token to use if none is named: the one of the newest call, else the oldest one."""
    return max(tokens, key=lambda token: (token.last_used_ms or 0, -token.created_ms))


def key_in(environ: Mapping[str, str]) -> str:
    """Returns the key or name of a token in the environment; empty if there is none."""
    openai_key = environ.get("OPENAI_API_KEY", "")
    return environ.get(KEY_VARIABLE, "") or (openai_key if openai_key.startswith(PREFIX) else "")


def generic_launch(target: AppTarget) -> Launch:
    """Returns how to start an unknown program: with the variables that SDKs read."""
    return Launch(variables=generic_variables(target), defaults=NO_TRACES)
