"""Token counts keep their promises, whatever an upstream says."""

from hypothesis import given, strategies as st

from gateway.domain.usage import NOTHING, PARTS, Usage, UsageSource, canonical

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


def test_a_sound_usage_is_not_touched() -> None:
    sound = Usage(input=100, cached=60, cache_write=40, output=7, reasoning=7, source=UsageSource.REPORTED)
    assert canonical(sound) == sound


def test_cached_tokens_win_over_written_ones() -> None:
    assert canonical(Usage(input=10, cached=8, cache_write=8)) == Usage(input=10, cached=8, cache_write=2)


def test_the_total_is_input_and_output() -> None:
    assert Usage(input=3, cached=2, output=4, reasoning=1).total == 7
    assert NOTHING.total == 0


FEW = st.integers(-5, 60)
OTHERS = ("other_input", "other_cached", "other_write", "other_write_long", "other_output")
MIXED = st.builds(
    Usage,
    input=FEW,
    cached=FEW,
    cache_write=FEW,
    cache_write_long=FEW,
    output=FEW,
    reasoning=FEW,
    parts=st.dictionaries(st.sampled_from([*PARTS, *OTHERS]), FEW),
)


@given(MIXED)
def test_no_part_is_in_two_places(usage: Usage) -> None:
    found = canonical(usage)
    part = found.parts.get
    kinds = ("audio", "image", "video")
    fresh = sum(part(f"input_{kind}", 0) - part(f"cached_{kind}", 0) for kind in kinds)
    assert 0 <= fresh + part("other_input", 0) <= found.input - found.cached - found.cache_write
    assert all(part(f"cached_{kind}", 0) <= part(f"input_{kind}", 0) for kind in kinds)
    assert sum(part(f"cached_{kind}", 0) for kind in kinds) + part("other_cached", 0) <= found.cached
    assert part("cache_write_12h", 0) + part("other_write_long", 0) <= found.cache_write_long
    assert part("other_write", 0) <= found.cache_write - found.cache_write_long
    outputs = sum(part(f"output_{kind}", 0) for kind in kinds)
    assert outputs + part("citations", 0) + part("other_output", 0) <= found.output
    assert all(count > 0 for count in found.parts.values())
    assert canonical(found) == found


def test_audio_beyond_what_is_not_cached_is_cached_audio() -> None:
    """For a vendor that reports the audio and the cached tokens, but not how much of the audio was cached."""
    found = canonical(Usage(input=100, cached=60, parts={"input_audio": 90}))
    assert found.parts == {"input_audio": 90, "cached_audio": 50}
