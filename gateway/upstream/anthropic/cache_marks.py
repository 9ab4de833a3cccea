"""Cache marks: where Anthropic's prompt cache ends, for clients that know nothing about it.

The vendor caches a prompt only up to blocks marked with ``cache_control``, four at most. Clients of chat completions
set none, so they would pay the full price for the whole conversation in every turn. The marks go

- after the tools and after the system's words, which other conversations begin with as well;

- after the user's last message, so that the next turn finds everything that was sent in this one;

- after the user's last message but one, where the turn before put its last mark: the vendor looks back only twenty
blocks from a mark, and a turn may have more.

Writing to the cache costs more than plain input, usually a quarter, so a single question without tools is not marked at
its end: it may never be continued. A client that sets a mark itself is left alone. An upstream that refuses marks gets
none for an hour, not even the client's: see ``learned_params``.
"""

from collections.abc import Iterable
from typing import Any

Block = dict[str, Any]

FIELD = "cache_control"
"""The field of a block that is a mark."""

_MARK = {"type": "ephemeral"}


def mark(body: Block) -> None:
    """Set the marks in the body of a request, unless the client set one."""
    tools, system, messages = body.get("tools", []), body.get("system", []), body["messages"]
    said = [block for message in messages for block in message["content"]]
    if FIELD in body or _marked([*tools, *system, *said]):
        return
    ends = [blocks[-1] for blocks in (tools, system) if blocks]
    if tools or any(message["role"] == "assistant" for message in messages):
        asked = [message["content"][-1] for message in messages if message["role"] == "user"]
        ends += asked[-2:]
    for block in ends:
        block[FIELD] = _MARK


def remove(body: Block) -> bool:
    """Remove all marks from the body of a request. Returns whether there were any."""
    said = [block for message in body["messages"] for block in message["content"]]
    blocks = [body, *body.get("tools", []), *body.get("system", []), *said]
    found = [block.pop(FIELD) for block in blocks if isinstance(block, dict) and FIELD in block]
    return bool(found)


def _marked(blocks: Iterable[Any]) -> bool:
    """Returns whether one of the blocks has a mark. Thoughts may be raw bytes, which cannot have any."""
    return any(isinstance(block, dict) and FIELD in block for block in blocks)
