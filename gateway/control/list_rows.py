"""Rows of the price list: which one applies to a name that an upstream uses, or why none does.

A model has several spellings: dated, ``-latest``, with a prefix of its maker or region, with a suffix that says how it
is served. A spelling may stand for another one only if the vendor charges the same for both: a row of another region,
of another vendor, or of an older model is not a price for it, only a hint.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from gateway.control.more_prices import SAME_PRICE, SOURCE, more_prices
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.patterns import near_names
from gateway.domain.units import MILLION, Nanos
from gateway.upstream.vendors import PRESETS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

NEAR = 3
"""The number of names that are suggested for a name without a price."""

_PLACES = (
    (r"https?://api\.together\.(ai|xyz)", "together"),
    (r"https?://codestral\.mistral\.ai", "mistral"),
    (r"https?://([a-z0-9-]+\.)?api\.x\.ai", "x-ai"),
    (r"https?://bedrock-(mantle|runtime)(-fips)?\.[a-z0-9-]+\.(api\.aws|amazonaws\.com)", "aws"),
    (r"https?://api\.moonshot\.", "moonshotai"),
)
"""Patterns of vendors' addresses that are not in the list, and the vendors."""
_HUGGING_FACE = re.compile(r"https?://router\.huggingface\.co(/v1)?/?$")
_BEDROCK = re.compile(
    r"(arn:aws[a-z-]*:bedrock:|(bedrock/)?)"
    r"((?P<region>[a-z]{2}(-gov)?-[a-z]+-\d)(:\d*:(foundation-model|inference-profile))?/)?(?P<model>[^/]+)$"
)
"""Matches a name at Bedrock: alone, in an ARN, or after a region."""
_ALIASES = {
    "bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini-openai": "google",
    "moonshot": "moonshotai",
    "together_ai": "together",
    "vertex": "google",
    "vertex_ai": "google",
    "xai": "x-ai",
}
"""Other names of vendors, and their names in the list."""

_MAKERS = {
    "azure": (
        *((start, "openai") for start in ("gpt-", "o1", "o3", "o4", "codex-", "computer-use", "model-router")),
        *(("claude-", "anthropic"), ("grok-", "x-ai")),
    ),
    "google": (("claude-", "anthropic"), ("grok-", "x-ai")),
    "perplexity": (("claude-", "anthropic"), ("gpt-", "openai"), ("gemini-", "google"), ("grok-", "x-ai")),
}
"""Vendors that sell models of other makers at the maker's price: the starts of the models' names, and the makers. Every
vendor has its own price for models with open weights."""
_FROM_OPENROUTER = lazy_pattern(r"imported from openrouter|trusting open ?router", re.IGNORECASE)
_OPEN = lazy_pattern(r"gpt-oss|^grok-1$")

_DATE = lazy_pattern(r"([-@](20\d{2}-?(0[1-9]|1[0-2])-?([0-2]\d|3[01])|default)|@\d{3})$")
_LATEST = lazy_pattern(r"-latest$")
_ROUTES = lazy_pattern(r":(nitro|floor|exacto|online)$")
"""Matches the suffix that tells OpenRouter how to choose among the vendors of a model; ``online`` adds searches, which
cost extra."""
_QUALIFIERS = lazy_pattern(r"-(experimental|beta|latest|0304|0309|gv2|reasoning|non-reasoning)(?=-|$)")
"""Matches the suffixes of xAI's versions that do not change the price."""
_NEUTRAL = lazy_pattern(
    r"^\d*([-@:.](v?\d+(\.\d+)*|latest|preview|exp|experimental|beta|default|maas|customtools|audio|instruct|native|dialog"
    r"|tool|use|thinking|alpha|text|chat|hd|pro-latest|live|speech))*[-@:.]?$"
)
"""Matches what may follow the name in a row: with it, a name still means the same model."""

_REGION = lazy_pattern(r"^(us-gov|us|eu|apac|au|jp|in|ca|sa|global|me|af)\.(?=[a-z0-9]+\.)")

