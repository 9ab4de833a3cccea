"""List rows: finds the row of the price list that applies to an upstream's name of a model, or says why none does.

A model's name has several spellings: with a date or ``-latest``, with a prefix for the maker or the region, with a
suffix that says how the model is served. One spelling may stand for another only if the vendor charges the same for
both. If a row is for another region, another vendor or an older model, we say so instead of using its price.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from gateway.control.more_prices import SOURCE, more_amounts, same_as
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.patterns import near_names
from gateway.domain.units import MILLION, Nanos
from gateway.upstream.vendors import PRESETS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

_VENDOR_URLS = (
    (r"https?://api\.together\.(ai|xyz)", "together"),
    (r"https?://codestral\.mistral\.ai", "mistral"),
    (r"https?://([a-z0-9-]+\.)?api\.x\.ai", "x-ai"),
    (r"https?://bedrock-(mantle|runtime)(-fips)?\.[a-z0-9-]+\.(api\.aws|amazonaws\.com)", "aws"),
    (r"https?://api\.moonshot\.", "moonshotai"),
)
"""Patterns of vendors' addresses that are not in the list, with the vendors."""
_HUGGING_FACE = re.compile(r"https?://router\.huggingface\.co(/v1)?/?$")
_BEDROCK = re.compile(
    r"(arn:aws[a-z-]*:bedrock:|(bedrock/)?)"
    r"((?P<region>[a-z]{2}(-gov)?-[a-z]+-\d)(:\d*:(foundation-model|inference-profile))?/)?(?P<model>[^/]+)$"
)
"""Matches a model's name at Bedrock: alone, in an ARN, or after a region."""
_MAKERS = {
    "azure": (
        *((start, "openai") for start in ("gpt-", "o1", "o3", "o4", "codex-", "computer-use", "model-router")),
        *(("claude-", "anthropic"), ("grok-", "x-ai")),
    ),
    "google": (("claude-", "anthropic"), ("grok-", "x-ai")),
    "perplexity": (("claude-", "anthropic"), ("gpt-", "openai"), ("gemini-", "google"), ("grok-", "x-ai")),
}
"""Vendors that sell other makers' models at the maker's price, with the prefixes of the models' names and the makers.
Models with open weights are excluded, because every vendor has its own price for them."""
_DATA_ZONES = (("us/", 1_100_000), ("eu/gpt-6", 1_200_000), ("eu/", 1_100_000), ("apac/", 1_200_000))
"""Prefixes of names in Azure's data zones, with the factor of the global price, in parts per million."""
_OPEN_WEIGHTS = lazy_pattern(r"gpt-oss|^grok-1$")

_DATE = lazy_pattern(r"([-@](20\d{2}-?(0[1-9]|1[0-2])-?([0-2]\d|3[01])|default)|@\d{3})$")
_LATEST = lazy_pattern(r"-latest$")
_ROUTES = lazy_pattern(r":(nitro|floor|exacto|online)$")
"""Matches the suffix that tells OpenRouter how to choose a vendor. ``online`` adds searches, which cost extra."""
_QUALIFIERS = lazy_pattern(r"-(experimental|beta|latest|0304|0309|gv2|reasoning|non-reasoning)(?=-|$)")
"""Matches suffixes of xAI's names that do not change the price."""
SIZES = ((4, 100_000_000), (16 + 1e-9, 200_000_000), (100, 900_000_000))
"""Fireworks' prices by size, for models without a row: the size must be below so many billions of parameters; the price
is in nano-dollars per million tokens."""
MIXTURES = ((56, 500_000_000), (176, 1_200_000_000))
"""Fireworks' prices of mixtures of experts such as ``8x7b``, up to and including these sizes."""
_SIZE = lazy_pattern(r"(?<![a-z0-9])(\d+)x(\d+(?:p\d+)?)b(?![a-z0-9])|(?<![a-z0-9.])(\d+(?:p\d+)?)b(?![a-z0-9])")
_NO_SIZE = lazy_pattern(r"-a\d+(p\d+)?b|embed|rerank|flux|diffusion|whisper|draft|ocr|moe|405b")

