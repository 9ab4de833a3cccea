"""Addresses: the gateway's own, the paths of requests, their other spellings, and advice about unknown ones.

Programs call paths of their vendor that this gateway does not have, or were given a slightly wrong base URL. The user
sees at most "404" in the program; the advice says what it means.
"""

import re
from typing import Final

import msgspec

from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.text import plain
from gateway.domain.token import PREFIX

CODES: Final = ("unknown_url", "method_not_allowed", "origin_not_allowed", "wrong_host")
"""Error codes of requests that reach no API because of their address or their sender."""

ALL_ADDRESSES: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound to
"""The hosts that mean all addresses of this machine, and the address at which it reaches itself then."""
CALL_PATHS: Final = "chat/completions|completions|embeddings|messages|responses"
"""Matches the paths of calls, below the base URL."""
_TAILS: Final = f"{CALL_PATHS}|models"
_VENDOR_ONLY: Final = "not supported: have the program call its vendor directly for that"


class _Rule(msgspec.Struct, frozen=True):
    """What to do about requests for some unknown paths."""

    pattern: str
    """Matches the whole path, without a ``/v1`` at its beginning."""
    advice: str
    """The advice. ``{base}`` is the base URL of /v1, ``{root}`` the same without ``/v1``."""
    harmless: bool = False
    """Whether the program works without an answer."""
    foreign: bool = False
    """Whether it is another vendor's API, even if its paths look like paths of this gateway."""


def _foreign_api(pattern: str, owner: str) -> _Rule:
    advice = "choose an OpenAI-compatible provider in the program, with the base URL {base}"
    return _Rule(pattern, f"this is {owner}'s API: {advice}", foreign=True)


_RULES: Final = (
    _Rule(r"/messages/batches.*|/batches.*", "batches are " + _VENDOR_ONLY),
    _Rule(
        r"/(?:files|uploads|vector_stores|assistants|threads|containers|skills|conversations|chat/completions|evals|agents|"
        r"sessions|environments|memory_stores|vaults|user_profiles|deployments|deployment_runs|dreams)(?:/.*)?",
        "files, threads and other objects that a vendor stores are " + _VENDOR_ONLY,
    ),
    _Rule(r"/responses/.*", "a response supports GET, DELETE, GET /input_items and POST /cancel only"),
    _Rule(
        r"/(?:images|audio|videos|realtime|live|moderations|fine_tuning|fine-tunes|rerank|ocr|fim|decisions|safety)(?:/.*)?",
        "this API is " + _VENDOR_ONLY,
    ),
    _Rule(r"/complete", "this API is obsolete: have the program use /v1/messages"),
    _foreign_api(r"(?:/v\d\w*)?/projects/.*|/publishers/.*", "Vertex AI"),
    _foreign_api(
        r"/(?:v\d(?:beta|alpha)\d*)/.*|(?:/v\d)?/(?:models|tunedModels)/.+:(?:[a-z]+[A-Z]\w*|predict)", "Gemini"
    ),
    _foreign_api(r"/model/.+/(?:converse|converse-stream|invoke|invoke-with-response-stream)", "Bedrock"),
    _foreign_api(r"/v2/(?:chat|embed|rerank)", "Cohere"),
    _Rule(
        r"/api/(?:create|copy|delete|push|blobs/.+)",
        "the models are those of your channels, which Ollama's clients can list and use, but not change",
    ),
    _Rule(
        r"/(?:me|organizations|usage|dashboard|credits|key|account)(?:/.*)?|/api/(?:claude_cli|claude_code|oauth|"
        r"event_logging|organizations|hello|eval)(?:/.*)?|/(?:\.well-known|oauth|authorize|register|token)(?:/.*)?",
        "the program asks about an account at its vendor and works without an answer",
        harmless=True,
    ),
    _Rule(
        r"/(?:favicon\.ico|robots\.txt|apple-touch-icon.*|metrics|index\.html?|props|slots|version|info|model/info|"
        r"(?:get_)?server_info|get_model_info)|/api/v0/models",
        "a browser, a monitor or a program that looks for local servers sent the request, and works without an answer",
        harmless=True,
    ),
    _Rule(
        r"/api/v1/models",
        "the base URL has an extra part: set it to {base}; a program that looks for LM Studio works without an answer",
    ),
    _Rule(
        rf"/.*?/(?:(?:v1/)?(?:{_TAILS})(?:/count_tokens)?|api/(?:chat|embed|generate|ps|show|tags|version))",
        "the base URL has an extra part: set it to {base}, or to {root} for Anthropic's and Ollama's",
    ),
    _Rule(r"(?s:.*)", "check the program's base URL: it is {base} here, or {root} for Anthropic's and Ollama's"),
)

_SLASHES: Final = lazy_pattern("//+")
_ROOTS: Final = lazy_pattern(r"^(?:/v1)*/(?:v1beta/openai|openai|anthropic)(?=/)")
"""Matches the prefixes that Azure, Groq, Gemini and Foundry put before the paths of OpenAI or Anthropic."""
_DOUBLED: Final = lazy_pattern(rf"^(?:/v1)*/(?:{CALL_PATHS})(?=(?:/v1)?/(?:{_TAILS})(?:/|$))")
"""Matches an API's path in a base URL, followed by the path that programs such as VS Code add to it."""
_DEPLOYMENT: Final = lazy_pattern(rf"(?:/v1)*/(?:deployments|engines)/(.+?)(/(?:{CALL_PATHS}|(?:images|audio)/.+))")


def own_address(host: str, port: int) -> str:
    """Returns the base URL by which this machine reaches a gateway that listens on this host."""
    name = ALL_ADDRESSES.get(host, host)
    return f"http://[{name}]:{port}/v1" if ":" in name else f"http://{name}:{port}/v1"


def standard_path(path: str) -> tuple[str, str]:
    """Returns the path as OpenAI and Anthropic write it, and the model that was in it, or an empty string."""
    inner = _DOUBLED.sub("", _ROOTS.sub("", _SLASHES.sub("/", path), count=1))
    match = _DEPLOYMENT.fullmatch(inner.rstrip("/"))
    return (match[2], match[1]) if match is not None else (inner, "")


def address_advice(path: str, base: str) -> tuple[str, bool]:
    """Returns advice about an unknown path, and whether the request is harmless. ``base`` is the URL of /v1."""
    rule = _rule_for(path)
    return rule.advice.replace("{base}", base).replace("{root}", base.removesuffix("/v1")), rule.harmless


def is_foreign(path: str) -> bool:
    """Returns whether the path belongs to another vendor's API."""
    return _rule_for(path).foreign


def _rule_for(path: str) -> _Rule:
    inner = re.sub(r"^(?:/v1)+(?=/)", "", standard_path(path)[0].rstrip("/")) or "/"
    return next(rule for rule in _RULES if re.fullmatch(rule.pattern, inner))


def request_text(method: str, path: str) -> str:
    """Returns method and path for the record: short, safe to display, and without what may be a key."""
    segments = [("…" if _may_be_key(segment) else segment) for segment in path.split("/")]
    return plain(f"{plain(method, 20)} {'/'.join(segments)}", 120)


def _may_be_key(segment: str) -> bool:
    """Returns whether a part of the path may be a key, which some users put into the base URL."""
    return PREFIX in segment or segment.startswith(("sk-", "AIza")) or len(re.sub(r"[^0-9A-Za-z_-]", "", segment)) > 32
