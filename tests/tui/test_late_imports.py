import importlib.util
import json
import subprocess
import sys

import pytest

from tests.house import ROOT
from tui.late_imports import LATE

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
