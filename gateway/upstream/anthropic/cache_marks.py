"""Cache marks: ``cache_control`` on blocks of requests. Anthropic caches a prompt up to such a block.

There may be four. Clients of chat completions set none, so they would pay the full price for the whole conversation in
every turn. The gateway marks

- the end of the tools and the end of the system prompt, which other conversations begin with as well;

- the user's last message, so that the next turn finds everything that was sent in this one;

- the user's last message but one, where the turn before had its last mark: the vendor looks back only twenty blocks
from a mark, and a turn may have more.

Writing to the cache costs more than plain input, usually a quarter, so a single question without tools is not marked at
its end: it may never be continued. If the client sets a mark itself, no other is set. An upstream that refuses marks
gets none for an hour, not even the client's: see ``learned_params``.
"""

from typing import Any

from gateway.domain.channel import Channel, Dialect
from gateway.domain.order import LearnedRefusals

CACHE_MARK = "cache_control"
"""The field of a block that is a mark."""


def marks_cache(channel: Channel, learned: LearnedRefusals) -> bool:
    """Returns whether requests to this channel get marks if the client sets none."""
    return channel.dialect is Dialect.ANTHROPIC and channel.cache_marks and CACHE_MARK not in learned.dropped


def set_marks(body: dict[str, Any]) -> None:
    """Set the marks in the body of a request, unless the client set one."""
    if any(CACHE_MARK in block for block in _blocks(body)):
        return
    tools, system, messages = body.get("tools", []), body.get("system", []), body["messages"]
    ends = [blocks[-1] for blocks in (tools, system) if blocks]
    if tools or any(message["role"] == "assistant" for message in messages):
        user_ends = [message["content"][-1] for message in messages if message["role"] == "user"]
        ends += user_ends[-2:]
    for block in ends:
        block[CACHE_MARK] = {"type": "ephemeral"}


def remove_marks(body: dict[str, Any], *, refused: bool) -> bool:
    """Remove marks that the upstream would refuse: all if it has ``refused`` any, else those between the first two and
    the last two. Returns whether there were such marks.
    """
    marked = [block for block in _blocks(body) if CACHE_MARK in block]
    removed = [block.pop(CACHE_MARK) for block in (marked if refused else marked[2:-2])]
    return bool(removed)


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns everything that may have a mark. Thoughts may be raw bytes, which cannot have any."""
    content = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return [body, *body.get("tools", []), *body.get("system", []), *content]