_REGION_PREFIX = lazy_pattern(r"^(us-gov|us|eu|apac|au|jp|in|ca|sa|global|me|af)\.(?=[a-z0-9]+\.)")
"""Matches the region before a name at Bedrock."""
_FROM_OPENROUTER = lazy_pattern(r"imported from openrouter|trusting open ?router", re.IGNORECASE)
_NEUTRAL = lazy_pattern(
    r"^\d*([-@:.](v?\d+|latest|preview|exp|experimental|beta|default|maas|customtools|audio|instruct|native|dialog"
    r"|tool|use|thinking|alpha|text|chat|hd|pro-latest|live|speech))*[-@:.]?$"
)
"""Matches a suffix that may follow a row's name without making it the name of another model."""

OUTDATED = "the list has a price for an older model of that name only"


class ListRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the list has for a name: a row, amounts that are not in a row, or the reason why it has no price."""

    row: "ModelInfo | None" = None
    maker: str = ""
    """The maker of the model if the price is the maker's; empty if it is the vendor's own."""
    amounts: Mapping[str, Nanos] = {}
    """The amounts by the fields of a price, if they are not in a row."""
    rule: str = ""
    """Where the amounts are from, in words that follow "price"."""
    factor: int = MILLION
    """The factor of all amounts, in parts per million."""
    reason: str = ""
    """Why the name has no price; empty if it has one, or if the list does not know it."""


class ListNames(msgspec.Struct, frozen=True):
    """Finds vendors and their models in the list."""

    vendors: "Sequence[Provider]"
    short_names: dict[str, set[str]] = {}
    """A cache of the names in each vendor's rows, without prefixes, by vendor."""

    def vendor_at(self, base_url: str, model: str = "") -> "Provider | None":
        """Returns the vendor at an address; for Hugging Face's router, the one that the model's name ends with."""
        if _HUGGING_FACE.match(base_url):
            id_ = f"huggingface_{model.lower().rpartition(':')[2]}"
        else:
            id_ = next((name for pattern, name in _VENDOR_URLS if re.match(pattern, base_url)), "")
        for vendor in self.vendors:
            if vendor.id == id_ or (base_url and not id_ and re.match(vendor.api_pattern, base_url)):
                return vendor
        return None

    def vendors_named(self, name: str) -> "list[Provider]":
        """Returns the vendors with a name, which may be a preset's, the list's, or LiteLLM's."""
        if name in PRESETS and (vendor := self.vendor_at(PRESETS[name].base_url)) is not None:
            return [vendor]
        id_ = name.removesuffix("_ai")
        vendors = [vendor for vendor in self.vendors if vendor.id == id_]
        return vendors or [v for v in self.vendors if v.provider_match is not None and v.provider_match.is_match(id_)]

    def row(self, vendor: "Provider", name: str, base_url: str = "") -> ListRow:
        """Returns what the list has for a model, by the vendor's name for it."""
        name = name.lower()
        if vendor.id == "openrouter" and name.endswith(":free"):
            return ListRow(amounts=_same_amounts(0), rule="for free variants")
        if vendor.id == "azure":
            return self._azure_row(vendor, name)
        if vendor.id == "aws":
            match = _BEDROCK.match(name)
            if match is None:
                return ListRow()
            name = match["model"]
            if match["region"]:  # it takes precedence over the address
                base_url = f"https://bedrock-runtime.{match['region']}.amazonaws.com"
        return self._vendor_row(vendor, name, base_url)

    def _azure_row(self, vendor: "Provider", name: str) -> ListRow:
        """Returns what the list has for a name at Azure, where a prefix names the region that serves the model."""
        name = name.removeprefix("global-standard/").removeprefix("global/")
        if name.startswith("us-gov/"):
            return ListRow(reason="the list has no price for the region 'us-gov'")
        for prefix, factor in _DATA_ZONES:
            if name.startswith(prefix):
                global_row = self._azure_row(vendor, name.partition("/")[2])
                return msgspec.structs.replace(global_row, factor=factor)
        return self._vendor_row(vendor, name, "")

    def _vendor_row(self, vendor: "Provider", name: str, base_url: str) -> ListRow:
        """Returns the first of these: amounts that correct the list, the vendor's row or why it does not apply, the
        price by size, the maker's price. If all are missing, returns an empty row.
        """
        name = same_as(vendor.id, name)
        if not name:
            return ListRow(reason=OUTDATED)
        amounts = _more_amounts(vendor.id, name, base_url)
        if amounts:
            return ListRow(amounts=amounts, rule=SOURCE)
        for spelling in _spellings(vendor.id, name):
            row = vendor.find_model(spelling)
            if row is not None:
                outdated = OUTDATED if row.deprecated and _LATEST.search(spelling) else ""
                reason = _origin_mismatch(vendor.id, row, name, base_url) or outdated or _name_mismatch(row, spelling)
                return ListRow(reason=reason) if reason else ListRow(row=row)
        return _row_by_size(vendor.id, name) or self._maker_row(vendor, name)

    def similar_names(self, vendor: "Provider", name: str) -> list[str]:
        """Returns the three closest names that have a row in the list."""
        short = name.rpartition("/")[2].lower()
        if vendor.id not in self.short_names:
            texts = (text for row in vendor.models for text in (row.id.lower(), *_texts_in(row.match)))
            self.short_names[vendor.id] = {text.rpartition("/")[2] for text in texts}
        candidates = self.short_names[vendor.id] - {short}
        family = _LATEST.sub("", short)
        if family and family != short:
            version = re.compile(re.escape(family) + r"-\d[\d.-]*")
            versions = [candidate for candidate in candidates if version.fullmatch(candidate)]
            if versions:
                return sorted(versions, reverse=True)[:3]
        whole_names = [candidate for candidate in candidates if candidate and candidate[-1].isalnum()]
        return list(near_names(short, tuple(whole_names)))

    def router_names(self, base_url: str, name: str) -> list[str] | None:
        """Returns names at Hugging Face's router that select a vendor with a price; None elsewhere."""
        if not _HUGGING_FACE.match(base_url):
            return None
        prefix, model = "huggingface_", re.sub(r":(fastest|cheapest|preferred)$", "", name)
        sellers = [v for v in self.vendors if v.id.startswith(prefix) and v.find_model(model.lower()) is not None]
        return [f"{model}:{seller.id.removeprefix(prefix)}" for seller in sellers]

    def _maker_row(self, vendor: "Provider", name: str) -> ListRow:
        """Returns the maker's price if the vendor charges it, or why it does not apply."""
        if vendor.id not in _MAKERS:
            return ListRow()
        short = name.rpartition("/")[2].replace("gpt-35", "gpt-3.5")
        maker = next((maker for prefix, maker in _MAKERS[vendor.id] if short.startswith(prefix)), "")
        if not maker or _OPEN_WEIGHTS.search(short):
            other_makers = [other for other in self.vendors if other.id in (vendor.fallback_model_providers or ())]
            sellers = [other.id for other in other_makers if other.find_model(short) is not None]
            return ListRow(reason=f"the list has only the price of {sellers[0]}, its maker" if sellers else "")
        result = next((self.row(seller, short) for seller in self.vendors_named(maker)), ListRow())
        return ListRow(row=result.row, maker=maker if result.row else "", reason=result.reason)


