"""Plain English: phrases that no native engineer would write are in no document, text, docstring, comment or test."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house import ROOT, Source, files_in, sources

PHRASES = {
    r"^that is all:": "All set.",
    r"^(?:Took|First byte|upstr\.|watchers)$|\bfirst byte never\b": "Duration, First token, upstream id, open consoles",
    r"^(?:Asked first|Asks|Found here|It stands|Make it|Error before)$": "Routing order, Cost factor, Create ...",
    r"^the server has stopped\b|\bwas changed \(": "Server stopped., disabled.",
    r"' was made\b": "created",
    r"\banew\b": "again",
    r"\banswered for\b": "served",
    r"\b(?:anybody|everybody)\b": "anyone, all",
    r"\bas it says\b": "as given",
    r"\bas (?:it|they) comes?\b": "by default",
    r"\basks (?:more|less)\b": "charges more, less",
    r"\bat rest\b": "paused",
    r"\bbecame of\b": "happened to",
    r"\b(?:be|is|was) had\b": "be read, fetched",
    r"\bbesides\b": "also",
    r"\bbr(?:oke|eaks?|oken)(?: \w+ \w+)? off\b": "was cut off, was lost",
    r"\bbrought (?:no|more|a)\b": "has",
    r"\bbut for\b": "except for",
    r"\bcalls are taken\b|\btakes? (?:\d+ )?calls\b|\btakes? no more calls\b": "accept, reject, run",
    r"\bcall's way\b": "the path of a call",
    r"\bchooses? of\b": "select from",
    r"\b(?:come|comes) back in \{\}": "try again in",
    r"\bcomes? of it\b": "results",
    r"\bdear(?:er|est)\b": "more expensive",
    r"'(?:\{\})?' does not run\b": "no running call",
    r"\bdollars for every call\b": "extra dollars per call",
    r"\bfor want of\b": "for lack of",
    r"\bfurther (?:calls|names|headers|host|request)": "more, additional",
    r"\bgoes by\b": "depends on, uses",
    r"\bgo(?:es)? on by (?:itself|themselves)\b": "recovers",
    r"\bheld against\b": "the failures of",
    r"\bif nothing is\b": "by default",
    r"\bin (?:the )?place of\b": "instead of",
    r"\bits list only\b|\ba real call to\b": "list models only",
    r"\bin vain\b": "without success, failed",
    r"\b(?:is|are|was) asked\b(?! to\b)": "is called, is requested",
    r"\b(?:is|are|was) said\b": "is given, reported",
    r"\b(?:is|are|was|were|be|been) told\b": "is reported; gets",
    r"\bkept out\b": "excluded",
    r"\bknown are\b": "use, or the ... are",
    r"\bknobs?\b": "option",
    r"\bknows? no\b": "does not know",
    r"\blet them finish\b|^when it is empty$": "let running streams finish, when the budget runs out",
    r"\blooked back\b": "searched",
    r"\bmake one:|^Make a\b": "create",
    r"\bmay be given again\b": "may be repeated",
    r"\bmend(?:s|ed)?\b": "fix",
    r"\bmidst\b": "middle",
    r"\bname this group in\b": "no channel lists this group",
    r"\bnames nothing\b": "contains no names",
    r"\bnever drop a parameter\b": "fail instead of retrying without a rejected parameter",
    r"\bno list knows\b": "no known prices, nothing to import",
    r"\bno sense here\b": "is not understood",
    r"\bnot asked for\b": "not requested",
    r"\bnull means\b": "use 'none' for",
    r"\bof late\b": "recently",
    r"\bpurse\b": "account, money",
    r"\bput beside\b": "compared with",
    r"\b(?:rests|rested|resting)\b": "paused",
    r"\bseldom\b": "rarely",
    r"\bserved on\b": "stays in use",
    r"\bspoken (?:here|to)\b": "supported",
    r"\bstands? twice\b|\bis there twice\b": "occurs twice",
    r"\bst(?:ands?|ood) (?:in|there|beside|without|as|between)\b": "is in, is listed",
    r"\btak(?:e|es|en)(?: \w+){0,2} back\b": "undo",
    r"\btak(?:e|es|en|ing) (?:\w+ ){1,3}away\b": "remove",
    r"\btaken over\b": "imported, used",
    r"\btakes? over what\b": "imports",
    r"\btells (?:its|no|with)\b": "reports, shows",
    r"\btells? of\b": "reports",
    r"\btells? (?:the|them|nothing|what occurs)\b": "reports, shows, contains",
    r"\bthe asked\b": "the requested",
    r"'s budget has\b": "the budget of ... is used up",
    r"\bused up until\b": "used up; resets",
    r"\bways of a vendor\b": "quirks",
    r"(?<!there )\b(?:is|are|was|were) no (?!(?:longer|more|less|better|worse|different|need|other)\b)\w": "is not (a)",
    r"\b(?:there|where|here)(?:of|upon|with)\b": "of it, on it",
    r"\bwants (?:an?|one)\b": "requires",
    r"\b(?:was|is|had been) given up\b": "was abandoned, closed",
    r"\bwhat (?:becomes?|became) of\b|\bwhatever becomes of\b": "what happens to",
    r"\bwhat is not said\b": "anything not listed",
    r"\bwhat is usual\b": "the defaults",
    r"\bwho (?:asks|waits)\b": "the caller; waiting calls",
    r"\bworks? no more\b|\bno more until\b": "no longer",
}
"""Patterns, and what to write."""

FINDER = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)

DOCUMENTS = ("README.md", "CHANGELOG.md", "CONVENTIONS.md", "Makefile", "pyproject.toml")


@pytest.mark.parametrize("path", [*DOCUMENTS, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_documents_are_plain_english(path: str) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if FINDER.search(line)] == [], advice()


def test_texts_are_plain_english() -> None:
    found = [f"{source.path}: {text}" for source in sources() for text in _texts(source) if FINDER.search(text)]
    assert found == [], advice()


def test_comments_are_plain_english() -> None:
    every = [*sources(), *(source for source in files_in("tests") if source.path.name != "test_wording.py")]
    found = [f"{source.path}: {text}" for source in every for text in _comments(source) if FINDER.search(text)]
    assert found == [], advice()


def test_names_of_tests_are_plain_english() -> None:
    found = [f"{source.path}: {name}" for source in files_in("tests") for name in _tests(source) if FINDER.search(name)]
    assert found == [], advice()


def test_docstrings_have_no_lone_surrogates() -> None:
    """Python 3.13 refuses to compile one: what quotes such an escape must be a raw string."""
    every = [*sources(), *files_in("tests"), *files_in("docs")]
    found = [f"{source.path}: {text!r}" for source in every for text in _comments(source) if not _encodable(text)]
    assert found == []


def advice() -> str:
    """What to write instead."""
    return "\n".join(f"{phrase}  ->  {better}" for phrase, better in PHRASES.items())


def _texts(source: Source) -> Iterator[str]:
    """String literals, each on one line, with ``{}`` for what an f-string fills in, and the help of commands."""
    nodes = list(ast.walk(source.tree))
    skipped = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield " ".join("".join(map(str, parts)).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield " ".join(node.value.split())
        elif isinstance(node, ast.FunctionDef) and _is_command(node):
            yield " ".join((ast.get_docstring(node) or "").split())


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _is_command(node: ast.FunctionDef) -> bool:
    return any(re.search(r"\b(?:command|group)\(", ast.unparse(decorator)) for decorator in node.decorator_list)


def _comments(source: Source) -> Iterator[str]:
    """Docstrings, each on one line, and comments."""
    docstrings = [node.value for node in ast.walk(source.tree) if isinstance(node, ast.Expr)]
    yield from (" ".join(str(node.value).split()) for node in docstrings if isinstance(node, ast.Constant))
    yield from re.findall(r"(?:^|  )# .*$", source.text, re.MULTILINE)


def _tests(source: Source) -> Iterator[str]:
    """The names of its tests, as words."""
    yield from (name.replace("_", " ") for name in re.findall(r"\bdef (test_\w+)", source.text))
