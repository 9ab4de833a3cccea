"""What an upstream reports of a call's tokens, in any of the shapes seen in the field, made canonical.

Any chunk may bring a report, in several places. Counts are running totals: they are merged name by name, and a later
number that is smaller, such as a zero at the end, never lowers an earlier one; that report is suspect. Gemini's last
numbers are the ones that it bills, also where they are smaller, but not where they are zero.

Numbers are believed only if they can be true: whole, not negative and not beyond ``PLAUSIBLE``. What is not believed
counts as not reported, and the report as suspect. Suspect is also a report that contradicts itself; it is settled so:

- A total above its parts: the difference is sounds that were left out of the input (Mistral), or thoughts that were
  left out of the output, if the report names as many; also thoughts if it names none and the request allows so many.
  Otherwise the parts count.
- A total below its parts: the parts count.
- More cached tokens than input: they are not part of the input, if the total says so, or without a total if the report
  names its input ``input_tokens`` and the request allows so many. Otherwise the input counts, and its parts are cut.
- More reasoning than output: the output counts.
- A part that is missing is what the total leaves for it, if the request allows so much.

Long: each shape that was seen is a few lines here, and the rules that settle them belong together.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.output_limit import read_limit
from gateway.domain.rawjson import Fields
from gateway.domain.usage import Usage, UsageSource, canonical
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.usage_marks import PRICED_TIERS, SUSPECT, marks_of
from gateway.upstream.usage_parts import named_variant, parts_of, variant_of

PLAUSIBLE = 20_000_000
"""Tokens: ten times the largest context on offer. No call has more."""
MOST_THOUGHTS = 200_000
"""Tokens that a model thinks at most, where the request has no limit."""
SLACK = 4096
"""Input tokens that an upstream may add to what it was sent: words of its own, tools of its own."""

CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("num_cached_tokens",),  # Mistral
    ("prompt_token_details", "cached_tokens"),  # Mistral
    ("cached_tokens",),  # Together
    ("cache_read_input_tokens",),  # Anthropic
)
CACHE_WRITE = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cache_creation_tokens"),
    ("prompt_tokens_details", "created_cache_tokens"),  # vLLM
    ("input_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),  # Anthropic
)
CACHE_WRITE_LONG = (
    ("prompt_tokens_details", "cache_write_long_tokens"),
    ("cache_creation", "ephemeral_1h_input_tokens"),  # Anthropic
    ("prompt_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),  # OpenAI
    ("input_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),
)
"""What stays in the cache for an hour or more; part of the above."""
SOUNDS = (("prompt_tokens_details", "audio_tokens"), ("input_tokens_details", "audio_tokens"))
REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "thinking_tokens"),  # Anthropic
)


class UsageLimits(msgspec.Struct, frozen=True, gc=False):
    """What a request can have used at most, to tell which of two readings is meant."""

    input: int = PLAUSIBLE
    output: int | None = None
    """None: it has no limit."""


Within = Callable[[], UsageLimits]
"""Asked only for reports that contradict themselves."""


class UsageReading(msgspec.Struct, frozen=True, gc=False):
    """What one report says."""

    usage: Usage
    """Its source is PARTIAL if the report has no believable count of the output, or none of the input."""
    suspect: bool = False
    corrected: bool = False
    """The canonical numbers differ from the ones reported."""


class _Input(msgspec.Struct, forbid_unknown_fields=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    audio_tokens: int | None = None


class _Output(msgspec.Struct, forbid_unknown_fields=True):
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class RegularUsage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """OpenAI's own form, in which no number is anywhere else."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _Input | None = None
    completion_tokens_details: _Output | None = None


class ResponseUsage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The same of the Responses API."""

    prompt_tokens: int = msgspec.field(name="input_tokens")
    completion_tokens: int = msgspec.field(name="output_tokens")
    total_tokens: int
    prompt_tokens_details: _Input | None = msgspec.field(name="input_tokens_details", default=None)
    completion_tokens_details: _Output | None = msgspec.field(name="output_tokens_details", default=None)


_REGULAR = msgspec.json.Decoder(RegularUsage)
_OF_RESPONSE = msgspec.json.Decoder(ResponseUsage)
_REPORTED: Final = UsageSource.REPORTED


def read_regular(report: msgspec.Raw) -> UsageReading | None:
    """The same as ``read`` for a report in OpenAI's own forms whose numbers fit each other; None for any other one."""
    try:
        of_response = bytes(report).find(b'"input_tokens"') >= 0
        found = _OF_RESPONSE.decode(report) if of_response else _REGULAR.decode(report)
    except (msgspec.DecodeError, RecursionError):
        return None
    inputs, outputs = found.prompt_tokens, found.completion_tokens
    cached = write = long = reasoning = 0
    if (details := found.prompt_tokens_details) is not None:
        cached, write = details.cached_tokens or 0, details.cache_write_tokens or 0
        long = details.cache_write_long_tokens or 0
    if (more := found.completion_tokens_details) is not None:
        reasoning = more.reasoning_tokens or 0
    if (details and details.audio_tokens) or (more and more.audio_tokens):
        return None  # audio may be among the cached tokens
    fits = inputs + outputs == found.total_tokens <= PLAUSIBLE and cached + write <= inputs and reasoning <= outputs
    if not fits or min(inputs, outputs, cached, long, reasoning) < 0 or long > write:
        return None
    return UsageReading(
        Usage(  # canonical as it is
            input=inputs,
            cached=cached,
            cache_write=write,
            cache_write_long=long,
            output=outputs,
            reasoning=reasoning,
            source=_REPORTED,
        ),
        corrected=of_response,
    )


