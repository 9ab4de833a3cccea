"""Row checks: why a row of the price list that matches a model's name does not have the model's price.

Rows match parts of names, so a row may be for another model. It may also be for another region.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.domain.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

REGION_PREFIX = lazy_pattern(r"^(us-gov|us|eu|apac|au|jp|in|ca|sa|global|me|af)\.(?=[a-z0-9]+\.)")
"""Matches the region before a name at Bedrock."""
_FROM_OPENROUTER = lazy_pattern(r"imported from openrouter|trusting open ?router", re.IGNORECASE)
_NEUTRAL = lazy_pattern(
    r"^\d*([-@:.](v?\d+(\.\d+)*|latest|preview|exp|experimental|beta|default|maas|customtools|audio|instruct|native|dialog"
    r"|tool|use|thinking|alpha|text|chat|hd|pro-latest|live|speech))*[-@:.]?$"
)
"""Matches a suffix that may follow a row's name without making it the name of another model."""


def origin_mismatch(vendor: str, row: "ModelInfo", name: str, base_url: str) -> str:
    """Returns why a row has the price of another region, or of OpenRouter; empty if its price applies."""
    comments = row.price_comments or ""
    if vendor != "openrouter" and _FROM_OPENROUTER.search(comments):
        return "the list has only OpenRouter's price for it"
    if vendor == "google" and "regional endpoints carry" in comments:
        host = urlsplit(base_url).hostname or ""
        is_regional = host.endswith("-aiplatform.googleapis.com") and not host.startswith("global-")
        return "the list has only the price of the global endpoint; regional ones cost more" if is_regional else ""
    return _bedrock_mismatch(row, name, base_url) if vendor == "aws" else ""


def _bedrock_mismatch(row: "ModelInfo", name: str, base_url: str) -> str:
    """Returns why a row does not have Bedrock's price in the region of the name, or else of the address; empty if it
    does.
    """
    match = REGION_PREFIX.match(name)
    region = match[1] if match else region_of(base_url)
    if region in ("", "us"):
        return ""  # the list has the prices of the USA
    error = f"the list has no price for the region '{region}'"
    if region == "us-gov" or row.id.startswith("regional.amazon."):
        return error  # GovCloud costs a fifth more than the list says; rows of Amazon's own models are for the USA
    if row.id.startswith("regional.") and region != "global":
        return ""
    return "" if any(f"{region}." in text for text in row_texts(row)) else error


def aws_region(base_url: str) -> str:
    """Returns the region in the address, such as ``eu-west-2``; empty if it has none."""
    match = re.search(r"bedrock-[a-z]+(?:-fips)?\.([a-z0-9-]+)\.", base_url)
    return match[1] if match else ""


def region_of(base_url: str) -> str:
    """Returns the region in the address as Bedrock's names of models write it, such as ``eu``; empty if it has none."""
    full_region = aws_region(base_url)
    for prefix, region in (("us-gov", "us-gov"), ("us", "us"), ("eu", "eu"), ("ap", "apac")):
        if full_region.startswith(prefix):
            return region
    return full_region.split("-")[0]


def name_mismatch(row: "ModelInfo", name: str) -> str:
    """Returns why a row that matches a part of the name is not for this model; empty if it is."""
    if name.startswith("ft:") or _is_exact(row.match, name):
        return ""
    matched = [text for text in row_texts(row) if text in name]
    suffixes = [name[name.index(text) + len(text) :] for text in matched]
    if not matched or any(map(_NEUTRAL.match, suffixes)):
        return ""
    return f"the list has a price for '{max(matched, key=len)}', not for this one"


def _is_exact(clause: object, name: str) -> bool:
    """Returns whether a row's condition names the whole model, and not only a part of the name."""
    if (pattern := getattr(clause, "regex", "")) and not hasattr(clause, "and_"):
        return re.search(pattern, name) is not None
    if (text := getattr(clause, "equals", "")) or (text := getattr(clause, "ends_with", "")):
        return name.endswith(str(text).lower())
    return any(_is_exact(inner, name) for inner in getattr(clause, "or_", ()))


def row_texts(row: "ModelInfo") -> frozenset[str]:
    """Returns the lower-case names and parts of names in a row's conditions."""
    return frozenset(text.lower() for text in _clause_texts(row.match))


def _clause_texts(clause: object) -> Iterator[str]:
    """Yields the names and parts of names in a condition and in the conditions inside it."""
    for name in ("equals", "starts_with", "contains", "ends_with"):
        if text := getattr(clause, name, ""):
            yield text
    for name in ("or_", "and_"):
        for inner in getattr(clause, name, ()):
            yield from _clause_texts(inner)