SIZES = ((4, 100_000_000), (16 + 1e-9, 200_000_000), (100, 900_000_000))
"""Fireworks' prices of models without a row of their own: below this many billions of parameters, nano-dollars per
million tokens."""
MIXTURES = ((56, 500_000_000), (176, 1_200_000_000))
"""The same for mixtures of experts such as ``8x7b``, up to and including these sizes."""
_SIZE = lazy_pattern(r"(?<![a-z0-9])(\d+)x(\d+(?:p\d+)?)b(?![a-z0-9])|(?<![a-z0-9.])(\d+(?:p\d+)?)b(?![a-z0-9])")
_NO_SIZE = lazy_pattern(r"-a\d+(p\d+)?b|embed|rerank|flux|diffusion|whisper|draft|ocr|moe|405b")

OUTDATED = "the list knows newer models of that name than the one whose price it has"


class ListRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the list has for a name: a row, plain amounts, or the reason why neither applies."""

    row: "ModelInfo | None" = None
    maker: str = ""
    """The maker whose own price it is; empty if it is the vendor's."""
    amounts: Mapping[str, Nanos] = {}
    """Amounts that are not in a row, by the fields of a price."""
    rule: str = ""
    """Where these amounts are from, as it follows the word "price" in a source."""
    factor: int = MILLION
    """The parts per million of all amounts that are charged."""
    why: str = ""


class ListNames(msgspec.Struct, frozen=True):
    """Finds vendors and their models in the list."""

    vendors: "Sequence[Provider]"
    short_names: dict[str, set[str]] = {}
    """All names in a vendor's rows, without their prefixes, by vendor; filled on first use."""

    def vendor(self, base_url: str, model: str = "") -> "Provider | None":
        """Returns the vendor at an address; for Hugging Face's router, the vendor at the end of the model's name."""
        if _HUGGING_FACE.match(base_url):
            return self._called(f"huggingface_{model.lower().rpartition(':')[2]}")
        for pattern, name in _PLACES:
            if re.match(pattern, base_url):
                return self._called(name)
        return next((v for v in self.vendors if base_url and re.match(v.api_pattern, base_url)), None)

    def named(self, name: str) -> "list[Provider]":
        """Returns the vendors with a name: the list's own, the program's, or another one in use."""
        wanted = _ALIASES.get(name, name)
        vendors = [vendor for vendor in self.vendors if vendor.id == wanted]
        preset = PRESETS[name].base_url if name in PRESETS else ""
        other = self.vendor(preset) if preset and not vendors else None
        return [*vendors, *([other] if other is not None else [])]

    def row(self, vendor: "Provider", name: str, base_url: str = "") -> ListRow:
        """Returns what applies to a model, by the vendor's name for it."""
        name = name.lower()
        if vendor.id == "openrouter" and name.endswith(":free"):
            return ListRow(amounts=_both(0), rule="for free variants")
        if vendor.id == "azure":
            name = name.removeprefix("global-standard/").removeprefix("global/")
            if name.startswith("us-gov/"):
                return ListRow(why="the list has no price for the region 'us-gov'")
            if (factor := next((factor for start, factor in _DATA_ZONES if name.startswith(start)), 0)) != 0:
                return msgspec.structs.replace(self.row(vendor, name.partition("/")[2]), factor=factor)
        if vendor.id == "aws":
            if (match := _BEDROCK.match(name)) is None:
                return ListRow()
            name = match["model"]
            base_url = f"https://bedrock-runtime.{match['region']}.amazonaws.com" if match["region"] else base_url
        name = SAME_PRICE.get(vendor.id, {}).get(name.rpartition("/")[2], name)
        if not name:
            return ListRow(why=OUTDATED)
        amounts = _more(vendor.id, name, base_url)
        return ListRow(amounts=amounts, rule=SOURCE) if amounts else self._row_of(vendor, name, base_url)

    def _row_of(self, vendor: "Provider", name: str, base_url: str) -> ListRow:
        why = ""
        for spelling in spellings(vendor.id, name):
            row = vendor.find_model(spelling)
            if row is not None:
                old = OUTDATED if row.deprecated and _LATEST.search(spelling) else ""
                why = why or _wrong(vendor, row, name, base_url) or old or _too_short(row, spelling)
                if not why:
                    return ListRow(row=row)
        return ListRow(why=why) if why else _by_size(vendor.id, name) or self._of_maker(vendor, name) or ListRow()

    def near(self, vendor: "Provider", name: str) -> list[str]:
        """Returns the closest names that have a row in the list."""
        short = name.rpartition("/")[2].lower()
        if vendor.id not in self.short_names:
            texts = (text for row in vendor.models for text in (row.id.lower(), *_texts(row)))
            self.short_names[vendor.id] = {text.rpartition("/")[2] for text in texts}
        known = self.short_names[vendor.id] - {short}
        if family := _LATEST.sub("", short) if _LATEST.search(short) else "":
            versions = [other for other in known if re.fullmatch(re.escape(family) + r"-\d[\d.-]*", other)]
            if versions:
                return sorted(versions, reverse=True)[:NEAR]
        return near_names(short, [other for other in known if other and other[-1].isalnum()], NEAR)

    def routed(self, base_url: str, name: str) -> list[str] | None:
        """Returns the names of a model at Hugging Face's router that choose a vendor whose price is known; None for
        another address.
        """
        if not _HUGGING_FACE.match(base_url):
            return None
        start, model = "huggingface_", re.sub(r":(fastest|cheapest|preferred)$", "", name)
        sellers = [v for v in self.vendors if v.id.startswith(start) and v.find_model(model.lower()) is not None]
        return [f"{model}:{seller.id.removeprefix(start)}" for seller in sellers]

    def _called(self, name: str) -> "Provider | None":
        return next((vendor for vendor in self.vendors if vendor.id == name), None)

    def _of_maker(self, vendor: "Provider", name: str) -> ListRow | None:
        """Returns the price of the model's maker if the vendor charges it, or the reason why a known one does not
        apply; None without either.
        """
        short = name.lower().rpartition("/")[2].replace("gpt-35", "gpt-3.5")
        if vendor.id not in _MAKERS:
            return None
        maker = next((who for start, who in _MAKERS[vendor.id] if short.startswith(start)), "")
        if not maker or _OPEN.search(short):
            others = [seller.id for seller in self.vendors if seller.id in (vendor.fallback_model_providers or ())]
            theirs = [who for who in others for seller in self.named(who) if seller.find_model(short) is not None]
            return ListRow(why=f"the list has only the price of {theirs[0]}, its maker") if theirs else None
        result = next((self.row(seller, short) for seller in self.named(maker)), ListRow())
        if result.row is None:
            return result if result.why else None
        return msgspec.structs.replace(result, maker=maker)


