"""A home written by an older version opens unchanged: the configuration, and the JSON of its views.

``cases/older_home`` was made with the commands of commit 5583653: tokens, groups, channels, a price, a call, settings.
Beside it is what that version exported (``export.toml``) and what ``list --json`` and ``show --json`` printed.
"""

import json
import shutil
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.commands.output import json_text
from gateway.config import Config
from gateway.domain.cost import cost
from gateway.domain.units import Millis
from gateway.domain.views import call_view
from gateway.server import embedded_server
from gateway.store.store import Store
from tests.fakes.audit import verify
from tests.fakes.syncing import ManualSyncer

OLDER = Path(__file__).parent / "cases" / "older_home"

VOLATILE = frozenset({"resets_at_ms", "spent_nanos", "spent_tokens"})
"""Fields of a budget that depend on today."""


@pytest.fixture
async def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ControlClient]:
    for name in ("FIX_KEY", "FIX_KEY2", "FIX_TEAM"):
        monkeypatch.setenv(name, "x" * 20)
    home = tmp_path / "home"
    shutil.copytree(OLDER, home, ignore=shutil.ignore_patterns("export.toml", "views.json"))
    async with embedded_server(Config(home=home)) as endpoint:
        yield ControlClient(endpoint)


async def test_its_export_is_the_same(owner: ControlClient) -> None:
    """The same fields in the same order."""
    exported = (await owner.export_config()).text
    assert json.dumps(tomllib.loads(exported)) == json.dumps(tomllib.loads((OLDER / "export.toml").read_text("utf-8")))


async def test_an_import_of_its_export_changes_nothing(owner: ControlClient) -> None:
    imported = await owner.import_config((OLDER / "export.toml").read_text("utf-8"), prune=True)
    assert imported.differences == []


async def test_its_views_have_the_same_json(owner: ControlClient) -> None:
    found = {
        "account": await owner.account(),
        "settings": await owner.settings(),
        "token": await owner.tokens(),
        "group": await owner.groups(),
        "channel": await owner.channels(),
    }
    older = json.loads((OLDER / "views.json").read_text("utf-8"))
    assert {name: _like(json.loads(json_text(view)), older[name]) for name, view in found.items()} == {
        name: _like(view, view) for name, view in older.items()
    }


def _like(value: Any, older: Any) -> Any:
    """The value with only those fields that the older one has and that do not depend on today."""
    if isinstance(value, dict) and isinstance(older, dict):
        skipped = VOLATILE if "window" in older else frozenset()
        return {name: _like(value[name], item) for name, item in older.items() if name not in skipped}
    if isinstance(value, list) and isinstance(older, list) and len(value) == len(older):
        return [_like(*pair) for pair in zip(value, older, strict=True)]
    return value


def test_its_ledger_opens_unchanged_and_verifies(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(OLDER, home, ignore=shutil.ignore_patterns("export.toml", "views.json"))
    before = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    store = Store(Config(home=home), now=lambda: Millis(0), syncer=ManualSyncer)
    try:
        (record,) = store.calls.find(limit=10)
        assert verify(store).equal
    finally:
        store.close()
    assert record.rates is not None
    assert (record.cache_write_long, record.rates.long_write) == (0, record.rates.cache_write)
    assert cost(call_view(record).usage, record.rates) == record.cost
    assert {path: path.read_bytes() for path in before} == before
