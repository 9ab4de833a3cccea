import importlib.util
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

from tests.house import ROOT
from tui.late_imports import LATE, LateLoader

LISTED = """
import json, sys
import cli
cli._console()
import tui.pages.live
import tui.late_imports as late
def waits():
    return sorted(name for name in late.LATE if type(sys.modules.get(name)) is late.LateModule)
before = waits()
import asyncio.selector_events, ssl  # which import it again
sys.modules["tui.widgets.choices"].ChooseOne
print(json.dumps([before, waits()]))
"""


@pytest.mark.parametrize("name", sorted(LATE))
def test_each_late_module_exists(name: str) -> None:
    assert importlib.util.find_spec(name)


def test_the_start_runs_no_late_module_and_the_first_use_does() -> None:
    found = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True, cwd=ROOT)
    before, after = json.loads(found.stdout)
    assert before == sorted(LATE)
    assert set(before) - set(after) == {"tui.widgets.choices"}


def test_a_thread_that_needs_a_module_waits_while_another_one_runs_it(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("begun.set(); end.wait(30); value = 1")
    spec = spec_from_file_location("slow", tmp_path / "slow.py")
    assert spec is not None
    loader = spec.loader
    spec.loader = late = LateLoader(loader)  # type: ignore[assignment] # it does what a loader must
    module = module_from_spec(spec)
    begun, end = Event(), Event()
    vars(module).update(begun=begun, end=end)
    late.exec_module(module)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: module.value)
        assert begun.wait(30)
        second = threads.submit(lambda: module.value)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        end.set()
        assert (first.result(30), second.result(30)) == (1, 1)
    assert (type(module), module.__loader__) == (ModuleType, loader)
