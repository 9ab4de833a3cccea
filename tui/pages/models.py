"""Models page: the models that clients can request, their prices and channels; set or import prices."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from gateway.domain.channel import Dialect
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.human_values import brief_count, first_of
from gateway.domain.money import dollars
from gateway.domain.price import PriceDraft, is_set_by_owner
from gateway.domain.price_kinds import PRICE
from gateway.domain.price_view import PriceView, example_cost, news_lines
from gateway.domain.units import MILLION
from gateway.domain.upstream_views import PriceProposal
from gateway.domain.views import ModelView, targets_of
from tui import format as fmt
from tui.pages import list_page, marked
from tui.pages.base import AnyPage, Verb, on_selected
from tui.pages.entities import EntityForm
from tui.pages.list_page import TrendPage
from tui.pages.models_table import ModelsListing
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.choices import ChooseOne, MultiSelect
from tui.widgets.combobox import Suggestion
from tui.widgets.dialogs import UNCHANGED, notice
from tui.widgets.form import Form, FormField, FormPlan, Values, optional
from tui.widgets.why import explain_for_groups

CHANGE_NAMES = {"new": "new", "up": "higher", "down": "lower"}
"""The kinds of changes of prices in words, in the order of the list."""


def price_changes(proposals: Sequence[PriceProposal]) -> list[PriceProposal]:
    """Returns the prices that an import would change, new ones first. Those that the owner set stay as they are."""
    ranks = {change: rank for rank, change in enumerate(CHANGE_NAMES)}
    changes = [proposal for proposal in proposals if proposal.differs and not proposal.kept]
    return sorted(changes, key=lambda proposal: (ranks.get(proposal.change, len(ranks)), proposal.model))


def price_options(proposals: Sequence[PriceProposal]) -> list[tuple[str, str]]:
    """Returns the models as options, with what would change for each: at its first channel, and at how many others."""
    by_model: dict[str, list[PriceProposal]] = {}
    for proposal in proposals:
        by_model.setdefault(proposal.model, []).append(proposal)
    options = []
    for model, (first, *others) in by_model.items():
        current = "no price" if first.now is None else _rates(first.now)
        warnings = "".join(f"   ! {safe(row.guard, 120)}" for row in (first, *others) if row.guard)
        change = CHANGE_NAMES.get(first.change, safe(first.change, 12))
        channels = safe(first.channel, 24)
        if others:
            channels += f", and {len(others)} more"
        text = f"{change:<8}{safe(model)}   {current} > {_rates(first.listed)}   {channels}{warnings}"
        options.append((model, text))
    return options


def price_list_summary(proposals: Sequence[PriceProposal]) -> str:
    """Returns how many prices would change, match already or stay, and whether the list is old."""
    changes = price_changes(proposals)
    matching = sum(not proposal.differs for proposal in proposals)
    kept_count = sum(proposal.kept and proposal.differs for proposal in proposals)
    parts = [f"{len(changes)} would change, {matching} already match"]
    if kept_count:
        parts.append(f"{kept_count} set by you stay{'s' if kept_count == 1 else ''}")
    text = f"{'; '.join(parts)}. Dollars per million tokens, in / out."
    if any(proposal.listed.stale for proposal in proposals):
        text += "\nThis list is old: a newer tollkeeper has a newer one."
    return text


def _rates(price: PriceView) -> str:
    """Returns the rates of input and output, with the rates of longer inputs: ``3 / 15, above 200k 6 / 22.50``."""
    if price.free:
        return "free"
    tiers = [
        f", above {brief_count(tier.above)} {fmt.price(tier.input)} / {fmt.price(tier.output)}" for tier in price.tiers
    ]
    return f"{fmt.price(price.input)} / {fmt.price(price.output)}{''.join(tiers)}"


@on_selected
async def _edit(page: AnyPage, model: ModelView) -> None:
    session: ConsoleSession = page.session
    form = EntityForm("price", PRICE, PriceDraft(), session, source=model.price)
    others = (other for other in session.board.models if other.name != model.name)
    priced_models = [other.name for other in others if other.price is not None]

    async def save(values: Values) -> Any:
        channel = values.get("channel") or ""
        if values["like"]:
            return await session.client.set_price(model.name, {"like": values["like"]}, channel)
        inherits = model.price is None or model.price.inherited_from
        if not inherits and not channel and form.is_unchanged(values):
            return UNCHANGED
        for name in ("input", "output"):
            if values[name] is None:
                raise BadRequest("required, unless the price is the same as another model's", param=name)
        return await session.client.set_price(model.name, form.body(values), channel)

    def command(texts: Mapping[str, str]) -> str:
        like, channel = texts["like"].strip(), texts.get("channel", "").strip()
        at = ["--channel", channel] if channel else []
        return shlex.join(["price", "set", model.name, *at, *(["--like", like] if like else form.arguments(texts))])

    plan = FormPlan(
        title=f"Price of {model.name}",
        fields=[*_price_fields(form, priced_models, model.channels)],
        save=save,
        command=command,
        preview=lambda values: price_preview(page, values),
    )
    await page.ask(Form(plan))
    page.report_change(f"Price of {model.name} saved.")


def _price_fields(form: EntityForm, priced_models: Sequence[str], channels: Sequence[str]) -> Iterator[FormField]:
    """Yields the fields for the price of another model, for the rates, and for the channel, if there are several."""
    yield FormField(
        id="like",
        label="Same as",
        hint="another model: gpt-4o, groq/llama-3.3-70b-versatile; or enter amounts",
        suggest=[Suggestion(name) for name in priced_models],
    )
    for field in form.inputs():
        parse = optional(field.parse) if field.id in ("input", "output") else field.parse
        applies = field.applies if field.advanced else lambda texts: not texts["like"].strip()
        yield msgspec.structs.replace(field, parse=parse, applies=applies)
    if len(channels) > 1:
        yield FormField(
            id="channel",
            label="Only at",
            hint=f"all its channels; or one of {first_of([safe(name, 24) for name in channels], 4)}",
            suggest=[Suggestion(name) for name in channels],
            advanced=True,
        )


@on_selected
async def _delete(page: AnyPage, model: ModelView) -> None:
    """Remove the price of the selected model, or one that was set for a single channel."""
    all_prices = await page.session.client.prices()
    prices = [price for price in all_prices if price.model == model.name]
    # what the owner set for one channel is removed alone; imported prices are removed with the model's own
    by_channel = {price.channel if is_set_by_owner(price.source) else "": price for price in reversed(prices)}
    if not by_channel:
        raise notice(f"{model.name} has no price of its own.")
    channel = next(iter(by_channel), "")
    if len(by_channel) > 1:
        channel = await _choose_channel(page, model, by_channel)
    name = f"{model.name} at {safe(channel, 40)}" if channel else model.name
    place = " at other channels" if any(by_channel) else ""
    if channel:
        place = " there"
    others = [*([model.name] if channel else []), *targets_of([model.name], page.session.board.channels)]
    general_prices = {price.model: price for price in all_prices if not price.channel}
    general_price = next((general_prices[name] for name in others if name in general_prices), None)
    effect = f"cost {_rates(general_price)}" if general_price else f"be {page.session.board.unpriced_effect}"
    await page.confirm(f"Remove the price of {name}?", f"Its calls{place} will {effect}.", "Remove")
    await page.session.client.remove_price(model.name, channel)
    page.report_change(f"Price of {name} removed.")


async def _choose_channel(page: AnyPage, model: ModelView, prices: Mapping[str, PriceView]) -> str:
    """Returns the channel whose price the user wants to remove; empty for the price at all other channels."""
    labels = {f"channel {name}" if name else "other channels": name for name in sorted(prices)}
    rows = [(label, prices[name]) for label, name in labels.items()]
    options = [(label, f"{_rates(price)}, {safe(price.source, 40)}") for label, price in rows]
    return labels[await page.ask(ChooseOne(f"Remove which price of {model.name}?", options, ""))]


def price_preview(page: AnyPage, values: Values) -> str:
    """Returns what an example call costs at the typed price."""
    if values["like"]:
        other = next((model.price for model in page.session.board.models if model.name == values["like"]), None)
        return f"${_rates(other)} per million tokens" if other else "looked up in the price list when it is saved"
    if values["input"] is None or values["output"] is None:
        return ""
    draft = PriceDraft(**{name: values[name] for name in PriceDraft.__struct_fields__})
    text = f"10k in + 1k out = {dollars(example_cost(draft))}"
    groups = {group.multiplier: group.name for group in page.session.board.groups if group.multiplier != MILLION}
    for factor, name in sorted(groups.items(), reverse=True)[:3]:
        text += f"   {dollars(example_cost(draft, factor))} in {safe(name, 24)}"
    return text


async def _import_prices(page: AnyPage) -> None:
    """Show vendors' list prices, and import those that the user checks, as one change."""
    session = page.session
    proposals = await page.wait("Looking up prices", session.client.import_prices)
    changes = price_changes(proposals)
    summary = price_list_summary(proposals) if proposals else "no price list applies to these models."
    notes = _unlisted_models(session, proposals)
    with suppress(GatewayError):
        news = await session.client.price_news()
        lines = news_lines(msgspec.structs.replace(news, raised=0, lowered=0, added=0))  # the dialog lists these
        notes += "".join(f"\n{safe(line)}" for line in lines)
    if not changes:
        raise notice(f"Nothing to import: {summary}{notes}")
    text = f"{summary}{notes}\n\n$ tollkeeper price import --dry-run"
    suspicious = {proposal.model for proposal in changes if proposal.guard}
    trusted = {proposal.model for proposal in changes} - suspicious
    checked = await page.ask(MultiSelect("List prices", text, price_options(changes), trusted))
    if checked:
        accepts_suspicious = not suspicious.isdisjoint(checked)  # checking one accepts it
        outcomes = await session.client.import_prices(sorted(checked), apply=True, accept=accepts_suspicious)
        count = sum(outcome.applied for outcome in outcomes)
        page.report_change(f"{fmt.count_text(count, 'price')} imported.")


