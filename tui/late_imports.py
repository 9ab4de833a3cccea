"""Late imports: modules that the console's first frame does not need. Each is loaded when it is first used.

A file that the first frame needs imports such a module as a whole (``from tui.widgets import choices``) and writes
``choices.ChooseOne``: importing a name from it loads it. Short, because the command line loads it before the console.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader
from types import ModuleType

LATE = frozenset(
    {
        "gateway.client.control",
        "gateway.client.launch",
        "gateway.client.request",
        "tomllib",
        "tui.clipboard",
        "tui.export",
        "tui.key_advice",
        "tui.plain_mode",
        "tui.widgets.choices",
        "tui.widgets.help",
        "tui.widgets.history",
        "tui.widgets.why",
    }
)


class LateImports(MetaPathFinder):
    """Finds these modules as the other finders do, and puts off running them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in LATE:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def install() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, LateImports())
