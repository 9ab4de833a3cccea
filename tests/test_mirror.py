"""Tests mirror packages: every package of the sources has its folder of tests, and no folder is left over."""

from pathlib import Path

from tests.house import FREE_FOLDERS, ROOT, files_in, sources


def test_every_package_has_its_folder_of_tests() -> None:
    packages = {source.path.parent for source in sources() if source.path.name != "__init__.py"}
    wanted = {_tests_of(package) for package in packages if package.parts}
    assert [str(folder) for folder in sorted(wanted) if not list((ROOT / folder).rglob("test_*.py"))] == []


def test_every_folder_of_tests_mirrors_a_package() -> None:
    folders = {source.path.parent.relative_to("tests") for source in files_in("tests")}
    mirrors = [folder for folder in folders if folder.parts and folder.parts[0] not in FREE_FOLDERS]
    assert [str(folder) for folder in mirrors if not _mirrored(folder).is_dir()] == []


def test_every_folder_of_tests_is_a_package() -> None:
    """Otherwise two test files of one name would clash."""
    folders = {source.path.parent for source in files_in("tests")}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def _tests_of(package: Path) -> Path:
    """`gateway/core` has `tests/core`, `gateway` has `tests` itself, `tui/pages` has `tests/tui/pages`."""
    return Path("tests", package.relative_to("gateway") if package.parts[0] == "gateway" else package)


def _mirrored(folder: Path) -> Path:
    return ROOT / folder if folder.parts[0] == "tui" else ROOT / "gateway" / folder
