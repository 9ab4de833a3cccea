"""What an upstream reports of a call's tokens, in any of the shapes seen in the field, made canonical.

Any chunk may bring a report, in several places. Counts are running totals: they are merged name by name, and a later
number that is smaller, such as a zero at the end, never lowers an earlier one; that report is suspect. Gemini's last
numbers are the ones that it bills, also where they are smaller, but not where they are zero.

What is not believed (see ``usage_counts``) counts as not reported, and the report as suspect. Suspect is also a report
that contradicts itself; it is settled so:

- A total above its parts: the difference is sounds that were left out of the input (Mistral), or thoughts that were
  left out of the output, if the report names as many; also thoughts if it names none and the request allows so many.
  Otherwise the parts count.
- A total below its parts: the parts count.
- More cached tokens than input: they are not part of the input, if the total says so, or without a total if the report
  names its input ``input_tokens`` and the request allows so many. Otherwise the input counts, and its parts are cut.
- More reasoning than output: the output counts.
- A part that is missing is what the total leaves for it, if the request allows so much.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.output_limit import read_limit
from gateway.domain.rawjson import Fields
from gateway.domain.usage import CITATIONS, LONGEST_WRITE, Usage, UsageSource, canonical
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.usage_counts import (
    CITATION_TOKENS,
    OPENAI_NAMES,
    PLAUSIBLE,
    counts_of,
    merge,
    named_variant,
    other_model_tokens,
    parts_of,
    sum_iterations,
    usual_usage,
    variant_of,
    with_underscores,
    without_newly_cached,
)
from gateway.upstream.usage_marks import SUSPECT, marks_of


class UsageLimits(msgspec.Struct, frozen=True, gc=False):
    """The most that a request can have used, to decide between two readings."""

    input: int = PLAUSIBLE
    output: int | None = None
    """The output limit; None: it has none."""


Within = Callable[[], UsageLimits]
"""Called only for reports that contradict themselves."""


class UsageReading(msgspec.Struct, frozen=True, gc=False):
    """What one report says."""

    usage: Usage
    """Its source is PARTIAL if the report lacks a believable count of the output or of the input."""
    suspect: bool = False
    corrected: bool = False
    """Whether the canonical numbers differ from the reported ones."""


def read(report: Mapping[str, Any], within: Within = UsageLimits) -> UsageReading | None:
    """Returns the report in canonical form; None without a believable input count, or if it says nothing at all."""
    if isinstance(report.get("iterations"), list):
        report = sum_iterations(report)
    counts, suspect = counts_of(report)
    gemini = not _GEMINI_COUNTS.isdisjoint(report)
    misfit = _settle_gemini(counts, within) if gemini else _settle(report, counts, within)
    if misfit is None:
        return None
    suspect, plain = suspect or misfit, OPENAI_NAMES.issuperset(report)
    usage = canonical(
        Usage(
            input=counts.get("input", 0),
            cached=counts.get("cached", 0),
            cache_write=counts.get("write", 0),
            cache_write_long=counts.get("long", 0) or counts.get(LONGEST_WRITE, 0),
            output=counts.get("output", 0),
            reasoning=counts.get("reasoning", 0),
            source=UsageSource.REPORTED if {"input", "output"} <= counts.keys() else UsageSource.PARTIAL,
            parts=parts_of(report, counts),
            variant="" if plain else variant_of(report),
            other_model="" if plain else other_model_tokens(report)[0],
        )
    )
    return UsageReading(usage, suspect, corrected=suspect or not _shows(report, usage))


def _shows(report: Mapping[str, Any], usage: Usage) -> bool:
    """Returns whether clients would read the same counts."""
    counts = (report.get("prompt_tokens"), report.get("completion_tokens"), report.get("total_tokens"))
    return counts == (usage.input, usage.output, usage.total) and {*map(type, counts)} == {int}


def _settle(report: Mapping[str, Any], counts: dict[str, int], within: Within) -> bool | None:
    """Makes the counts consistent, and says whether they were not. Returns None if they say too little."""
    total, outputs, suspect = counts.get("total"), counts.get("output"), False
    kept, reasoning = counts.get("cached", 0) + counts.get("write", 0), counts.get("reasoning", 0)
    inputs = reported = counts.get("input")
    if inputs is None and total is not None and outputs is not None:
        inputs = reported = total - outputs
        suspect = not 0 <= inputs <= within().input
    if inputs is None or reported is None or suspect:
        return None
    if _excludes_cache(report):
        inputs += kept
    elif kept > inputs:
        suspect = True
        inputs = _whole_input(report, inputs, kept, total, outputs or 0, within)
    if outputs is not None and (apart := _thoughts_apart(report, counts)):
        outputs, reasoning, total = outputs + apart, counts.get("reasoning_apart", 0), None
    if outputs is None and total is not None and total > inputs:
        outputs = total - inputs if total - inputs <= _most_output(within()) else None
        suspect = suspect or outputs is None
    if outputs is not None and total is not None and total not in (inputs + outputs, reported + outputs):
        sounds, thoughts = _left_out(total - inputs - outputs, outputs, counts, within)
        inputs, outputs, reasoning = inputs + sounds, outputs + thoughts, thoughts or reasoning
        suspect = suspect or not (sounds or thoughts)
    counts |= {"input": inputs, "reasoning": reasoning}
    if outputs is not None:
        counts["output"] = outputs
    return suspect or (outputs is not None and reasoning > outputs)


def _left_out(gap: int, outputs: int, counts: Mapping[str, int], within: Within) -> tuple[int, int]:
    """Returns the sounds left out of the input, or the thoughts left out of the output, if they fill the gap."""
    reasoning = counts.get("reasoning", 0)
    if 0 < gap != reasoning and gap == counts.get("input_audio"):
        return gap, 0
    thoughts = gap == reasoning if reasoning else 0 < gap <= _most_output(within()) - outputs
    return 0, gap if thoughts else 0  # Gemini's compatible surface, xAI


def _whole_input(
    report: Mapping[str, Any], inputs: int, cached: int, total: int | None, outputs: int, within: Within
) -> int:
    """Returns the input of a report with more cached tokens than input."""
    apart = inputs + cached
    if total is None and "prompt_tokens" not in report:
        return apart if apart <= within().input else inputs
    named = cached > inputs and _is_anthropic(report)
    return apart if named or total == apart + outputs else inputs


def _thoughts_apart(report: Mapping[str, Any], counts: Mapping[str, int]) -> int:
    """Adds Perplexity's ``reasoning_tokens`` and citations, which are billed beside the output and not in the total."""
    if CITATION_TOKENS not in report and "num_search_queries" not in report:
        return 0
    return counts.get("reasoning_apart", 0) + counts.get(CITATIONS, 0)


