"""Price news: compares what the price list and the upstreams publish with the prices in use."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.control.vendor_prices import PriceList, known_prices, load
from gateway.core.model_prices import channel_price, set_by_owner
from gateway.core.price_change import OLD_MS, change_kind
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import Unavailable
from gateway.domain.price import Price, in_force
from gateway.domain.price_view import PriceHint, PriceNews, PriceRise, PublishedPrice
from gateway.domain.registry import Registry
from gateway.domain.units import Millis

MAX_ROWS = 500
"""The maximum number of rows of each kind."""


class NewsCache(msgspec.Struct):
    """The latest news, and the configuration and the hour since 1970 that they are for."""

    registry: Registry | None = None
    hour: int = 0
    news: PriceNews = PriceNews()


NEWS_CACHE = web.AppKey("news_cache", NewsCache)


async def show_news(edits: ConfigEdits, request: web.Request) -> PriceNews:
    """GET /prices/news: the news, computed at most once an hour unless the configuration changes."""
    query(request.query, {})
    registry, hour = edits.registry, edits.now // 3_600_000
    cache = request.app[NEWS_CACHE]
    if cache.registry is registry and cache.hour == hour:
        return cache.news
    try:
        price_list = await load()
    except Unavailable:
        return PriceNews()
    news = await asyncio.to_thread(price_news, registry, price_list, edits.now)
    cache.registry, cache.hour, cache.news = registry, hour, news
    return news


def price_news(registry: Registry, price_list: PriceList, now: Millis) -> PriceNews:
    """Returns the news about a configuration's prices. Prices that the owner set are left out of the counts."""
    kinds = []
    for channel, served, price in known_prices(registry.channels.values(), registry, price_list, now):
        before = channel_price(channel, served, registry.prices)
        if not set_by_owner(before):
            kinds.append(change_kind(before, price))
    as_of = price_list.as_of(now)
    return PriceNews(
        as_of_ms=as_of,
        as_of=_day(as_of),
        stale=now - as_of > OLD_MS,
        raised=kinds.count("up"),
        lowered=kinds.count("down"),
        added=kinds.count("new"),
        rises=_rises(registry, now)[:MAX_ROWS],
        published=list(islice(_published_prices(registry), MAX_ROWS)),
        hints=list(islice(_hints(registry, price_list), MAX_ROWS)),
    )


def _prices_in_use(registry: Registry) -> Iterator[tuple[Channel, ServedModel, Price | None]]:
    """Yields every model of every channel with its price there; None if it has none."""
    for channel in registry.channels.values():
        for served in channel.models:
            yield channel, served, channel_price(channel, served, registry.prices)


def _rises(registry: Registry, now: Millis) -> list[PriceRise]:
    """Returns the next known rise of each price, the earliest first."""
    rises = [_next_rise(served.name, price, now) for _, served, price in _prices_in_use(registry) if price is not None]
    distinct_rises = {(rise.model, rise.since_ms): rise for rise in rises if rise is not None}
    return sorted(distinct_rises.values(), key=lambda rise: rise.since_ms)


def _next_rise(model: str, price: Price, now: Millis) -> PriceRise | None:
    """Returns the next known rise of a price, if there is one. Rules for variants or for some hours are ignored."""
    current = in_force(price, now)
    for rule in price.rules:
        later = rule.since > now and not rule.variant and not rule.during
        if later and (rule.input > current.input or rule.output > current.output):
            return PriceRise(
                model=model,
                since_ms=rule.since,
                day=_day(rule.since),
                input_nanos=current.input,
                output_nanos=current.output,
                next_input_nanos=rule.input,
                next_output_nanos=rule.output,
            )
    return None


def _published_prices(registry: Registry) -> Iterator[PublishedPrice]:
    for channel, served, price in _prices_in_use(registry):
        published = served.told
        if published is None or price is None or set_by_owner(price):
            continue
        if _differ_clearly(published.input, price.input) or _differ_clearly(published.output, price.output):
            yield PublishedPrice(
                model=served.name,
                channel=channel.name,
                input_nanos=price.input,
                output_nanos=price.output,
                published_input_nanos=published.input,
                published_output_nanos=published.output,
            )


def _hints(registry: Registry, price_list: PriceList) -> Iterator[PriceHint]:
    for channel, served, price in _prices_in_use(registry):
        unpriced = price is None and channel.dialect is not Dialect.MOCK
        if unpriced and (text := price_list.hint(channel, served.upstream_name)):
            yield PriceHint(model=served.name, channel=channel.name, text=text)


def _differ_clearly(rate: int, other: int) -> bool:
    return abs(rate - other) > 0.05 * max(rate, other)


def _day(moment: Millis) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
