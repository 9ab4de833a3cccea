"""Compiles the sources and the tests before workers start, which would all do it at once: ``python -m tests.compiled``.

In a fresh clone that takes ten seconds of a processor for each of them, most of it for the ``assert`` statements, which
pytest rewrites so that a failure shows the values. It is nothing when it has been done before. The names of pytest that
are used here are its own; the requirements name the one version that has them.
"""

import compileall
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from _pytest.assertion import install_importhook
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

from tests.house import ROOT

FOLDERS = ("gateway", "tui", "docs", "tests")


def main() -> None:
    """With all processors."""
    count = os.cpu_count() or 1
    rewritten = [*sorted((ROOT / "tests").rglob("test_*.py")), *sorted((ROOT / "tests").rglob("conftest.py"))]
    with ProcessPoolExecutor(count) as pool:
        compiled = [pool.submit(compileall.compile_dir, ROOT / folder, quiet=2) for folder in FOLDERS]
        for future in [pool.submit(rewrite, rewritten[part::count]) for part in range(count)]:
            future.result()
        for other in compiled:
            other.result()


def rewrite(paths: Iterable[Path]) -> None:
    """As pytest does when it imports them."""
    config = pytest.Config.fromdictargs({}, ["--noconftest", str(ROOT)])
    install_importhook(config)
    for path in paths:
        folder = get_cache_dir(path)
        target = folder / f"{path.stem}{PYC_TAIL}"
        if _read_pyc(path, target) is None:
            folder.mkdir(parents=True, exist_ok=True)
            stat, code = _rewrite_test(path, config)
            _write_pyc(config.stash[assertstate_key], code, stat, target)


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    main()
