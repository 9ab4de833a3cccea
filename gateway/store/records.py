"""Records that the store makes by itself: of calls that a crash cut off, and of answers that were withheld.

An answer is released behind its record. If the disk does not take the record, the answer is withheld: the client gets
an error, and the record, should the disk take it later, tells the same and charges nothing. So does the record of a
call that a crash cut off before its record was written.
"""

from typing import Final

import msgspec

from gateway.domain.call import Outcome, Record, Running
from gateway.domain.errors import Unavailable
from gateway.domain.units import Nanos
from gateway.domain.usage import Source
from gateway.store.errors import RETRY_AFTER_S

WITHHELD: Final = "store_failed"
"""Code of a call whose answer was withheld."""

STATUS: Final = 503
"""What its client gets."""


def lost(call: Running) -> Record:
    """The record of a call that a crash cut off: it costs the user nothing, its channel may have billed it."""
    return Record(
        id=call.id,
        ts=call.ts,
        token=call.token,
        token_name=call.token_name,
        group=call.group,
        model=call.model,
        upstream_model=call.upstream_model,
        channel=call.channel,
        channel_name=call.channel_name,
        app=call.app,
        outcome=Outcome.LOST,
        code="gateway_stopped",
        error="the gateway stopped while this call was running",
        stream=call.stream,
        held=call.held,
        possible=call.held,
    )


def withheld(record: Record, reason: str) -> Record:
    """The record of a call whose answer is withheld: what it would have cost is possible cost of its channel."""
    return msgspec.structs.replace(
        record,
        status=STATUS,
        outcome=Outcome.ERROR,
        code=WITHHELD,
        error=(
            f"the gateway could not keep the record of this call ({reason}), so its answer is withheld and nothing is "
            "charged. Try again; calls are refused until the store works again"
        ),
        finish="",
        input=0,
        cached=0,
        cache_write=0,
        output=0,
        reasoning=0,
        source=Source.NONE,
        cost=Nanos(0),
        rates=None,
        balance=record.balance if record.balance is None else Nanos(record.balance + record.cost),
        possible=record.cost,
    )


def refusal(record: Record) -> Unavailable:
    """What the client is told whose answer is withheld: the record's own words."""
    return Unavailable(record.error or "the answer is withheld", code=record.code, retry_after_s=RETRY_AFTER_S)