def _spellings(vendor: str, name: str) -> list[str]:
    """Returns the names that may stand for a model in a vendor's rows, each once, the most exact one first."""
    full_spellings = _full_spellings(vendor, name)
    forms = ((full, _DATE.sub("", full), _ROUTES.sub("", full)) for full in full_spellings)
    return list(dict.fromkeys(filter(None, chain.from_iterable(forms))))


def _full_spellings(vendor: str, name: str) -> Iterator[str]:
    yield name
    short = name.rpartition("/")[2]
    if vendor == "fireworks":
        yield f"accounts/fireworks/models/{short}"
    elif vendor in ("google", "anthropic", "mistral", "deepseek", "x-ai", "moonshotai", "openai", "zai", "minimax"):
        yield short
    if vendor == "google":
        yield short.replace("@", "-")
    if vendor == "x-ai" and (match := re.match(r"grok-[0-9.]+(-multi-agent|-fast|-mini)?", short)):
        suffix = short[match.end() :]
        if not _QUALIFIERS.sub("", suffix):
            yield match[0]
    if vendor == "aws":
        yield _REGION_PREFIX.sub("", name)
    if vendor.startswith("huggingface"):
        yield name.rpartition(":")[0]


def _more_amounts(vendor: str, name: str, base_url: str) -> Mapping[str, Nanos]:
    """Returns the amounts for a model whose price the list lacks or has wrong; empty if they are not known either.

    A name at Bedrock that has no region belongs to the region of the address.
    """
    if vendor == "openai" and name.startswith("ft:"):
        name = _DATE.sub("", ":".join(name.split(":")[:2]))
    if vendor == "aws" and not _REGION_PREFIX.match(name) and (region := _region_of(base_url)) not in ("", "us"):
        name = f"us-gov.{name}" if region == "us-gov" else f"{_aws_region(base_url)}/{name}"
    amounts = more_amounts(vendor, name)
    if not amounts and vendor in ("fireworks", "google"):
        amounts = more_amounts(vendor, _DATE.sub("", name.rpartition("/")[2]))
    if amounts and vendor == "fireworks" and "cached_input" not in amounts:
        return {**amounts, "cached_input": Nanos(amounts["input"] // 2)}  # its usual discount; prices by size have none
    return amounts


def _row_by_size(vendor: str, name: str) -> ListRow | None:
    """Returns Fireworks' price of a model by the size in its name; None for other vendors, and if it has no size."""
    prefix, _, short = name.rpartition("/")
    if vendor != "fireworks" or prefix not in ("", "accounts/fireworks/models") or _NO_SIZE.search(short):
        return None
    amount = size_price(short)
    return ListRow(amounts=_same_amounts(amount), rule="by size") if amount is not None else None


def _same_amounts(amount: int) -> dict[str, Nanos]:
    return {"input": Nanos(amount), "output": Nanos(amount)}


def size_price(name: str) -> int | None:
    """Returns Fireworks' price of a million tokens by the size in a name, in nano-dollars; None if unclear."""
    sizes = {(experts, billions or plain) for experts, billions, plain in _SIZE.findall(name)}
    if len(sizes) != 1:
        return None  # with several sizes, one may be that of a draft model
    ((experts, written),) = sizes
    billions = float(written.replace("p", ".")) * int(experts or 1)
    if experts:
        return next((nanos for limit, nanos in MIXTURES if billions <= limit), None)
    return next((nanos for limit, nanos in SIZES if billions < limit), None)


def _origin_mismatch(vendor: str, row: "ModelInfo", name: str, base_url: str) -> str:
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
    """Returns why a row lacks Bedrock's price in the region of the name, or else of the address; or nothing."""
    match = _REGION_PREFIX.match(name)
    region = match[1] if match else _region_of(base_url)
    if region in ("", "us"):
        return ""  # the list has the prices of the USA
    error = f"the list has no price for the region '{region}'"
    if region == "us-gov" or row.id.startswith("regional.amazon."):
        return error  # GovCloud costs a fifth more than the list says; rows of Amazon's own models are for the USA
    if row.id.startswith("regional.") and region != "global":
        return ""
    return "" if any(f"{region}." in text for text in _texts_in(row.match)) else error


def _aws_region(base_url: str) -> str:
    """Returns the region in the address, such as ``eu-west-2``; empty if it has none."""
    match = re.search(r"bedrock-[a-z]+(?:-fips)?\.([a-z0-9-]+)\.", base_url)
    return match[1] if match else ""


def _region_of(base_url: str) -> str:
    """Returns the region in the address as Bedrock's names of models write it, such as ``eu``; empty if it has none."""
    full_region = _aws_region(base_url)
    region = "us-gov" if full_region.startswith("us-gov") else full_region.split("-")[0]
    return "apac" if region == "ap" else region


def _name_mismatch(row: "ModelInfo", name: str) -> str:
    """Returns why a row that matches a part of the name is not for this model; empty if it is."""
    if name.startswith("ft:") or _is_exact(row.match, name):
        return ""
    matched = [text for text in _texts_in(row.match) if text in name]
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


def _texts_in(clause: object) -> set[str]:
    """Returns the names and parts of names in a row's condition and in the conditions inside it, in lower case."""
    own = (getattr(clause, name, "") for name in ("equals", "starts_with", "contains", "ends_with"))
    inner = (*getattr(clause, "or_", ()), *getattr(clause, "and_", ()))
    return {text.lower() for text in own if text}.union(*map(_texts_in, inner))
