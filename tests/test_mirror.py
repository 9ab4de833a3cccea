"""Every module has its test file, and every folder of tests has its folder of sources."""

from pathlib import Path

from tests.house import FREE_FOLDERS, ROOT, Source, files_in, sources


def test_every_module_has_its_test_file() -> None:
    modules = [source for source in sources() if source.path.name != "__init__.py"]
    found = [f"{source.path} wants {_test_of(source)}" for source in modules if not (ROOT / _test_of(source)).is_file()]
    assert found == []


def test_every_folder_of_tests_mirrors_a_folder_of_sources() -> None:
    folders = {source.path.parent.relative_to("tests") for source in files_in("tests")}
    mirrors = [folder for folder in folders if folder.parts and folder.parts[0] not in FREE_FOLDERS]
    assert [str(folder) for folder in mirrors if not _mirrored(folder).is_dir()] == []


def test_every_folder_of_tests_is_a_package() -> None:
    """Otherwise two test files of one name would clash."""
    folders = {source.path.parent for source in files_in("tests")}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def _test_of(source: Source) -> Path:
    """`gateway/core/quota.py` has `tests/core/test_quota.py`, `tui/app.py` has `tests/tui/test_app.py`."""
    path = source.path.relative_to("gateway") if source.path.parts[0] == "gateway" else source.path
    return Path("tests", path.parent, f"test_{path.name}")


def _mirrored(folder: Path) -> Path:
    return ROOT / folder if folder.parts[0] == "tui" else ROOT / "gateway" / folder
