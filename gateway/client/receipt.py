"""Receipt: what a call used, cost and tried, as labelled rows, which the console and ``usage show`` print; and a price.

The texts contain what clients and upstreams sent: make them safe before they are drawn.
"""

from collections.abc import Iterator, Sequence

from gateway.domain.call import BUDGET_MARK, EXPLAINED_MARKS, PASSED_MARK, Attempt, mark_values, request_size, wait_of
from gateway.domain.cost import counts_billed
from gateway.domain.human_values import brief_multiplier, call_duration, count_text, local_time, tier_text
from gateway.domain.money import brief_dollars, dollars, typed_dollars
from gateway.domain.price import RATE_WORDS, Rates
from gateway.domain.price_kinds import rule_text
from gateway.domain.price_view import PriceView
from gateway.domain.query import speed_of
from gateway.domain.text import word
from gateway.domain.units import MILLION
from gateway.domain.usage import UNITS
from gateway.domain.views import CallView, RunningView

Part = tuple[str, str]
"""A text and its tone: ``ok``, ``bad``, ``warn``, ``dim`` or nothing."""
ReceiptRow = tuple[str, Sequence[Part]]
"""A label, empty if the row continues the one above, and the parts of the row."""

OK, FAILED, WARNING = "✓ ", "✗ ", "▲ "
TIMES, DOT = "\N{MULTIPLICATION SIGN}", " · "


def receipt_rows(call: CallView, *, unpriced: bool, earlier: str = "") -> Iterator[ReceiptRow]:
    """Yields the rows. ``unpriced``: the model has no price; ``earlier``: ids of the calls that this one repeats."""
    yield "tokens", [*_token_parts(call)]
    yield from _cost_rows(call, unpriced=unpriced)
    yield from _try_rows(call)
    yield from _other_rows(call, earlier)


def lacked_price(call: CallView) -> bool:
    """Returns whether a call has ended and costs nothing because its model had no price then."""
    return call.state == "settled" and call.rates is None and not call.cost_nanos and call.usage_source != "none"


def timing_facts(call: CallView) -> Iterator[str]:
    """Yields what the duration of a call consists of, and its speed."""
    waited_ms, place = wait_of(call.marks)
    if place:
        yield f"waited {call_duration(waited_ms)} of it for {place}"
    if between := call.between_tries_ms:
        yield f"waited {call_duration(between)} of it after {count_text(call.failed_tries, 'try')} that failed"
    if call.overhead_us:
        overhead_ms = max(0.0, call.overhead_us / 1000 - waited_ms)
        yield f"{overhead_ms:.1f}ms in the gateway before the upstream call"
    if (rate := speed_of(call)) is not None:
        yield f"{rate:.0f} tok/s"


def _token_parts(call: CallView) -> Iterator[Part]:
    if call.lost and call.usage_source == "none":
        yield "not known", "dim"
        return
    yield f"in {'at most ' if call.state == 'running' else ''}{call.input_tokens:,}", ""
    if call.cached_tokens or call.cache_write_tokens:
        written = f", {call.cache_write_tokens:,} written to cache" if call.cache_write_tokens else ""
        if call.cache_write_long_tokens:
            written += f", {call.cache_write_long_tokens:,} of it to the long cache"
        yield f" ({call.cached_tokens:,} cached{written})", ""
    yield f"   out {call.output_tokens:,}", ""
    if call.reasoning_tokens:
        yield f" ({call.reasoning_tokens:,} reasoning)", ""
    if parts := [_part_text(count, name) for name, count in call.parts.items() if name in RATE_WORDS]:
        yield f"   {', '.join(parts)}", ""
    if call.variant:
        yield f"   {call.variant}", ""
    yield f"   {call.usage_source}", "warn" if call.usage_source in ("estimated", "partial") else "dim"


_PART_WORDS = {
    "input": "",
    "output": "",
    "cached_input": "cached",
    "cache_write": "written to cache",
    "long_write": "written to the long cache",
    **RATE_WORDS,
}
"""The words after the count of a part."""


def _part_text(count: int, name: str) -> str:
    """Returns ``529``, ``40 audio input``, ``2 web searches``."""
    words = _PART_WORDS[name]
    ending = ("es" if words.endswith("search") else "s") if name in UNITS and count != 1 else ""
    return f"{count:,} {words}{ending}".rstrip()


def cost_formula(call: CallView, rates: Rates) -> str:
    """Returns how the cost was computed: ``529 x $3/M + 89 x $15/M, group x1.5 = $0.00438``."""
    parts = [
        f"{_part_text(count, name)} {TIMES} {dollars(rate).removesuffix('.00')}{'' if name in UNITS else '/M'}"
        for count, name, rate in counts_billed(call.usage, rates)
    ]
    if rates.per_call:
        parts.append(f"{dollars(rates.per_call)} a call")
    group = f", group {brief_multiplier(rates.multiplier)}" if rates.multiplier != MILLION else ""
    return f"{' + '.join(parts) or '0'}{group} = {dollars(call.cost_nanos)}"