def read(report: Mapping[str, Any], within: Within = UsageLimits) -> UsageReading | None:
    """The report in canonical form; None if it has no believable input count, or says nothing at all."""
    if not _GEMINI_COUNTS.isdisjoint(report):
        return _read_gemini(report, within)
    if isinstance(report.get("iterations"), list):
        report = _sum_iterations(report)
    return _read_counts(report, within)


def _read_counts(report: Mapping[str, Any], within: Within) -> UsageReading | None:
    figures = _Figures(report)
    inputs = figures.first("prompt_tokens", "input_tokens")
    outputs = figures.first("completion_tokens", "output_tokens")
    cached, write = figures.deep(CACHED), figures.deep(CACHE_WRITE)
    reasoning, total = figures.deep(REASONING), figures.first("total_tokens")
    if inputs is None and total is not None and outputs is not None:
        inputs = figures.believed(total - outputs, within().input)
    if inputs is None:
        return None
    reported = inputs
    if _excludes_cache(report):
        inputs += cached + write
    elif cached + write > inputs:
        figures.suspect = True
        inputs = _whole_input(report, inputs, cached + write, total, outputs or 0, within)
    apart = _thoughts_apart(report, figures)
    if outputs is not None and apart:
        outputs, reasoning, total = outputs + apart, figures.first("reasoning_tokens") or 0, None
    if outputs is None and total is not None and total > inputs:
        outputs = figures.believed(total - inputs, _most_output(within()))
    if outputs is not None and total is not None and total not in (inputs + outputs, reported + outputs):
        gap = total - inputs - outputs
        thoughts = gap == reasoning if reasoning else 0 < gap <= _most_output(within()) - outputs
        if 0 < gap != reasoning and gap == figures.deep(SOUNDS):
            inputs += gap
        elif thoughts:  # Gemini's compatible surface, xAI
            outputs, reasoning = outputs + gap, gap
        else:
            figures.suspect = True
    figures.suspect = figures.suspect or (outputs is not None and reasoning > outputs)
    long = figures.deep(CACHE_WRITE_LONG)
    usage = _usage(report, inputs, cached, outputs, reasoning, write=write, long=long)
    shown = _shown_counts(report) == (usage.input, usage.output, usage.total)
    return UsageReading(usage, figures.suspect, corrected=figures.suspect or not shown)


def _whole_input(
    report: Mapping[str, Any], inputs: int, cached: int, total: int | None, outputs: int, within: Within
) -> int:
    """The input of a report with more cached tokens than input."""
    apart = inputs + cached
    if total is None and "prompt_tokens" not in report:
        return apart if apart <= within().input else inputs
    named = cached > inputs and _is_anthropic(report)
    return apart if named or total == apart + outputs else inputs


_SEARCHED = frozenset({"citation_tokens", "num_search_queries"})


def _thoughts_apart(report: Mapping[str, Any], figures: "_Figures") -> int:
    """Perplexity's ``reasoning_tokens`` and citations are billed beside the output, and not in the total."""
    if _SEARCHED.isdisjoint(report):
        return 0
    return (figures.first("reasoning_tokens") or 0) + (figures.first("citation_tokens") or 0)


_SUMMED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_LONG_WRITE = "ephemeral_1h_input_tokens"


