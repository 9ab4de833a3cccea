import importlib.util
import json
import subprocess
import sys

import pytest

from tests.house import ROOT
from tui.late_imports import LATE

LISTED = """
import importlib.util, json, sys
import cli
cli._console()
import tui.pages.live
import tui.late_imports as late
def waits():
    # asking a module for anything else would load it
    kinds = {name: object.__getattribute__(sys.modules[name], "__class__") for name in late.LATE}
    return sorted(name for name, kind in kinds.items() if kind is importlib.util._LazyModule)
before = waits()
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
    assert "tui.widgets.choices" not in after
