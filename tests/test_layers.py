"""Who may import whom, where import-linter cannot see: libraries, `cli.py`, the pure core, and what a start loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.house import ROOT, Source, files_in, is_in, sources

# Each library, and the only places that may import it.
LIBRARIES = {
    "aiohappyeyeballs": ("gateway.upstream.http",),
    "aiohttp": ("gateway.web", "gateway.v1", "gateway.control", "gateway.server"),
    "click": ("cli", "gateway.commands"),
    "genai_prices": ("gateway.commands", "gateway.control", "gateway.server"),
    "httptools": ("gateway.upstream.http",),
    "msgspec": ("gateway", "tui"),
    "platformdirs": ("gateway.config", "gateway.client.launch"),
    "rich": ("tui", "gateway.commands", "gateway.client.cells"),
    "textual": ("tui",),
    "tinydb": ("gateway.store",),
    "uvloop": ("cli", "gateway.commands", "gateway.server"),
    "yaml": ("gateway.commands",),
    "yarl": ("gateway.upstream.http",),
}

# These hold the values and the decisions: no clock, no chance, no files, no sockets ...
PURE = ("gateway.domain", "gateway.upstream", "gateway.inbound", "gateway.core")
# ... except the few that act, each for its reason.
EFFECTS = {
    "gateway.upstream.upstreams": "the way to the upstreams",
    "gateway.upstream.http": "the only outgoing connections",
    "gateway.upstream.call_memory": "a lock: the loop and the thread for large work add to it",
    "gateway.core.pipeline": "one call, start to finish: the one that awaits",
    "gateway.core.clock": "the real clock, behind a value",
    "gateway.core.memory": "reads how much memory this process has",
    "gateway.core.open_files": "reads and raises this process's limit of open files",
    "gateway.core.preparation": "runs the thread for large work",
    "gateway.core.store_watch": "hears the store, which calls from its own thread",
    "gateway.core.tasks": "makes and keeps tasks",
    "gateway.core.engine": "holds all that is alive, the store and the connections too",
}
NOT_FOR_PURE = (
    *("os", "pathlib", "shutil", "socket", "ssl", "subprocess", "tempfile", "threading"),
    *("gateway.store", "gateway.upstream.upstreams", "gateway.upstream.http", "gateway.core.pipeline"),
)
IMPURE_CALLS = ("datetime.now", "datetime.today", "datetime.utcnow", "date.today", "open", "time")

# `cli.py` starts the server and the console from inside its commands.
CLI_MAY = ("gateway.__version__", "gateway.client", "gateway.commands", "gateway.config", "gateway.domain")
CLI_MAY_LATE = (*CLI_MAY, "gateway.server", "tui")

# What one import may not bring along: the start stays fast, and front ends stay front ends.
LOADS_NOT = {
    "cli": {"aiohttp", "textual", "tinydb"},
    "gateway.client": {"aiohttp", "click", "textual", "tinydb"},
    "gateway.domain": {"aiohttp", "asyncio", "click", "textual", "tinydb"},
    "tui": {"aiohttp", "click", "tinydb"},
}


def test_libraries_are_imported_only_where_they_belong() -> None:
    found = [
        f"{source.path}:{import_.line} imports {import_.name}"
        for source in sources()
        for import_ in source.imports
        if not import_.is_in("gateway", "tui", *sys.stdlib_module_names)
        and not is_in(source.module, *LIBRARIES.get(import_.name.split(".")[0], ()))
    ]
    assert found == []


def test_cli_sees_only_the_front_of_the_gateway() -> None:
    found = [
        f"cli.py:{import_.line} imports {import_.name}"
        for source in sources()
        if source.module == "cli"
        for import_ in source.imports
        if import_.is_in("gateway", "tui") and not import_.is_in(*(CLI_MAY_LATE if import_.late else CLI_MAY))
    ]
    assert found == []


def test_commands_import_the_server_late() -> None:
    found = [
        f"{source.path}:{import_.line} imports {import_.name}"
        for source in files_in("gateway/commands")
        for import_ in source.imports
        if import_.is_in("gateway.server") and not import_.late
    ]
    assert found == []


def test_pure_code_has_no_effects() -> None:
    assert [offence for source in _pure_sources() for offence in _effects_of(source)] == []


def test_the_domain_never_awaits() -> None:
    found = [
        f"{source.path}:{import_.line}"
        for source in files_in("gateway/domain")
        for import_ in source.imports
        if import_.is_in("asyncio")
    ]
    assert found == []


def test_tasks_are_made_in_one_place() -> None:
    found = [
        f"{source.path}:{call.lineno} {ast.unparse(call.func)}"
        for source in sources()
        if source.module != "gateway.core.tasks" and "create_task" in source.text
        for call in _calls_in(source)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "create_task"
        and "loop" in ast.unparse(call.func.value)
    ]
    assert found == []


@pytest.mark.parametrize("package", LOADS_NOT)
def test_a_fresh_import_loads_little(package: str) -> None:
    modules = [source.module for source in files_in(package.replace(".", "/"))] or [package]
    program = f"import sys, {', '.join(modules)}; print(*sorted(set(sys.modules) & {LOADS_NOT[package]!r}))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("", "")


def _pure_sources() -> list[Source]:
    return [source for source in sources() if is_in(source.module, *PURE) and not is_in(source.module, *EFFECTS)]


def _effects_of(source: Source) -> Iterator[str]:
    for import_ in source.imports:
        if import_.is_in(*NOT_FOR_PURE):
            yield f"{source.path}:{import_.line} imports {import_.name}"
    for call in _calls_in(source):
        if is_in(".".join(ast.unparse(call.func).split(".")[-2:]), *IMPURE_CALLS):
            yield f"{source.path}:{call.lineno} calls {ast.unparse(call.func)}"


def _calls_in(source: Source) -> Iterator[ast.Call]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
