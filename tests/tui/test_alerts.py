import msgspec
import pytest

from gateway import __version__
from gateway.domain.budget import budget_id
from gateway.domain.forecast import used_share
from gateway.domain.incidents import STORE, Incident
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import KeyView
from tests.tui.stage import DOLLAR, NOW, FakeClient, account, budget, channel, status, token
from tui.alerts import alerts
from tui.board import Board


def board(**changes: object) -> Board:
    made = Board()
    client = FakeClient()
    snapshot = msgspec.structs.replace(client.snapshot(), tokens=[], groups=[], channels=[])
    made.apply(msgspec.structs.replace(snapshot, **changes))
    return made


def texts(made: Board) -> list[str]:
    return [alert.text for alert in alerts(made, NOW)]


KEYS = [
    KeyView(number=number, key=f"…{number}", state=state, reason="", until_ms=None)
    for number, state in ((1, "ok"), (2, "unset"), (3, "attention"))
]
HELD = msgspec.structs.replace(budget(0.5, 5), held_nanos=Nanos(4 * DOLLAR))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"channels": [channel("a")], "tokens": [token("t")]}, []),
        ({"channels": [channel("a", state="cooling", until_ms=Millis(NOW + 5_000))]}, ["a paused 5s"]),
        ({"channels": [channel("a", keys=KEYS[:2])]}, ["a key 2 not set"]),
        ({"channels": [channel("a", keys=KEYS[:2], state="off")]}, []),
        ({"channels": [channel("a", keys=KEYS)]}, ["a key 3 needs attention", "a key 2 not set"]),
        (
            {"channels": [channel("a", state="cooling"), channel("b", state="attention")]},
            ["b needs attention", "a paused"],
        ),
        (
            {"tokens": [token("ci", budgets=[budget(4.87, 5)]), token("gone", budgets=[budget(6, 5)])]},
            ["gone 120%", "ci 97%"],
        ),
        ({"tokens": [token("ci", enabled=False, budgets=[budget(5, 5)])]}, []),
        ({"tokens": [token("ci", budgets=[HELD])]}, []),
        ({"tokens": [token("ci", budgets=[budget(3.9, 5)])]}, []),
        ({"tokens": [token("ci", budgets=[budget(4, 5)])]}, ["ci 80%"]),
        ({"account": account(available_nanos=Nanos(0), balance_nanos=Nanos(0))}, ["balance used up"]),
        ({"account": account(available_nanos=Nanos(0))}, ["running calls hold the balance"]),
        ({"account": account(balance_nanos=Nanos(DOLLAR // 4))}, ["$0.25 left"]),
        ({"account": account(status="suspended")}, ["account suspended"]),
        ({"status": status(0, store_error="the disk is full")}, ["store failed"]),
        ({"status": status(0, ollama_error="cannot listen")}, ["Ollama's port is closed"]),
        ({"status": status(0, version="9.9")}, [f"server 9.9, console {__version__}"]),
    ],
)
def test_alerts_begin_with_the_worst(changes: dict[str, object], found: list[str]) -> None:
    assert texts(board(**changes)) == found


def test_a_budget_that_refuses_calls_is_worse_than_one_that_is_nearly_gone() -> None:
    near = budget(4.87, 5)
    made = board(tokens=[token("ci", budgets=[near])])
    warning = Incident(
        id=1,
        channel=STORE,
        subject_id=budget_id(near.window, "token", token("ci").id),
        budget="daily budget of token 'ci'",
        began=NOW,
        last=NOW,
    )
    for refusing, found in ((False, ("warn", "ci 97%")), (True, ("bad", "ci budget refusing"))):
        made.incidents.put(msgspec.structs.replace(warning, refusing=refusing))
        assert [(alert.level, alert.text) for alert in alerts(made, NOW)] == [found]


def test_a_stopping_server_counts_down() -> None:
    made = board()
    made.stopping = Millis(NOW + 30_000)
    assert texts(made) == ["stopping, 30s at most"]


def test_before_the_first_snapshot_nothing_is_known() -> None:
    assert alerts(Board(), NOW) == []


def test_a_budget_of_nothing_is_used_up() -> None:
    assert used_share(budget(0, 0)) == 1
    assert used_share(budget(5, None)) == 0
