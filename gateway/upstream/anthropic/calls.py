"""Calls: the tool calls of one answer: what the client calls the tools, and the thoughts before each, kept."""

from collections.abc import Mapping

from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.anthropic.tools import JSON_TOOL, answers_by_tool
from gateway.upstream.chat.names import Names
from gateway.upstream.chat.request import read_request
from gateway.upstream.chat.signatures import Signatures


class Calls:
    """The calls so far."""

    def __init__(self, order: Order, signatures: Signatures) -> None:
        self._order = order
        self._names = Names(order, TOOLS)
        self._signatures = signatures
        self._thoughts: list[Mapping[str, object]] = []
        self.count = 0
        """Calls of the client's tools."""

    def think(self, block: Mapping[str, object]) -> None:
        """A whole thinking block."""
        self._thoughts.append(block)

    def open(self, call_id: str, name: str) -> str:
        """The client's name of the tool; empty if the call is not one of its own but the answer itself."""
        if name == JSON_TOOL and answers_by_tool(read_request(self._order.fields)):
            return ""
        if self._thoughts:
            self._signatures.remember(call_id, rawjson.encode(self._thoughts))
            self._thoughts = []
        self.count += 1
        return self._names.back(name)
