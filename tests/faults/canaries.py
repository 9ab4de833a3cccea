"""Canaries: secrets and prompts that are planted where an upstream may repeat them, and the search for them afterwards.

The search is written down independently of the gateway's own: a secret has leaked if ``PIECE`` characters of it in a
row are in what came out, in whatever case, plain, percent- or JSON-escaped or in Base64.
"""

import json
import random
import re
import string
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, unquote

PIECE = 12

_DIGITS, _LETTERS, _HEX = string.digits, string.ascii_letters, "0123456789abcdef"
_ALNUM = _LETTERS + _DIGITS


def _some(alphabet: str, size: int) -> Callable[[random.Random], str]:
    return lambda chance: "".join(chance.choices(alphabet, k=size))


def _prefixed(prefix: str, alphabet: str, size: int) -> Callable[[random.Random], str]:
    return lambda chance: prefix + "".join(chance.choices(alphabet, k=size))


def _jwt(chance: random.Random) -> str:
    part = _some(_ALNUM + "-_", 40)
    return "eyJhbGciOiJSUzI1NiJ9." + part(chance) + "." + part(chance)


def _uuid(chance: random.Random) -> str:
    return "-".join(_some(_HEX, size)(chance) for size in (8, 4, 4, 4, 12))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "openai": _prefixed("sk-proj-", _ALNUM + "-_", 156),
    "openai_old": _prefixed("sk-", _ALNUM, 48),
    "anthropic": _prefixed("sk-ant-api03-", _ALNUM + "-_", 95),
    "google": _prefixed("AIzaSy", _ALNUM + "-_", 33),
    "groq": _prefixed("gsk_", _ALNUM, 52),
    "xai": _prefixed("xai-", _ALNUM, 80),
    "mistral": _some(_ALNUM, 32),
    "deepseek": _prefixed("sk-", _HEX, 32),
    "together": _some(_HEX, 64),
    "fireworks": _prefixed("fw_", _ALNUM, 24),
    "azure": _some(_HEX, 32),
    "azure_long": _prefixed("", _ALNUM, 84),
    "bedrock": _prefixed("ABSK", _ALNUM + "+/", 128),
    "cohere": _some(_ALNUM, 40),
    "perplexity": _prefixed("pplx-", _ALNUM, 48),
    "huggingface": _prefixed("hf_", _LETTERS, 34),
    "openrouter": _prefixed("sk-or-v1-", _HEX, 64),
    "nvidia": _prefixed("nvapi-", _ALNUM + "-_", 64),
    "cerebras": _prefixed("csk-", _ALNUM.lower(), 48),
    "replicate": _prefixed("r8_", _ALNUM, 37),
    "github": _prefixed("github_pat_", _ALNUM + "_", 71),
    "zhipu": lambda chance: _some(_HEX, 32)(chance) + "." + _some(_ALNUM, 16)(chance),
    "hex": _some(_HEX, 40),
    "uuid": _uuid,
    "base64": lambda chance: b64encode(chance.randbytes(33)).decode(),
    "jwt": _jwt,
    "password": lambda chance: "p#&w/" + _some(_ALNUM, 8)(chance) + '%"<\\+>$=?',
    "passphrase": lambda chance: " ".join(_some(string.ascii_lowercase, 6)(chance) for _ in range(4)),
    "short": lambda chance: "Q7" + _some(_ALNUM, 7)(chance),
}
"""Forms of vendors' keys, of other tokens and of passwords."""

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "percent": lambda secret: quote(secret, safe=""),
    "every_percent": lambda secret: "".join(f"%{ord(char):02x}" for char in secret),
    "json": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "unicode": lambda secret: "".join(f"\\u{ord(char):04x}" for char in secret),
    "base64": lambda secret: b64encode(b"user:" + secret.encode()).decode(),
    "upper": str.upper,
    "cut": lambda secret: secret[: max(PIECE, len(secret) // 2)] + "...",
    "inside": lambda secret: secret[len(secret) // 3 :].strip()[:PIECE] if len(secret) >= 2 * PIECE else secret,
    "bearer": lambda secret: f"Authorization: Bearer {secret}",
}
"""How an upstream may write a secret that it repeats."""

PROMPT = "Canary 4f7d tells of WHALES\nand \"quotes\" in the 'northern' sea \\ größer: 鯨 98b1c2"
PROMPT_PARTS = ("canary4f7dtellsofwhales", "tells of whales", "northern", "98b1c2", "whale", "größer")


def secret_of(kind: str, number: int) -> str:
    """A secret of that kind, the same one each time."""
    return KINDS[kind](random.Random(f"{kind} {number}"))


def leaks(out: Mapping[str, bytes], secrets: Iterable[str]) -> list[str]:
    """Which outputs show a secret, and what of it."""
    wanted: dict[str, str] = {}
    for secret in secrets:
        for form in _forms(secret):
            pieces = [form[start : start + PIECE] for start in range(len(form) - PIECE + 1)] or [form]
            wanted.update((piece, secret) for piece in pieces if piece == piece.strip())
    shorts = [piece for piece in wanted if len(piece) < PIECE]
    found = []
    for name, data in out.items():
        for text in _readings(data.decode("utf-8", "replace")):
            shown = {text[start : start + PIECE] for start in range(len(text) - PIECE + 1)}
            hits = [*(shown & wanted.keys()), *(piece for piece in shorts if piece in text)]
            found += [f"{name}: {wanted[hits[0]]!r} as {hits[0]!r}"] if hits else []
    return found


def _forms(secret: str) -> list[str]:
    encoded = [b64encode(pad + secret.encode()).decode()[4:-4] for pad in (b"", b"a", b"ab")]
    return [form.lower() for form in (secret, *encoded) if len(form) >= PIECE or form == secret]


def _readings(text: str) -> list[str]:
    """The text in lower case, as it is and with its escapes undone, twice."""
    out = [text]
    for _ in range(2):
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), out[-1])
        out.append(unquote(re.sub(r'\\([/"\\])', r"\1", plain)))
    return [reading.lower() for reading in dict.fromkeys(out)]


def quotes(out: Mapping[str, bytes]) -> list[str]:
    """Which outputs show a part of the prompt."""
    found = []
    for name, data in out.items():
        for text in _readings(data.decode("utf-8", "replace")):
            bare = re.sub(r"[\s\"'\\]", "", text)
            found += [f"{name}: {part!r}" for part in PROMPT_PARTS if part in text or part in bare]
    return found
