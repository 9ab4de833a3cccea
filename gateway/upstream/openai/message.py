"""Message: one choice of a whole answer, mended where clients would stumble."""

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed
from gateway.upstream.openai import content
from gateway.upstream.openai.finish import BROKEN, finish_reason
from gateway.upstream.openai.inband import failure_word
from gateway.upstream.openai.tools import made_id, spoken
from gateway.upstream.rawjson import Fields
from gateway.upstream.tally import Tally

_ASSISTANT = msgspec.Raw(b'"assistant"')


class Mended(msgspec.Struct, frozen=True):
    """What was found: the finish reason, and whether the choice was edited."""

    finish: str
    changed: bool


def mend(choice: Fields, position: int, seed: str, tally: Tally, channel: Channel) -> Mended:
    """Edits the choice in place. Raises ValueError if it is none, AttemptFailed if it ended in a failure."""
    message = rawjson.fields(choice.get("message", rawjson.NULL))
    before = dict(message)
    content.even(message)
    content.count(message, tally)
    message.setdefault("content", rawjson.NULL)
    if not rawjson.maybe(message.get("role")):
        message["role"] = _ASSISTANT
    tools = _mend_calls(message, f"{seed}/{position}", tally)
    reason = rawjson.value(choice.get("finish_reason"))
    if isinstance(reason, str) and reason in BROKEN:
        raise AttemptFailed(failure_word(str(reason), channel))
    finish = finish_reason(reason if isinstance(reason, str) else "", tools=tools)
    changed = message != before
    if changed:
        choice["message"] = rawjson.raw(message)
    if finish != reason:
        choice["finish_reason"] = rawjson.raw(finish)
        changed = True
    if not isinstance(rawjson.value(choice.get("index")), int):
        choice["index"] = rawjson.raw(position)
        changed = True
    return Mended(finish, changed)


def _mend_calls(message: Fields, seed: str, tally: Tally) -> bool:
    """Whether there are tool calls; an empty list of them is taken out."""
    if "tool_calls" not in message:
        legacy = message.get("function_call", rawjson.NULL)
        tally.add("" if rawjson.is_null(legacy) else bytes(legacy).decode())
        return False
    raw = message["tool_calls"]
    calls = [] if rawjson.is_null(raw) else rawjson.objects(raw)
    if not calls:
        del message["tool_calls"]
        return False
    changed = False
    for number, call in enumerate(calls):
        changed = _mend_call(call, made_id(seed, number), tally) or changed
    if changed:
        message["tool_calls"] = rawjson.raw(calls)
    return True


def _mend_call(call: Fields, spare_id: str, tally: Tally) -> bool:
    tally.tool()
    before = dict(call)
    kind = "custom" if "custom" in call else "function"
    call.setdefault("type", rawjson.raw(kind))
    if not rawjson.value(call.get("id")):
        call["id"] = rawjson.raw(spare_id)
    inner = rawjson.fields(call.get(kind, rawjson.NULL))
    said = spoken(inner, kind, tally, first=True)
    if said != inner:
        call[kind] = rawjson.raw(said)
    return call != before
