"""Addresses: other spellings of a path, advice for unknown ones, and what may be recorded of them.

Programs call what their vendor offers and this gateway does not, or were given a slightly wrong base URL. The user sees
at most "404" in the program; the advice says what it means.
"""

import re
from typing import Final

import msgspec

from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.text import plain
from gateway.domain.token import PREFIX

CODES: Final = ("unknown_url", "method_not_allowed", "origin_not_allowed", "wrong_host")
"""Error codes of requests that reach no API because of their address or their sender."""

_TAILS: Final = "chat/completions|completions|embeddings|messages|responses|models"
_VENDOR_ONLY: Final = "not supported: have the program call its vendor directly for that"


class _Advice(msgspec.Struct, frozen=True):
    pattern: "re.Pattern[str]"
    """Matches the whole path, without a ``/v1`` at its beginning."""
    text: str
    """The advice. ``{base}`` is the base URL of /v1, ``{root}`` the same without ``/v1``."""
    harmless: bool = False
    """Whether the program works without it."""
    foreign: bool = False
    """Whether it is another vendor's API, even if its paths look like paths of this gateway."""


def _row(pattern: str, text: str, *, harmless: bool = False, foreign: bool = False) -> _Advice:
    return _Advice(lazy_pattern(pattern), text, harmless, foreign)


def _foreign(pattern: str, owner: str) -> _Advice:
    advice = "choose an OpenAI-compatible provider in the program, with the base URL {base}"
    return _row(pattern, f"this is {owner}'s API: {advice}", foreign=True)


_ROWS: Final = (
    _row(
        rf"/(?:chat/completions|completions|embeddings|messages|responses)(?:/v1)?/(?:{_TAILS})(?:/.*)?",
        "the base URL has the path of one API at its end: set it to {base}",
    ),
    _row(r"/messages/batches.*|/batches.*", "batches are " + _VENDOR_ONLY),
    _row(
        r"/(?:files|uploads|vector_stores|assistants|threads|containers|skills|conversations)(?:/.*)?",
        "files, threads and the like, which a vendor keeps, are " + _VENDOR_ONLY,
    ),
    _row(r"/responses/.*", "of a response there are GET, DELETE, GET /input_items and POST /cancel"),
    _row(
        r"/(?:images|audio|videos|realtime|moderations|fine_tuning|fine-tunes|rerank|ocr)(?:/.*)?",
        "this API is " + _VENDOR_ONLY,
    ),
    _row(r"/complete", "this API is obsolete: have the program use /v1/messages"),
    _foreign(r"(?:/v\d\w*)?/projects/.*|/publishers/.*", "Vertex AI"),
    _foreign(r"/(?:v\d(?:beta|alpha)\d*)/.*|(?:/v\d)?/(?:models|tunedModels)/.+:(?:[a-z]+[A-Z]\w*|predict)", "Gemini"),
    _foreign(r"/model/.+/(?:converse|converse-stream|invoke|invoke-with-response-stream)", "Bedrock"),
    _foreign(r"/v2/(?:chat|embed|rerank)", "Cohere"),
    _foreign(r"/api/(?:tags|show|chat|generate|embed|embeddings|ps|version|pull|create|copy|delete|push)", "Ollama"),
    _row(
        r"/(?:me|organizations|usage|dashboard|credits|key|account)(?:/.*)?|/api/(?:claude_cli|claude_code|oauth|"
        r"event_logging|organizations|hello|eval)(?:/.*)?|/(?:\.well-known|oauth|authorize|register|token)(?:/.*)?",
        "the program asks about an account at its vendor and works without an answer",
        harmless=True,
    ),
    _row(
        r"/(?:favicon\.ico|robots\.txt|apple-touch-icon.*|metrics|index\.html?)",
        "a browser or a monitor asked, and needs no answer",
        harmless=True,
    ),
    _row(
        rf"/.*?/(?:v1/)?(?:{_TAILS})(?:/count_tokens)?",
        "the base URL has a part too much: set it to {base}, or to {root} for Anthropic's",
    ),
)

PROGRAMS: Final = {
    "claude-cli": "Claude Code",
    "codex_cli_rs": "Codex",
    "codex_exec": "Codex",
    "codex-tui": "Codex",
    "OpenAI": "a program with OpenAI's SDK",
    "AsyncOpenAI": "a program with OpenAI's SDK",
    "Anthropic": "a program with Anthropic's SDK",
    "AsyncAnthropic": "a program with Anthropic's SDK",
    "Mozilla": "a browser",
    "": "a program without a name",
}
"""Display names of programs by their own names; others are shown as they are."""


_SLASHES: Final = lazy_pattern("//+")
_ROOTS: Final = lazy_pattern(r"^(?:/v1)*/(?:v1beta/openai|openai|anthropic)(?=/)")
"""Prefixes under which other vendors have OpenAI's or Anthropic's paths: Azure, Groq, Gemini, Foundry."""
_DEPLOYMENT: Final = lazy_pattern(
    r"(?:/v1)*/(?:deployments|engines)/(.+?)"
    r"(/(?:chat/completions|completions|embeddings|responses|messages|(?:images|audio)/.+))"
)


def standard_path(path: str) -> tuple[str, str]:
    """Returns the path as in OpenAI's and Anthropic's own APIs, and the model in it; empty if it has none."""
    inner = _ROOTS.sub("", _SLASHES.sub("/", path), count=1)
    match = _DEPLOYMENT.fullmatch(inner.rstrip("/"))
    return (match[2], match[1]) if match is not None else (inner, "")


def address_advice(path: str, base: str) -> tuple[str, bool]:
    """Returns what to do about a request for this path, and whether it needs doing. ``base``: URL of /v1."""
    row = _row_of(path)
    text = "check the program's base URL: it is {base} here, or {root} for Anthropic's" if row is None else row.text
    told = text.replace("{base}", base).replace("{root}", base.removesuffix("/v1"))
    return told, row is not None and row.harmless


def is_foreign(path: str) -> bool:
    """Returns whether the path belongs to another vendor's API."""
    row = _row_of(path)
    return row is not None and row.foreign


def _row_of(path: str) -> _Advice | None:
    inner = re.sub(r"^(?:/v1)+(?=/)", "", standard_path(path)[0].rstrip("/")) or "/"
    return next((row for row in _ROWS if row.pattern.fullmatch(inner)), None)


def request_text(method: str, path: str) -> str:
    """Returns method and path for the record: short, harmless, and without what may be a key."""
    segments = [("…" if _may_be_key(segment) else segment) for segment in path.split("/")]
    return plain(f"{plain(method, 20)} {'/'.join(segments)}", 120)


def program(app: str) -> str:
    """Returns a program's display name."""
    return PROGRAMS.get(app, app)


def _may_be_key(segment: str) -> bool:
    """Returns whether a part of the path may be a key: apps without a field for a key put it into the base URL."""
    return PREFIX in segment or segment.startswith(("sk-", "AIza")) or len(re.sub(r"[^0-9A-Za-z_-]", "", segment)) > 32
