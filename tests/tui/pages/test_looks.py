"""How some dialogs look, as pictures; ``tests/tui/test_gallery.py`` has all of them, as text."""

from collections.abc import Callable

import pytest

from tests.tui.owner import Owner, doing
from tests.tui.stage import console
from tui.saved_state import SavedState

Compare = Callable[..., bool]

pytestmark = pytest.mark.every_frame
DIALOGS = (
    ("tokens", "n", "contrast"),
    ("tokens", "c", "dark"),
    ("tokens", "d", "light"),
    ("channels", "n", "plain"),
    ("channels", "L", "dark"),
    ("models", "e", "light"),
    ("account", "a", "contrast"),
)


@pytest.mark.parametrize(("page", "key", "theme"), DIALOGS)
def test_a_dialog(snap_compare: Compare, page: str, key: str, theme: str) -> None:
    app = console(Owner(), state=SavedState(page=page, theme=theme))
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app, key))


@pytest.mark.parametrize("page", ["channels", "usage"])
def test_without_unicode(snap_compare: Compare, page: str) -> None:
    app = console(Owner(), state=SavedState(page=page), in_ascii=True)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))