def _sum_iterations(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Anthropic's: with ``iterations`` the sum over these is what was used: the total leaves out a compaction."""
    steps = [step for step in report["iterations"] if isinstance(step, dict)]
    if not steps:
        return report
    sums: dict[str, Any] = {name: _sum(step.get(name) for step in steps) for name in _SUMMED}
    made = [step["cache_creation"] for step in steps if isinstance(step.get("cache_creation"), dict)]
    if made:
        sums["cache_creation"] = {_LONG_WRITE: _sum(one.get(_LONG_WRITE) for one in made)}
    return {**report, **{name: total for name, total in sums.items() if total is not None}}


def _sum(numbers: Iterable[object]) -> int | None:
    """The sum; None if there are none, -1 if one of them is not a count."""
    found = [number for number in numbers if number is not None]
    counts = [number for number in found if type(number) is int and number >= 0]
    return None if not found else sum(counts) if len(counts) == len(found) else -1


def _most_output(limits: UsageLimits) -> int:
    return MOST_THOUGHTS if limits.output is None else limits.output


def _shown_counts(report: Mapping[str, Any]) -> tuple[Any, ...]:
    """The counts that clients would read; none if one of them is not an integer."""
    found = (report.get("prompt_tokens"), report.get("completion_tokens"), report.get("total_tokens"))
    return found if all(type(number) is int for number in found) else ()


def _excludes_cache(report: Mapping[str, Any]) -> bool:
    """Anthropic's ``input_tokens`` are those beside the cache."""
    return "prompt_tokens" not in report and _is_anthropic(report)


def _is_anthropic(report: Mapping[str, Any]) -> bool:
    return "cache_read_input_tokens" in report or "cache_creation_input_tokens" in report


_GEMINI_COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def _read_gemini(report: Mapping[str, Any], within: Within) -> UsageReading | None:
    figures = _Figures(report)
    prompt = figures.first("promptTokenCount")
    candidates, thoughts = figures.first("candidatesTokenCount"), figures.first("thoughtsTokenCount") or 0
    cached, total = figures.first("cachedContentTokenCount") or 0, figures.first("totalTokenCount")
    tools = figures.first("toolUsePromptTokenCount") or 0
    if prompt is None and total is not None and (candidates is not None or thoughts):
        prompt = figures.believed(total - (candidates or 0) - thoughts - tools, within().input)
    if prompt is None:
        return _output_alone(report, (candidates or 0) + thoughts, thoughts, figures) if total is None else None
    inputs = prompt + tools
    outputs: int | None = None
    if candidates is not None or thoughts:
        inside = inputs + (candidates or 0) == total
        outputs = (candidates or 0) + (0 if inside else thoughts)
        figures.suspect = figures.suspect or total not in (None, inputs + outputs, prompt + outputs)
    figures.suspect = figures.suspect or cached > inputs
    return UsageReading(_usage(report, inputs, cached, outputs, thoughts), figures.suspect, corrected=True)


def _output_alone(report: Mapping[str, Any], outputs: int, thoughts: int, figures: "_Figures") -> UsageReading | None:
    """The reading of a report that says nothing of the input: Vertex sends such ones for images at an address."""
    if not outputs:
        return None
    usage = msgspec.structs.replace(_usage(report, 0, 0, outputs, thoughts), source=UsageSource.PARTIAL)
    return UsageReading(usage, figures.suspect, corrected=True)


def read_timings(timings: Mapping[str, Any]) -> UsageReading | None:
    """llama.cpp's ``timings``, which are there when usage is not."""
    figures = _Figures(timings)
    fresh, outputs = figures.first("prompt_n"), figures.first("predicted_n")
    if fresh is None:
        return None
    cached = figures.first("cache_n") or 0
    return UsageReading(_usage({}, cached + fresh, cached, outputs, 0), figures.suspect, corrected=True)


def _usage(
    report: Mapping[str, Any],
    inputs: int,
    cached: int,
    outputs: int | None,
    reasoning: int,
    *,
    write: int = 0,
    long: int = 0,
) -> Usage:
    return canonical(
        Usage(
            input=inputs,
            cached=cached,
            cache_write=write,
            cache_write_long=long,
            output=outputs or 0,
            reasoning=reasoning,
            source=UsageSource.PARTIAL if outputs is None else UsageSource.REPORTED,
            parts=parts_of(report),
            variant=variant_of(report),
        )
    )


class _Figures:
    """Believable numbers of a report; ``suspect`` once one was not believed."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report
        self.suspect = False

    def first(self, *names: str) -> int | None:
        for name in names:
            found = self._number(self._report.get(name))
            if found is not None:
                return found
        return None

    def believed(self, number: int, most: int) -> int | None:
        """A number that was worked out; None if it cannot be true."""
        if 0 <= number <= most:
            return number
        self.suspect = True
        return None

    def deep(self, paths: tuple[tuple[str, ...], ...]) -> int:
        for top, *below in paths:
            found = self._report.get(top)
            if found is None:
                continue
            for name in below:
                found = found.get(name) if isinstance(found, dict) else None
            number = self._number(found)
            if number is not None:
                return number
        return 0

    def _number(self, value: Any) -> int | None:
        if value is None:
            return None
        number = value if type(value) is int else _whole(value)
        if not 0 <= number <= PLAUSIBLE:
            self.suspect = True
            return None
        return number


def _whole(value: Any) -> int:
    """The number as it is, written as a float or in digits; -1 for what is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return -1
    return int(value) if value == int(value) else -1


class UsageReports:
    """Sees every chunk of an answer, and says at its end what was used."""

    __slots__ = (
        "_choices",
        "_fields",
        "_last",
        "_odd",
        "_output_sum",
        "_reading",
        "_tier",
        "_timed",
        "_variant",
        "final",
        "suspect",
    )

    def __init__(self, request: Fields) -> None:
        """``request``: the top level of the request."""
        wanted = rawjson.maybe(request.get("n"))
        self._choices = wanted if isinstance(wanted, int) else 1
        self._fields = request
        self._last: msgspec.Raw | None = None
        self._reading: UsageReading | None = None
        self._timed: UsageReading | None = None
        self._output_sum = 0
        self._odd = False
        """A report was not in OpenAI's own form, which has no extras."""
        self._tier = ""
        """The service tier of the answer, if tokens have another price in it."""
        self._variant = ""
        """How it was processed, if the answer says so beside its report."""
        self.suspect = False
        """One of the reports cannot be true as it stands."""
        self.final = True
        """Whether the output of the last report is that of the whole answer, and no first number."""

    def see(self, chunk: Fields, *, final: bool = True) -> None:
        """Looks at a chunk or a whole answer, at all places where a report may be.

        ``final``: its output is that of the whole answer, and no first number.
        """
        report = chunk.get("usage")
        if report is None or rawjson.is_null(report):
            report = _elsewhere(chunk)
        if "service_tier" in chunk:
            tier = rawjson.maybe(chunk["service_tier"])
            self._tier = tier if isinstance(tier, str) and tier in PRICED_TIERS else ""
            self._variant = named_variant(tier)
        if report is not None:
            self._take(report, summed=self._choices > 1 and "timings" in chunk)
            self.final = final
        if "timings" in chunk and isinstance(timings := rawjson.maybe(chunk["timings"]), dict):
            self._timed = read_timings(timings)
            self.suspect = self.suspect or ("prompt_n" in timings if self._timed is None else self._timed.suspect)

    def _take(self, report: msgspec.Raw, *, summed: bool) -> None:
        """llama.cpp sends one report for each of several choices: outputs add up, the input is the same."""
        reading = read_regular(report)
        if reading is None or not self._grew(reading):
            self._odd = True
            found = rawjson.maybe(report)
            if not isinstance(found, dict):
                self.suspect = self.suspect or bool(found)
                return
            if self._last is not None and not summed:
                known = rawjson.value(self._last)
                if not self.final and found.get("output_tokens") is not None:
                    known.pop("output_tokens", None)
                found, fell = _merge(known, found, falls=not _GEMINI_COUNTS.isdisjoint(found))
                self.suspect = self.suspect or fell
                report = rawjson.raw(found)
            self._last, reading = report.copy(), read_regular(report) or read(found, self._limits)
            if reading is None:
                self.suspect = self.suspect or any("oken" in name for name in found)
                return
        self.suspect = self.suspect or reading.suspect
        if summed:
            self._output_sum += reading.usage.output
            usage = msgspec.structs.replace(reading.usage, output=self._output_sum)
            reading = UsageReading(usage, reading.suspect, corrected=True)
        self._last, self._reading = report.copy(), reading  # not a view, which would keep the whole answer

    def _grew(self, reading: UsageReading) -> bool:
        """Whether a regular report says all that the one before it said, which was regular too."""
        if self._last is None:
            return True
        if self._reading is None or self._reading.corrected:
            return False
        new, old = reading.usage, self._reading.usage
        return all(getattr(new, name) >= getattr(old, name) for name in _GROWING)

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
        """For the record: doubt, extras, and the cost if the upstream named one (OpenRouter does)."""
        doubt: tuple[str, ...] = (SUSPECT,) if self.suspect else ()
        if not (self._tier or self._odd):
            return doubt
        found = rawjson.maybe(self._last)
        report = found if isinstance(found, dict) else {}
        return marks_of({"service_tier": self._tier, **report}, suspect=self.suspect)


_GROWING = ("input", "cached", "cache_write", "output", "reasoning")


def _merge(known: dict[str, Any], more: dict[str, Any], *, falls: bool) -> tuple[dict[str, Any], bool]:
    """Both reports as one, and whether a count of the later one is smaller and not believed.

    ``falls``: the vendor corrects its counts, so that a smaller one is believed unless it is zero.
    """
    out, fell = dict(known), False
    for name, value in more.items():
        before = out.get(name)
        if value is None:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            out[name], inner = _merge(before, value, falls=falls)
            fell = fell or inner
        elif isinstance(before, int) and isinstance(value, int) and 0 <= value < before and not (falls and value):
            fell = True
        else:
            out[name] = value
    return out, fell


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
