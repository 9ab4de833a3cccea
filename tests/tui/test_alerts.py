import msgspec

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


KEY_STATES = ((1, "ok"), (2, "unset"))


def texts(made: Board) -> list[str]:
    return [alert.text for alert in alerts(made, NOW)]


def test_nothing_is_shown_while_all_is_well() -> None:
    assert texts(board(channels=[channel("a")], tokens=[token("t")])) == []


def test_paused_channels_have_a_countdown() -> None:
    made = board(channels=[channel("a", state="cooling", until_ms=Millis(NOW + 5_000))])
    assert texts(made) == ["a paused 5s"]


def test_a_key_that_is_not_set_is_named_although_another_serves() -> None:
    keys = [KeyView(number=n, key=f"env:K{n}", state=state, reason="", until_ms=None) for n, state in KEY_STATES]
    assert texts(board(channels=[channel("a", keys=keys)])) == ["a key 2 not set"]
    assert texts(board(channels=[channel("a", keys=keys, state="off")])) == []
    rejected = KeyView(number=3, key="…7890", state="attention", reason="401", until_ms=None)
    assert texts(board(channels=[channel("a", keys=[*keys, rejected])])) == [
        "a key 3 needs attention",
        "a key 2 not set",
    ]


def test_the_worst_comes_first() -> None:
    made = board(channels=[channel("a", state="cooling"), channel("b", state="attention")])
    assert texts(made) == ["b needs attention", "a paused"]


def test_budgets_that_are_nearly_gone_are_named() -> None:
    made = board(tokens=[token("ci", budgets=[budget(4.87, 5)]), token("gone", budgets=[budget(6, 5)])])
    assert texts(made) == ["gone 120%", "ci 97%"]


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


def test_disabled_tokens_need_no_attention() -> None:
    assert texts(board(tokens=[token("ci", enabled=False, budgets=[budget(5, 5)])])) == []


def test_an_empty_or_suspended_account_stops_everything() -> None:
    nothing = account(available_nanos=Nanos(0), balance_nanos=Nanos(0))
    assert texts(board(account=nothing)) == ["balance used up"]
    assert texts(board(account=account(balance_nanos=Nanos(DOLLAR // 4)))) == ["$0.25 left"]
    assert texts(board(account=account(status="suspended"))) == ["account suspended"]


def test_the_servers_own_troubles_are_reported() -> None:
    assert texts(board(status=status(0, store_error="the disk is full"))) == ["store failed"]
    assert texts(board(status=status(0, ollama_error="cannot listen"))) == ["Ollama's port is closed"]
    assert texts(board(status=status(0, version="9.9")))[0].startswith("server 9.9, console ")


def test_a_stopping_server_counts_down() -> None:
    made = board()
    made.stopping = Millis(NOW + 30_000)
    assert texts(made) == ["stopping, 30s at most"]


def test_before_the_first_snapshot_nothing_is_known() -> None:
    assert alerts(Board(), NOW) == []


def test_a_budget_of_nothing_is_used_up() -> None:
    assert used_share(budget(0, 0)) == 1
    assert used_share(budget(5, None)) == 0


def test_what_running_calls_merely_hold_is_not_spent() -> None:
    assert texts(board(account=account(available_nanos=Nanos(0)))) == ["running calls hold the balance"]
    held = msgspec.structs.replace(budget(0.5, 5), held_nanos=Nanos(4 * DOLLAR))
    assert texts(board(tokens=[token("ci", budgets=[held])])) == []


def test_four_fifths_of_a_budget_are_worth_a_mark() -> None:
    assert texts(board(tokens=[token("ci", budgets=[budget(3.9, 5)])])) == []
    assert texts(board(tokens=[token("ci", budgets=[budget(4, 5)])])) == ["ci 80%"]