def _most_output(limits: UsageLimits) -> int:
    """The most tokens that a model thinks if the request has no limit."""
    return 200_000 if limits.output is None else limits.output


def _excludes_cache(report: Mapping[str, Any]) -> bool:
    """Returns whether the input is counted without the cache, as Anthropic's ``input_tokens`` and llama.cpp's
    ``prompt_n`` are.
    """
    return "prompt_n" in report or ("prompt_tokens" not in report and _is_anthropic(report))


def _is_anthropic(report: Mapping[str, Any]) -> bool:
    return "cache_read_input_tokens" in report or "cache_creation_input_tokens" in report


_GEMINI_COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def _settle_gemini(counts: dict[str, int], within: Within) -> bool | None:
    """Does the same for Gemini's report. Thoughts are beside the candidates, or inside if the total says so. What tools
    read is beside the prompt.
    """
    said, thoughts = counts.get("output", 0), counts.get("reasoning", 0)
    total, tools, prompt = counts.get("total"), counts.get("tools", 0), counts.get("input")
    spoke = "output" in counts or bool(thoughts)
    if prompt is None and total is not None and spoke:
        prompt = total - said - thoughts - tools
        if not 0 <= prompt <= within().input:
            return None
    if prompt is None:  # Vertex sends such reports for images at an address
        alone = total is None and bool(said + thoughts)
        counts["output"] = said + thoughts
        return False if alone else None
    inputs = prompt + tools
    outputs = said + (0 if inputs + said == total else thoughts)
    suspect = counts.get("cached", 0) > inputs
    counts["input"] = inputs
    if spoke:
        counts["output"] = outputs
        suspect = suspect or total not in (None, inputs + outputs, prompt + outputs)
    return suspect


