"""Usage reports: reads what an upstream reports of a call's tokens, in any known form, into one canonical form.

Any chunk may bring a report, in several places. Counts are running totals: reports are merged name by name, and a later
count that is smaller, such as a zero at the end, never lowers an earlier one; such a report is suspect. Gemini bills
its last counts: they replace earlier ones even if they are smaller, unless they are zero.

An implausible count (see ``usage_counts``) counts as not reported, and its report as suspect. A report that contradicts
itself is suspect too. This is how it is settled:

- A total above its parts: the difference is audio (Mistral) or the cache (Portkey for Bedrock) that was left out of the
  input, or reasoning that was left out of the output, if the report has that number of them. If it reports no
  reasoning, the difference is reasoning too, as far as the request allows that much. Otherwise the parts count.
- A total below its parts: the parts count.
- More cached tokens than input: they are not part of the input if the total says so, or, without a total, if the report
  calls its input ``input_tokens`` and the request allows that much. Otherwise the input counts, and its parts are cut.
- More reasoning than output: the output counts, because servers guess the reasoning. Vercel's gateway bills both.
- A missing part is what the total leaves for it, if the request allows that much.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.estimate import OutputCounter
from gateway.domain.output_limit import CAPS, read_limit
from gateway.domain.rawjson import Fields
from gateway.domain.screen import Screen
from gateway.domain.usage import CITATIONS, LONGEST_WRITE, Usage, UsageSource, as_object, canonical
from gateway.upstream.usage_counts import (
    OPENAI_NAMES,
    PLAUSIBLE,
    iterations,
    merge,
    openai_usage,
    read_counts,
    sum_counts,
    sum_writes,
    with_underscores,
    without_newly_cached,
)
from gateway.upstream.usage_extras import (
    CITATION_TOKENS,
    SUSPECT_MARK,
    marks_of,
    named_variant,
    other_model_tokens,
    read_parts,
    variant_of,
)


class UsageLimits(msgspec.Struct, frozen=True, gc=False):
    """The most that a request can have used. It decides between two readings of a report."""

    input: int = PLAUSIBLE
    output: int = 200_000
    """Without a limit in the request, a guess of what a model thinks."""


LimitsOf = Callable[[], UsageLimits]
"""Returns the limits of the request. It is called only for reports that contradict themselves."""


class UsageReading(msgspec.Struct, frozen=True, gc=False):
    """What one report says."""

    usage: Usage
    """Its source is PARTIAL if the report has no plausible count of the output or of the input."""
    suspect: bool = False
    """Whether the report contradicts itself."""


def read_report(report: Mapping[str, Any], limits: LimitsOf = UsageLimits) -> UsageReading | None:
    """Returns a report in canonical form; None if its counts say too little."""
    if isinstance(report.get("iterations"), list):  # Anthropic's own totals omit compactions
        report = {**report, **sum_counts(iterations(report))}
    if isinstance(report.get("cache_creation"), dict):
        report = sum_writes(report)
    counts, implausible = read_counts(report)
    totals = _settle(report, counts, limits) if _GEMINI_COUNTS.isdisjoint(report) else _settle_gemini(counts, limits)
    if totals is None:
        return None
    suspect, plain = implausible or totals.suspect, OPENAI_NAMES.issuperset(report)
    is_complete = totals.input is not None and totals.output is not None
    usage = canonical(
        Usage(
            input=totals.input or 0,
            cached=counts.get("cached", 0),
            cache_write=counts.get("write", 0),
            cache_write_long=counts.get("long", 0) or counts.get(LONGEST_WRITE, 0),
            output=totals.output or 0,
            reasoning=totals.reasoning,
            source=UsageSource.REPORTED if is_complete else UsageSource.PARTIAL,
            parts=read_parts(report, counts),
            variant="" if plain else variant_of(report),
            other_model="" if plain else other_model_tokens(report)[0],
        )
    )
    return UsageReading(usage, suspect)


class _Totals(msgspec.Struct, gc=False):
    """The settled counts of a report; None if unknown."""

    input: int | None
    output: int | None
    reasoning: int
    suspect: bool = False


def _settle(report: Mapping[str, Any], counts: Mapping[str, int], limits: LimitsOf) -> _Totals | None:
    """Returns the settled counts of any report but Gemini's; None if they say too little."""
    total, outputs = counts.get("total"), counts.get("output")
    reported_input = counts.get("input")
    if reported_input is None and total is not None and outputs is not None:
        reported_input = total - outputs if 0 <= total - outputs <= limits().input else None
    if reported_input is None:
        return None
    inputs, suspect = _settle_input(report, counts, reported_input, limits)
    reasoning = counts.get("reasoning", 0)
    if outputs is not None and (billed_apart := _separate_output(report, counts)):
        suspect = suspect or reasoning > outputs
        outputs, reasoning, total = outputs + billed_apart, counts.get("reasoning_apart", reasoning), None
    if outputs is None and total is not None and total > inputs:
        outputs = total - inputs if total - inputs <= limits().output else None
        suspect = suspect or outputs is None
    if outputs is not None and total is not None and total not in (inputs + outputs, reported_input + outputs):
        left_out, thoughts = _missing_counts(total - inputs - outputs, outputs, counts, limits)
        inputs, outputs, reasoning = inputs + left_out, outputs + thoughts, thoughts or reasoning
        suspect = suspect or not (left_out or thoughts)
    return _Totals(inputs, outputs, reasoning, suspect or (outputs is not None and reasoning > outputs))


