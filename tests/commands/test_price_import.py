"""Taking over list prices."""

from msgspec.structs import replace

from gateway.domain.offered import PriceProposal
from tests.commands.runner import Control, run
from tests.commands.samples import PRICE

NEW = PriceProposal(
    model="o3", channel="openai", now=None, listed=PRICE, kept=False, differs=True, change="new", applied=True
)
MINE = replace(NEW, model="gpt-4o", now=PRICE, kept=True, change="up", applied=False)
LEAP = replace(NEW, model="gpt-5", now=PRICE, change="up", guard="input rises steeply: from $1 to $9", applied=False)
SAME = replace(NEW, model="gpt-6", now=PRICE, change="same", differs=False, applied=False)
ALL = [NEW, MINE, LEAP, SAME]


def answers() -> Control:
    return Control({"POST /prices/import": ALL})


def test_what_changes_is_shown_with_what_becomes_of_it() -> None:
    ran = run("price", "import", control=answers())
    rows = {line.split()[0]: line for line in ran.out.splitlines()[1:]}
    assert "taken over" in rows["o3"]
    assert "yours stays" in rows["gpt-4o"]
    assert "rises steeply" in rows["gpt-5"]
    assert "same" in rows["gpt-6"]
    assert "taken over: 1 price\nleft as they are: 1 price; look at the notes, --accept" in ran.err


def test_nothing_changes_in_a_dry_run() -> None:
    control = answers()
    ran = run("price", "import", "--dry-run", "--provider", "openai", "--model", "o3,gpt-5", control=control)
    assert control.bodies == [{"apply": False, "accept": False, "channel": "openai", "models": ["o3", "gpt-5"]}]
    assert "would be taken over: 1 price" in ran.err


def test_leaps_can_be_accepted() -> None:
    control = answers()
    ran = run("price", "import", "--accept", "--json", control=control)
    assert control.bodies == [{"apply": True, "accept": True, "channel": ""}]
    assert [row["change"] for row in ran.json] == ["new", "up", "up", "same"]
    assert "left as they are" not in ran.err


def test_an_old_list_says_so() -> None:
    stale = replace(NEW, listed=replace(PRICE, stale=True))
    assert "the list is old" in run("price", "import", control=Control({"POST /prices/import": [stale]})).err
