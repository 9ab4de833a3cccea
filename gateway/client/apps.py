"""All apps by name, and the one that a user or an executable's name means."""

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
    "Gemini CLI speaks Gemini's API only, which this gateway does not offer to programs: it would call Google. "
    "Qwen Code, which is made from it, works: tollkeeper run -- qwen"
)
GENAI = (
    "Google's Gen AI SDK speaks Gemini's API only, which this gateway does not offer to programs. "
    "OpenAI's SDK calls the same models here: tollkeeper env --for openai"
)
OTHER_APIS: Mapping[str, str] = {
    **dict.fromkeys(("gemini", "gemini-cli"), GEMINI),
    **dict.fromkeys(("genai", "google-genai", "google-generativeai"), GENAI),
}
"""Why a program cannot be connected, by its name or its executable's."""


def find_app(name: str) -> App:
    """Returns the app of that name or program. Raises NotFound, naming all of them."""
    known = APPS.get(name.casefold()) or APPS.get(app_of_program(name))
    demand_api(name)
    if known is None:
        words = {word: key for key, app in APPS.items() for word in (*app.programs, key)}
        near = get_close_matches(name.casefold(), words, n=1)
        meant = f". Did you mean '{words[near[0]]}'? Known apps" if near else "; known"
        raise NotFound(f"unknown app '{plain(name)}'{meant}: {', '.join(APPS)}")
    return known


def app_of_program(program: str) -> str:
    """Returns the name of the app of this executable; empty if unknown."""
    return next((name for name, app in APPS.items() if _stem(program) in app.programs), "")


def demand_api(program: str) -> None:
    """Raises NotFound for a program that speaks none of the gateway's APIs: it would bypass the gateway."""
    if reason := OTHER_APIS.get(_stem(program)):
        raise NotFound(reason)


def _stem(program: str) -> str:
    return Path(program).name.casefold().removesuffix(".exe").removesuffix(".cmd")


def used_last(tokens: Sequence[TokenView]) -> TokenView:
    """Returns the token to use if none is named: that of the newest call, else the oldest one."""
    return max(tokens, key=lambda token: (token.last_used_ms or 0, -token.created_ms))


def key_in(environ: Mapping[str, str]) -> str:
    """Returns the token's key or name that the environment gives to ``env`` and ``doctor``; empty if none."""
    own = environ.get("OPENAI_API_KEY", "")
    return environ.get(KEY_VARIABLE, "") or (own if own.startswith(PREFIX) else "")


def generic_launch(target: AppTarget) -> Launch:
    """Returns how to start an unknown program: with the variables that SDKs read."""
    return Launch(variables=generic_variables(target), defaults=NO_TRACES)
