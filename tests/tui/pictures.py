"""Pictures of three screens for the documents: ``python -m tests.tui.pictures``.

They show the real console in front of the fake server, so they are the same on every machine.
"""

import asyncio
import os
import random
import re
import sys
import time

from gateway.domain.views import CallView
from tests.house import ROOT
from tests.tui.owner import Owner, doing
from tests.tui.stage import NOW, call, console
from tui.saved_state import SavedState

FOLDER = ROOT / "docs" / "pictures"
FONTS = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
SIZE = (104, 30)
SCREENS = {
    "live": ("live", ("j", "j", "j", "j", "enter")),
    "connect": ("tokens", ("j", "c", "a", "a")),
    "usage": ("usage", ()),
}


async def picture(page: str, keys: tuple[str, ...]) -> str:
    """The screen as SVG, after these keys."""
    owner = Owner(400)
    owner.records += month()
    app = console(owner, state=SavedState(page=page, theme="dark"))
    async with app.run_test(size=SIZE) as pilot:
        await doing(app, *keys)(pilot)
        svg = app.export_screenshot(title="tollkeeper")
    return local(svg)


def month() -> list[CallView]:
    """Thirty days of calls, newest first; fewer at the week's end."""
    chance, day = random.Random(5), 86_400_000
    busy = [(back, chance.randrange(140, 420) // (3 if back % 7 > 4 else 1)) for back in range(1, 30)]
    ats = [NOW - back * day - chance.randrange(day // 2) for back, count in busy for _ in range(count)]
    return [call(i, at, chance) for i, at in enumerate(sorted(ats, reverse=True), 1_000)]


def local(svg: str) -> str:
    """The picture with fonts of the reader's machine instead of one from the network, and no trailing blanks."""
    svg = re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family:\s*Fira Code[^;}]*", f"font-family: {FONTS}", svg)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines() if line.strip())


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name, (page, keys) in SCREENS.items():
        path = FOLDER / f"{name}.svg"
        path.write_text(asyncio.run(picture(page, keys)), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
