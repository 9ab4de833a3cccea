from textual.binding import Binding

from tests.tui.stage import console
from tui.app import MAKERS
from tui.pages.base import Page


def test_every_page_is_made_under_its_own_id() -> None:
    session = console().session
    pages = {id_: make(session) for id_, make in MAKERS.items()}
    assert all(isinstance(page, Page) for page in pages.values())
    assert {id_: page.id for id_, page in pages.items()} == {id_: id_ for id_ in MAKERS}


def test_every_page_has_a_verb_for_each_of_its_keys() -> None:
    session = console().session
    for make in MAKERS.values():
        page = make(session)
        bound = {binding.action for binding in type(page).BINDINGS if isinstance(binding, Binding)}
        wanted = {action.removeprefix("act('").removesuffix("')") for action in bound if action.startswith("act(")}
        assert wanted <= set(page.verbs), page.id