def _unlisted_models(session: ConsoleSession, proposals: Sequence[PriceProposal]) -> str:
    """Returns sentences about the models that have no price and get none from a list, or an empty string."""
    names = sorted(session.board.unpriced - {row.model for row in proposals})
    if not names:
        return ""
    first_names = first_of([safe(name, 40) for name in names], 3)
    key, unlisted = session.key("models.edit"), set(names)
    channels = [row for row in session.board.channels if not row.preset and row.dialect is not Dialect.MOCK]
    concerned = (row for row in channels if not unlisted.isdisjoint(model.name for model in row.models))
    without_preset = [safe(row.name, 40) for row in concerned]
    advice = f"{key} sets one, or copies another model's."
    text = f"\nStill without a price, as no list applies: {first_names}. {advice}"
    if not without_preset:
        return text
    channel_names, edit = first_of(without_preset, 3), session.key("entity.edit")
    return f"{text} It is not known whose models {channel_names} has: a preset says it ({edit} on page 4)."


class ModelsPage(ModelsListing, TrendPage[ModelView]):
    """The page with a table of models and their prices."""

    scopes = ("models", "list")
    verbs: ClassVar[Mapping[str, Verb]] = {
        **list_page.VERBS,
        "edit": _edit,
        "free": marked.free,
        "delete": marked.bulk_verb("remove", _delete),
        "import": _import_prices,
        "why": on_selected(lambda page, model: explain_for_groups(page, None, [model.name])),
        "bulk": marked.bulk,
    }
    by = "model"
