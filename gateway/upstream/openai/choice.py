"""Choice: one choice of a streamed answer, chunk by chunk in the form clients rely on.

The role comes once and first, the finish reason once and last, tool calls are numbered; all else passes as it is.
"""

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.openai import content
from gateway.upstream.openai.finish import BROKEN, finish_reason
from gateway.upstream.openai.tools import ToolCalls
from gateway.upstream.rawjson import Fields
from gateway.upstream.tally import Tally

_ASSISTANT = msgspec.Raw(b'"assistant"')


class Choice:
    """The state of one choice, and the step from an upstream's chunk of it to the client's."""

    __slots__ = ("_begun", "_tools", "broken", "finish", "pattern", "turned")

    def __init__(self, seed: str) -> None:
        self._begun = False
        self._tools = ToolCalls(seed)
        self.finish = ""
        """The client's finish_reason once there was one."""
        self.pattern: msgspec.Raw | None = None
        """The only text of the last chunk, if nothing else happened in it: the next ones may be the same around it."""
        self.broken = ""
        """The finish reason that means a failure, if one came."""
        self.turned = False
        """The last chunk changed how later ones are handled."""

    def take(self, choice: Fields, tally: Tally) -> bool:
        """Edits the chunk in place; False if nothing of it is left for the client. Raises ValueError if it is odd."""
        self.pattern, self.turned = None, False
        delta = choice.get("delta")
        fields = {} if delta is None or rawjson.is_null(delta) else rawjson.fields(delta)
        content.even(fields)
        texts = content.count(fields, tally)
        said, opened = self._take_tools(fields, tally)
        reason = rawjson.value(choice.get("finish_reason"))
        if isinstance(reason, str) and reason in BROKEN:
            self.broken = str(reason)
            return False
        if self.finish and not (texts or said):
            return False
        first = self._take_role(fields)
        ended = self._take_finish(choice, reason)
        choice["delta"] = rawjson.raw(fields)
        choice.pop("usage", None)
        texts += said
        self.turned = first or opened or ended
        if len(texts) == 1 and not (self.turned or self.finish):
            self.pattern = texts[0]
        return True

    def _take_role(self, delta: Fields) -> bool:
        if self._begun:
            delta.pop("role", None)
            return False
        delta.setdefault("content", rawjson.NULL)
        delta["role"] = _ASSISTANT
        self._begun = True
        return True

    def _take_tools(self, delta: Fields, tally: Tally) -> tuple[list[msgspec.Raw], bool]:
        """Returns the pieces of arguments, and whether a call was opened."""
        legacy = delta.get("function_call")
        if legacy is not None and not rawjson.is_null(legacy):
            tally.add(bytes(legacy).decode("utf-8", "replace"))
            return [legacy], True
        raw = delta.pop("tool_calls", None)
        if raw is None or rawjson.is_null(raw):
            return [], False
        calls = self._tools.take(rawjson.objects(raw), tally)
        if not calls:
            return [], False
        delta["tool_calls"] = rawjson.raw(calls)
        opened = len(calls) > 1 or "id" in calls[0]
        return [value for call in calls for value in _arguments(call)], opened

    def _take_finish(self, choice: Fields, reason: object) -> bool:
        if self.finish or not isinstance(reason, str) or not reason:
            choice["finish_reason"] = rawjson.NULL
            return False
        self.finish = finish_reason(reason, tools=bool(self._tools))
        choice["finish_reason"] = rawjson.raw(self.finish)
        return True


def _arguments(call: Fields) -> list[msgspec.Raw]:
    inner = rawjson.fields(call["function"] if "function" in call else call["custom"])
    found = inner.get("arguments", inner.get("input"))
    return [found] if found is not None else [rawjson.NULL]
