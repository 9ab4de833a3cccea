import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.config_codec import inline, table
from gateway.domain.text import plain

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.dictionaries(TEXTS, VALUES, max_size=5))
def test_every_value_is_read_back_as_it_was(path: list[str], values: dict[str, object]) -> None:
    found = tomllib.loads(table(path, values))  # type: ignore[arg-type]
    for name in path:
        found = found[name]
    assert found == values


@given(TEXTS)
def test_a_line_is_safe_to_look_at(text: str) -> None:
    line = inline(text)
    assert plain(line, len(line)) == line or max(map(ord, line)) > 127  # combining marks may be many


def test_lists_of_several_have_a_value_a_line() -> None:
    text = table(["groups", "a b"], {"models": ["x"], "hosts": ["x", "y"], "limits": {"rpm": 5}, "on": True})
    assert text == (
        '[groups."a b"]\nmodels = ["x"]\nhosts = [\n    "x",\n    "y",\n]\nlimits = { rpm = 5 }\non = true\n'
    )


@pytest.mark.parametrize("text", ["\x1b]0;x\x07", "\u202e", "\x7f", "\ue000", "\U000e0001"])
def test_what_cannot_be_shown_is_escaped(text: str) -> None:
    assert inline(text).isprintable()
    assert tomllib.loads(f"x = {inline(text)}") == {"x": text}
