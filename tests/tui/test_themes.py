from itertools import pairwise

import pytest
from textual.color import Color
from textual.theme import Theme
from textual.widgets import Input

from tests.tui.owner import press, shown
from tui.themes import CONTRAST, DARK, LIGHT, THEMES, chart_colours


def test_all_themes_know_the_same_variables_of_ours() -> None:
    ours = {"muted", "border", "block-cursor-background", "block-cursor-foreground"}
    assert [ours - theme.variables.keys() for theme in THEMES] == [set()] * len(THEMES)


@pytest.mark.parametrize("theme", [DARK, LIGHT, CONTRAST], ids=lambda theme: theme.name)
def test_words_can_be_read_on_their_background(theme: Theme) -> None:
    """WCAG AA asks for 4.5 to 1."""
    names = ("foreground", "text-error", "text-warning", "text-success", "text-accent", "muted")
    variables = theme.to_color_system().generate() | theme.variables
    ratios = {
        (name, ground): round(contrast(variables[name], variables[ground]), 1)
        for name in names
        for ground in ("surface", "panel")
    }
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", [DARK, LIGHT, CONTRAST], ids=lambda theme: theme.name)
async def test_hints_in_empty_fields_can_be_read(theme: Theme) -> None:
    async with shown("tokens", theme=theme.name) as (app, pilot, _):
        await press(app, pilot, "n")
        field = app.screen.query(Input).last()
        colour = field.get_component_styles("input--placeholder").color
        ground = field.styles.background
        assert round(contrast_of(ground.blend(colour, colour.a), ground), 1) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT, CONTRAST], ids=lambda theme: theme.name)
def test_charts_have_colours_that_can_be_distinguished(theme: Theme) -> None:
    series = [theme.variables[f"chart-{number}"] for number in range(1, 8)]
    okabe_ito = {"#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}
    assert len(set(series)) == 7
    assert set(series[:6]) <= okabe_ito
    assert all(contrast(colour, theme.surface or "#000000") > 1.6 for colour in series)


@pytest.mark.parametrize("theme", [DARK, LIGHT, CONTRAST], ids=lambda theme: theme.name)
def test_a_map_goes_from_the_background_away(theme: Theme) -> None:
    """More is always further from the surface in lightness, for whoever sees no colours."""
    ratios = [contrast(theme.variables[f"heat-{number}"], theme.surface or "#000000") for number in range(1, 6)]
    assert ratios == sorted(ratios)
    assert all(later > earlier * 1.2 for earlier, later in pairwise(ratios))


def test_without_colours_charts_have_none() -> None:
    assert {THEMES[-1].variables[name] for name in chart_colours(dark=True)} == {"ansi_default"}


def contrast(one: str, other: str) -> float:
    return contrast_of(Color.parse(one), Color.parse(other))


def contrast_of(one: Color, other: Color) -> float:
    """The ratio of WCAG 2.1."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(color: Color) -> float:
    parts = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized)
    return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722), strict=True))
