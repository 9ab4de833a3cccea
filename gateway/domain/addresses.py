"""Addresses: what to say about a request for a path that does not exist here, and how much of it may be recorded.

Programs ask for what their vendor has and this gateway has not, or were given a base URL that is not quite right. The
user sees "404" in the program, if that; the advice says what it means.
"""

import re
from typing import Final

import msgspec

from gateway.domain.text import plain
from gateway.domain.token import PREFIX

LONGEST = 120
"""Characters of a request that is recorded."""

CODES: Final = ("unknown_url", "method_not_allowed", "origin_not_allowed", "wrong_host")
"""Codes of requests that reach no API because of their address or of who sends them."""

_TAILS: Final = "chat/completions|completions|embeddings|messages|responses|models"
_VENDOR_ONLY: Final = "not supported: have the program call its vendor directly for that"


class _Advice(msgspec.Struct, frozen=True):
    pattern: "re.Pattern[str]"
    """What the whole path matches, without a ``/v1`` at its beginning."""
    text: str
    """``{base}``: the base URL of /v1, ``{root}``: the same without ``/v1``."""
    harmless: bool = False
    """The program works without it."""


def _row(pattern: str, text: str, *, harmless: bool = False) -> _Advice:
    return _Advice(re.compile(pattern), text, harmless)


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
    _row(r"/responses/.*", "responses are not kept here: have the program send the whole input (store: false)"),
    _row(
        r"/(?:images|audio|videos|realtime|moderations|fine_tuning|fine-tunes|rerank|ocr)(?:/.*)?",
        "this API is " + _VENDOR_ONLY,
    ),
    _row(r"/complete", "this API is obsolete: have the program use /v1/messages"),
    _row(
        r"/(?:v1beta\d*|v1alpha)/.*|/models/[^/]+:(?:\w+)",
        "this is Gemini's API: choose an OpenAI-compatible provider in the program, with the base URL {base}",
    ),
    _row(
        r"/api/(?:tags|show|chat|generate|embed|embeddings|ps|version|pull)",
        "this is Ollama's API: choose an OpenAI-compatible provider in the program, with the base URL {base}",
    ),
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
"""Names by what the programs call themselves; others are shown as they are."""


def address_advice(path: str, base: str) -> tuple[str, bool]:
    """What to do about a request for this path, and whether nothing needs to be done. ``base``: URL of /v1."""
    inner = re.sub(r"^(?:/v1)+(?=/)", "", re.sub("//+", "/", path).rstrip("/")) or "/"
    root = base.removesuffix("/v1")
    for row in _ROWS:
        if row.pattern.fullmatch(inner):
            return row.text.replace("{base}", base).replace("{root}", root), row.harmless
    return f"check the program's base URL: it is {base} here, or {root} for Anthropic's", False


def recorded_request(method: str, path: str) -> str:
    """Method and path as they may be recorded: short, harmless, and without what may be a key."""
    segments = [("…" if _may_be_key(segment) else segment) for segment in path.split("/")]
    return plain(f"{plain(method, 20)} {'/'.join(segments)}", LONGEST)


def program(app: str) -> str:
    """The name of a program, from what it calls itself."""
    return PROGRAMS.get(app, app)


def _may_be_key(segment: str) -> bool:
    """Apps that have no field for a key have it in the base URL."""
    return PREFIX in segment or segment.startswith(("sk-", "AIza")) or len(re.sub(r"[^0-9A-Za-z_-]", "", segment)) > 32
