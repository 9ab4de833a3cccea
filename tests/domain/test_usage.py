"""Token counts keep their promises, whatever an upstream says."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.usage import NOTHING, Usage, UsageSource, canonical

COUNTS = st.integers(-(10**18), 10**18)
USAGES = st.builds(
    Usage,
    input=COUNTS,
    cached=COUNTS,
    cache_write=COUNTS,
    output=COUNTS,
    reasoning=COUNTS,
    source=st.sampled_from(UsageSource),
)


@given(USAGES)
def test_a_canonical_usage_has_its_parts_within_its_wholes(usage: Usage) -> None:
    found = canonical(usage)
    assert min(found.input, found.cached, found.cache_write, found.output, found.reasoning) >= 0
    assert found.cached + found.cache_write <= found.input
    assert found.reasoning <= found.output
    assert found.source is usage.source


@given(USAGES)
def test_a_canonical_usage_stays_so(usage: Usage) -> None:
    assert canonical(canonical(usage)) == canonical(usage)


def test_a_sound_usage_is_not_touched() -> None:
    sound = Usage(input=100, cached=60, cache_write=40, output=7, reasoning=7, source=UsageSource.REPORTED)
    assert canonical(sound) == sound


def test_cached_tokens_win_over_written_ones() -> None:
    assert canonical(Usage(input=10, cached=8, cache_write=8)) == Usage(input=10, cached=8, cache_write=2)


def test_the_total_is_input_and_output() -> None:
    assert Usage(input=3, cached=2, output=4, reasoning=1).total == 7
    assert NOTHING.total == 0
