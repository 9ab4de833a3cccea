"""``console.toml``: what is right in it is used, what is wrong is reported, and the console starts in any case."""

import os
import tomllib
from pathlib import Path

import pytest

from tests.tui.owner import Owner, press, screen, shown
from tests.tui.stage import FakeLauncher, console, words
from tui import app as console_app
from tui.app import Console, actions_by_page
from tui.preferences import NAME, Preferences, create, example, load, problems_text


def read(home: Path, text: str) -> Preferences:
    (home / NAME).write_text(text)
    return load(home, actions_by_page)


def test_without_a_file_everything_is_as_usual(tmp_path: Path) -> None:
    found = load(tmp_path, actions_by_page)
    assert (found.keymap.changed, found.themes, found.problems) == ({}, (), ())


def test_keys_and_themes_are_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [keys]
        live.pause = "p"
        "app.help" = "f1, h"
        [themes.solar]
        based_on = "light"
        accent = "#b58900"
        cursor = "navy"
        """,
    )
    assert found.problems == ()
    assert found.keymap.changed == {"live.pause": "p", "app.help": "f1,h"}
    (theme,) = found.themes
    assert (theme.name, theme.accent, theme.dark, theme.variables["block-cursor-background"]) == (
        *("solar", "#b58900", False, "navy"),
    )
    assert theme.variables["muted"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[keys", "not valid TOML, so it is ignored"),
        ("[colors]", "unknown section [colors]; use [keys] and [themes.NAME]"),
        ("keys = 5", "[keys] must be a section"),
        ("[keys]\nlive.pause = 5", "live.pause: write the key in quotes"),
        ('[keys]\nlive.puase = "p"', "unknown action 'live.puase'; did you mean live.pause"),
        ('[keys]\nlive.pause = "spcae"', "live.pause: unknown key 'spcae'; did you mean space"),
        ('[themes]\nsolar = "x"', "theme 'solar': write its colours under [themes.solar]"),
        ("[themes.dark]", "theme 'dark': the name is taken by a built-in theme"),
        ('[themes."My one"]', "theme 'My one': use a-z, 0-9, - and _ in its name"),
        ('[themes.x]\nbased_on = "drak"', "theme 'x': based_on must be dark, light, contrast, not 'drak'"),
        ('[themes.x]\nacent = "#fff"', "theme 'x': unknown colour 'acent'; did you mean accent?"),
        ('[themes.x]\naccent = "bluish"', "theme 'x': accent = 'bluish' is not a colour; write #rrggbb"),
        ('[themes.x]\naccent = "auto"', "theme 'x': accent = 'auto' is not a colour"),
        ("[themes.x]\naccent = 5", "theme 'x': accent = '5' is not a colour"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(tmp_path: Path, text: str, problem: str) -> None:
    found = read(tmp_path, text)
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert (found.keymap.changed, found.themes) == ({}, ())


def test_valid_settings_beside_wrong_ones_count(tmp_path: Path) -> None:
    found = read(tmp_path, '[keys]\nlive.pause = "p"\nlive.errors = "spcae"\n[themes.a]\n[themes.b]\nx = 1')
    assert (found.keymap.changed, [theme.name for theme in found.themes]) == ({"live.pause": "p"}, ["a"])


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\xfe")
    assert load(tmp_path, dict).problems == ("it is not UTF-8 text, so it is ignored",)


def test_a_folder_of_that_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert load(tmp_path, dict).problems[0].startswith("it cannot be read: ")


def test_many_problems_are_cut_short() -> None:
    text = problems_text([f"problem {number}" for number in range(5)])
    assert text.startswith("console.toml: problem 0\n")
    assert text.endswith("and 2 more: page Settings, console.toml")
    assert problems_text([]) == ""


def test_the_example_is_valid_and_changes_nothing(tmp_path: Path) -> None:
    assert create(tmp_path)
    assert not create(tmp_path)
    found = load(tmp_path, actions_by_page)
    assert (found.keymap.changed, found.themes, found.problems) == ({}, (), ())


def test_the_example_is_valid_without_its_comments(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") if " = " in line or "[" in line else line for line in example().splitlines()]
    table = tomllib.loads("\n".join(lines))
    assert table["keys"]["live.pause"] == "space"
    assert table["themes"]["mine"]["accent"]
    (tmp_path / "x").mkdir()
    text = "\n".join(lines[lines.index("[themes.mine]") :])
    assert read(tmp_path / "x", text).problems == ()


def test_the_file_is_kept_from_others_but_not_what_a_link_points_to(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    (tmp_path / NAME).chmod(0o644)  # whatever the umask
    load(tmp_path, dict)
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600  # noqa: PTH116 - the mode is the point
    target = tmp_path / "dotfiles.toml"
    target.touch()
    target.chmod(0o644)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / NAME).symlink_to(target)
    load(tmp_path / "home", dict)
    assert target.stat().st_mode & 0o777 == 0o644


async def test_a_console_starts_with_a_broken_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``run`` builds it."""
    (tmp_path / NAME).write_text('[keys]\nlive.puase = "p"\n[themes.x]\naccent = "bluish"')
    made: list[Console] = []
    monkeypatch.setattr(console_app.Console, "run", lambda app, **_: made.append(app))
    console_app.run(console(home=tmp_path).session.config, FakeLauncher(Owner()))
    app = made[0]
    async with app.run_test(size=(100, 30)) as pilot:
        await press(app, pilot)
        assert "did you mean live.pause" in words(app)[0]
        assert "theme 'x': accent = 'bluish' is not a colour" in words(app)[0]
        assert app.page.id == "live"


SOLAR = '[themes.solar]\nbased_on = "light"\naccent = "#b58900"'


async def test_a_theme_of_ones_own_is_in_the_picker(tmp_path: Path) -> None:
    async with shown("live", preferences=read(tmp_path, SOLAR)) as (app, pilot, _):
        await press(app, pilot, "T")
        text = screen(app)
        assert [name for name in ("dark", "light", "contrast", "plain", "solar") if name not in text] == []
        await press(app, pilot, "up", "enter")
        assert (app.theme, app.session.state.theme) == ("solar", "solar")
        assert app.current_theme.accent == "#b58900"


@pytest.mark.parametrize(("text", "used"), [(SOLAR, "solar"), ("[themes.solar", "dark")], ids=["right", "wrong"])
async def test_it_is_used_at_the_next_start_and_remembered_though_its_file_is_wrong(
    text: str, used: str, tmp_path: Path
) -> None:
    async with shown("live", theme="solar", preferences=read(tmp_path, text)) as (app, _, _):
        assert (app.theme, app.session.state.theme) == (used, "solar")


def test_a_byte_order_mark_before_the_text_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xef\xbb\xbf" + b'[keys]\nlive.pause = "p"\n')
    assert load(tmp_path, dict).problems == ()