_DATA_ZONES = (("us/", 1_100_000), ("eu/gpt-6", 1_200_000), ("eu/", 1_100_000), ("apac/", 1_200_000))
"""Starts of names in Azure's data zones, and what these cost in parts per million of the global price."""


def spellings(vendor: str, name: str) -> Iterator[str]:
    """Yields the names that may stand for a model in a vendor's rows, the most exact first, in lower case."""
    seen: set[str] = set()
    for text in _spellings(vendor, name.lower()):
        for spelling in (text, _DATE.sub("", text), _ROUTES.sub("", text)):
            if spelling and spelling not in seen:
                seen.add(spelling)
                yield spelling


def _spellings(vendor: str, name: str) -> Iterator[str]:
    yield name
    short = name.rpartition("/")[2]
    if vendor == "fireworks":
        yield f"accounts/fireworks/models/{short}"
    elif vendor in ("google", "anthropic", "mistral", "deepseek", "x-ai", "moonshotai", "openai", "zai", "minimax"):
        yield short
    if vendor == "google":
        yield short.replace("@", "-")
    if vendor == "x-ai" and (match := re.match(r"grok-[0-9.]+(-multi-agent|-fast|-mini)?", short)):
        rest = short[match.end() :]
        if not _QUALIFIERS.sub("", rest):
            yield match[0]
    if vendor == "aws":
        yield _REGION.sub("", name)
    if vendor.startswith("huggingface"):
        yield name.rpartition(":")[0]


