from textual.css.stylesheet import Stylesheet

from tests.tui.stage import console
from tui.app import STYLESHEET


async def test_the_stylesheet_is_valid() -> None:
    """Every variable in it is defined by our themes."""
    app = console()
    async with app.run_test():
        sheet = Stylesheet(variables=app.get_css_variables())
        sheet.read(STYLESHEET)
        sheet.parse()
        assert sheet.rules
