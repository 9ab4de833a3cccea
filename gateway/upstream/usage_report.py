"""The usage reports of one answer. Any chunk may bring one, in several places; the last one counts."""

from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream import rawjson
from gateway.upstream.output_counter import OutputCounter
from gateway.upstream.output_limit import read_limit
from gateway.upstream.rawjson import Fields
from gateway.upstream.usage_shapes import SLACK, UsageLimits, UsageReading, read, read_regular, read_timings

SUSPECT = "suspect_usage"
"""Mark of a record whose report could not be true as it stood; see ``usage``."""

COST_LIMIT = 1_000_000
"""Dollars; no call costs more."""


class UsageReports:
    """Sees every chunk of an answer, and says at its end what was used."""

    __slots__ = ("_choices", "_fields", "_last", "_output_sum", "_reading", "_timed", "suspect")

    def __init__(self, request: Fields) -> None:
        """``request``: the top level of the request."""
        wanted = rawjson.maybe(request.get("n"))
        self._choices = wanted if isinstance(wanted, int) else 1
        self._fields = request
        self._last: msgspec.Raw | None = None
        self._reading: UsageReading | None = None
        self._timed: UsageReading | None = None
        self._output_sum = 0
        self.suspect = False
        """One of the reports cannot be true as it stands."""

    def see(self, chunk: Fields) -> None:
        """Looks at a chunk or a whole answer, at all places where a report may be."""
        report = chunk.get("usage")
        if report is None or rawjson.is_null(report):
            report = _elsewhere(chunk)
        if report is not None:
            self._take(report, summed=self._choices > 1 and "timings" in chunk)
        if "timings" in chunk and isinstance(timings := rawjson.maybe(chunk["timings"]), dict):
            self._timed = read_timings(timings)
            self.suspect = self.suspect or ("prompt_n" in timings if self._timed is None else self._timed.suspect)

    def _take(self, report: msgspec.Raw, *, summed: bool) -> None:
        """llama.cpp sends one report for each of several choices: outputs add up, the input is the same."""
        reading = read_regular(report)
        if reading is None:
            found = rawjson.maybe(report)
            reading = read(found, self._limits) if isinstance(found, dict) else None
            if reading is None:
                self.suspect = self.suspect or bool(found)
                return
        self.suspect = self.suspect or reading.suspect
        if summed:
            self._output_sum += reading.usage.output
            usage = msgspec.structs.replace(reading.usage, output=self._output_sum)
            reading = UsageReading(usage, reading.suspect, corrected=True)
        self._last, self._reading = report.copy(), reading  # not a view, which would keep the whole answer

    def _limits(self) -> UsageLimits:
        """A token is at least a byte; media that are only named are few tokens more than their names."""
        size = sum(len(memoryview(value)) for value in self._fields.values())
        try:
            limit = read_limit(self._fields)
        except BadRequest:
            return UsageLimits(size + SLACK)
        return UsageLimits(size + SLACK, None if limit.expected else limit.capped_total)

    def usage(self, tally: OutputCounter) -> Usage | None:
        """What was reported of an answer that brought this much.

        The tally replaces a missing output count. A report of nothing but zeros is none if something came.
        """
        reading = self._reading or self._timed
        if reading is None or not (reading.usage.total or tally.empty):
            return None
        if reading.usage.source is UsageSource.PARTIAL:
            return msgspec.structs.replace(reading.usage, output=tally.tokens())
        return reading.usage

    @property
    def corrected(self) -> bool:
        """Whether clients should get other numbers than the upstream's object has."""
        return self._reading is None or self._reading.corrected

    def as_sent(self) -> msgspec.Raw | None:
        """The upstream's own object with its counts corrected; None if there is none to pass on, or it is suspect."""
        if self._last is None or self._reading is None or self._reading.usage.source is UsageSource.PARTIAL:
            return None
        if self._reading.suspect:
            return None
        if not self._reading.corrected:
            return self._last
        usage = self._reading.usage
        counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total}
        out: dict[str, Any] = {**rawjson.value(self._last), **counts}
        if usage.reasoning:
            details = out.get("completion_tokens_details")
            known = details if isinstance(details, dict) else {}
            out["completion_tokens_details"] = {**known, "reasoning_tokens": usage.reasoning}
        return rawjson.raw(out)

    @property
    def marks(self) -> tuple[str, ...]:
        """For the record: doubt, and the cost if the upstream named one (OpenRouter does)."""
        doubt = (SUSPECT,) if self.suspect else ()
        if self._last is None or b'"cost"' not in bytes(self._last):
            return doubt
        cost = rawjson.value(self._last).get("cost")
        named = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < COST_LIMIT
        return (*doubt, f"upstream_cost={cost:.12g}") if named else doubt


def _elsewhere(chunk: Fields) -> msgspec.Raw | None:
    """A report that is not at the top: Groq's, Moonshot's."""
    report = _member(chunk["x_groq"], "usage") if "x_groq" in chunk else None
    if report is None and b'"usage"' in bytes(chunk.get("choices", rawjson.NULL)):
        report = _moonshot(chunk["choices"])
    return None if report is None or rawjson.is_null(report) else report


def _member(holder: msgspec.Raw, name: str) -> msgspec.Raw | None:
    try:
        return rawjson.fields(holder).get(name)
    except ValueError:
        return None


def _moonshot(choices: msgspec.Raw) -> msgspec.Raw | None:
    """Usage inside the first choice."""
    try:
        found = rawjson.objects(choices)
    except ValueError:
        return None
    return found[0].get("usage") if found else None
