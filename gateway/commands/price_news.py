"""``price news``: what the price list and the upstreams' own lists say that the prices in use do not."""

import click

from gateway.client.control import ControlClient
from gateway.commands.base import Command
from gateway.commands.options import json_option
from gateway.commands.output import ListColumn, out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.errors import NotFound
from gateway.domain.money import dollars
from gateway.domain.price_news import PriceNews, news_lines

RISE_COLUMNS = [
    ListColumn("Model", lambda one: one.model, "name", least=16),
    ListColumn("From", lambda one: one.day),
    ListColumn("Input", lambda one: dollars(one.input_nanos), "number"),
    ListColumn("Then", lambda one: dollars(one.next_input_nanos), "number"),
    ListColumn("Output", lambda one: dollars(one.output_nanos), "number"),
    ListColumn("Then", lambda one: dollars(one.next_output_nanos), "number"),
]
PUBLISHED_COLUMNS = [
    ListColumn("Model", lambda one: one.model, "name", least=16),
    ListColumn("Channel", lambda one: one.channel, "name"),
    ListColumn("Input", lambda one: dollars(one.input_nanos), "number"),
    ListColumn("Published", lambda one: dollars(one.published_input_nanos), "number"),
    ListColumn("Output", lambda one: dollars(one.output_nanos), "number"),
    ListColumn("Published", lambda one: dollars(one.published_output_nanos), "number"),
]
HINT_COLUMNS = [
    ListColumn("Model", lambda one: one.model, "name", least=16),
    ListColumn("Channel", lambda one: one.channel, "name"),
    ListColumn("List price", lambda one: one.text),
]


async def news_of(client: ControlClient) -> PriceNews:
    """An older server has none."""
    try:
        return await client.price_news()
    except NotFound:
        return PriceNews()


@click.command("news", cls=Command, examples=["tollkeeper price news"])
@json_option
def show_news(*, as_json: bool) -> None:
    """Show how old the price list is, what an import would change, which prices rise on a known day, which ones differ
    from those that upstreams publish, and why models have no list price.
    """
    news = run(news_of)
    if as_json:
        out_json(news)
        return
    if news.rises:
        out_list(news.rises, RISE_COLUMNS, as_json=False, empty="")
    if news.published:
        out_list(news.published, PUBLISHED_COLUMNS, as_json=False, empty="")
    if news.hints:
        out_list(news.hints, HINT_COLUMNS, as_json=False, empty="")
    if news.as_of:
        words(f"price list of {news.as_of}")
    for line in news_lines(news):
        words(line)