def _more(vendor: str, name: str, base_url: str) -> Mapping[str, Nanos]:
    """Returns the price of a model that the list lacks or has wrong; empty if it is unknown.

    Bedrock's names without a prefix of a region have that of the address.
    """
    if vendor == "openai" and name.startswith("ft:"):
        name = _DATE.sub("", ":".join(name.split(":")[:2]))
    if vendor == "aws" and not _REGION.match(name) and (region := _region_of(base_url)) not in ("", "us"):
        name = f"us-gov.{name}" if region == "us-gov" else f"{_place_of(base_url)}/{name}"
    known = more_prices(vendor)
    short = _DATE.sub("", name.rpartition("/")[2])
    amounts = known.get(name) or (known.get(short) if vendor in ("fireworks", "google") else None) or {}
    if amounts and vendor == "fireworks" and "cached_input" not in amounts:
        return {**amounts, "cached_input": Nanos(amounts["input"] // 2)}  # its usual discount; prices by size have none
    return amounts


def _by_size(vendor: str, name: str) -> ListRow | None:
    """Returns Fireworks' price of a model without one of its own; None if its name does not have its size."""
    place, _, short = name.rpartition("/")
    if vendor != "fireworks" or place not in ("", "accounts/fireworks/models") or _NO_SIZE.search(short):
        return None
    amount = size_price(short)
    return ListRow(amounts=_both(amount), rule="by size") if amount is not None else None


def _both(amount: int) -> dict[str, Nanos]:
    return {"input": Nanos(amount), "output": Nanos(amount)}


def size_price(name: str) -> int | None:
    """Returns Fireworks' price of a million tokens of a model whose name has its size, in nano-dollars; None if it is
    unknown.
    """
    sizes = {(experts, billions or plain) for experts, billions, plain in _SIZE.findall(name)}
    if len(sizes) != 1:
        return None  # one of several may be the size of an accompanying model
    ((experts, written),) = sizes
    billions = float(written.replace("p", ".")) * int(experts or 1)
    if experts:
        return next((nanos for most, nanos in MIXTURES if billions <= most), None)
    return next((nanos for most, nanos in SIZES if billions < most), None)


def _wrong(vendor: "Provider", row: "ModelInfo", name: str, base_url: str) -> str:
    """Returns why the price in a row is another seller's or another region's; empty if it is not."""
    said = row.price_comments or ""
    if vendor.id != "openrouter" and _FROM_OPENROUTER.search(said):
        return "the list has only OpenRouter's price for it"
    if vendor.id == "google" and "regional endpoints carry" in said:
        host = urlsplit(base_url).hostname or ""
        regional = host.endswith("-aiplatform.googleapis.com") and not host.startswith("global-")
        return "the list has the price of the global endpoint only, regional ones cost more" if regional else ""
    if vendor.id != "aws":
        return ""
    match = _REGION.match(name)
    region = match[1] if match else _region_of(base_url)
    listed = any(f"{region}." in text for text in _texts(row)) or (
        row.id.startswith("regional.") and region != "global"
    )
    # the row of Amazon's own model is that of the USA; GovCloud costs a fifth more than the list says
    if region in ("", "us") or (listed and region != "us-gov" and not row.id.startswith("regional.amazon.")):
        return ""
    return f"the list has no price for the region '{region}'"


def _place_of(base_url: str) -> str:
    match = re.search(r"bedrock-[a-z]+(?:-fips)?\.([a-z0-9-]+)\.", base_url)
    return match[1] if match else ""


def _region_of(base_url: str) -> str:
    place = _place_of(base_url)
    for start, region in (("us-gov", "us-gov"), ("us", "us"), ("eu", "eu"), ("ap", "apac")):
        if place.startswith(start):
            return region
    return place.split("-")[0]


def _too_short(row: "ModelInfo", name: str) -> str:
    """Returns why a row for names with the same start is not for this one; empty if it is."""
    if name.startswith("ft:") or _is_exact(row.match, name):
        return ""
    starts = [text for text in _texts(row) if text in name]
    if not starts or any(_NEUTRAL.match(name[name.index(text) + len(text) :]) for text in starts):
        return ""
    return f"the list has a price for '{max(starts, key=len)}', not for this one"


def _is_exact(clause: object, name: str) -> bool:
    """Returns whether a condition names the model, instead of the start of its name."""
    if (pattern := getattr(clause, "regex", "")) and not hasattr(clause, "and_"):
        return re.search(pattern, name) is not None
    if (text := getattr(clause, "equals", "")) or (text := getattr(clause, "ends_with", "")):
        return name.endswith(str(text).lower())
    return any(_is_exact(part, name) for part in getattr(clause, "or_", ()))


def _texts(row: "ModelInfo") -> frozenset[str]:
    return frozenset(text.lower() for text in _clause_texts(row.match))


def _clause_texts(clause: object) -> Iterable[str]:
    for name in ("equals", "starts_with", "contains", "ends_with"):
        if text := getattr(clause, name, ""):
            yield text
    for name in ("or_", "and_"):
        for part in getattr(clause, name, ()):
            yield from _clause_texts(part)