def _settle_input(
    report: Mapping[str, Any], counts: Mapping[str, int], reported: int, limits: LimitsOf
) -> tuple[int, bool]:
    """Returns the whole input, including cached tokens, and whether these were more than the reported input."""
    cached = counts.get("cached", 0) + counts.get("write", 0)
    if "prompt_n" in report or ("prompt_tokens" not in report and _is_anthropic(report)):  # they exclude the cache
        return reported + cached, False
    if cached <= reported:
        return reported, False
    total, whole = counts.get("total"), reported + cached
    if total is None and "prompt_tokens" not in report:
        return whole if whole <= limits().input else reported, True
    excludes_reads = cached > reported and _is_anthropic(report)
    return whole if excludes_reads or total == whole + counts.get("output", 0) else reported, True


def _missing_counts(gap: int, outputs: int, counts: Mapping[str, int], limits: LimitsOf) -> tuple[int, int]:
    """Returns the audio or cache that the input lacks, or the thoughts that the output lacks, if it closes the gap."""
    reasoning, cached = counts.get("reasoning", 0), counts.get("cached", 0) + counts.get("write", 0)
    if 0 < gap != reasoning and gap in (counts.get("input_audio"), cached):
        return gap, 0
    is_thoughts = gap == reasoning if reasoning else 0 < gap <= limits().output - outputs
    return 0, gap if is_thoughts else 0  # Gemini's compatible API, xAI


def _separate_output(report: Mapping[str, Any], counts: Mapping[str, int]) -> int:
    """Returns what Perplexity, and Vercel for Gemini, bill on top of output and total: reasoning and citations."""
    if "market_cost" in report and counts.get("reasoning", 0) > counts.get("output", 0):  # Vercel's field
        return counts["reasoning"]
    if CITATION_TOKENS not in report and "num_search_queries" not in report:
        return 0
    return counts.get("reasoning_apart", 0) + counts.get(CITATIONS, 0)


def _is_anthropic(report: Mapping[str, Any]) -> bool:
    return "cache_read_input_tokens" in report or "cache_creation_input_tokens" in report


_GEMINI_COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def _settle_gemini(counts: Mapping[str, int], limits: LimitsOf) -> _Totals | None:
    """Returns the settled counts of Gemini's report; None if they say too little.

    The candidates do not include thoughts unless the total says so. The prompt does not include what tools read.
    """
    candidates, thoughts = counts.get("output", 0), counts.get("reasoning", 0)
    total, tools, prompt = counts.get("total"), counts.get("tools", 0), counts.get("input")
    has_output = "output" in counts or bool(thoughts)
    if prompt is None and total is not None and has_output:
        prompt = total - candidates - thoughts - tools
        if not 0 <= prompt <= limits().input:
            return None
    if prompt is None:  # Vertex sends such reports for images at an address
        is_alone = total is None and bool(candidates + thoughts)
        return _Totals(None, candidates + thoughts, thoughts) if is_alone else None
    if "output" not in counts and total is not None and total > prompt + tools + thoughts:
        candidates = min(total - prompt - tools - thoughts, limits().output)
        has_output = True
    inputs = prompt + tools
    outputs = candidates + (0 if inputs + candidates == total else thoughts)
    is_suspect = counts.get("cached", 0) > inputs
    is_suspect = is_suspect or (has_output and total not in (None, inputs + outputs, prompt + outputs))
    return _Totals(inputs, outputs if has_output else None, thoughts, is_suspect)


