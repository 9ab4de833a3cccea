"""Late imports: modules that the console's first frame does not need. Each is run when it is first used.

A file that the first frame needs imports such a module as a whole (``from tui.widgets import choices``) and writes
``choices.ChooseOne``: importing a name from it runs it. Python's own lazy loader would run a module that is imported
a second time. Short, because the command line loads it before the console.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType
from typing import Any

LATE = frozenset(
    {
        "asyncio.sslproto",
        "asyncio.staggered",
        "bz2",
        "gateway.client.connect_card",
        "gateway.client.control",
        "gateway.client.launch",
        "gateway.client.request",
        "ipaddress",
        "locale",
        "lzma",
        "mimetypes",
        "ssl",
        "statistics",
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


LOADER = "__late_loader__"
"""A module has it until it has run."""


class LateModule(ModuleType):
    """A module that has not run yet. It has a name and a place; asking for anything else runs it."""

    def __getattr__(self, name: str) -> Any:
        """What is missing so far."""
        if (late := vars(self).get(LOADER)) is not None:
            late.run(self)
        return ModuleType.__getattribute__(self, name)


class LateLoader:
    """Loads nothing, and keeps the loader that will."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._lock = RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """It runs when it is used."""
        module.__class__ = LateModule
        vars(module)[LOADER] = self

    def run(self, module: ModuleType) -> None:
        """Run it, once: other threads wait, and what it imports finds in it what is there so far."""
        with self._lock:
            spec: Any = module.__spec__
            if spec.loader is not self:  # it has run, or is just running in this thread
                return
            spec.loader = module.__loader__ = self._loader
            try:
                self._loader.exec_module(module)
            except BaseException:
                spec.loader = module.__loader__ = self
                raise
            del vars(module)[LOADER]
            module.__class__ = ModuleType


class LateImports:
    """Finds these modules as the other finders do, and puts off running them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in LATE:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if found is not None and found.loader is not None:
            found.loader = LateLoader(found.loader)  # type: ignore[assignment] # it does what a loader must
        return found


def install() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, LateImports())
