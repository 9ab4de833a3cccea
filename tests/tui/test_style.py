from textual.css.stylesheet import Stylesheet

from tests.tui.stage import console
from tui.style import CSS


async def test_the_style_sheet_is_right() -> None:
    """Every variable in it is one that our themes have."""
    app = console()
    async with app.run_test():
        sheet = Stylesheet(variables=app.get_css_variables())
        sheet.add_source(CSS)
        sheet.parse()
        assert sheet.rules