class UsageReports:
    """Reads every chunk of an answer, and returns at its end what was used."""

    def __init__(self, request: Fields) -> None:
        """``request``: the top level of the request."""
        self._fields = request
        self._report: msgspec.Raw | None = None
        """All reports so far, as one: the upstream's own bytes if the last one says all."""
        self._reading: UsageReading | None = None
        self._timed: UsageReading | None = None
        self._output_sum = 0
        self.usual = False
        """Whether the last report has OpenAI's own counts and nothing else."""
        self._variant = ""
        """How it was processed, if the answer says so beside its report."""
        self.suspect = False
        """Whether one of the reports contradicts itself."""
        self.final = True
        """Whether the output of the last report is that of the whole answer, and not a first number."""

    def see(self, chunk: Fields, *, final: bool = True) -> None:
        """Reads a chunk or a whole answer, at all places of a report.

        ``final``: its output is that of the whole answer, and not a first number.
        """
        report = chunk.get("usage")
        if report is None or rawjson.is_null(report):
            report = _elsewhere(chunk)
        if "service_tier" in chunk:
            self._variant = named_variant(rawjson.maybe(chunk["service_tier"]))
        if report is not None:
            self._take(report, summed="timings" in chunk and self._has_choices())
            self.final = final
        if "timings" in chunk and isinstance(timings := rawjson.maybe(chunk["timings"]), dict):
            self._timed = read(timings)
            self.suspect = self.suspect or ("prompt_n" in timings if self._timed is None else self._timed.suspect)

    def _take(self, report: msgspec.Raw, *, summed: bool) -> None:
        """Takes a report. llama.cpp sends one for each of several choices: outputs add up, the input is the same."""
        follows = self._report is not None and not summed
        usual = None if follows else usual_usage(report)
        counts = rawjson.maybe(report) if usual is None else {}
        if not isinstance(counts, dict):
            self.suspect = self.suspect or bool(counts)
            return
        named = with_underscores(counts)
        renamed = named is not counts
        if renamed:
            counts, report = named, rawjson.raw(named)
        if follows:
            merged = self._merged(counts)
            if merged != counts:
                counts, report = merged, rawjson.raw(merged)
            usual = usual_usage(report)
        self._report, self.usual = report.copy(), usual is not None  # not a view, which would keep the whole answer
        reading = read(counts, self._limits) if usual is None else UsageReading(usual)
        if reading is None:
            self.suspect = self.suspect or any("oken" in name for name in counts)
            return
        self.suspect = self.suspect or reading.suspect
        if summed:
            self._output_sum += reading.usage.output
            usage = msgspec.structs.replace(reading.usage, output=self._output_sum)
            reading = UsageReading(usage, reading.suspect, corrected=True)
        elif renamed:
            reading = msgspec.structs.replace(reading, corrected=True)
        self._reading = reading

    def _merged(self, report: dict[str, Any]) -> dict[str, Any]:
        """Returns a later report together with those before it."""
        known = rawjson.maybe(self._report)
        if not self.final and report.get("output_tokens") is not None:
            known.pop("output_tokens", None)
        merged, fell = merge(
            without_newly_cached(known, report), report, may_decrease=not _GEMINI_COUNTS.isdisjoint(report)
        )
        self.suspect = self.suspect or fell
        return merged

    def _has_choices(self) -> bool:
        """Returns whether the request wants several choices."""
        wanted = rawjson.maybe(self._fields.get("n"))
        return isinstance(wanted, int) and wanted > 1

    def _limits(self) -> UsageLimits:
        """Returns the limits of the request. A token is at least a byte; media given by address are few tokens more
        than their names.

        The upstream may add words and tools of its own.
        """
        size = sum(len(memoryview(value)) for value in self._fields.values()) + 4096
        try:
            limit = read_limit(self._fields)
        except BadRequest:
            return UsageLimits(size)
        return UsageLimits(size, None if limit.expected else limit.capped_total)

    def usage(self, tally: OutputCounter) -> Usage | None:
        """Returns the reported usage of an answer with this output.

        The tally replaces a missing output count. A report of nothing but zeros counts as none if something came.
        """
        reading = self._reading or self._timed
        if reading is None or not (reading.usage.input or reading.usage.output or tally.empty):
            return None
        usage = reading.usage
        if self._variant and not usage.variant:
            usage = msgspec.structs.replace(usage, variant=self._variant)
        if (usage.source is UsageSource.PARTIAL and usage.input) or not self.final:
            return msgspec.structs.replace(usage, output=tally.tokens(), source=UsageSource.PARTIAL)
        return usage

    @property
    def corrected(self) -> bool:
        """Returns whether clients should get other numbers than the upstream's."""
        return self._reading is None or self._reading.corrected

    def as_sent(self) -> msgspec.Raw | None:
        """Returns the upstream's own object with its counts corrected; None if there is none to pass on, or it is
        suspect.
        """
        if self._report is None or self._reading is None or self._reading.usage.source is UsageSource.PARTIAL:
            return None
        if self._reading.suspect:
            return None
        if not self._reading.corrected:
            return self._report
        usage = self._reading.usage
        counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total}
        out: dict[str, Any] = {**rawjson.maybe(self._report), **counts}
        if usage.reasoning:
            details = out.get("completion_tokens_details")
            known = details if isinstance(details, dict) else {}
            out["completion_tokens_details"] = {**known, "reasoning_tokens": usage.reasoning}
        return rawjson.raw(out)

    @property
    def marks(self) -> tuple[str, ...]:
        """Returns marks for the record: doubt, extras, and the cost if the upstream named one (OpenRouter does)."""
        doubt: tuple[str, ...] = (SUSPECT,) if self.suspect else ()
        if self.usual and not self._variant:
            return doubt
        return marks_of({"service_tier": self._variant, **(rawjson.maybe(self._report) or {})}, suspect=self.suspect)


def _elsewhere(chunk: Fields) -> msgspec.Raw | None:
    """Returns a report that is not at the top: Groq's, Moonshot's."""
    report = rawjson.maybe_fields(chunk.get("x_groq")).get("usage") if "x_groq" in chunk else None
    if report is None and b'"usage"' in bytes(chunk.get("choices", rawjson.NULL)):
        report = _moonshot(chunk["choices"])
    return None if report is None or rawjson.is_null(report) else report


def _moonshot(choices: msgspec.Raw) -> msgspec.Raw | None:
    """Returns the usage inside the first choice."""
    try:
        objects = rawjson.objects(choices)
    except ValueError:
        return None
    return objects[0].get("usage") if objects else None