class UsageReports(msgspec.Struct, eq=False):
    """Gathers the reports in the chunks of an answer, and returns at its end what was used."""

    _request: Fields
    """The top level of the request."""
    _report: msgspec.Raw | None = None
    """All reports so far merged into one: the upstream's own bytes if the last one has everything."""
    _reading: UsageReading | None = None
    _timings: UsageReading | None = None
    """The reading of llama.cpp's ``timings``."""
    plain: bool = False
    """Whether the last report has only OpenAI's own counts, and is for the whole answer."""
    _variant: str = ""
    """How the request was processed, if the answer says so outside of its report."""
    _cost: Any = None
    """The cost, if the answer has it outside of its report, as Venice's have."""
    _suspect: bool = False
    """Whether a report is suspect, whatever the last one says. Gemini's first ones of a step leave counts out."""
    final: bool = True
    """Whether the last report has the output of the whole answer, and not a first number."""

    def add(self, chunk: Fields, *, final: bool = True) -> None:
        """Add the reports in a chunk or a whole answer. ``final``: they cover the whole output."""
        report = chunk.get("usage")
        if report is None or rawjson.is_null(report):
            report = _nested_report(chunk)
        if "service_tier" in chunk:
            self._variant = named_variant(rawjson.maybe(chunk["service_tier"]))
        if "cost" in chunk:
            self._cost = rawjson.maybe(chunk["cost"])
        if report is not None:
            choices = rawjson.maybe(self._request.get("n")) if "timings" in chunk else None
            self._add_report(report, per_choice=isinstance(choices, int) and choices > 1)
            self.final = final
        if "timings" in chunk and isinstance(timings := rawjson.maybe(chunk["timings"]), dict):
            self._timings = read_report(timings)
            implausible = "prompt_n" in timings if self._timings is None else self._timings.suspect
            self._suspect = self._suspect or implausible

    def _add_report(self, report: msgspec.Raw, *, per_choice: bool) -> None:
        """Add a report. ``per_choice``: llama.cpp sends one for each choice; only the outputs add up."""
        # a large one is replaced: to merge it with new names in every chunk takes long
        merges = self._report is not None and not per_choice and len(memoryview(self._report)) < 16_384
        usage = None if merges else openai_usage(report)
        if usage is None:
            reading = self._read(report, merges=merges)
        else:
            reading, self.plain, self._report = UsageReading(usage), True, report.copy()
        if reading is None:
            return
        if per_choice:
            self._suspect = self._suspect or reading.suspect
            before = 0 if self._reading is None else self._reading.usage.output
            usage = msgspec.structs.replace(reading.usage, output=before + reading.usage.output)
            reading, self.plain = msgspec.structs.replace(reading, usage=usage), False
        self._reading = reading

    def _read(self, report: msgspec.Raw, *, merges: bool) -> UsageReading | None:
        """Returns the reading of a report, which may be merged with earlier ones; None if it says too little."""
        decoded = rawjson.maybe(report)
        if not isinstance(decoded, dict):
            self._suspect = self._suspect or bool(decoded)
            return None
        named = with_underscores(decoded)
        counts = self._merge(named) if merges else named
        if counts != decoded:
            report = rawjson.raw(counts)
        usage = openai_usage(report) if merges else None
        self._report, self.plain = report.copy(), usage is not None  # not a view, which would keep the whole answer
        reading = read_report(counts, self._limits) if usage is None else UsageReading(usage)
        if reading is None:
            self._suspect = self._suspect or any("oken" in name and value != 0 for name, value in counts.items())
        return reading

    def _merge(self, later: dict[str, Any]) -> dict[str, Any]:
        earlier = rawjson.maybe(self._report)
        if not self.final and later.get("output_tokens") is not None:
            earlier.pop("output_tokens", None)
        may_decrease = not _GEMINI_COUNTS.isdisjoint(later)
        merged, decreased = merge(without_newly_cached(earlier, later), later, may_decrease=may_decrease)
        self._suspect = self._suspect or (decreased and "iterations" not in later)  # their sum counts instead
        return merged

    def _limits(self) -> UsageLimits:
        """Returns the limits of the request: its bytes, plus an allowance for linked media and what is added."""
        size = sum(len(memoryview(value)) for value in self._request.values()) + 4096
        caps = ("max_output_tokens",) if "input" in self._request else CAPS  # of a response, or of a chat
        try:
            limit = read_limit(self._request, caps=caps)
        except BadRequest:
            return UsageLimits(size)
        return UsageLimits(size) if limit.expected else UsageLimits(size, limit.capped_total)

    def usage(self, tally: OutputCounter) -> Usage | None:
        """Returns the reported usage of an answer with this output; None if it has no report.

        The tally replaces a missing output count. A report with only zeros is ignored if output came.
        """
        reading = self._reading or self._timings
        if reading is None or not (reading.usage.input or reading.usage.output or tally.empty):
            return None
        usage = reading.usage
        if self._variant and not usage.variant:
            usage = msgspec.structs.replace(usage, variant=self._variant)
        if (usage.source is UsageSource.PARTIAL and usage.input) or not self.final:
            return msgspec.structs.replace(usage, output=tally.tokens(), source=UsageSource.PARTIAL)
        return usage

    def for_client(self, usage: Usage, screen: Screen) -> msgspec.Raw:
        """Returns a usage with OpenAI's names: the upstream's own object, unless that is suspect or has a secret."""
        report = self._corrected_report() if usage.source is UsageSource.REPORTED else None
        if report is None or (not self.plain and screen.value_has_secret(report)):
            return rawjson.raw(as_object(usage))
        return report

    def _corrected_report(self) -> msgspec.Raw | None:
        """Returns the upstream's own object with counts corrected, or replaced if suspect; None if it is missing."""
        if self._report is None or self._reading is None or self._reading.usage.source is UsageSource.PARTIAL:
            return None
        usage = self._reading.usage
        if self._reading.suspect:
            fields = rawjson.fields(self._report)
            others = {name: raw for name, raw in fields.items() if "oken" not in name and b"oken" not in bytes(raw)}
            return rawjson.raw({**others, **as_object(usage)})
        if self.plain:
            return self._report
        counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total}
        corrected: dict[str, Any] = {**rawjson.maybe(self._report), **counts}
        if usage.reasoning:
            details = corrected.get("completion_tokens_details")
            details = details if isinstance(details, dict) else {}
            corrected["completion_tokens_details"] = {**details, "reasoning_tokens": usage.reasoning}
        return rawjson.raw(corrected)

    @property
    def marks(self) -> tuple[str, ...]:
        """Returns marks for the record: a suspect report, extras, and the cost that the upstream reports, if any."""
        suspect = self._suspect or (self._reading is not None and self._reading.suspect)
        if (self.plain or self._report is None) and not (self._variant or self._cost):
            return (SUSPECT_MARK,) if suspect else ()
        outside = {"service_tier": self._variant, "cost": self._cost}
        return marks_of({**outside, **(rawjson.maybe(self._report) or {})}, suspect=suspect)


def _nested_report(chunk: Fields) -> msgspec.Raw | None:
    """Returns a report below the top level: Groq's in ``x_groq``, Moonshot's in the first choice."""
    report = rawjson.maybe_fields(chunk.get("x_groq")).get("usage") if "x_groq" in chunk else None
    if report is None and b'"usage"' in bytes(chunk.get("choices", rawjson.NULL)):
        choices = rawjson.maybe_objects(chunk["choices"])
        report = choices[0].get("usage") if choices else None
    return None if report is None or rawjson.is_null(report) else report
