"""The documents are true to the program: generated references, commands, links and error codes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import cli
from docs import generate
from docs.error_codes import ERRORS
from tests.house import ROOT, Source, files_in, sources
from tui.actions import ACTIONS

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

PUBLIC = ("core", "domain", "inbound", "store", "upstream", "v1", "web")
"""Packages whose errors reach the clients of ``/v1``."""

ONLY_FOR_THE_OWNER = {
    *(
        "already_undone",
        "bad_configuration",
        "conflict",
        "newer_change",
        "port_in_use",
        "store_busy",
        "store_damaged",
        "store_too_new",
    )
}
"""Codes of those packages that only commands and the console meet."""

NOT_CODES = {
    *("upstream_cut", "upstream_extra", "upstream_id", "upstream_inference_cost", "upstream_model"),
    "upstream_rejected",
}
"""Literals that look like codes: an outcome, fields, and a marker that stands for the upstream's own code."""


def commands_in(text: str) -> Iterator[list[str]]:
    """The command lines of a document: what follows ``tollkeeper`` in its code."""
    code = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(tollkeeper [^`]+)`", text)
    for line in [*"\n".join(code).replace("\\\n", " ").splitlines(), *inline]:
        for found in re.finditer(r"(?:^|[\s|(])tollkeeper((?: [^\s|)#]+)*)", line):
            yield found[1].split()


COMMANDS = sorted({tuple(words) for path in DOCUMENTS for words in commands_in(path.read_text(encoding="utf-8"))})


def test_references_match_the_code() -> None:
    assert generate.outdated() == [], "run 'make references' and commit docs/reference"


def test_no_reference_is_left_over() -> None:
    assert sorted(path.name for path in generate.FOLDER.iterdir()) == sorted(generate.pages())


def test_every_document_that_the_code_names_exists() -> None:
    named = {
        (str(source.path), name)
        for source in (*sources(), *files_in("tests"))
        for name in re.findall(r"(?<![\w/*.{}])(?:[\w-]+/)*[\w-]+\.md\b", source.text)
    }
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md")}
    there |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted((where, name) for where, name in named if name not in there) == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_in_the_documents_exists(words: tuple[str, ...]) -> None:
    command: click.Command = cli.tollkeeper
    with click.Context(command) as ctx:
        for word in words:
            if not isinstance(command, click.Group) or word.startswith("-"):
                break
            found = command.get_command(ctx, word)
            assert found is not None, word
            command = found
        known = {name for param in command.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
    own = words[: words.index("--")] if "--" in words else words  # what follows is another program's
    given = {word.partition("=")[0] for word in own if word.startswith("--")}
    assert given <= known | {"--version"}


def test_the_table_of_the_command_line_has_every_command() -> None:
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("| "))
    shown = [name for name, command in cli.tollkeeper.commands.items() if not command.hidden]
    assert [name for name in shown if f"`{name}`" not in table] == []


def test_the_page_about_http_has_every_header_of_the_gateway() -> None:
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8")
    headers = {name for source in sources() for name in re.findall(r'"(x-gateway-[a-z-]+)"', source.text)}
    assert [name for name in sorted(headers) if name not in page] == []


def test_a_key_of_the_console_for_incidents_names_their_command() -> None:
    assert [action.command for action in ACTIONS if action.verb == "incidents"] == ["incident list"]


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONVENTIONS.md"], ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not _leads_somewhere(path, link)] == []


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_prose_fit_120_characters(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def _leads_somewhere(path: Path, link: str) -> bool:
    name, _, heading = link.partition("#")
    target = path.parent / name if name else path
    return target.exists() and (not heading or heading in _anchors(target.read_text(encoding="utf-8")))


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_public_error_code_is_documented() -> None:
    used = {code for source in _public_sources() for code in _codes_in(source.tree)}
    assert sorted(used - {row.code for row in ERRORS} - ONLY_FOR_THE_OWNER - NOT_CODES) == []


def test_every_documented_error_code_is_used() -> None:
    texts = {text for source in _public_sources() for text in _texts_in(source.tree)}
    assert [row.code for row in ERRORS if row.code not in texts] == []


def _public_sources() -> list[Source]:
    return [source for package in PUBLIC for source in files_in(f"gateway/{package}")]


def _codes_in(tree: ast.Module) -> Iterator[str]:
    """Literals that are given as ``code=``, default codes, and all that look like a failure of an upstream."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
            yield from filter(None, [str(node.value.value)])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "default_code" in ast.dump(node):
            yield from (text for text in _texts_in(node) if text)
    yield from (text for text in _texts_in(tree) if re.fullmatch("upstream_[a-z_]+", text))


def _texts_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