def _cost_text(call: CallView) -> str:
    if call.state == "running":
        return f"at most {brief_dollars(call.cost_nanos)} so far, estimated"
    if call.rates is not None:
        return cost_formula(call, call.rates)
    if call.cost_nanos:
        return f"{dollars(call.cost_nanos)}: its rates were not recorded"
    return "$0: what it used is not known, and nothing was charged" if call.lost else "$0: nothing was used"


def _cost_rows(call: CallView, *, unpriced: bool) -> Iterator[ReceiptRow]:
    if unpriced:
        yield "cost", [(missing_price(call.model), "warn")]
    else:
        yield "cost", [(_cost_text(call), "")]
    amounts = [f"held {dollars(call.held_nanos)}"] if call.held_nanos else []
    if call.balance_nanos is not None:
        before = dollars(call.balance_nanos + call.cost_nanos)
        amounts.append(f"balance {before} before, {dollars(call.balance_nanos)} after")
    if amounts:
        yield "", [(DOT.join(amounts), "dim")]
    if call.possible_nanos:
        yield "", [(f"the upstream may have billed {dollars(call.possible_nanos)} that was not charged here", "warn")]


def missing_price(model: str, *, refused: bool = False) -> str:
    """Returns what happens to calls of a model without a price, and how to set one. ``refused``: they are refused."""
    effect = "calls are refused" if refused else "counted, not charged, and no dollar budget stops it"
    return f"no price: {effect}; 'tollkeeper price set {word(model)} --like OTHER' sets one"


def price_parts(view: PriceView | None, model: str, *, refused: bool = False) -> Iterator[Part]:
    """Yields a whole price, or what ``missing_price`` returns."""
    if view is None:
        yield missing_price(model, refused=refused), "warn"
        return
    if view.free:
        yield f"free   ({view.source})", "ok"
        return
    amounts = {"in": view.input, "out": view.output, "cached": view.cached_input}
    amounts |= {"cache write": view.cache_write, "long cache write": view.cache_write_long}
    amounts |= {RATE_WORDS[name]: nanos for name, nanos in view.extras.items()}
    yield "   ".join(f"{name} {typed_dollars(nanos)}" for name, nanos in amounts.items() if nanos is not None), ""
    if view.per_call:
        yield f"   {dollars(view.per_call)} a call", ""
    for rule in view.rules:
        yield f"   {rule_text(rule)}", ""
    if view.inherited_from:
        yield f"   the price of {view.inherited_from}, which it stands for", "dim"
    tiers = f"; above {', above '.join(map(tier_text, view.tiers))}" if view.tiers else ""
    listed = f" of {local_time(view.as_of_ms)[:10]}" if view.as_of_ms else ""
    yield f"   $ per million tokens, {view.source}{listed}{tiers}", "dim"
    if view.stale:
        yield "   this list is old; 'tollkeeper price import' checks for a newer one", "warn"


def _try_rows(call: CallView) -> Iterator[ReceiptRow]:
    if isinstance(call, RunningView):
        if call.attempt > 1:
            yield "tries", [(f"{call.attempt}, now on {call.channel}", "")]
        return
    for skipped in mark_values(call.marks, PASSED_MARK):
        yield "passed over", [(skipped, "dim")]
    for number, attempt in enumerate(call.attempts, 1):
        mark = (OK, "ok") if attempt.kind is None else (FAILED, "bad")
        yield "tries" if number == 1 else "", [mark, (f"{number} {_attempt_text(call, attempt)}", "")]


def _attempt_text(call: CallView, attempt: Attempt) -> str:
    model = f" as {attempt.model}" if attempt.model else ""
    key = f" key {attempt.key}" if attempt.key else ""
    reason = "" if attempt.kind is None else f"   {attempt.kind.value}: {attempt.reason}"
    billed = "   may have been billed" if attempt.billed else ""
    return f"{attempt.channel}{model}{key} {call.attempt_status(attempt)} {call_duration(attempt.ms)}{reason}{billed}"


def _other_rows(call: CallView, earlier: str) -> Iterator[ReceiptRow]:
    if call.upstream_id:
        yield "upstream id", [(call.upstream_id, "dim")]
    if (size := request_size(call.marks)) is not None:
        yield "asked for", [(size.text(), "dim")]
    if call.stay:
        yield "stayed", [(call.stay, "dim")]
    if (more := call.count - 1) > 0:
        yield "repeated", [(f"{more:,} more like this {'was' if more == 1 else 'were'} not listed", "")]
    if call.retry:
        source = f"; before it: {earlier}" if earlier else ", as its SDK counts"
        yield "retry", [(f"{call.retry} of the same call{source}", "")]
    for warning in mark_values(call.marks, BUDGET_MARK):
        yield "budget", [(f"{WARNING}{warning}", "warn")]
    marks = [mark for mark in call.marks if not mark.startswith((BUDGET_MARK, *EXPLAINED_MARKS))]
    if marks:
        yield "marks", [(", ".join(marks), "dim")]
